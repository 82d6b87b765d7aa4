package web_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/pawlhq/pawl/publish"
	"github.com/pawlhq/pawl/publish/publishtest"
	"github.com/pawlhq/pawl/web"
)

func TestFile(t *testing.T) {
	t.Parallel()
	r := newRig(t, web.Options{})
	const bytes = "0123456789"
	w := r.published("k", "a.txt", bytes)
	target := w.generation() + "/files/a.txt"
	tag := fmt.Sprintf("%q", fmt.Sprintf("%x", sha256.Sum256([]byte(bytes))))

	got := r.call("GET", target, "").want(200)
	for name, want := range map[string]string{
		"ETag": tag, "Repr-Digest": digestOf(bytes), "Content-Length": "10", "Content-Type": "text/plain; charset=utf-8",
		"Accept-Ranges": "bytes", "Cache-Control": "public, max-age=31536000, immutable", "Pawl-Token": "1", "X-Content-Type-Options": "nosniff",
		"Content-Disposition":     "",
		"Content-Security-Policy": "sandbox; default-src 'none'; img-src 'self'; media-src 'self'; style-src 'unsafe-inline'; frame-ancestors 'self'", "Last-Modified": "", "Vary": "",
	} {
		if got.header.Get(name) != want {
			t.Errorf("%s is %q, want %q", name, got.header.Get(name), want)
		}
	}
	if got.body != bytes {
		t.Errorf("got %q", got.body)
	}
	for _, test := range []struct {
		headers    []string
		status     int
		body, part string
	}{
		{[]string{"Range", "bytes=2-4"}, 206, "234", "bytes 2-4/10"},
		{[]string{"Range", "bytes=7-"}, 206, "789", "bytes 7-9/10"},
		{[]string{"Range", "bytes=-2"}, 206, "89", "bytes 8-9/10"},
		{[]string{"Range", "bytes=0-99"}, 206, bytes, "bytes 0-9/10"},
		{[]string{"Range", "bytes=0-0,2-2"}, 200, bytes, ""},
		{[]string{"Range", "bytes=0-0", "Range", "bytes=2-2"}, 200, bytes, ""},
		{[]string{"Range", "bytes=-99"}, 206, bytes, "bytes 0-9/10"},
		{[]string{"Range", "bytes=7-99999999999999999999"}, 206, "789", "bytes 7-9/10"},
		{[]string{"Range", "bytes=-99999999999999999999"}, 206, bytes, "bytes 0-9/10"},
		{[]string{"Range", "Bytes= 2-4 "}, 206, "234", "bytes 2-4/10"},
		{[]string{"Range", "lines=2-4"}, 200, bytes, ""},
		{[]string{"Range", "bytes=4-2"}, 200, bytes, ""},
		{[]string{"Range", "bytes=2"}, 200, bytes, ""},
		{[]string{"Range", "bytes=-"}, 200, bytes, ""},
		{[]string{"Range", "bytes="}, 200, bytes, ""},
		{[]string{"Range", "bytes=--2"}, 200, bytes, ""},
		{[]string{"Range", "bytes=+2-4"}, 200, bytes, ""},
		{[]string{"Range", "bytes=2-x"}, 200, bytes, ""},
		{[]string{"Range", "2-4"}, 200, bytes, ""},
		{[]string{"Range", ""}, 200, bytes, ""},
		{[]string{"Range", "bytes=-0", "If-Range", `"other"`}, 200, bytes, ""},
		{[]string{"Range", "bytes=2-4", "If-Range", tag}, 206, "234", "bytes 2-4/10"},
		{[]string{"Range", "bytes=2-4", "If-Range", `"other"`}, 200, bytes, ""},
		{[]string{"Range", "bytes=2-4", "If-Range", "W/" + tag}, 200, bytes, ""},
		{[]string{"If-None-Match", tag}, 304, "", ""},
		{[]string{"If-None-Match", "W/" + tag}, 304, "", ""},
		{[]string{"If-None-Match", `"other", ` + tag}, 304, "", ""},
		{[]string{"If-None-Match", `"other"`}, 200, bytes, ""},
		{[]string{"If-Match", tag}, 200, bytes, ""},
	} {
		opened := r.blobs.Faults.Calls("Open")
		got := r.call("GET", target, "", test.headers...)
		if got.status != test.status || got.body != test.body || got.header.Get("Content-Range") != test.part || got.header.Get("ETag") != tag {
			t.Errorf("%v: %d %q %v", test.headers, got.status, got.body, got.header)
		}
		if test.status == 304 && r.blobs.Faults.Calls("Open") != opened {
			t.Errorf("%v: the store was asked for nothing", test.headers)
		}
	}
	for _, nothing := range []string{"bytes=10-", "bytes=10-12", "bytes=99999999999999999999-", "bytes=-0", "bytes=-00"} {
		outside := r.call("GET", target, "", "Range", nothing)
		outside.wantProblem(publish.ErrRangeNotSatisfiable)
		if outside.header.Get("Content-Range") != "bytes */10" || outside.header.Get("ETag") != "" {
			t.Errorf("%s: 416 with %v", nothing, outside.header)
		}
	}
	if head := r.call("HEAD", target, "", "Range", "bytes=2-4").want(200); head.header.Get("Content-Length") != "10" {
		t.Errorf("HEAD with a Range, which only GET has: %v", head.header)
	}
	r.call("GET", target, "", "If-Match", `"other"`).wantProblem(publish.ErrPreconditionFailed)
	opened := r.blobs.Faults.Calls("Open")
	if head := r.call("HEAD", target, "").want(200); head.header.Get("Content-Length") != "10" || r.blobs.Faults.Calls("Open") != opened {
		t.Errorf("HEAD: %v", head.header)
	}
	r.call("GET", w.generation()+"/files/b.txt", "").wantProblem(publish.ErrNotFound)
	empty := r.published("empty", "f", "").generation() + "/files/f"
	for _, part := range []string{"", "bytes=0-", "bytes=0-9", "bytes=-5", "bytes=-0"} {
		if got := r.call("GET", empty, "", "Range", part).want(200); got.header.Get("Content-Length") != "0" || got.header.Get("Content-Range") != "" {
			t.Errorf("%q of an empty file: %v", part, got.header)
		}
	}
}

