package web_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/pawlhq/pawl/publish"
	"github.com/pawlhq/pawl/web"
)

// challenges are those of an answer.
func (a answer) challenges() string {
	return strings.Join(a.header.Values("WWW-Authenticate"), " | ")
}

// Browsers are asked for a password, programs for a credential, and those that write files for either.
func TestChallenges(t *testing.T) {
	t.Parallel()
	r, _ := newAuthRig(t, web.Options{BasePath: "/pawl"})
	const basicOne, bearerOne = `Basic realm="pawl", charset="UTF-8"`, `Bearer realm="pawl"`
	for target, want := range map[string]string{
		"/v1/keys": bearerOne, "/v1/keys/k": bearerOne, "/v1/keys/k/-/generations/1/publish": bearerOne, "/v1/keys/k/-/nothing": bearerOne, "/v1/keys//": bearerOne,
		"/v1/keys/k/-/generations/1/files/f": basicOne + " | " + bearerOne,
		"/":                                  basicOne, "/k/k": basicOne, "/pawl/k/k": basicOne, "/metrics": basicOne, "/policies": basicOne,
	} {
		got := r.call("GET", target, "")
		got.wantProblem(publish.ErrUnauthorized)
		if got.challenges() != want {
			t.Errorf("%s asks for %s, want %s", target, got.challenges(), want)
		}
	}
	// No script of a page makes the browser ask for a password, nor does a file in a page; who follows a link to a file is asked.
	const file = "/v1/keys/k/-/generations/1/files/f"
	for _, mode := range []string{"cors", "same-origin", "no-cors"} {
		for _, target := range []string{"/v1/events", file} {
			if got := r.call("GET", target, "", "Sec-Fetch-Site", "same-origin", "Sec-Fetch-Mode", mode); got.status != 401 || got.challenges() != bearerOne {
				t.Errorf("%s by a page gets %d and %s", target, got.status, got.challenges())
			}
		}
	}
	if got := r.call("GET", file, "", "Sec-Fetch-Mode", "navigate", "Accept", "text/html"); got.status != 401 || got.challenges() != basicOne+" | "+bearerOne {
		t.Errorf("who follows a link to a file gets %d and %s", got.status, got.challenges())
	}
	if got := r.call("GET", "/k/k", "", "Accept", "text/html"); got.status != 401 || !strings.Contains(got.body, "<h1>Unauthorized</h1>") {
		t.Errorf("people get %d: %s", got.status, got.body)
	}
	r.call("OPTIONS", "/v1/keys/k", "").want(204) // Browsers send no credential with it.
}

// A credential is the same by both ways, and the log has its id and nothing else of it.
func TestCredentialByBasic(t *testing.T) {
	t.Parallel()
	r, known := newAuthRig(t, web.Options{})
	caller := known.issue(t, "alice", "publish:k")
	text := strings.TrimPrefix(caller[1], "Bearer ")
	w := r.grantTo(basic("pawl", text), "k")
	w.put("f", "x", "authorization", "bearer  "+text).want(201)
	w.publish("", basic("pawl", text)...).want(200)
	if got := r.call("GET", w.generation()+"/files/f", "", basic("pawl", text)...).want(200); got.body != "x" {
		t.Errorf("it reads %q", got.body)
	}
	id := string(known.callers[secretOf(t, text)].Credential)
	if log := r.log.String(); strings.Contains(log, text) || !strings.Contains(log, `"credential":"`+id+`"`) {
		t.Errorf("the log is %s", log)
	}
}

func secretOf(t *testing.T, text string) publish.Secret {
	t.Helper()
	secret, err := publish.ParseSecret(text)
	if err != nil {
		t.Fatal(err)
	}
	return secret
}

// A name that is refused is refused to who has a good credential; others aren't told.
func TestAuthenticationComesFirst(t *testing.T) {
	t.Parallel()
	r, known := newAuthRig(t, web.Options{})
	caller := known.issue(t, "alice", "admin:k/")
	for _, target := range []string{"/v1/keys/a//b", "/v1/keys/k/-/generations/0", "/v1/keys/k/x/-/generations/1/files/..", "/k/a%2F..%2Fb"} {
		r.call("GET", target, "").wantProblem(publish.ErrUnauthorized)
		if got := r.with(caller, "GET", target, ""); got.status != 400 {
			t.Errorf("%s is answered with %d: %s", target, got.status, got.body)
		}
	}
	for _, target := range []string{"/v1/keys/k/x/-/nothing", "/v1/keys/elsewhere/-/nothing"} {
		r.call("GET", target, "").wantProblem(publish.ErrUnauthorized)
		r.with(caller, "GET", target, "").wantProblem(publish.ErrNotFound)
		r.with(caller, "BREW", "/v1/keys/elsewhere", "").wantProblem(publish.ErrMethodNotAllowed)
	}
}

