package web_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/pawlhq/pawl/publish"
	"github.com/pawlhq/pawl/web"
)

// signer signs readings for a store that nobody can reach.
type signer struct {
	err    error
	last   publish.AnswerHeaders
	object publish.ObjectName
}

func (s *signer) SignGet(_ context.Context, name publish.ObjectName, answer publish.AnswerHeaders, validFor time.Duration) (publish.SignedRequest, error) {
	s.last, s.object = answer, name
	return publish.SignedRequest{Method: "GET", URL: "https://store.example/canary?sig=hush", ExpiresAt: publish.Time{Time: time.Now().Add(validFor)}}, s.err
}

// TestRedirect sends readers of published files to the store. What needs no bytes is answered here.
func TestRedirect(t *testing.T) {
	t.Parallel()
	r := newRig(t, web.Options{})
	store := &signer{}
	r.service.Reads = store
	const bytes = "0123456789"
	w := r.grant("k")
	target := w.generation() + "/files/a.svg"
	w.put("a.svg", bytes).want(201)
	if got := r.call("GET", target, "", "Pawl-Lease", w.lease).want(200); got.body != bytes || got.header.Get("Cache-Control") != "private, no-store" {
		t.Errorf("before it is published, its publisher got %q with %v", got.body, got.header)
	}
	w.publish(`{"final":false}`).want(200)
	if got := r.call("GET", target, "").want(307); got.header.Get("Cache-Control") != "private, no-store" || got.header.Get("Vary") == "" {
		t.Errorf("what may change still was answered with %v", got.header)
	}
	w.publish("").want(200)

	tag := fmt.Sprintf("%q", fmt.Sprintf("%x", sha256.Sum256([]byte(bytes))))
	got := r.call("GET", target, "").want(307)
	for name, want := range map[string]string{
		"Location": "https://store.example/canary?sig=hush", "ETag": tag, "Repr-Digest": digestOf(bytes), "Pawl-Token": "1",
		"Content-Type": "", "Content-Length": "0", "Referrer-Policy": "no-referrer",
	} {
		if got.header.Get(name) != want {
			t.Errorf("%s is %q, want %q", name, got.header.Get(name), want)
		}
	}
	age, found := strings.CutPrefix(got.header.Get("Cache-Control"), "private, max-age=")
	if seconds, err := strconv.Atoi(age); !found || err != nil || seconds < 500 || seconds > 600 {
		t.Errorf("the redirect may be kept for %q", got.header.Get("Cache-Control"))
	}
	if got.body != "" || store.last.ContentType != "image/svg+xml" || store.last.ContentDisposition != "attachment; filename=a.svg" ||
		store.last.CacheControl != "private, no-store" || !strings.HasSuffix(string(store.object), "/a.svg") {
		t.Errorf("signed %s with %+v", store.object, store.last)
	}

	opened := r.blobs.Faults.Calls("Open")
	for _, test := range []struct {
		method string
		header []string
		status int
		length string
	}{
		{"HEAD", nil, 200, "10"},
		{"HEAD", []string{"Range", "bytes=2-4"}, 200, "10"}, // Range is for GET alone.
		{"GET", []string{"Range", "bytes=2-4"}, 307, "0"},
		{"GET", []string{"Range", "bytes=2-4", "If-Range", tag}, 307, "0"},
		{"GET", []string{"If-None-Match", `"other"`}, 307, "0"},
		{"GET", []string{"If-None-Match", tag}, 304, ""},
	} {
		got := r.call(test.method, target, "", test.header...).want(test.status)
		if got.body != "" || got.header.Get("Content-Length") != test.length || got.header.Get("ETag") != tag || got.header.Get("Repr-Digest") == "" || got.header.Get("Pawl-Token") != "1" {
			t.Errorf("%s %v: %q with %v", test.method, test.header, got.body, got.header)
		}
	}
	r.call("GET", target, "", "Range", "bytes=10-").wantProblem(publish.ErrRangeNotSatisfiable)
	r.call("GET", target, "", "If-Match", `"other"`).wantProblem(publish.ErrPreconditionFailed)
	if r.blobs.Faults.Calls("Open") != opened {
		t.Error("the store was asked for bytes")
	}
	// The store knows another ETag, so what depends on ours is streamed; so is everything while signing isn't known to work.
	if got := r.call("GET", target, "", "If-Match", tag).want(200); got.body != bytes {
		t.Errorf("with If-Match: %q", got.body)
	}
	store.err = errors.ErrUnsupported
	if got := r.call("GET", target, "").want(200); got.body != bytes {
		t.Errorf("without signatures: %q", got.body)
	}
	store.err = publish.Unavailable("the blob store", errors.New("no keys"))
	r.call("GET", target, "").wantProblem(publish.ErrUnavailable)
	if log := r.log.String(); strings.Contains(log, "canary") || strings.Contains(log, "hush") {
		t.Errorf("the log has a signed address: %s", log) // Case 50.
	}
}
