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
	texts = regexp.MustCompile(`<bdi[^>]*>([^<]*)</bdi>`)
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
		"Cross-Origin-Opener-Policy": "same-origin", "Cross-Origin-Resource-Policy": "same-origin", "Referrer-Policy": "no-referrer",
		"Permissions-Policy": "camera=(), display-capture=(), geolocation=(), microphone=(), midi=(), payment=(), publickey-credentials-get=(), usb=()",
	} {
		if page.header.Get(name) != want {
			t.Errorf("%s is %q", name, page.header.Get(name))
		}
	}
	if strings.Contains(page.body, "<script>") || strings.Contains(page.body, `"onload`) || strings.Contains(page.body, "ZgotmplZ") {
		t.Errorf("something isn't escaped: %s", page.body)
	}
	var shown []string
	for _, match := range texts.FindAllStringSubmatch(strings.ReplaceAll(page.body, "<wbr>", ""), -1) {
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
	if !strings.Contains(below.body, "under <bdi>x&lt;script&gt;alert(1)&lt;/<wbr></bdi>") {
		t.Errorf("the prefix isn't shown: %s", below.body)
	}
	r.call("GET", "/?prefix=..%2F", "").wantProblem(publish.ErrInvalidRequest)
	if css := r.call("GET", "/static/style.css", "").want(200); css.header.Get("Content-Type") != "text/css; charset=utf-8" {
		t.Errorf("the style sheet is %v", css.header)
	}
}

// TestErrorPage asks for what isn't there as a browser does.
func TestErrorPage(t *testing.T) {
	t.Parallel()
	r := newRig(t, web.Options{BasePath: "/pawl"})
	for target, status := range map[string]int{"/pawl/nowhere": 404, "/pawl/b/x//": 400, "/pawl/k/a//b": 400, "/pawl/static/none.js": 404} {
		got := r.call("GET", target, "", "Accept", "text/html,*/*;q=0.8").want(status)
		id := got.header.Get("X-Request-Id")
		if got.header.Get("Content-Type") != "text/html; charset=UTF-8" || id == "" || !strings.Contains(got.body, id) || !strings.Contains(got.body, `href="/pawl/problems/`) {
			t.Errorf("%s shows %v %s", target, got.header, got.body)
		}
		if problem := r.call("GET", target, "").want(status); problem.header.Get("Content-Type") != "application/problem+json" {
			t.Errorf("%s tells programs %v", target, problem.header)
		}
	}
	if got := r.call("GET", "/pawl/v1/keys/none", "", "Accept", "text/html").want(404); got.header.Get("Content-Type") != "application/problem+json" {
		t.Errorf("the API answers with a page: %v", got.header)
	}
}

// TestAssets reads the pages' own files, under the address of their version and without it.
func TestAssets(t *testing.T) {
	t.Parallel()
	r := newRig(t, web.Options{})
	page := r.call("GET", "/", "").want(200)
	address := regexp.MustCompile(`/static/style\.css\?v=[0-9a-f]+`).FindString(page.body)
	if got := r.call("GET", address, "").want(200); !strings.Contains(got.header.Get("Cache-Control"), "immutable") {
		t.Errorf("%s: %v", address, got.header)
	}
	got := r.call("GET", "/static/style.css?v=0", "").want(200)
	if got.header.Get("Cache-Control") != "no-cache" {
		t.Errorf("another version: %v", got.header)
	}
	r.call("GET", "/static/style.css", "", "If-None-Match", got.header.Get("ETag")).want(304)
	r.call("GET", "/static/..%2Fframe.html", "").want(404)
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
