package client

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"time"

	"github.com/pawlhq/pawl/publish"
)

func uploadOf(body string) publish.UploadRequest {
	return publish.UploadRequest{
		Grant: grant, Path: "out/a+b.png", ContentType: "image/png", Size: int64(len(body)),
		Digest: sha256.Sum256([]byte(body)), Body: strings.NewReader(body),
	}
}

func take(t *testing.T, want string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		got, err := io.ReadAll(r.Body)
		if err != nil || string(got) != want {
			t.Errorf("body of %d bytes, %v", len(got), err)
		}
		answer(201, publish.UploadResult{File: publish.File{Path: "out/a+b.png"}, Key: grant.Key, Token: 17})(w, r)
	}
}

func TestUploadSendsWhatItPromises(t *testing.T) {
	t.Parallel()
	const body = "some bytes"
	f := newFake(t, take(t, body))
	if _, err := f.client(t, Options{Credential: "c"}).Upload(testContext(t), uploadOf(body)); err != nil {
		t.Fatal(err)
	}
	r := f.requests[0]
	sum := sha256.Sum256([]byte(body))
	for name, want := range map[string]string{
		"Repr-Digest": "sha-256=:" + base64.StdEncoding.EncodeToString(sum[:]) + ":",
		"Expect":      "100-continue", "Content-Type": "image/png", headerLease: grant.LeaseID.Hex(), "Authorization": "Bearer c",
	} {
		if got := r.Header.Get(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	if r.ContentLength != int64(len(body)) || r.URL.EscapedPath() != "/v1/keys/thumbs/image-52/-/generations/17/files/out/a%2Bb.png" {
		t.Errorf("%d bytes to %s", r.ContentLength, r.URL.EscapedPath())
	}
}

func TestUploadSizes(t *testing.T) {
	t.Parallel()
	for _, size := range []int{0, 1, 1 << 20} {
		body := strings.Repeat("x", size)
		for _, known := range []bool{true, false} {
			req := uploadOf(body)
			if !known {
				req.Size, req.Digest = -1, publish.Digest{}
			}
			f := newFake(t, take(t, body))
			if _, err := f.client(t, Options{}).Upload(testContext(t), req); err != nil {
				t.Errorf("size %d, known %v: %v", size, known, err)
			}
		}
	}
}

// counting counts the bytes that were read from it.
type counting struct {
	io.ReadSeeker
	n atomic.Int64
}

func (c *counting) Read(p []byte) (int, error) {
	n, err := c.ReadSeeker.Read(p)
	c.n.Add(int64(n))
	return n, err
}

// A stale worker learns so before it sends its gigabytes.
func TestStaleUploadSendsNoBody(t *testing.T) {
	t.Parallel()
	body := &counting{ReadSeeker: bytes.NewReader(make([]byte, 64<<20))}
	f := newFake(t, refuse(stale()))
	req := publish.UploadRequest{Grant: grant, Path: "a", Size: 64 << 20, Body: body}
	_, err := f.client(t, Options{}).Upload(testContext(t), req)
	if !errors.Is(err, publish.ErrStaleToken) || f.count() != 1 {
		t.Fatalf("got %v after %d requests", err, f.count())
	}
	if sent := body.n.Load(); sent > 0 {
		t.Fatalf("%d bytes were read", sent)
	}
}

func TestUploadRepeatsFromTheStart(t *testing.T) {
	t.Parallel()
	body := strings.Repeat("0123456789", 100_000)
	halfway := func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.CopyN(io.Discard, r.Body, 300_000)
		lose(w, r)
	}
	f := newFake(t, halfway, halfway, take(t, body))
	if _, err := f.client(t, Options{}).Upload(testContext(t), uploadOf(body)); err != nil {
		t.Fatal(err)
	}
}

// A stream can't be sent twice: a lost answer leaves the outcome unknown, and nothing half is sent as if it were whole.
func TestStreamIsSentOnce(t *testing.T) {
	t.Parallel()
	f := newFake(t, func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body); lose(w, r) })
	req := uploadOf("some bytes")
	req.Body = iotest.OneByteReader(req.Body)
	_, err := f.client(t, Options{}).Upload(testContext(t), req)
	if !errors.Is(err, publish.ErrOutcomeUnknown) || f.count() != 1 {
		t.Fatalf("got %v after %d requests", err, f.count())
	}
}

// A file that can't be read is not the server's fault, and is no whole body for it.
func TestBrokenSource(t *testing.T) {
	t.Parallel()
	broken := errors.New("disk on fire")
	whole := make(chan error, 1)
	f := newFake(t, func(w http.ResponseWriter, r *http.Request) {
		_, err := io.Copy(io.Discard, r.Body)
		whole <- err
		w.WriteHeader(http.StatusBadRequest)
	})
	req := publish.UploadRequest{Grant: grant, Path: "a", Size: -1, Body: io.MultiReader(strings.NewReader("half"), iotest.ErrReader(broken))}
	_, err := f.client(t, Options{}).Upload(testContext(t), req)
	if !errors.Is(err, broken) || errors.Is(err, ErrUnreachable) {
		t.Fatalf("got %v", err)
	}
	if err := <-whole; err == nil {
		t.Fatal("the server saw a whole body")
	}
}

func TestUploadAndPublishReplays(t *testing.T) {
	t.Parallel()
	f := newFake(t, func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body); lose(w, r) },
		answer(200, publish.Receipt{Key: grant.Key, Token: 17, Revision: 1, Replayed: true}))
	got, err := f.client(t, Options{}).UploadAndPublish(testContext(t), uploadOf("x"))
	if err != nil || !got.Replayed || f.requests[1].URL.RawQuery != "publish=true" {
		t.Fatalf("got %+v, %v", got, err)
	}
}

func TestDeleteFile(t *testing.T) {
	t.Parallel()
	f := newFake(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(204) })
	if err := f.client(t, Options{RetryFor: time.Second}).DeleteFile(testContext(t), grant, "a"); err != nil {
		t.Fatal(err)
	}
}

// A stream has no digest before its end. What the server says it has stored is compared with what was sent.
func TestStreamIsCompared(t *testing.T) {
	t.Parallel()
	store := func(body string, overtaken bool) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			answer(201, publish.UploadResult{Token: 17, File: publish.File{Path: "a", SHA256: sha256.Sum256([]byte(body))}, Overtaken: overtaken})(w, r)
		}
	}
	for name, test := range map[string]struct {
		handle http.HandlerFunc
		want   error
	}{
		"the same":                {handle: store("some bytes", false)},
		"cut off on its way":      {handle: store("some by", false), want: publish.ErrDigestMismatch},
		"another one that counts": {handle: store("newer bytes", true)},
	} {
		f := newFake(t, test.handle)
		req := publish.UploadRequest{Grant: grant, Path: "a", Size: -1, Body: iotest.OneByteReader(strings.NewReader("some bytes"))}
		if _, err := f.client(t, Options{}).Upload(testContext(t), req); !errors.Is(err, test.want) || (err == nil) != (test.want == nil) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}
