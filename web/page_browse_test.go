package web_test

import (
	"fmt"
	"html"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/pawlhq/pawl/publish"
	"github.com/pawlhq/pawl/web"
)

// shows fails unless a page holds every one of the texts, entities and breaks within names aside.
func (a answer) shows(texts ...string) {
	a.t.Helper()
	body := html.UnescapeString(strings.ReplaceAll(a.body, "<wbr>", ""))
	for _, text := range texts {
		if !strings.Contains(body, text) {
			a.t.Errorf("%q is missing in %s", text, body)
		}
	}
}

// lacks fails if a page holds one of the texts.
func (a answer) lacks(texts ...string) {
	a.t.Helper()
	body := html.UnescapeString(strings.ReplaceAll(a.body, "<wbr>", ""))
	for _, text := range texts {
		if strings.Contains(body, text) {
			a.t.Errorf("%q is in %s", text, body)
		}
	}
}

// linked follows the link of a page that has a text or another mark in its tag.
func (a answer) linked(mark string) string {
	a.t.Helper()
	for _, match := range regexp.MustCompile(`<a ([^>]*)>([^<]*)`).FindAllStringSubmatch(a.body, -1) {
		if strings.Contains(match[1], mark) || html.UnescapeString(match[2]) == mark {
			return html.UnescapeString(regexp.MustCompile(`href="([^"]*)"`).FindStringSubmatch(match[1])[1])
		}
	}
	a.t.Fatalf("no link %q in %s", mark, a.body)
	return ""
}

func TestPageFacts(t *testing.T) {
	t.Parallel()
	r := newRig(t, web.Options{})
	empty := r.call("GET", "/", "").want(200)
	empty.shows("Nothing is published here yet", "pawl put my-key FILE")
	r.call("GET", "/b/it's%20new/", "").want(200).shows(`pawl put 'it'\''s new/my-key' FILE`)
	w := r.grant("set/of-two")
	w.put("a", strings.Repeat("x", 2048)).want(201)
	w.put("b", "x").want(201)
	w.publish("").want(200)
	page := r.call("GET", "/?prefix=set/", "").want(200)
	page.shows(
		`href="/k/set/of-two"`, "<bdi>of-two</bdi>", `href="/v1/keys/set/of-two/-/generations/1/files"`, "2 files", `<data value="2049" title="2,049 bytes">2.0 KiB</data>`,
		"<bdi>test</bdi>", " s ago</time>", `datetime="20`, `<a href="/b/set/"><bdi>set/</bdi></a>`, `<bdi class="held">test</bdi>`, "<time data-until",
		`<th scope="col" aria-sort="ascending">`, `<th scope="row" class="key">`,
	)
	page.lacks("refused</a>", "Next page")
	for i := range publish.DefaultPageSize {
		r.published("many/"+jsonOf(i+1000), "f", "x")
	}
	r.published("many/zz", "f", "x")
	first := r.call("GET", "/b/many/", "").want(200)
	first.lacks("zz</bdi>")
	second := r.call("GET", first.linked(`rel="next"`), "").want(200)
	second.shows("zz</bdi>")
	second.lacks(`rel="next"`)
	r.call("GET", second.linked(`rel="first"`), "").want(200).shows("1000</bdi>")
}

