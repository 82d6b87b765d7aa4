package blobstore

import (
	"context"
	"encoding/pem"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pawlhq/pawl/internal/testenv"
	"github.com/pawlhq/pawl/publish"
	"github.com/pawlhq/pawl/publish/publishtest"
)

// openS3 opens the store at the URL s3://bucket/prefix of a test server, and checks at the end that no unfinished
// upload is left in it.
func openS3(t *testing.T, server testenv.S3, prefix string) *S3 {
	t.Helper()
	return openS3With(t, server, prefix, "")
}

// openS3With trusts the certificates in a file as well.
func openS3With(t *testing.T, server testenv.S3, prefix, caFile string) *S3 {
	t.Helper()
	query := url.Values{"endpoint": {server.Endpoint}, "region": {server.Region}, "path_style": {"true"}}
	store, err := Open(t.Context(), "s3://"+server.Bucket+"/"+prefix+"?"+query.Encode(),
		Options{AccessKey: server.AccessKey, SecretKey: server.SecretKey, CAFile: caFile})
	if err != nil {
		t.Fatal(err)
	}
	s := store.(*S3)
	t.Cleanup(func() {
		if left := unfinished(t, s); len(left) != 0 {
			t.Errorf("unfinished uploads are left: %q", left)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// unfinished returns the names of the multipart uploads that were begun and neither completed nor aborted.
func unfinished(t *testing.T, s *S3) []string {
	t.Helper()
	found, err := s.core.ListMultipartUploads(context.Background(), s.bucket, s.prefix, "", "", "", 1000)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, upload := range found.Uploads {
		names = append(names, upload.Key)
	}
	return names
}

func TestS3(t *testing.T) {
	t.Parallel()
	s := openS3(t, testenv.S3Bucket(t), "some/prefix")
	t.Run("Suite", func(t *testing.T) {
		publishtest.TestBlobStore(t, func(*testing.T) publish.BlobStore { return s })
	})
}

// TestS3OverTLS runs the suite with the other way to sign a request, through a proxy that ends TLS.
func TestS3OverTLS(t *testing.T) {
	t.Parallel()
	server := testenv.S3Bucket(t)
	var caFile string
	server.Endpoint, caFile = tlsProxy(t, server.Endpoint)
	s := openS3With(t, server, "", caFile)
	stranger, err := Open(t.Context(), "s3://bucket?endpoint="+server.Endpoint, someKeys)
	if err != nil {
		t.Fatal(err)
	}
	defer stranger.Close() //nolint:errcheck // It only closes connections.
	if err := stranger.Check(t.Context()); !errors.Is(err, publish.ErrUnavailable) || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("a certificate of an unknown authority: %v, want unavailable, and the certificate as the cause", err)
	}
	t.Run("Suite", func(t *testing.T) {
		publishtest.TestBlobStore(t, func(*testing.T) publish.BlobStore { return s })
	})
}

// tlsProxy starts a proxy that ends TLS in front of a server. It returns its address, and a file with its certificate.
func tlsProxy(t *testing.T, endpoint string) (address, caFile string) {
	t.Helper()
	backend, err := url.Parse(endpoint)
	if err != nil {
		t.Fatal(err)
	}
	toServer := &http.Transport{}
	proxy := httptest.NewUnstartedServer(&httputil.ReverseProxy{
		Transport: toServer,
		// The signature covers the name of the host, which stays the proxy's.
		Rewrite:  func(r *httputil.ProxyRequest) { r.Out.URL.Scheme, r.Out.URL.Host = backend.Scheme, backend.Host },
		ErrorLog: log.New(io.Discard, "", 0), // Bodies break off here on purpose.
	})
	proxy.Config.ErrorLog = log.New(io.Discard, "", 0) // So do handshakes.
	proxy.StartTLS()
	t.Cleanup(func() {
		proxy.Close()
		toServer.CloseIdleConnections()
	})
	caFile = filepath.Join(t.TempDir(), "ca.pem")
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: proxy.Certificate().Raw})
	if err := os.WriteFile(caFile, certificate, 0o600); err != nil {
		t.Fatal(err)
	}
	return proxy.URL, caFile
}

func TestS3InDocker(t *testing.T) {
	t.Parallel()
	s := openS3(t, testenv.DockerS3(t), "docker")
	t.Run("Suite", func(t *testing.T) {
		publishtest.TestBlobStore(t, func(*testing.T) publish.BlobStore { return s })
	})
}

// TestS3Prefix puts two stores into one bucket, and an object of another program beside them.
func TestS3Prefix(t *testing.T) {
	t.Parallel()
	server := testenv.S3Bucket(t)
	outer, inner := openS3(t, server, "two"), openS3(t, server, "two-more")
	for _, s := range []*S3{outer, inner} {
		if err := s.Put(t.Context(), someName, strings.NewReader(s.prefix), int64(len(s.prefix)), ""); err != nil {
			t.Fatal(err)
		}
	}
	for _, s := range []*S3{outer, inner} {
		seen := 0
		for info, err := range s.List(t.Context(), "") {
			if seen++; err != nil || info.Name != someName || info.Size != int64(len(s.prefix)) {
				t.Errorf("%s lists %+v, %v", s.prefix, info, err)
			}
		}
		if seen != 1 {
			t.Errorf("%s lists %d objects", s.prefix, seen)
		}
	}
	if err := outer.Delete(t.Context(), someName); err != nil {
		t.Fatal(err)
	}
	if _, err := inner.Stat(t.Context(), someName); err != nil {
		t.Errorf("the other store's object: %v", err)
	}
}
