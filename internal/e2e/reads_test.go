package e2e

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pawlhq/pawl/internal/testenv"
	"github.com/pawlhq/pawl/publish"
)

// published publishes one file of the given size, and returns its bytes and the token.
func published(t *testing.T, s *server, key publish.Key, size int) ([]byte, publish.Token) {
	t.Helper()
	content := make([]byte, size)
	source := rand.NewChaCha8([32]byte{27})
	_, _ = source.Read(content) // It never fails.
	lease, err := s.api.Acquire(t.Context(), publish.AcquireRequest{Key: key, Holder: "W", TTL: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	_, err = s.api.UploadAndPublish(t.Context(), publish.UploadRequest{
		Grant: lease.Grant(), Path: "out.mp4", Size: int64(size), ContentType: "video/mp4", Body: bytes.NewReader(content),
	})
	if err != nil {
		t.Fatal(err)
	}
	return content, lease.Token
}

// Case 27: the store breaks in the middle of a download. The answer had its length and digest, and its connection is aborted;
// our client goes on by Range and checks the whole. Both through the server, and when readers are sent to the store.
func TestCase27(t *testing.T) {
	t.Parallel()
	const size = 64 << 20 // Far more than what lies in buffers on the way.
	for _, reads := range []string{"stream", "redirect"} {
		t.Run(reads, func(t *testing.T) {
			t.Parallel()
			bucket := testenv.S3Bucket(t)
			proxy := testenv.Proxy(t, "tcp", strings.TrimPrefix(bucket.Endpoint, "http://"))
			bucket.Endpoint = "http://" + proxy.Addr
			s := serve(t, testenv.Postgres(t), s3Address(bucket), append(s3Env(bucket), "PAWL_READS="+reads)...)
			content, token := published(t, s, "film", size)
			address := s.api.FileURL("film", token, "out.mp4")

			for byteRange, status := range map[string]int{"": http.StatusOK, "bytes=0-": http.StatusPartialContent} {
				req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
				if err != nil {
					t.Fatal(err)
				}
				if byteRange != "" {
					req.Header.Set("Range", byteRange)
				}
				resp, err := http.DefaultClient.Do(req)
				if err != nil {
					t.Fatal(err)
				}
				first := make([]byte, 1<<20)
				if _, err := io.ReadFull(resp.Body, first); err != nil {
					t.Fatal(err)
				}
				proxy.Cut()
				rest, err := io.ReadAll(resp.Body)
				_ = resp.Body.Close()
				if resp.StatusCode != status || resp.ContentLength != size || err == nil {
					t.Errorf("status %d, length %d, %d bytes, then %v; want a broken connection", resp.StatusCode, resp.ContentLength, len(first)+len(rest), err)
				}
			}

			download, err := s.api.Open(context.Background(), "film", token, "out.mp4", publish.LeaseID{})
			if err != nil {
				t.Fatal(err)
			}
			defer download.Close()
			if download.Size != size || download.Digest != sha256.Sum256(content) || download.ContentType != "video/mp4" {
				t.Errorf("promised %d bytes of %s with %s", download.Size, download.ContentType, download.Digest)
			}
			var got bytes.Buffer
			for _, stop := range []int64{1 << 20, 20 << 20} {
				if _, err := io.CopyN(&got, download, stop); err != nil {
					t.Fatal(err)
				}
				proxy.Cut()
			}
			if _, err := io.Copy(&got, download); err != nil || !bytes.Equal(got.Bytes(), content) {
				t.Errorf("%d bytes, %v", got.Len(), err)
			}
			http.DefaultClient.CloseIdleConnections()
		})
	}
}

// Every answer with bytes, or about them, says how long they are and what they are, streamed or not (cases 27, 38 and 46).
func TestHeadersOfReads(t *testing.T) {
	t.Parallel()
	bucket := testenv.S3Bucket(t)
	dsn := testenv.Postgres(t)
	public := strings.Replace(bucket.Endpoint, "127.0.0.1", "localhost", 1)
	stream := serve(t, dsn, s3Address(bucket), s3Env(bucket)...)
	content, token := published(t, stream, "k", 1000)
	sum := publish.Digest(sha256.Sum256(content))
	redirect := serve(t, dsn, s3Address(bucket), append(s3Env(bucket), "PAWL_READS=redirect", "PAWL_S3_PUBLIC_ENDPOINT="+public)...)
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	ask := func(method, address, byteRange string) (*http.Response, string) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, address, nil)
		if err != nil {
			t.Fatal(err)
		}
		if byteRange != "" {
			req.Header.Set("Range", byteRange)
		}
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp, string(body)
	}
	for _, test := range []struct {
		server            *server
		method, byteRange string
		status            int
		length            int64
	}{
		{stream, "GET", "", 200, 1000},
		{stream, "GET", "bytes=10-19", 206, 10},
		{stream, "HEAD", "", 200, 1000},
		{redirect, "HEAD", "", 200, 1000},
		{redirect, "GET", "", 307, 0},
		{redirect, "GET", "bytes=10-19", 307, 0},
	} {
		resp, _ := ask(test.method, test.server.api.FileURL("k", token, "out.mp4"), test.byteRange)
		if resp.StatusCode != test.status || resp.ContentLength != test.length || resp.Header.Get("ETag") != `"`+sum.String()+`"` ||
			resp.Header.Get("Repr-Digest") != "sha-256="+sum.ByteSequence() || resp.Header.Get("Pawl-Token") != "1" {
			t.Errorf("%s %s: %d, %d bytes, %v", test.method, test.byteRange, resp.StatusCode, resp.ContentLength, resp.Header)
		}
		location := resp.Header.Get("Location")
		if test.status != http.StatusTemporaryRedirect {
			continue
		}
		if !strings.HasPrefix(location, public+"/") {
			t.Errorf("sent to %s, want a place at %s", location, public)
		}
		want := string(content)
		if test.byteRange != "" {
			want = want[10:20]
		}
		if resp, body := ask("GET", location, test.byteRange); body != want || resp.Header.Get("Content-Type") != "video/mp4" {
			t.Errorf("the store answered %s with %d bytes and %v", resp.Status, len(body), resp.Header)
		}
	}
	output := filepath.Join(t.TempDir(), "out.mp4")
	if get := redirect.pawl("get", "k", "-o", output); get.exit() != 0 {
		t.Errorf("pawl get: %s", get.errs.String())
	}
	if log := redirect.errs.String(); strings.Contains(log, "X-Amz-Signature") || strings.Contains(log, bucket.SecretKey) {
		t.Errorf("a secret is in the log: %s", log) // Case 50.
	}
	client.CloseIdleConnections()
	if err := publishRefused(t, redirect); !errors.Is(err, publish.ErrNotFound) {
		t.Errorf("a file that isn't there: %v", err)
	}
}

func publishRefused(t *testing.T, s *server) error {
	t.Helper()
	_, err := s.api.Open(t.Context(), "k", 1, "no-such-file", publish.LeaseID{})
	return err
}
