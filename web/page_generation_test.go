package web_test

import (
	"fmt"
	"html"
	"regexp"
	"strings"
	"testing"

	"github.com/pawlhq/pawl/publish"
	"github.com/pawlhq/pawl/web"
)

// contains checks a page's source for all that should stand in it.
func (a answer) contains(want ...string) answer {
	a.t.Helper()
	for _, text := range want {
		if !strings.Contains(a.body, text) {
			a.t.Errorf("%q is missing in %.5000s", text, a.body)
		}
	}
	return a
}

// omits checks a page's source for what must not stand in it.
func (a answer) omits(refuse ...string) answer {
	a.t.Helper()
	for _, text := range refuse {
		if strings.Contains(a.body, text) {
			a.t.Errorf("%q stands in %.5000s", text, a.body)
		}
	}
	return a
}

// followed gives the page that a link with that rel or text leads to.
func (a answer) followed(r *rig, link string) answer {
	a.t.Helper()
	found := regexp.MustCompile(`<a[^>]* href="([^"]*)"[^>]*>` + regexp.QuoteMeta(link) + `</a>|<a rel="` + regexp.QuoteMeta(link) + `" href="([^"]*)"`).FindStringSubmatch(a.body)
	if found == nil {
		a.t.Fatalf("there is no link %s in %.5000s", link, a.body)
	}
	return r.call("GET", html.UnescapeString(found[1]+found[2]), "").want(200)
}

// TestGenerationPage follows a generation through its life.
func TestGenerationPage(t *testing.T) {
	t.Parallel()
	r := newRig(t, web.Options{})
	const script = `<script>alert(1)</script>`
	got := r.call("POST", "/v1/keys/k/-/lease", `{"holder":`+jsonOf(script)+`,"labels":{"job":`+jsonOf(script)+`}}`).want(201).json()
	w := worker{rig: r, key: "k", token: 1, lease: got["lease_id"].(string)}
	const page = "/k/k/-/generations/1"
	r.call("GET", page, "").want(200).contains("nothing is published yet", "No published files", "&lt;script&gt;", ">open</span>").omits("<script>alert", "current</span>")

	w.put("b.txt", "one").want(201)
	w.put("a.txt", "two").want(201)
	r.call("GET", page, "").want(200).contains("2 uploads are complete but not published", "only their publisher can read them")
	r.call("GET", page+"?path=a.txt", "").wantProblem(publish.ErrNotFound)

	w.publish(`{"final":false,"primary":"b.txt","metadata":{"scene":"` + `<b>"}}`).want(200)
	w.put("b.txt", "three!").want(200)
	w.publish(`{"primary":"b.txt","source_revision":7,"release":true}`).want(200)
	sealed := r.call("GET", page, "").want(200).contains("sealed it: its files never change", ">current</span>", "Files of 1.2", `href="/v1/keys/k/-/generations/1.zip"`,
		`href="/v1/keys/k/-/generations/1.tar"`, "<dt>Source revision</dt><dd>7</dd>", ">1.1</a>", ">1.2</a>", `href="/v1/keys/k/-/generations/1/files/a.txt"`, "Released", "Sealed")
	sealed.followed(r, "1.1").contains("Files of 1.1", `files/b.txt?revision=1"`, "&lt;b&gt;").omits(".zip", "<b>&")
	if shown := w.shown("b.txt&revision=1"); !strings.Contains(shown, "<li>one</li>") {
		t.Errorf("the file of the first revision is %s", shown)
	}
	first := r.call("GET", page+"?path=a.txt", "").want(200).contains("<li>two</li>").omits("Previous file")
	second := first.followed(r, "Next file").contains("<li>three!</li>").omits("Next file")
	second.followed(r, "Previous file").contains("<li>two</li>")

	for target, code := range map[string]publish.Code{
		page + "?revision=3": publish.ErrNotFound, page + "?revision=0": publish.ErrInvalidRequest, page + "?path=../a": publish.ErrInvalidPath,
		page + "?x=1": publish.ErrInvalidRequest, page + "?path=none": publish.ErrNotFound, "/k/k/-/generations/9": publish.ErrNotFound, "/k/k/-/generations/x": publish.ErrInvalidToken,
	} {
		r.call("GET", target, "").wantProblem(code)
	}
}

// TestGenerationPageOfOperators shows generations that no worker had, and one that was given up.
func TestGenerationPageOfOperators(t *testing.T) {
	t.Parallel()
	r := newRig(t, web.Options{})
	r.published("k", "a.txt", "one")
	r.published("k", "a.txt", "two")
	r.call("POST", "/v1/keys/k/-/rollback", `{"to":1,"reason":"too <dark>"}`, "Pawl-By", "mia").want(200)
	r.call("GET", "/k/k/-/generations/3", "").want(200).contains("A rollback: it holds the files of an earlier version", "Brought back", `href="/k/k/-/generations/1?revision=1"`, "too &lt;dark&gt;", "<li>one</li>")
	r.call("DELETE", "/v1/keys/k?reason=over", "", "Pawl-By", "mia").want(200)
	r.call("GET", "/k/k/-/generations/4", "").want(200).contains("A retirement: it took the pointer away", "Took away", ">3.1</a>", "No published files")
	r.published("k", "a.txt", "five")
	r.call("PUT", "/v1/policies?prefix=k", `{"keep_generations":1}`, "Pawl-By", "mia").want(200)
	r.collected()
	gone := r.call("GET", "/k/k/-/generations/2", "").want(200).contains("Its files were given up").omits("<table", ".zip")
	if !strings.Contains(gone.body, "Retention has") {
		t.Errorf("it isn't said why: %s", gone.body)
	}
	r.call("GET", "/k/k/-/generations/2?path=a.txt", "").wantProblem(publish.ErrGenerationCollected)
}

// TestGenerationPageOfManyFiles walks through a set that is larger than a page.
func TestGenerationPageOfManyFiles(t *testing.T) {
	t.Parallel()
	r := newRig(t, web.Options{})
	w := r.grant("k")
	for i := range 405 {
		w.put(fmt.Sprintf("f%04d.txt", i), "x").want(201)
	}
	w.publish("").want(200)
	first := r.call("GET", "/k/k/-/generations/1", "").want(200).contains("f0000.txt", "f0199.txt").omits("f0200.txt", "First files")
	second := first.followed(r, "More files").contains("f0200.txt", "f0399.txt").omits("f0199.txt<", "f0400.txt")
	third := second.followed(r, "More files").contains("f0404.txt").omits("More files")
	third.followed(r, "First files").contains("f0000.txt")
	// The files before and behind the borders of pages are linked too.
	last := second.followed(r, "<bdi>f0399.txt</bdi>").contains("Next file")
	next := last.followed(r, "Next file").contains(`aria-label="Preview of f0400.txt"`)
	next.followed(r, "Previous file").contains(`aria-label="Preview of f0399.txt"`)
}

// collected runs a collection without grace.
func (r *rig) collected() {
	r.t.Helper()
	if _, err := r.service.Collect(r.t.Context(), publish.CollectOptions{}); err != nil {
		r.t.Fatal(err)
	}
}