// Who can't be asked says neither yes nor no.
func TestNobodyToAsk(t *testing.T) {
	t.Parallel()
	r, known := newAuthRig(t, web.Options{})
	caller := known.issue(t, "alice", "admin")
	known.goAway(true)
	got := r.with(caller, "GET", "/v1/keys/k", "")
	got.wantProblem(publish.ErrUnavailable)
	if got.challenges() != "" || strings.Contains(got.body, "pawl_c_") {
		t.Errorf("the answer is %v %s", got.header, got.body)
	}
	r.call("GET", "/v1/keys/k", "").wantProblem(publish.ErrUnauthorized)
	r.call("GET", "/livez", "").want(200)
}

// What is public is read by everybody, and by nobody else's leave changed. What isn't is kept by no cache that several share.
func TestPublicRead(t *testing.T) {
	t.Parallel()
	r, known := newAuthRig(t, web.Options{PublicRead: publish.ReachOf("open/")})
	admin := known.issue(t, "root", "admin")
	open, closed := r.publishedBy(admin, "open/k", "public bytes"), r.publishedBy(admin, "closed/k", "private bytes")
	other := known.issue(t, "other", "read:elsewhere/")
	const forever = "max-age=31536000, immutable"
	for _, caller := range [][]string{nil, other, admin} {
		for _, target := range []string{"/v1/keys/open/k", "/v1/keys/open/k/-/lease", "/k/open/k", open.generation() + ".zip"} {
			r.with(caller, "GET", target, "").want(200)
		}
		if got := r.with(caller, "GET", open.generation()+"/files/f", "").want(200); got.header.Get("Cache-Control") != "public, "+forever {
			t.Errorf("a public file is kept by %q", got.header.Get("Cache-Control"))
		}
	}
	for _, target := range []string{closed.generation() + "/files/f", closed.generation() + ".tar"} {
		if got := r.with(admin, "GET", target, "").want(200); got.header.Get("Cache-Control") != "private, "+forever {
			t.Errorf("a private file is kept by %q", got.header.Get("Cache-Control"))
		}
	}
	for _, target := range []string{"/v1/keys/closed/k", "/v1/keys/openly", "/k/closed/k", closed.generation() + "/files/f", "/metrics", "/v1/policies", "/v1/audit", "/policies"} {
		r.call("GET", target, "").wantProblem(publish.ErrUnauthorized)
	}
	for _, target := range []string{"/v1/keys", "/v1/events", "/", "/leases"} {
		r.call("GET", target, "").want(200)
	}
	r.call("POST", "/v1/keys/open/k/-/lease", `{"holder":"h"}`).wantProblem(publish.ErrUnauthorized)
	r.call("POST", "/v1/keys/open/k/-/rollback", `{"to":1,"reason":"r"}`).wantProblem(publish.ErrUnauthorized)
	// An admin of some keys may: nobody is to believe that it takes one of all.
	if got := r.with(other, "GET", "/v1/audit", "").wantProblem(publish.ErrForbidden); !strings.Contains(fmt.Sprint(got["detail"]), "the verb admin, on all keys or on some") {
		t.Errorf("the audit says %v", got["detail"])
	}
	if got := r.with(other, "POST", "/v1/keys/open/k/-/lease", `{"holder":"h"}`).wantProblem(publish.ErrForbidden); got["scope"] != "publish:open/k" {
		t.Errorf("the scope is %v", got["scope"])
	}
	// A bad credential is no better than none, and worse than nothing.
	known.revoke("other")
	r.with(other, "GET", "/v1/keys/open/k", "").wantProblem(publish.ErrUnauthorized)
}

// Without authentication nothing of it shows.
func TestNobodyIsAsked(t *testing.T) {
	t.Parallel()
	r := newRig(t, web.Options{PublicRead: publish.ReachOf("open/")})
	w := r.published("closed/k", "f", "x", "Authorization", "Bearer "+publish.NewSecret().Reveal())
	if got := r.call("GET", w.generation()+"/files/f", "").want(200); !strings.HasPrefix(got.header.Get("Cache-Control"), "public, ") {
		t.Errorf("it is kept by %q", got.header.Get("Cache-Control"))
	}
	r.call("GET", "/metrics", "").want(200)
}