// TestCaching follows a file from its upload to the seal (case 39).
func TestCaching(t *testing.T) {
	t.Parallel()
	r := newRig(t, web.Options{})
	w := r.grant("k")
	w.put("f", "one").want(201)
	target := w.generation() + "/files/f"
	cached := func(want, body string, headers ...string) {
		t.Helper()
		got := r.call("GET", target, "", headers...).want(200)
		if got.header.Get("Cache-Control") != want || got.body != body {
			t.Errorf("Cache-Control %q with %q, want %q with %q", got.header.Get("Cache-Control"), got.body, want, body)
		}
	}
	r.call("GET", target, "").wantProblem(publish.ErrNotFound)
	cached("private, no-store", "one", "Pawl-Lease", w.lease)
	w.publish(`{"final":false}`).want(200)
	cached("no-cache", "one")
	w.put("f", "two").want(200)
	cached("no-cache", "one")
	cached("private, no-store", "two", "Pawl-Lease", w.lease)
	w.publish("").want(200)
	cached("public, max-age=31536000, immutable", "two")
	if got := r.call("GET", "/v1/keys/k/-/current", "").want(307); got.header.Get("Cache-Control") != "no-cache" || got.header.Get("Location") != target || got.header.Get("Pawl-Token") != "1" {
		t.Errorf("the redirect is %v", got.header)
	}
	r.call("GET", target, "", "Pawl-Lease", "nonsense").wantProblem(publish.ErrInvalidRequest)
}

// TestCase27 breaks the store before the first byte, and halfway.
func TestCase27(t *testing.T) {
	t.Parallel()
	r := newRig(t, web.Options{})
	w := r.published("k", "f", strings.Repeat("x", 1<<20))
	target := w.generation() + "/files/f"

	r.blobs.Faults.Add(publishtest.Fault{Operation: "Open"})
	got := r.call("GET", target, "", "Range", "bytes=5-9")
	got.wantProblem(publish.ErrUnavailable)
	for _, name := range []string{"ETag", "Repr-Digest", "Content-Range", "Pawl-Token", "Content-Disposition"} {
		if got.header.Get(name) != "" {
			t.Errorf("the error has the file's %s", name)
		}
	}
	r.blobs.Faults.Add(publishtest.Fault{Operation: "Open", Err: publish.ErrObjectNotFound})
	r.call("GET", target, "").wantProblem(publish.ErrInternal)

	for what, cause := range map[string]error{"a broken store": errors.New("the store broke"), "an early end": io.EOF} {
		// Five reads go well, the sixth doesn't.
		r.blobs.Faults.Add(publishtest.Fault{Operation: "Read", Times: 5, Before: func(context.Context) {}})
		r.blobs.Faults.Add(publishtest.Fault{Operation: "Read", Err: cause})
		res, err := r.client.Get(r.server.URL + target)
		if err != nil {
			t.Fatal(err)
		}
		part, err := io.ReadAll(res.Body)
		_ = res.Body.Close()
		if err == nil || res.StatusCode != 200 || res.ContentLength != 1<<20 || len(part) != 5<<15 {
			t.Errorf("%s: status %d, %d of %d bytes, then %v", what, res.StatusCode, len(part), res.ContentLength, err)
		}
	}
	await(t, func() bool {
		log := r.log.String()
		return strings.Contains(log, "the store broke") && strings.Contains(log, "unexpected EOF")
	})
	if got := r.call("GET", target, "").want(200); len(got.body) != 1<<20 {
		t.Errorf("afterwards: %d bytes", len(got.body))
	}
}
