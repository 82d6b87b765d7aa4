package web_test

import (
	"fmt"
	"testing"

	"github.com/pawlhq/pawl/publish"
	"github.com/pawlhq/pawl/web"
)

// A revision of an open generation stays readable under its own address, for ever the same, when its files were replaced or deleted.
func TestRevision(t *testing.T) {
	t.Parallel()
	r := newRig(t, web.Options{})
	w := r.grant("live")
	file := w.generation() + "/files/live.m3u8"
	w.put("live.m3u8", "one").want(201)
	w.put("0.ts", "segment").want(201)
	w.publish(`{"final":false,"primary":"live.m3u8"}`).want(200)
	w.put("live.m3u8", "two").want(200)
	w.call("DELETE", w.generation()+"/files/0.ts", "", "Pawl-Lease", w.lease).want(204)
	w.publish(`{"final":false,"primary":"live.m3u8"}`).want(200)
	w.put("live.m3u8", "not published").want(200)

	const forever = "public, max-age=31536000, immutable"
	for _, test := range []struct{ target, body, cache, vary string }{
		{file + "?revision=1", "one", forever, ""},
		{file + "?revision=2", "two", forever, ""},
		{file + "?revision=1&cache=no", "one", forever, ""},
		{file, "two", "no-cache", "Pawl-Lease, Authorization"},
		{file + "?cache=no", "two", "no-cache", "Pawl-Lease, Authorization"},
		{w.generation() + "/files/0.ts?revision=1", "segment", forever, ""},
	} {
		for range 2 { // Its publisher is told the same.
			got := r.call("GET", test.target, "", "Pawl-Lease", "0123456789abcdef0123456789abcdef").want(200)
			if got.body != test.body || got.header.Get("Cache-Control") != test.cache || got.header.Get("Vary") != test.vary || got.header.Get("Pawl-Token") != "1" {
				t.Errorf("%s gives %q with %v", test.target, got.body, got.header)
			}
			if head := r.call("HEAD", test.target, "").want(200); head.header.Get("Content-Length") != fmt.Sprint(len(test.body)) {
				t.Errorf("HEAD %s: %v", test.target, head.header)
			}
		}
	}
	if got := r.call("GET", file+"?revision=1", "", "Range", "bytes=1-1").want(206); got.body != "n" {
		t.Errorf("a range is %q", got.body)
	}
	if got := r.call("GET", file+"?revision=1", "", "Pawl-Lease", w.lease).want(200); got.body != "one" {
		t.Errorf("its publisher reads %q", got.body)
	}
	// The redirect leads to the newest revision: relative links inside a playlist would lose the query.
	if got := r.call("GET", "/v1/keys/live/-/current", "").want(307); got.header.Get("Location") != file {
		t.Errorf("current redirects to %s", got.header.Get("Location"))
	}

	paths := func(query string) (list string) {
		for _, entry := range r.call("GET", w.generation()+"/files"+query, "").want(200).json()["files"].([]any) {
			e := entry.(map[string]any)
			list += fmt.Sprint(e["path"], " ", e["url"], "\n")
			r.call("GET", e["url"].(string), "").want(200)
		}
		return list
	}
	first := fmt.Sprintf("0.ts %s?revision=1\nlive.m3u8 %s?revision=1\n", w.generation()+"/files/0.ts", file)
	if got := paths("?revision=1"); got != first {
		t.Errorf("revision 1 lists\n%s, want\n%s", got, first)
	}
	if got, want := paths(""), "live.m3u8 "+file+"\n"; got != want {
		t.Errorf("the latest revision lists\n%s, want\n%s", got, want)
	}

	for _, target := range []string{file, w.generation() + "/files"} {
		for _, bad := range []string{"", "0", "-1", "1.0", "1e1", "01", "9007199254740992", "x", "1&revision=2", "%31%zz", "..%2F1"} {
			r.call("GET", target+"?revision="+bad, "").wantProblem(publish.ErrInvalidRequest)
		}
		members := r.call("GET", target+"?revision=3", "").wantProblem(publish.ErrNotFound)
		if members["revision"] != 3.0 || members["detail"] != "generation 1 of this key has no published revision 3" {
			t.Errorf("an unknown revision: %v", members)
		}
	}
	r.call("GET", w.generation()+"/files/0.ts?revision=2", "").wantProblem(publish.ErrNotFound)
	r.call("PUT", file+"?revision=1", "x", "Pawl-Lease", w.lease).wantProblem(publish.ErrInvalidRequest)
}
