package web_test

import (
	"fmt"
	"html"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/pawlhq/pawl/publish"
	"github.com/pawlhq/pawl/web"
)

var nextLink = regexp.MustCompile(`rel="next" href="([^"]*)"`)

// TestRejectionsPage reads the refused requests of several keys: who came back, which of them is a retry loop, and where to look closer.
func TestRejectionsPage(t *testing.T) {
	t.Parallel()
	r := newRig(t, web.Options{BasePath: "/pawl"})
	if page := r.call("GET", "/rejections?prefix=", "").want(200); !strings.Contains(page.body, "nobody came back late") {
		t.Errorf("without a rejection the page is %s", page.body)
	}
	for n, key := range []string{"other/3", "shots/1", "shots/2"} {
		stale := r.grant(key)
		r.pointers.Advance(publish.MaxTTL)
		r.published(key, "f", "x")
		for range 1 + n*publish.RetryLoopAt { // That of shots/1 is long over when shots/2 loops.
			stale.put("<b>.png", "late").wantProblem(publish.ErrStaleToken)
		}
	}
	page := r.call("GET", "/pawl/rejections?prefix=shots/", "").want(200)
	rows := strings.Split(page.body, "<tr>")[2:]
	if len(rows) != 2 {
		t.Fatalf("%d rows: %s", len(rows), page.body)
	}
	for n, want := range []struct {
		link, said string
		loop       bool
	}{
		{`href="/pawl/k/shots/2/-/history#refused"`, "its upload of <b>.png with 1 was refused (7 times)", true},
		{`href="/pawl/k/shots/1/-/history#refused"`, "its upload of <b>.png with 1 was refused (4 times)", false},
	} {
		text := readText(rows[n])
		if !strings.Contains(rows[n], want.link) || !strings.Contains(text, want.said) || strings.Contains(text, "retry loop") != want.loop ||
			strings.Contains(text, "doesn't stop at exit 80") != want.loop {
			t.Errorf("row %d is %s, want %+v", n, rows[n], want)
		}
	}
	for _, want := range []string{
		`href="/pawl/v1/rejections?prefix=shots%2F"`, `href="/pawl/v1/rejections?format=csv&amp;prefix=shots%2F"`, `<form class="toolbar" method="get" action="/pawl/rejections">`,
	} {
		if !strings.Contains(page.body, want) {
			t.Errorf("%q is missing in %s", want, page.body)
		}
	}
	for _, export := range regexp.MustCompile(`href="([^"]*)">As `).FindAllStringSubmatch(page.body, -1) {
		if got := r.call("GET", html.UnescapeString(export[1]), "").want(200); !strings.Contains(got.body, "shots/2") || strings.Contains(got.body, "other/3") {
			t.Errorf("the export %s is %s", export[1], got.body)
		}
	}
	if strings.Contains(page.body, "<b>.png") {
		t.Errorf("something isn't escaped: %s", page.body)
	}
	for _, target := range []string{"?after=x", "?prefix=..%2F", "?before=1", "?after=x&after=y"} {
		r.call("GET", "/rejections"+target, "").wantProblem(publish.ErrInvalidRequest)
	}
}

// TestLeasesPage reads who holds keys: leases that run, with their end for the countdown, and those that ran out without anybody taking over.
// Lease ids are nowhere.
func TestLeasesPage(t *testing.T) {
	t.Parallel()
	r := newRig(t, web.Options{})
	if page := r.call("GET", "/leases", "").want(200); !strings.Contains(page.body, "Nobody holds a key") || !strings.Contains(page.body, "pawl run --key") {
		t.Errorf("without a lease the page is %s", page.body)
	}
	dead := r.grant("shots/dead")
	r.published("shots/done", "f", "x")
	r.pointers.Advance(time.Hour)
	body := r.call("POST", "/v1/keys/shots/live/-/lease", `{"holder":"<b>","labels":{"job":"<i>7</i>"}}`).want(201).json()
	page := r.call("GET", "/leases?prefix=shots/", "").want(200)
	for _, secret := range []string{dead.lease, fmt.Sprint(body["lease_id"])} {
		if strings.Contains(page.body, secret) {
			t.Error("the page shows a lease id")
		}
	}
	rows := strings.Split(page.body, "<tr>")[2:]
	if len(rows) != 2 || !strings.Contains(rows[0], `href="/k/shots/live"`) || !strings.Contains(rows[0], "ends <time data-until") || !strings.Contains(rows[0], "<bdi>&lt;b&gt;</bdi>") ||
		!strings.Contains(rows[0], "<bdi>&lt;i&gt;7&lt;/i&gt;</bdi>") || !strings.Contains(rows[1], `href="/k/shots/dead"`) || !strings.Contains(rows[1], "nobody has taken over") {
		t.Errorf("the rows are %q", rows)
	}
	if !strings.Contains(page.body, `href="/v1/leases?expired=true&amp;format=csv&amp;prefix=shots%2F"`) {
		t.Errorf("the export is missing in %s", page.body)
	}
	running := r.call("GET", "/leases?prefix=shots/&running=true", "").want(200)
	if strings.Contains(running.body, "shots/dead") || !strings.Contains(running.body, `value="true" checked`) || !strings.Contains(running.body, `href="/v1/leases?prefix=shots%2F"`) {
		t.Errorf("the leases that run are %s", running.body)
	}
	for _, target := range []string{"?after=x", "?running=1", "?expired=true"} {
		r.call("GET", "/leases"+target, "").wantProblem(publish.ErrInvalidRequest)
	}
}

// Both feeds go on in pages that neither leave out nor repeat a row, and that keep their filters.
func TestFeedPages(t *testing.T) {
	t.Parallel()
	const keys = 120
	r := newRig(t, web.Options{})
	for n := range keys {
		key := "many/" + jsonOf(1000+n)
		stale := r.grant(key)
		r.pointers.Advance(publish.MaxTTL)
		r.published(key, "f", "x")
		stale.put("f", "late").wantProblem(publish.ErrStaleToken)
		r.grant(key)
	}
	for feed, query := range map[string]string{"rejections": "prefix=many%2F", "leases": "prefix=many%2F&running=false"} {
		var seen []string
		pages := 0
		for target := "/" + feed + "?" + query; target != "" && pages < 9; pages++ {
			page := r.call("GET", target, "").want(200)
			for _, match := range regexp.MustCompile(`data-row><bdi>many/<wbr>(\d+)</bdi>`).FindAllStringSubmatch(page.body, -1) {
				seen = append(seen, match[1])
			}
			if first := strings.Contains(page.body, `rel="first" href="/`+feed+"?"+html.EscapeString(query)+`"`); first != (pages > 0) {
				t.Errorf("page %d of %s links to the first: %t", pages, feed, first)
			}
			target = ""
			if next := nextLink.FindStringSubmatch(page.body); next != nil {
				target = html.UnescapeString(next[1])
			}
		}
		if pages != 3 || len(seen) != keys || seen[0] != "1119" || seen[keys-1] != "1000" {
			t.Errorf("%d pages of %s tell of %v", pages, feed, seen)
		}
	}
}