// TestPageFilters reads the address of the page of keys: each filter, its chip, and what the form sends.
func TestPageFilters(t *testing.T) {
	t.Parallel()
	r := newRig(t, web.Options{BasePath: "/pawl"})
	r.published("pics/one", "one.png", "png")
	r.published("pics/two", "two.webp", strings.Repeat("w", 3<<20))
	r.published("pics/drawn", "d.svg", "<svg/>")
	r.published("docs/one", "one.txt", "text")
	stale := r.grant("held/late")
	stale.put("f", "x").want(201)
	r.call("DELETE", "/v1/keys/held/late/-/lease", "", "Pawl-Lease", stale.lease).want(204)
	r.published("held/late", "f.bin", "y")
	stale.publish("").want(409)
	r.grant("held/late")

	for query, want := range map[string][]string{
		"q=ONE":                   {"pics/one", "docs/one"},
		"type=image":              {"pics/one", "pics/two", "pics/drawn"},
		"type=image/png":          {"pics/one"},
		"leased=true":             {"held/late"},
		"rejected=true":           {"held/late"},
		"since=24h&q=drawn":       {"pics/drawn"},
		"since=7d&q=drawn":        {"pics/drawn"},
		"since=2100-01-01":        {},
		"prefix=pics/o":           {"one"},
		"sort=-name&prefix=pics/": {"two", "one", "drawn"},
		"sort=age":                {"held/late", "docs/one", "pics/drawn", "pics/two", "pics/one"},
		"sort=-size&type=image":   {"pics/two", "pics/drawn", "pics/one"},
	} {
		page := r.call("GET", "/pawl/?"+query, "").want(200)
		var shown []string
		for _, match := range regexp.MustCompile(`data-row href="/pawl/k/.*<bdi>(.*)</bdi></a></th>`).FindAllStringSubmatch(page.body, -1) {
			shown = append(shown, strings.ReplaceAll(match[1], "<wbr>", ""))
		}
		sorted := strings.Contains(query, "sort=")
		if len(shown) != len(want) || sorted && fmt.Sprint(shown) != fmt.Sprint(want) {
			t.Errorf("%s shows %q, want %q", query, shown, want)
		}
		for _, key := range want {
			if !strings.Contains(fmt.Sprint(shown), key) {
				t.Errorf("%s shows %q, want %q", query, shown, want)
			}
		}
	}

	page := r.call("GET", "/pawl/?prefix=pics/&q=o&type=image&view=grid", "").want(200)
	page.shows(`<input name="q" value="o"`, `<input name="prefix" value="pics/"`, `name="view" value="grid"`, `<ul class="grid">`)
	if got := page.linked(`title="Take this filter away"`); got != "/pawl/b/pics/?type=image&view=grid" {
		t.Errorf("a chip leads to %s", got)
	}
	if got := page.linked("clear all"); got != "/pawl/b/pics/?view=grid" {
		t.Errorf("clear all leads to %s", got)
	}
	// Small pictures are shown by their permanent address, SVG too, for no script of it runs there; others by the letters of their type.
	grid := r.call("GET", "/pawl/b/pics/?view=grid", "").want(200)
	grid.shows(`<img src="/pawl/v1/keys/pics/one/-/generations/1/files/one.png" width="176" height="132" loading="lazy"`, "files/d.svg", `aria-hidden="true">webp</span>`)
	grid.lacks(`<img src="/pawl/v1/keys/pics/two`)
	late := r.call("GET", "/pawl/b/held/", "").want(200)
	late.shows(`href="/pawl/k/held/late/-/history#refused">1 refused`, `<bdi class="held">test</bdi>`)

	// A form sends its empty fields too; the address that people keep has none.
	form := r.call("GET", "/pawl/?prefix=pics%2F&q=+&type=&since=&sort=&leased=true", "").want(303)
	if got := form.header.Get("Location"); got != "/pawl/b/pics/?leased=true" {
		t.Errorf("the form leads to %s", got)
	}
	// Keys are in NFC, and are found by the same words in NFD.
	r.published("menu/Caf%C3%A9/today", "f", "x")
	r.call("GET", "/pawl/?q=Cafe\u0301", "").want(200).shows(`href="/pawl/`, "/menu/Caf%C3%A9/")
	// The address of a prefix without its slash leads to it.
	for from, to := range map[string]string{
		"/b/pics": "/b/pics/", "/b/a/b%20c?q=o&view=grid": "/b/a/b%20c/?q=o&view=grid", "/b//evil.example": "", "/b/a%2Fb": "/b/a/b/", "/b/x%0A": "",
	} {
		if to == "" {
			r.call("GET", "/pawl"+from, "").want(400)
			continue
		}
		if got := r.call("GET", "/pawl"+from, "").want(301).header.Get("Location"); got != "/pawl"+to {
			t.Errorf("%s leads to %s", from, got)
		}
	}
	for query, field := range map[string]string{
		"since=soon": "since", "since=-1h": "since", "view=wall": "view", "leased=yes": "leased", "sort=colour": "sort", "after=x": "after", "limit=3": "query", "q=a&q=b": "q",
		"prefix=a//": "prefix", "q=%00": "text",
	} {
		problem := r.call("GET", "/pawl/?"+query, "").want(400).wantProblem(publish.ErrInvalidRequest)
		if fault := fmt.Sprint(problem["errors"]); !strings.Contains(fault, field) {
			t.Errorf("%s is refused with %s", query, fault)
		}
	}
}

// TestPageHostileNames shows keys, files and holders that mean something to HTML, to a shell or to the direction of a text.
func TestPageHostileNames(t *testing.T) {
	t.Parallel()
	r := newRig(t, web.Options{})
	names := append([]string{"<img src=x onerror=alert(1)>", "\"><script>alert(1)</script>", "\u05de\u05e4\u05ea\u05d7/\u05d9", "{{.Base}}", "$(reboot)`id`'", "javascript:alert(1)"}, oddNames...)
	for _, name := range names {
		escaped := strings.ReplaceAll(url.PathEscape(name), "%2F", "/")
		r.published("h/"+escaped, escaped, "x")
		for _, target := range []string{"/b/h/", "/b/h/?view=grid", "/?sort=age", "/?q=" + url.QueryEscape(name), "/k/h/" + escaped} {
			page := r.call("GET", target, "").want(200)
			for _, evil := range []string{"<img src=x", "<script>", "ZgotmplZ", "href=\"javascript:"} {
				if strings.Contains(page.body, evil) {
					t.Errorf("%s has %s: %s", target, evil, page.body)
				}
			}
		}
		r.call("GET", "/k/h/"+escaped, "").want(200).shows("<h1><bdi>h/" + name + "</bdi></h1>")
	}
}