// A route that doesn't say what it needs, or says it of a key that it doesn't have, can't be built.
func TestRoutesSayWhatTheyNeed(t *testing.T) {
	t.Parallel()
	for pattern, want := range map[string]string{"/x": "nothing anywhere", "/v1/keys/{key}/-/x": "key", "/k/{key}": "key"} {
		for _, what := range []string{"nothing", "key", "anywhere", ""} {
			if built := web.Builds(pattern, what); built != (what != "" && strings.Contains(want, what)) {
				t.Errorf("%s with %q is built: %t", pattern, what, built)
			}
		}
	}
}

// Some requests need more than their route does.
func TestMoreThanTheRouteNeeds(t *testing.T) {
	t.Parallel()
	r, known := newAuthRig(t, web.Options{})
	admin := known.issue(t, "root", "admin")
	r.grantTo(admin, "a/k")
	worker := known.issue(t, "worker", "publish:a/")
	r.with(worker, "DELETE", "/v1/keys/a/k/-/lease?break=true&token=1&reason=r", "").wantProblem(publish.ErrForbidden)
	r.with(known.issue(t, "o", "operate:a/"), "DELETE", "/v1/keys/a/k/-/lease?break=true&token=1&reason=r", "").want(200)

	// The key of an upload by the form stands in the form.
	body, kind := uploadBody(t, "key=b/k", "f:x")
	if got := r.with(worker, "POST", "/upload", body, "Content-Type", kind); got.status != 404 {
		t.Errorf("an upload to a key out of reach is answered with %d: %s", got.status, got.body)
	}
	body, kind = uploadBody(t, "key=a/new", "f:x")
	r.with(worker, "POST", "/upload", body, "Content-Type", kind).want(303)
	r.with(admin, "GET", "/v1/keys/b/k/-/lease", "").wantProblem(publish.ErrNotFound)

	// A policy is for all keys under its prefix, so its setter must be the admin of all of them.
	chief := known.issue(t, "chief", "admin:a/")
	for _, prefix := range []string{"", "b", "a", "ab", "a.x"} {
		got := r.with(chief, "PUT", "/v1/policies?prefix="+prefix, `{"fence_mode":"granted"}`)
		want := "admin:" + prefix
		if prefix == "" {
			want = "admin"
		}
		if members := got.wantProblem(publish.ErrForbidden); members["scope"] != want {
			t.Errorf("the policy of %q takes %v, want %s", prefix, members["scope"], want)
		}
		r.with(chief, "DELETE", "/v1/policies?prefix="+prefix, "").wantProblem(publish.ErrForbidden)
		r.with(chief, "POST", "/policies", "fence_mode=granted&prefix="+prefix, "Content-Type", formType).want(403)
	}
	r.with(chief, "PUT", "/v1/policies?prefix=a/b", `{"fence_mode":"granted"}`).want(200)
	if got := r.with(admin, "GET", "/v1/policies", "").want(200); strings.Count(got.body, `"prefix"`) != 1 {
		t.Errorf("the policies are %s", got.body)
	}
}

// A page of another site can't use what a browser sends by itself.
func TestCrossSiteRequestsWithBasic(t *testing.T) {
	t.Parallel()
	r, known := newAuthRig(t, web.Options{})
	text := strings.TrimPrefix(known.issue(t, "root", "admin")[1], "Bearer ")
	r.publishedBy(basic("pawl", text), "k", "x")
	for _, foreign := range [][]string{{"Sec-Fetch-Site", "cross-site"}, {"Sec-Fetch-Site", "same-site"}, {"Origin", "https://evil.example"}} {
		for _, target := range []string{"POST /v1/keys/k/-/lease", "DELETE /v1/keys/k", "PUT /v1/keys/k/-/pin", "POST /k/k/-/retire", "POST /policies"} {
			method, path, _ := strings.Cut(target, " ")
			headers := append(basic("pawl", text), foreign...)
			if got := r.call(method, path, `{"holder":"h","reason":"r"}`, headers...); got.status != http.StatusForbidden {
				t.Errorf("%s from %v: %d %s", target, foreign, got.status, got.body)
			}
		}
	}
	if got := r.call("GET", "/v1/keys/k/-/generations", "", basic("pawl", text)...).want(200).json()["generations"]; len(got.([]any)) != 1 {
		t.Errorf("there are %s", fmt.Sprint(got))
	}
}
