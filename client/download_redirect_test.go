package client

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/pawlhq/pawl/publish"
)

// sendOn answers as Pawl does when it sends a reader of b to the store.
func sendOn(b []byte, store *fake) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		sum := publish.Digest(sha256.Sum256(b))
		w.Header().Set("ETag", tag(b))
		w.Header().Set("Repr-Digest", "sha-256="+sum.ByteSequence())
		http.Redirect(w, r, store.URL+"/object?X-Amz-Signature=hush", http.StatusTemporaryRedirect)
	}
}

// stored serves b as a store does, which knows it by a tag of its own.
func stored(b []byte) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("ETag", `"0123-2"`)
		http.ServeContent(w, r, "a.bin", time.Time{}, bytes.NewReader(b))
	}
}

// A download that is sent to the store takes no secret there, is checked against what Pawl has promised, and goes on after a break with
// a new signature.
func TestDownloadRedirected(t *testing.T) {
	t.Parallel()
	breaks := func(w http.ResponseWriter, r *http.Request) {
		stored(content)(&cut{ResponseWriter: w, left: 100_000}, r)
	}
	store := newFake(t, breaks, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) }, stored(content))
	pawl := newFake(t, sendOn(content, store))
	id := publish.NewLeaseID()
	d, err := pawl.client(t, Options{Credential: "hush-hush"}).Open(testContext(t), "k", 3, "a.bin", id)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	got, err := io.ReadAll(d)
	if err != nil || !bytes.Equal(got, content) || d.Digest != sha256.Sum256(content) || d.Size != int64(len(content)) {
		t.Fatalf("%d bytes, %v; promised %d, %s", len(got), err, d.Size, d.Digest)
	}
	if pawl.count() != 3 || store.count() != 3 {
		t.Errorf("%d requests to Pawl, %d to the store; each attempt needs a new signature", pawl.count(), store.count())
	}
	for _, r := range store.requests {
		if r.Header.Get(headerLease) != "" || r.Header.Get("Authorization") != "" || r.Header.Get("If-Range") != "" {
			t.Errorf("the store got %v", r.Header)
		}
	}
	for _, r := range pawl.requests {
		if r.Header.Get(headerLease) != id.Hex() || r.Header.Get("Authorization") != "Bearer hush-hush" {
			t.Errorf("Pawl got %v", r.Header)
		}
	}
	if got := store.requests[2].Header.Get("Range"); got != "bytes=100000-" {
		t.Errorf("resumed with Range %q", got)
	}
}

func TestDownloadRedirectedFails(t *testing.T) {
	t.Parallel()
	other := bytes.Repeat([]byte("different bytes "), 50_000)
	answer := func(status int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }
	}
	dead := newFake(t, stored(content))
	dead.Close()
	breaks := func(w http.ResponseWriter, r *http.Request) {
		stored(content)(&cut{ResponseWriter: w, left: 100_000}, r)
	}
	for name, test := range map[string]struct {
		store *fake
		want  error
	}{
		"other bytes":                {newFake(t, stored(other)), publish.ErrDigestMismatch},
		"refused":                    {newFake(t, answer(http.StatusForbidden)), publish.ErrForbidden},
		"down":                       {newFake(t, answer(http.StatusServiceUnavailable)), publish.ErrUnavailable},
		"away":                       {dead, ErrUnreachable},
		"whole where a part belongs": {newFake(t, breaks, answer(http.StatusOK)), publish.ErrDigestMismatch},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pawl := newFake(t, sendOn(content, test.store))
			d, err := pawl.client(t, Options{RetryFor: 50 * time.Millisecond}).Open(testContext(t), "k", 3, "a.bin", publish.LeaseID{})
			if err == nil {
				_, err = io.ReadAll(d)
				_ = d.Close()
			}
			if !errors.Is(err, test.want) || strings.Contains(err.Error(), "hush") {
				t.Errorf("%v, want %v and no signature", err, test.want)
			}
		})
	}
	var endless *fake
	endless = newFake(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, endless.URL+r.URL.Path+"/x", http.StatusFound)
	})
	if _, err := endless.client(t, Options{RetryFor: -1}).Open(testContext(t), "k", 3, "a.bin", publish.LeaseID{}); err == nil || !strings.Contains(err.Error(), "sent on more than 5 times") {
		t.Error(err)
	}
}
