package web_test

import (
	"html"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/pawlhq/pawl/publish"
	"github.com/pawlhq/pawl/web"
)

var (
	hrefs = regexp.MustCompile(`<a[^>]* href="([^"]*)"`)
	texts = regexp.MustCompile(`<bdi>([^<]*)</bdi>`)
)

// TestPage reads the list of keys as people see it, and follows its links.
func TestPage(t *testing.T) {
	t.Parallel()
	r := newRig(t, web.Options{})
	for _, name := range oddNames {
		r.published(strings.ReplaceAll(url.PathEscape(name), "%2F", "/"), "f", "bytes of "+name)
	}
	const script = `<script>alert(1)</script>`
	r.published(url.PathEscape("x"+script)+"/"+url.PathEscape(`"onload="a`), "f", "x")
	page := r.call("GET", "/", "").want(200)
	for name, want := range map[string]string{
		"Content-Type": "text/html; charset=UTF-8", "X-Content-Type-Options": "nosniff", "Cache-Control": "no-cache",
		"Content-Security-Policy": "default-src 'none'; style-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
	} {
		if page.header.Get(name) != want {
			t.Errorf("%s is %q", name, page.header.Get(name))
		}
	}
	if strings.Contains(page.body, "<script") || strings.Contains(page.body, `"onload`) || strings.Contains(page.body, "ZgotmplZ") {
		t.Errorf("something isn't escaped: %s", page.body)
	}
	var shown []string
	for _, match := range texts.FindAllStringSubmatch(page.body, -1) {
		shown = append(shown, html.UnescapeString(match[1]))
	}
	for _, name := range oddNames {
		if !strings.Contains(name, "/") && !slices.Contains(shown, name) {
			t.Errorf("%q isn't shown; shown are %q", name, shown)
		}
	}
	followed := 0
	for _, match := range hrefs.FindAllStringSubmatch(page.body, -1) {
		target := html.UnescapeString(match[1])
		got := r.call("GET", target, "")
		if got.status == 307 {
			got = r.call("GET", got.header.Get("Location"), "")
			followed++
			if !strings.HasPrefix(got.body, "bytes of ") {
				t.Errorf("%s leads to %q", target, got.body)
			}
		}
		if got.status != 200 {
			t.Errorf("%s gives %d", target, got.status)
		}
	}
	if followed < 10 {
		t.Errorf("only %d keys link to their current file", followed)
	}
	below := r.call("GET", "/?prefix="+url.QueryEscape("x"+script[:strings.Index(script, "/")+1]), "").want(200)
	if !strings.Contains(below.body, "under <bdi>x&lt;script&gt;alert(1)&lt;/</bdi>") {
		t.Errorf("the prefix isn't shown: %s", below.body)
	}
	r.call("GET", "/?prefix=..%2F", "").wantProblem(publish.ErrInvalidRequest)
	if css := r.call("GET", "/style.css", "").want(200); css.header.Get("Content-Type") != "text/css; charset=utf-8" {
		t.Errorf("the style sheet is %v", css.header)
	}
}

func TestPageFacts(t *testing.T) {
	t.Parallel()
	r := newRig(t, web.Options{})
	if got := r.call("GET", "/", "").want(200); !strings.Contains(got.body, "Nothing is published here yet") {
		t.Errorf("an empty page is %s", got.body)
	}
	w := r.grant("set/of-two")
	w.put("a", strings.Repeat("x", 2048)).want(201)
	w.put("b", "x").want(201)
	w.publish("").want(200)
	page := r.call("GET", "/?prefix=set/", "").want(200)
	for _, want := range []string{
		"<bdi>set/of-two</bdi>", `href="/v1/keys/set/of-two/-/generations/1/files"`, `<td class="number">2</td>`, "2.0 KiB", "<bdi>test</bdi>", " s ago</time>", `datetime="20`,
		`<a href="/?prefix=set%2F"><bdi>set/</bdi></a>`,
	} {
		if !strings.Contains(page.body, want) {
			t.Errorf("%q is missing in %s", want, page.body)
		}
	}
	for i := range publish.DefaultPageSize {
		r.published("many/"+jsonOf(i+1000), "f", "x")
	}
	r.published("many/zz", "f", "x")
	first := r.call("GET", "/?prefix=many/", "").want(200)
	next := regexp.MustCompile(`rel="next" href="([^"]*)"`).FindStringSubmatch(first.body)
	if next == nil || strings.Contains(first.body, "many/zz") {
		t.Fatalf("there is no next page: %s", first.body)
	}
	if second := r.call("GET", html.UnescapeString(next[1]), "").want(200); !strings.Contains(second.body, "many/zz") || strings.Contains(second.body, `rel="next"`) {
		t.Errorf("the next page is %s", second.body)
	}
}

func TestProblemPages(t *testing.T) {
	t.Parallel()
	r := newRig(t, web.Options{})
	for _, kind := range publish.Kinds() {
		got := r.call("GET", "/problems/"+string(kind.Code), "").want(200)
		if text := html.UnescapeString(got.body); !strings.Contains(text, kind.Explanation) || !strings.Contains(text, string(kind.Code)) {
			t.Errorf("the page of %s is %s", kind.Code, got.body)
		}
	}
}
