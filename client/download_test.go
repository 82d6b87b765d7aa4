package client

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/pawlhq/pawl/publish"
)

var content = bytes.Repeat([]byte("immutable bytes "), 50_000)

func tag(b []byte) string { sum := sha256.Sum256(b); return `"` + hex.EncodeToString(sum[:]) + `"` }

// serveContent serves b as the permanent address does.
func serveContent(b []byte) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("ETag", tag(b))
		http.ServeContent(w, r, "a.bin", time.Time{}, bytes.NewReader(b))
	}
}

// breakAfter serves b and aborts the connection after n bytes.
func breakAfter(b []byte, n int) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		serveContent(b)(&cut{ResponseWriter: w, left: n}, r)
	}
}

type cut struct {
	http.ResponseWriter
	left int
}

func (c *cut) Write(p []byte) (int, error) {
	n, err := c.ResponseWriter.Write(p[:min(len(p), c.left)])
	if c.left -= n; c.left == 0 {
		c.ResponseWriter.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	}
	return n, err
}

func download(t *testing.T, f *fake) ([]byte, *Download, error) {
	t.Helper()
	d, err := f.client(t, Options{}).Open(testContext(t), "k", 3, "a.bin", publish.LeaseID{})
	if err != nil {
		return nil, nil, err
	}
	defer d.Close()
	got, err := io.ReadAll(d)
	return got, d, err
}

// Case 27: a broken download goes on by Range on the permanent address, and its hash is checked.
func TestDownloadResumes(t *testing.T) {
	t.Parallel()
	f := newFake(t, breakAfter(content, 100_000), breakAfter(content, 250_000), lose, serveContent(content))
	got, d, err := download(t, f)
	if err != nil || !bytes.Equal(got, content) {
		t.Fatalf("%d bytes, %v", len(got), err)
	}
	if d.Size != int64(len(content)) || d.Digest != sha256.Sum256(content) {
		t.Fatalf("promised %d bytes, %s", d.Size, d.Digest)
	}
	if r := f.requests[1]; r.Header.Get("Range") == "" || r.Header.Get("If-Range") != tag(content) {
		t.Fatalf("resumed with %q, %q", r.Header.Get("Range"), r.Header.Get("If-Range"))
	}
}

func TestDownloadOfOtherBytesFails(t *testing.T) {
	t.Parallel()
	other := bytes.Repeat([]byte("different bytes "), 50_000)
	for name, script := range map[string][]http.HandlerFunc{
		"changed while it broke": {breakAfter(content, 100_000), serveContent(other)},
		"wrong bytes": {func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("ETag", tag(content))
			http.ServeContent(w, r, "a.bin", time.Time{}, bytes.NewReader(other))
		}},
	} {
		if _, _, err := download(t, newFake(t, script...)); !errors.Is(err, publish.ErrDigestMismatch) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A download that ends early without a length, and a store that never gives a byte more, are errors and never a short file.
func TestDownloadGivesUp(t *testing.T) {
	t.Parallel()
	f := newFake(t, breakAfter(content, 100_000), func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("ETag", tag(content))
		w.Header().Set("Content-Range", "bytes 100000-799999/800000")
		w.Header().Set("Content-Length", "700000")
		w.WriteHeader(http.StatusPartialContent)
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	})
	got, _, err := download(t, f)
	if err == nil || len(got) != 100_000 || f.count() != 2+maxBreaks-1 {
		t.Fatalf("%d bytes, %v after %d requests", len(got), err, f.count())
	}
	if _, _, err := download(t, newFake(t, refuse(&publish.Error{Code: publish.ErrNotFound}))); !errors.Is(err, publish.ErrNotFound) {
		t.Fatal(err)
	}
}
