package web_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/pawlhq/pawl/publish"
	"github.com/pawlhq/pawl/web"
)

// TestKeyPage reads the page about one key, by both spellings of its address.
func TestKeyPage(t *testing.T) {
	t.Parallel()
	r := newRig(t, web.Options{BasePath: "/pawl"})
	r.published("set/one", "f.png", "x")
	for _, target := range []string{"/k/set/one", "/pawl/k/set%2Fone"} {
		r.call("GET", target, "").want(200).shows(
			"<h1><bdi>set/one</bdi></h1>", `href="/pawl/b/set/"`, `href="/pawl/v1/keys/set/one/-/current"`, ">1.1</a>", "sealed", "nobody holds the key",
			r.server.URL+"/pawl/v1/keys/set/one/-/current", r.server.URL+"/pawl/v1/keys/set/one/-/generations/1/files/f.png",
			"curl -fsSL -o f.png "+r.server.URL, "pawl get -o f.png set/one",
			`href="/pawl/k/set/one/-/history"`, `href="/pawl/k/set/one/-/generations/1?revision=1"`, `href="/pawl/v1/keys/set/one"`, "generations/1.zip",
		)
	}
	r.call("GET", "/k/set/none", "").wantProblem(publish.ErrNotFound)
	r.call("GET", "/k/set/one?x=1", "").wantProblem(publish.ErrInvalidRequest)
	r.call("GET", "/k/set/one", "", "X-Forwarded-Proto", "https").want(200).shows("curl -fsSL -o f.png https://127.0.0.1")
}

// The lines of curl show a credential where the server asks for one.
func TestKeyPageCommands(t *testing.T) {
	t.Parallel()
	r, known := newAuthRig(t, web.Options{PublicRead: publish.ReachOf("open/")})
	root := known.issue(t, "root", "admin")
	for key, asks := range map[string]bool{"kept/one": true, "open/one": false, "kept/set": true, "open/set": false} {
		w := r.grantTo(root, key)
		w.put("f", "x", root...).want(201)
		if strings.HasSuffix(key, "/set") { // Its line fetches an archive.
			w.put("g", "x", root...).want(201)
		}
		w.publish(`{}`, root...).want(200)
		want := "<code>curl -fsS"
		if asks {
			want = `<code>curl -H &#34;Authorization: Bearer $PAWL_CREDENTIAL&#34; -fsS`
		}
		if page := r.with(root, "GET", "/k/"+key, "").want(200); !strings.Contains(page.body, want) {
			t.Errorf("%s: the page says %s", key, page.body)
		}
	}
}

// TestKeyPageStates reads the page of a key in each state that it can be in.
func TestKeyPageStates(t *testing.T) {
	t.Parallel()
	r := newRig(t, web.Options{})

	granted := r.grant("s/granted")
	only := r.call("GET", "/k/s/granted", "").want(200)
	only.shows("never published", "Nothing is published under this key yet", "pawl put s/granted FILE", "<bdi>test</bdi> has token 1, ends <time data-until")
	only.lacks("<h2 id=\"addresses\"")
	r.call("DELETE", "/v1/keys/s/granted/-/lease", "", "Pawl-Lease", granted.lease).want(204)

	open := r.grant("s/open")
	for i := range 30 {
		open.put(fmt.Sprintf("f%02d.bin", i), "x").want(201)
	}
	open.publish(`{"final":false,"source_revision":42,"metadata":{"renderer":"<povray>","commit":"8f3a"}}`).want(200)
	page := r.call("GET", "/k/s/open", "").want(200)
	page.shows(">open</span>", "more revisions may follow", "revision 42", "<bdi><povray></bdi>", "All 30 files", "files/f24.bin?revision=1", "pawl get --dir FOLDER s/open",
		`data-permanent="/v1/keys/s/open/-/generations/1/files?revision=1"`)
	page.lacks("f25.bin")
	if strings.Index(page.body, ">commit<") > strings.Index(page.body, ">renderer<") {
		t.Errorf("metadata isn't sorted: %s", page.body)
	}

	stale := r.grant("s/late")
	stale.put("f", "old").want(201)
	r.call("DELETE", "/v1/keys/s/late/-/lease", "", "Pawl-Lease", stale.lease).want(204)
	r.published("s/late", "f", "new")
	r.published("s/late", "f", "newer")
	r.call("GET", "/k/s/late", "").want(200).lacks("refused;")
	for range 4 {
		stale.publish("").want(409)
	}
	late := r.call("GET", "/k/s/late", "").want(200)
	late.shows("4 stale requests were refused; the last ", ", by <bdi>test</bdi>", `href="/k/s/late/-/history#refused"`, "retry loop", "Compare with 2.1",
		`<a rel="prev" href="/k/s/late/-/generations/2?revision=1">`, `href="/k/s/late/-/compare?a=2.1&b=3.1"`)

	r.call("PUT", "/v1/keys/s/late/-/pin", `{"reason":"approved & shipped"}`, "Pawl-By", "anna").want(200)
	r.call("GET", "/k/s/late", "").want(200).shows(">pinned</span>", "by <bdi>anna</bdi>: <bdi>approved & shipped</bdi>")
	r.call("DELETE", "/v1/keys/s/late/-/pin", "", "Pawl-By", "anna").want(204)

	r.call("DELETE", "/v1/keys/s/late?reason=wrong", "", "Pawl-By", "tom").want(200)
	retired := r.call("GET", "/k/s/late", "").want(200)
	retired.shows(">retired</span>", "by <bdi>tom</bdi>: <bdi>wrong</bdi>", "The key has no current version", "4 stale requests")
	retired.lacks("never published", "id=\"files\"")
}
