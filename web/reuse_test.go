package web_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/pawlhq/pawl/publish"
	"github.com/pawlhq/pawl/web"
)

// Case 23 over HTTP: frames 1007 and 1008 of ten are rendered again. No byte of the others is copied, the permanent addresses of the new
// generation give all of them, and what isn't current any more is reused only when asked for.
func TestCase23(t *testing.T) {
	t.Parallel()
	r := newRig(t, web.Options{})
	a := r.grant("shot")
	for n := 1001; n <= 1010; n++ {
		a.put(fmt.Sprintf("beauty.%d.exr", n), fmt.Sprint("pixels of ", n)).want(201)
	}
	a.publish(`{"release":true}`).want(200)
	b := r.grant("shot")
	for n := 1007; n <= 1008; n++ {
		b.put(fmt.Sprintf("beauty.%d.exr", n), fmt.Sprint("new pixels of ", n)).want(201)
	}
	stored, opened := r.blobs.Faults.Calls("Put"), r.blobs.Faults.Calls("Open")
	const body = `{"reuse_from":1,"expect":["beauty.[1001-1010].exr"],"release":true}`
	receipt := b.publish(body).want(200).json()
	if n := len(r.blobs.Names()); n != 12 || r.blobs.Faults.Calls("Put") != stored || r.blobs.Faults.Calls("Open") != opened {
		t.Errorf("the store has %d objects, want 12, and none of them touched by the publish", n)
	}
	want := "10 1 8 112"
	if got := fmt.Sprint(receipt["files"], receipt["reuse_from"], receipt["reused_files"], receipt["reused_bytes"]); got != want {
		t.Errorf("the receipt has %s, want %s", got, want)
	}
	for n := 1001; n <= 1010; n++ {
		want := fmt.Sprint("pixels of ", n)
		if n == 1007 || n == 1008 {
			want = "new " + want
		}
		target := fmt.Sprintf("%s/files/beauty.%d.exr", b.generation(), n)
		got := r.call("GET", target, "").want(200)
		if got.body != want || got.header.Get("Pawl-Token") != "2" || !strings.Contains(got.header.Get("Cache-Control"), "immutable") {
			t.Errorf("%s gave %q with %v", target, got.body, got.header)
		}
		if got := r.call("GET", fmt.Sprintf("/v1/keys/shot/-/current/beauty.%d.exr", n), "").want(307); got.header.Get("Location") != target {
			t.Errorf("current redirects to %s, want %s", got.header.Get("Location"), target)
		}
	}
	history := r.call("GET", "/v1/keys/shot/-/generations", "").want(200)
	if !strings.Contains(history.body, `"reuse_from":1,"reused_files":8,"reused_bytes":112`) {
		t.Errorf("the history doesn't show what was reused: %s", history.body)
	}
	if m := b.publish(body).want(200).json(); m["replayed"] != true {
		t.Errorf("a repeat: %v", m)
	}

	c := r.grant("shot")
	c.put("beauty.1009.exr", "third").want(201)
	problem := c.publish(`{"reuse_from":1}`).wantProblem(publish.ErrPreconditionFailed)
	if problem["reuse_from"] != 1.0 || problem["detail"] != "reuse_from names generation 1, but the current version is 2.1; "+
		"reuse that one, or say reuse_stale to carry older files over nevertheless" {
		t.Errorf("the problem is %v", problem)
	}
	c.call("DELETE", c.generation()+"/files/beauty.1010.exr", "", "Pawl-Lease", c.lease).want(204)
	receipt = c.publish(`{"reuse_from":1,"reuse_stale":true,"release":true}`).want(200).json()
	if got := fmt.Sprint(receipt["files"], receipt["reused_files"]); got != "9 8" {
		t.Errorf("the receipt has %s files, want 9, 8 of them reused", got)
	}
	if got := r.call("GET", c.generation()+"/files/beauty.1007.exr", "").want(200); got.body != "pixels of 1007" {
		t.Errorf("frame 1007 is %q", got.body)
	}

	d := r.grant("shot")
	d.put("own", "x").want(201)
	d.publish(`{"final":false}`).want(200)
	problem = d.publish(`{"reuse_from":2}`).wantProblem(publish.ErrPreconditionFailed)
	if detail := fmt.Sprint(problem["detail"]); !strings.Contains(detail, "isn't the one that generation 4 has replaced") {
		t.Errorf("the detail is %q", detail)
	}
	for _, body := range []string{`{"reuse_from":4}`, `{"reuse_from":5}`} {
		d.publish(body).wantProblem(publish.ErrInvalidRequest)
	}
	r.pointers.GiveUp("shot", 1)
	problem = d.publish(`{"reuse_from":1,"reuse_stale":true}`).wantProblem(publish.ErrGenerationCollected)
	if detail := fmt.Sprint(problem["detail"]); !strings.Contains(detail, "reuse_from: generation 1") {
		t.Errorf("the detail is %q", detail)
	}
}
