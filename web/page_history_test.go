package web_test

import (
	"fmt"
	"html"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/pawlhq/pawl/publish"
	"github.com/pawlhq/pawl/web"
)

var tags = regexp.MustCompile(`<[^>]*>`)

// readText gives what a page says, without its tags and with single spaces.
func readText(body string) string {
	return strings.Join(strings.Fields(html.UnescapeString(tags.ReplaceAllString(body, " "))), " ")
}

// TestHistoryPage tells the story of a worker that comes back late, at an address under which people look for it.
func TestHistoryPage(t *testing.T) {
	t.Parallel()
	r := newRig(t, web.Options{BasePath: "/pawl"})
	a := r.grant("shots/010")
	a.put("f", "late").want(201)
	r.pointers.Advance(publish.MaxTTL)
	b := r.grant("shots/010")
	b.put("f", "new").want(201)
	b.publish(`{"release":true}`).want(200)
	for range publish.RetryLoopAt {
		a.publish("").wantProblem(publish.ErrStaleToken)
	}
	r.call("PUT", "/v1/keys/shots/010/-/pin", `{"reason":"<b>review</b>"}`, by, "<i>mia</i>").want(200)
	for _, target := range []string{"/k/shots/010/-/history", "/pawl/k/shots%2F010/-/history"} {
		page := r.call("GET", target, "").want(200)
		text := readText(page.body)
		for _, want := range []string{
			"History of shots/010", "after 2 ( test ) had won: its publish with 1 was refused (3 times)", "retry loop",
			"test has repeated this 3 times within", "it didn't stop at exit 80", "test took the key over with token 2: the lease of test (token 1) had ended",
			"test published 2.1: 1 file, 3 B", "1 upload of test under token 1 never became current", "<i>mia</i> pinned the key", "<b>review</b>",
		} {
			if !strings.Contains(text, want) {
				t.Errorf("%s: %q is missing in %s", target, want, text)
			}
		}
		for _, want := range []string{
			`id="refused"`, `<bdi>&lt;i&gt;mia&lt;/i&gt;</bdi>`, `href="/pawl/k/shots/010/-/generations/2?revision=1" data-row`, `href="/pawl/v1/keys/shots/010/-/generations/2"`,
			`href="/pawl/k/shots/010"`,
		} {
			if !strings.Contains(page.body, want) {
				t.Errorf("%s: %q is missing in %s", target, want, page.body)
			}
		}
		if strings.Contains(page.body, "<b>") || strings.Contains(page.body, "ZgotmplZ") || strings.Count(page.body, `id="refused"`) != 1 {
			t.Errorf("%s: something isn't escaped: %s", target, page.body)
		}
	}
	r.call("GET", "/k/none/-/history", "").wantProblem(publish.ErrNotFound)
	r.call("GET", "/k/shots/010/-/history?before=x", "").wantProblem(publish.ErrInvalidToken)
	r.call("GET", "/k/shots/010/-/history?after=1", "").wantProblem(publish.ErrInvalidRequest)
}

// A key's history is told in pages, each linked to the next, and no generation is left out or told twice. The oldest one of a page knows whom
// it took the key over from, though that is told on the next page.
func TestHistoryPages(t *testing.T) {
	t.Parallel()
	const generations = 120
	r := newRig(t, web.Options{})
	for range generations {
		r.grant("k")
		r.pointers.Advance(publish.MaxTTL)
	}
	var seen []string
	pages := 0
	for target := "/k/k/-/history"; target != ""; pages++ {
		page := r.call("GET", target, "").want(200)
		for _, match := range regexp.MustCompile(`>test</bdi>[^<]* (?:with|granted) token (\d+)`).FindAllStringSubmatch(page.body, -1) {
			seen = append(seen, match[1])
		}
		if first := strings.Contains(page.body, `rel="first" href="/k/k/-/history"`); first != (pages > 0) {
			t.Errorf("page %d links to the newest: %t", pages, first)
		}
		target = ""
		if next := regexp.MustCompile(`rel="next" href="([^"]*)"`).FindStringSubmatch(page.body); next != nil {
			target = html.UnescapeString(next[1])
		}
		if pages < 2 && strings.Contains(page.body, "was granted token") {
			t.Errorf("page %d has a grant that took over from nobody", pages)
		}
	}
	if pages != 3 || len(seen) != generations || seen[0] != "120" || seen[generations-1] != "1" {
		t.Errorf("%d pages tell of the tokens %v", pages, seen)
	}
	if before := r.call("GET", "/k/k/-/history?before=1", "").want(200); !strings.Contains(before.body, "nothing older") {
		t.Errorf("before the first one there is %s", before.body)
	}
	r.published(url.PathEscape("odd?&#"), "f", "x")
	if page := r.call("GET", "/k/odd%3F%26%23/-/history", "").want(200); !strings.Contains(page.body, `href="/k/odd%3F%26%23/-/generations/1?revision=1"`) {
		t.Errorf("the links of an odd key are wrong: %s", page.body)
	}
}

// A worker that comes back with more files than a generation lists is told as what it is: how many, and how long after the publish the first one came.
func TestHistoryOfManyRefusals(t *testing.T) {
	t.Parallel()
	r := newRig(t, web.Options{})
	a := r.grant("k")
	a.put("f", "late").want(201)
	r.pointers.Expire("k")
	b := r.grant("k")
	b.put("f", "new").want(201)
	b.publish(`{"release":true}`).want(200)
	r.pointers.Advance(3 * time.Second)
	for n := range 120 {
		a.put(fmt.Sprint("f", n), "x").wantProblem(publish.ErrStaleToken)
		r.pointers.Advance(time.Second)
	}
	text := readText(r.call("GET", "/k/k/-/history", "").want(200).body)
	for _, want := range []string{"120 stale requests were refused", "test came back 3 s after 2 ( test ) had won: its uploads of 120 files with 1 were refused"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in %s", want, text)
		}
	}
	page := r.call("GET", "/k/k/-/generations/1", "").want(200)
	page.contains(`The newest 100 of 120 are listed. <a href="/rejections?prefix=k">All</a>`)
	r.call("GET", "/k/k/-/generations/2", "").want(200).omits("are listed")
}
