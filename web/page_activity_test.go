package web_test

import (
	"html"
	"regexp"
	"strings"
	"testing"

	"github.com/pawlhq/pawl/publish"
	"github.com/pawlhq/pawl/web"
)

// TestActivityPage reads what happened, by all kinds of events, and what people chose stays text.
func TestActivityPage(t *testing.T) {
	t.Parallel()
	r := newRig(t, web.Options{BasePath: "/pawl"})
	if page := r.call("GET", "/activity", "").want(200); !strings.Contains(page.body, "pawl watch") {
		t.Errorf("without an event the page is %s", page.body)
	}
	a := r.grant("shots/010")
	r.pointers.Advance(publish.MaxTTL)
	b := r.grant("shots/010")
	b.put("f", "new").want(201)
	b.publish(`{"release":true}`).want(200)
	a.publish("").wantProblem(publish.ErrStaleToken)
	r.call("PUT", "/v1/keys/shots/010/-/pin", `{"reason":"<b>review</b>"}`, by, "<i>mia</i>").want(200)
	r.call("DELETE", "/v1/keys/shots/010/-/pin", "", by, "ola").want(204)
	r.call("POST", "/v1/keys/shots/010/-/rollback", `{"to":2,"reason":"try"}`, by, "ola").want(200)
	r.call("DELETE", "/v1/keys/shots/010?reason=cut", "", by, "ola").want(200)
	r.published("other/k", "f", "x")
	r.number()
	page := r.call("GET", "/pawl/activity?prefix=shots/", "").want(200)
	text := readText(page.body)
	position := len(text)
	for _, want := range []string{ // oldest first, and each stands before the one that was older
		"test took the key over with token 2: the lease of test (token 1) had ended", "test published 2.1: 1 file, 3 B",
		"after 2 ( test ) had won: its publish with 1 was refused", "<i>mia</i> pinned the key to 2.1. <b>review</b>", "ola unpinned the key",
		"ola brought 2.1 back as 3.1. try", "ola retired the key under token 4: 3.1 was current until then. cut",
	} {
		at := strings.Index(text, want)
		if at < 0 || at > position {
			t.Errorf("%q is missing or stands at the wrong place in %s", want, text)
		}
		position = at
	}
	for _, want := range []string{
		`href="/pawl/k/shots/010"`, `href="/pawl/k/shots/010/-/history" data-row`, `href="/pawl/k/shots/010/-/generations/2?revision=1"`, `href="/pawl/v1/events?before=newest&amp;prefix=shots%2F"`,
		`href="/pawl/v1/events?before=newest&amp;format=csv&amp;prefix=shots%2F"`,
		`data-stream="/pawl/v1/events?prefix=shots%2F"`, `data-cursor="0-8"`, `src="/pawl/static/live.js?v=`,
	} {
		if !strings.Contains(page.body, want) {
			t.Errorf("%q is missing in %s", want, page.body)
		}
	}
	if strings.Contains(text, "other/k") || strings.Contains(page.body, "<b>") || strings.Contains(page.body, "<i>") {
		t.Errorf("the page shows what it shouldn't: %s", page.body)
	}
	for target, code := range map[string]publish.Code{"?before=1": publish.ErrInvalidRequest, "?prefix=..%2F": publish.ErrInvalidRequest, "?x=1": publish.ErrInvalidRequest} {
		r.call("GET", "/activity"+target, "").wantProblem(code)
	}
}

// Activity goes on in pages that neither leave out nor repeat an event, and keep their prefix.
func TestActivityPages(t *testing.T) {
	t.Parallel()
	const published = 120
	r := newRig(t, web.Options{})
	for n := range published {
		r.published("many/"+jsonOf(1000+n), "f", "x")
	}
	r.number()
	var seen []string
	pages := 0
	for target := "/activity?prefix=many/"; target != "" && pages < 9; pages++ {
		page := r.call("GET", target, "").want(200)
		for _, match := range regexp.MustCompile(`"><bdi>many/(?:<wbr>)?(\d+)</bdi>`).FindAllStringSubmatch(page.body, -1) {
			seen = append(seen, match[1])
		}
		target = ""
		if next := regexp.MustCompile(`rel="next" href="([^"]*)"`).FindStringSubmatch(page.body); next != nil {
			target = html.UnescapeString(next[1])
		}
		if first := strings.Contains(page.body, `rel="first" href="/activity?prefix=many%2F"`); first != (pages > 0) {
			t.Errorf("page %d links to the first: %t", pages, first)
		}
	}
	if pages != 3 || len(seen) != published || seen[0] != "1119" || seen[published-1] != "1000" {
		t.Errorf("%d pages tell of %v", pages, seen)
	}
}
