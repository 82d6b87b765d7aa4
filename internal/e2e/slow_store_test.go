package e2e

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/pawlhq/pawl/internal/testenv"
	"github.com/pawlhq/pawl/publish"
)

// slowStore is an S3 server that holds each CompleteMultipartUpload until it is let go on.
type slowStore struct {
	testenv.S3
	held chan chan struct{} // gives the hold of each Complete that has come
}

func newSlowStore(t *testing.T) *slowStore {
	t.Helper()
	s := &slowStore{S3: testenv.S3Bucket(t), held: make(chan chan struct{})}
	target, err := url.Parse(s.Endpoint)
	if err != nil {
		t.Fatal(err)
	}
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			r.Out.Host = r.In.Host // The signature covers it.
		},
		ErrorLog: log.New(io.Discard, "", 0),
	}
	ended := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost && r.URL.Query().Has("uploadId") && !strings.Contains(r.URL.Path, "/-/check/") {
			hold := make(chan struct{})
			select {
			case s.held <- hold:
				select {
				case <-hold:
				case <-ended:
				}
			case <-ended:
			}
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		close(ended)
		server.Close()
	})
	s.Endpoint = server.URL
	return s
}

// Case 5: the store takes twice the lease's time to complete an upload. Whoever publishes, and whether anybody does meanwhile, decides
// what is current; the expired lease alone decides nothing.
func TestCase05SlowComplete(t *testing.T) {
	t.Parallel()
	const ttl = time.Second
	store := newSlowStore(t)
	s := serveS3(t, store.S3)
	ctx := context.Background()
	mine, others := bytes.Repeat([]byte("of A "), 17<<20/5), []byte("of B")
	current := func(key publish.Key, want []byte) {
		t.Helper()
		if got := s.read(string(key)); sha256.Sum256([]byte(got)) != sha256.Sum256(want) {
			t.Errorf("%s: the current file has %d bytes beginning with %.4q, want %d beginning with %.4q", key, len(got), got, len(want), want)
		}
	}
	for _, meanwhile := range []string{"nothing", "granted", "published"} {
		key := publish.Key("slow/" + meanwhile)
		a, err := s.api.Acquire(ctx, publish.AcquireRequest{Key: key, Holder: "A", TTL: ttl})
		if err != nil {
			t.Fatal(err)
		}
		uploaded := make(chan error, 1)
		go func() {
			_, err := s.api.Upload(ctx, publish.UploadRequest{Grant: a.Grant(), Path: "out", Size: int64(len(mine)), Body: bytes.NewReader(mine)})
			uploaded <- err
		}()
		var hold chan struct{}
		select {
		case hold = <-store.held:
		case err := <-uploaded:
			t.Fatalf("%s: the upload ended before the store was asked to complete it: %v", meanwhile, err)
		}
		testenv.Eventually(t, patience, func() error {
			lease, err := s.api.Lease(ctx, key)
			if err == nil && lease.ServerTime.Sub(lease.ExpiresAt.Time) < ttl {
				err = errors.New("the lease has not been over for long enough")
			}
			return err
		})
		b, err := takeOver(ctx, s, key, meanwhile, others)
		if err != nil {
			t.Fatalf("%s: B: %v", meanwhile, err)
		}
		close(hold)
		uploadErr := <-uploaded
		receipt, publishErr := s.api.Publish(ctx, publish.PublishRequest{Grant: a.Grant(), Final: true})
		if meanwhile == "published" {
			if !errors.Is(uploadErr, publish.ErrStaleToken) || !errors.Is(publishErr, publish.ErrStaleToken) {
				t.Errorf("after B's publish: upload %v, publish %v; want both stale-token", uploadErr, publishErr)
			}
			current(key, others)
			continue
		}
		if uploadErr != nil || publishErr != nil || !receipt.LeaseExpired || receipt.SupersededBy != b.Token {
			t.Fatalf("%s: upload %v, publish %v with %+v; want it accepted, and marked late", meanwhile, uploadErr, publishErr, receipt)
		}
		current(key, mine)
		if meanwhile == "granted" {
			if _, err := s.api.UploadAndPublish(ctx, publish.UploadRequest{Grant: b, Path: "out", Size: 4, Body: bytes.NewReader(others)}); err != nil {
				t.Errorf("B's publish after A's: %v", err)
			}
			current(key, others)
		}
	}
}

// takeOver lets B do what the test says while A's upload hangs. Its grant is zero if it isn't granted anything.
func takeOver(ctx context.Context, s *server, key publish.Key, meanwhile string, content []byte) (publish.Grant, error) {
	if meanwhile == "nothing" {
		return publish.Grant{}, nil
	}
	b, err := s.api.Acquire(ctx, publish.AcquireRequest{Key: key, Holder: "B", TTL: time.Minute})
	if err != nil || meanwhile == "granted" {
		return b.Grant(), err
	}
	receipt, err := s.api.UploadAndPublish(ctx, publish.UploadRequest{Grant: b.Grant(), Path: "out", Size: int64(len(content)), Body: bytes.NewReader(content)})
	if err == nil && receipt.Token != b.Token {
		err = fmt.Errorf("the receipt is of token %d", receipt.Token)
	}
	return b.Grant(), err
}
