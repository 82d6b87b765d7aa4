package web_test

import (
	"io"
	"net"
	"strings"
	"testing"

	"github.com/pawlhq/pawl/publish"
	"github.com/pawlhq/pawl/web"
)

// A caller sends so many files at a time and no more; when one has ended, whichever way, there is room for another. Other callers don't notice.
func TestOpenUploads(t *testing.T) {
	t.Parallel()
	r := behindProxy(t, web.Options{Uploads: 2})
	w := r.grant("k")
	begun := 0
	open := func(path string) net.Conn {
		conn := r.dial()
		if _, err := io.WriteString(conn, w.putHead(path, "Content-Length: 2\r\n")+"x"); err != nil {
			t.Fatal(err)
		}
		begun++
		await(t, func() bool { return r.pointers.Faults.Calls("BeginUpload") == begun })
		return conn
	}
	one, two := open("one"), open("two")
	refused := w.put("three", "3")
	begun++ // It was marked.
	if members := refused.wantProblem(publish.ErrRateLimited); members["limit"] != 2.0 || refused.header.Get("Retry-After") != "1" {
		t.Errorf("members %v, Retry-After %q", members, refused.header.Get("Retry-After"))
	}
	if members := w.publish(`{"primary":"one"}`).wantProblem(publish.ErrGenerationIncomplete); !strings.Contains(jsonOf(members["failed"]), "three") {
		t.Errorf("an upload that was refused is not marked: %v", members)
	}
	if page := r.upload("/upload", "key=page", "by=mia", "f:x"); page.status != 429 || !strings.Contains(page.body, "2 uploads of yours are open") {
		t.Errorf("the page says %d: %s", page.status, page.body)
	}
	w.put("other", "3", "X-Forwarded-For", "192.0.2.1").want(201)
	begun++
	if _, err := io.WriteString(one, "y"); err != nil {
		t.Fatal(err)
	}
	r.readAnswer(one).want(201)
	await(t, func() bool { // The answer is sent before the place is free.
		begun++
		return w.put("three", "3").status == 201
	})
	if err := two.Close(); err != nil {
		t.Fatal(err)
	}
	await(t, func() bool { return r.pointers.Faults.Calls("FailUpload") >= 2 })
	three := open("three")
	await(t, func() bool {
		begun++
		return w.put("two", "22").status == 201
	})
	if _, err := io.WriteString(three, "y"); err != nil {
		t.Fatal(err)
	}
	r.readAnswer(three).want(200)
	w.publish(`{"primary":"one"}`).want(200)
}

// A setting lowers what a JSON body may have, and raises it for no call.
func TestMaxJSONBytes(t *testing.T) {
	t.Parallel()
	for setting, want := range map[int64]float64{0: 1 << 20, 100: 100, 2 << 20: 1 << 20} {
		r := newRig(t, web.Options{MaxJSONBytes: setting})
		large := `{"holder":"` + strings.Repeat("x", int(want)) + `"}`
		if members := r.call("POST", "/v1/keys/k/-/lease", large).wantProblem(publish.ErrTooLarge); members["limit"] != want {
			t.Errorf("with %d the limit is %v, want %v", setting, members["limit"], want)
		}
		r.call("POST", "/v1/keys/k/-/lease", `{"holder":"x"}`).want(201)
	}
}
