package web_test

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawlhq/pawl/publish"
	"github.com/pawlhq/pawl/publish/publishtest"
	"github.com/pawlhq/pawl/web"
)

// newSignRig is a rig whose credentials are those of its store.
func newSignRig(t *testing.T, opts web.Options) *rig {
	t.Helper()
	var r *rig
	opts.Authenticate = func(ctx context.Context, secret publish.Secret) (publish.Caller, error) {
		return r.service.Authenticate(ctx, secret)
	}
	r = newRig(t, opts)
	return r
}

// make makes a credential in the store.
func (r *rig) make(name, scopes string) publish.IssuedCredential {
	r.t.Helper()
	parsed, err := publish.ParseScopes(scopes)
	if err != nil {
		r.t.Fatal(err)
	}
	made, err := r.service.CreateCredential(r.t.Context(), publish.CreateCredentialRequest{Name: name, Scopes: parsed, By: "test", Admin: publish.Everything})
	if err != nil {
		r.t.Fatal(err)
	}
	return made
}

// browser is what a browser sends with a form or a link, and the cookies that it has.
func browser(cookies ...*http.Cookie) []string {
	headers := []string{"Accept", "text/html,*/*;q=0.8", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Site", "same-origin"}
	for _, cookie := range cookies {
		headers = append(headers, "Cookie", cookie.Name+"="+cookie.Value)
	}
	return headers
}

// signIn sends the form.
func (r *rig) signIn(secret, next string, headers ...string) answer {
	r.t.Helper()
	form := url.Values{"credential": {secret}, "next": {next}}
	return r.call("POST", "/sign-in", form.Encode(), slices.Concat([]string{"Content-Type", formType}, headers)...)
}

// cookie is the one that an answer sets, nil for none.
func (a answer) cookie() *http.Cookie {
	a.t.Helper()
	cookies := (&http.Response{Header: a.header}).Cookies()
	switch len(cookies) {
	case 0:
		return nil
	case 1:
		return cookies[0]
	}
	a.t.Fatalf("more than one cookie: %v", cookies)
	return nil
}

// A session is what the credential is, for pages, the API and streams; the log and the pages have nothing of its id.
func TestSignIn(t *testing.T) {
	t.Parallel()
	r := newSignRig(t, web.Options{})
	ops, mia := r.make("ops", "admin"), r.make("mia", "operate:press/")
	r.publishedBy(bearer(ops.Secret), "press/x", "x")
	r.publishedBy(bearer(ops.Secret), "other/y", "y")

	// Who isn't signed in is led to the page, with where to go on; programs aren't.
	for target, next := range map[string]string{
		"/": "/sign-in", "/k/press/x": "/sign-in?next=%2Fk%2Fpress%2Fx", "/?q=a%26b&view=grid": "/sign-in?next=%2F%3Fq%3Da%2526b%26view%3Dgrid", "/credentials": "/sign-in?next=%2Fcredentials",
	} {
		got := r.call("GET", target, "", browser()...).want(303)
		if got.header.Get("Location") != next || got.challenges() != "" || got.header.Get("Cache-Control") != "no-store" || got.body != "" {
			t.Errorf("%s leads to %v", target, got.header)
		}
	}
	r.call("GET", "/k/press/x", "", "Accept", "text/html").want(401)
	r.call("GET", "/k/press/x", "", slices.Concat(browser(), bearer(publish.NewSecret()))...).want(401)
	r.call("GET", "/v1/keys/press/x", "", browser()...).wantProblem(publish.ErrUnauthorized)
	form := r.call("GET", "/sign-in?next=%2Fk%2Fpress%2Fx", "", browser()...).want(200)
	if !strings.Contains(form.body, `type="password"`) || !strings.Contains(form.body, `name="next" value="/k/press/x"`) || form.header.Get("Cache-Control") != "no-store" {
		t.Errorf("the form is %v %s", form.header, form.body)
	}

	got := r.signIn(" "+mia.Secret.Reveal()+"\n", "/k/press/x", browser()...).want(303)
	cookie := got.cookie()
	if got.header.Get("Location") != "/k/press/x" || cookie == nil || cookie.Name != "pawl" || cookie.Secure || !cookie.HttpOnly || cookie.SameSite != http.SameSiteLaxMode || cookie.Path != "/" ||
		cookie.Domain != "" || cookie.MaxAge != 0 || len(cookie.Value) != 52 {
		t.Fatalf("signing in leads to %v with %+v", got.header, cookie)
	}
	session := browser(cookie)
	page := r.call("GET", "/k/press/x", "", session...).want(200)
	for _, want := range []string{`<div class="account"><bdi>mia</bdi>`, `action="/sign-out"`, `action="/sign-out-everywhere"`, "You act as <bdi>mia</bdi>"} {
		if !strings.Contains(page.body, want) {
			t.Errorf("%s isn't on the page: %s", want, page.body)
		}
	}
	if strings.Contains(page.body, ">Credentials<") || page.header.Get("Cache-Control") != "no-store" {
		t.Errorf("mia's page is %v %s", page.header, page.body)
	}
	r.call("GET", "/k/other/y", "", session...).want(404)
	r.call("GET", "/credentials", "", session...).want(403)
	if list := r.call("GET", "/v1/keys", "", session...).want(200); strings.Contains(list.body, "other/y") || !strings.Contains(list.body, "press/x") {
		t.Errorf("mia's list is %s", list.body)
	}
	if pin := r.call("PUT", "/v1/keys/press/x/-/pin", `{"reason":"r"}`, session...).want(200); pin.json()["by"] != "mia" {
		t.Errorf("the pin is %s", pin.body)
	}
	// A page of another site can't use it, and Authorization goes before it.
	evil := []string{"Cookie", cookie.Name + "=" + cookie.Value, "Sec-Fetch-Site", "cross-site", "Origin", "https://evil.example"}
	r.call("DELETE", "/v1/keys/press/x/-/pin", "", evil...).wantProblem(publish.ErrForbidden)
	r.call("POST", "/k/press/x/-/unpin", "pinned=none", append(evil, "Content-Type", formType)...).wantProblem(publish.ErrForbidden)
	for _, target := range []string{"/sign-in", "/sign-out", "/sign-out-everywhere"} {
		r.call("POST", target, "", evil...).wantProblem(publish.ErrForbidden)
	}
	r.call("GET", "/v1/keys/press/x", "", append(bearer(publish.NewSecret()), session...)...).wantProblem(publish.ErrUnauthorized)

	for _, secret := range []string{cookie.Value, mia.Secret.Reveal()} {
		if strings.Contains(r.log.String(), secret) || strings.Contains(page.body, secret) {
			t.Error("a secret is in the log or on a page")
		}
	}
	if !strings.Contains(r.log.String(), `"route":"/sign-in","key":"","credential":"`+string(mia.ID)) {
		t.Error("the log doesn't say who has signed in")
	}
}

// Signing out ends the session, not only its cookie, and everywhere ends all of the same subject.
func TestSignOut(t *testing.T) {
	t.Parallel()
	r := newSignRig(t, web.Options{})
	mia, jo := r.make("mia", "read"), r.make("jo", "read")
	in := func(made publish.IssuedCredential, headers ...string) *http.Cookie {
		t.Helper()
		return r.signIn(made.Secret.Reveal(), "", headers...).want(303).cookie()
	}
	good := func(cookie *http.Cookie, want int) {
		t.Helper()
		r.call("GET", "/v1/keys", "", browser(cookie)...).want(want)
	}
	first, second, third := in(mia), in(mia), in(jo)
	for _, cookie := range []*http.Cookie{first, second, third} {
		good(cookie, 200)
	}
	out := r.call("POST", "/sign-out", "", browser(first)...).want(303)
	if gone := out.cookie(); out.header.Get("Location") != "/sign-in" || gone == nil || gone.Name != "pawl" || gone.Value != "" || gone.MaxAge >= 0 {
		t.Errorf("signing out leads to %v", out.header)
	}
	good(first, 401)
	good(second, 200)
	r.call("POST", "/sign-out", "", browser(first)...).want(303)
	r.call("POST", "/sign-out", "").want(303)

	fourth := in(mia)
	r.call("POST", "/sign-out-everywhere", "", browser(fourth)...).want(303)
	good(second, 401)
	good(fourth, 401)
	good(third, 200)
	r.call("POST", "/sign-out-everywhere", "", browser(fourth)...).want(303) // to sign in

	// Signing in ends the session that the browser had, and its id is never taken over.
	planted := &http.Cookie{Name: "pawl", Value: publish.NewSessionID().Reveal()}
	fifth := in(mia, browser(planted)...)
	if fifth.Value == planted.Value {
		t.Error("an id that the browser had was taken")
	}
	good(planted, 401)
	sixth := in(jo, browser(fifth)...)
	good(fifth, 401)
	good(sixth, 200)

	// A session ends with its credential.
	if _, err := r.service.RevokeCredential(t.Context(), jo.ID, "ops", publish.Everything); err != nil {
		t.Fatal(err)
	}
	good(sixth, 401)
	r.signIn(jo.Secret.Reveal(), "").want(401)
}

// Over TLS, and everywhere but on this machine, the cookie is one that nobody else can plant; there no other is looked at.
func TestSessionCookie(t *testing.T) {
	t.Parallel()
	r := newSignRig(t, web.Options{BasePath: "/pawl"})
	mia := r.make("mia", "read")
	for _, header := range []string{"X-Forwarded-Proto", "X-Forwarded-For", "Via"} {
		got := r.signIn(mia.Secret.Reveal(), "/k/x", header, "https").want(303)
		cookie := got.cookie()
		if got.header.Get("Location") != "/pawl/k/x" || cookie.Name != "__Host-pawl" || !cookie.Secure || !cookie.HttpOnly || cookie.Path != "/" || cookie.Domain != "" || cookie.SameSite != http.SameSiteLaxMode {
			t.Fatalf("the cookie is %+v of %v", cookie, got.header)
		}
		r.call("GET", "/v1/keys", "", "Cookie", "__Host-pawl="+cookie.Value, header, "https").want(200)
		r.call("GET", "/v1/keys", "", "Cookie", "pawl="+cookie.Value, header, "https").want(401)
		r.call("GET", "/v1/keys", "", "Cookie", "__Host-pawl="+cookie.Value).want(401)
		r.call("GET", "/v1/keys", "", "Cookie", "__Host-pawl="+cookie.Value+"; __Host-pawl="+publish.NewSessionID().Reveal(), header, "https").want(401)
		if gone := r.call("POST", "/pawl/sign-out", "", "Cookie", "__Host-pawl="+cookie.Value, header, "https").want(303).cookie(); gone.Name != "__Host-pawl" || !gone.Secure || gone.MaxAge >= 0 {
			t.Errorf("the cookie is taken away by %+v", gone)
		}
	}
	for _, test := range []struct {
		warns   bool
		headers []string
	}{{false, nil}, {true, []string{"Via", "1.1 proxy"}}, {false, []string{"X-Forwarded-Proto", "https"}}, {true, []string{"X-Forwarded-Proto", "http"}}} {
		if page := r.call("GET", "/sign-in", "", test.headers...).want(200); strings.Contains(page.body, "came without TLS") != test.warns {
			t.Errorf("with %v the page is %s", test.headers, page.body)
		}
	}
	if got := r.call("GET", "/pawl/k/x", "", browser()...).want(303); got.header.Get("Location") != "/pawl/sign-in?next=%2Fk%2Fx" {
		t.Errorf("who isn't signed in is led to %v", got.header)
	}
}

// After signing in people come to this server and nowhere else.
func TestNoOpenRedirect(t *testing.T) {
	t.Parallel()
	r := newSignRig(t, web.Options{})
	mia := r.make("mia", "read")
	for next, want := range map[string]string{
		"": "/", "/": "/", "/k/a%2Fb?x=1": "/k/a%2Fb?x=1", "/?q=//evil": "/?q=//evil",
		"//evil": "/", `/\evil`: "/", `\\evil`: "/", "https://evil": "/", "https:evil": "/", "javascript:alert(1)": "/", "evil": "/", "///evil": "/",
		"/\t/evil": "/", "/\n/evil": "/", "\t//evil": "/", " //evil": "/", "/ /evil": "/", "/\x00": "/", "/k\r\nSet-Cookie: a=b": "/", "/é": "/", "/\x7f": "/", `/a\b`: "/",
		"/../evil": "/", "/../../evil": "/", "/k/..": "/", "/./x": "/", "/%2e%2e/evil": "/", "/.%2E/evil": "/", "/%2e/x": "/", "/k/%2E.?x": "/", "/..#x": "/", "/k/..%2f..%2F%2e%2e/x": "/",
		"/k/..x/.y/z..": "/k/..x/.y/z..", "/%252e%252e/x": "/%252e%252e/x", "/?x=/../y": "/?x=/../y", "/k/...": "/k/...",
		"/" + strings.Repeat("a", 5000): "/",
	} {
		if got := r.signIn(mia.Secret.Reveal(), next).want(303); got.header.Get("Location") != want || len(got.header.Values("Set-Cookie")) != 1 {
			t.Errorf("%q leads to %q", next, got.header.Get("Location"))
		}
		if next == "" {
			continue
		}
		page := r.call("GET", "/sign-in?next="+url.QueryEscape(next), "").want(200)
		if !strings.Contains(page.body, `name="next" value="`+want+`"`) {
			t.Errorf("%q stands in the form: %s", next, page.body)
		}
	}
}

// What doesn't let anybody in says why, and five of it a minute are enough; good ones don't count.
func TestFailedSignIns(t *testing.T) {
	t.Parallel()
	r := newSignRig(t, web.Options{})
	mia := r.make("mia", "read")
	for range 20 {
		r.signIn(mia.Secret.Reveal(), "").want(303)
	}
	text := mia.Secret.Reveal()
	before := r.signIn(mia.Secret.Reveal(), "").want(303).cookie()
	for bad, why := range map[string]string{
		"": "looks like pawl_c_", "nonsense": "looks like pawl_c_", text[:len(text)-1] + "!": "looks like", text[:10] + "zz" + text[12:]: "cut on the way",
		publish.NewSecret().Reveal(): "never made, was revoked, or has expired",
	} {
		got := r.signIn(bad, "/k/x").want(401)
		if !strings.Contains(got.body, why) || !strings.Contains(got.body, `value="/k/x"`) || got.challenges() != `Bearer realm="pawl"` || got.cookie() != nil {
			t.Errorf("%q is answered with %v %s", bad, got.header, got.body)
		}
		if bad != "" && strings.Contains(got.body, bad) {
			t.Errorf("%q is repeated", bad)
		}
	}
	got := r.signIn(mia.Secret.Reveal(), "/k/x").want(429)
	wait := got.header.Get("Retry-After")
	if wait == "" || got.cookie() != nil || !strings.Contains(got.body, "Too many sign-ins from your address have failed, or are under way; try again in "+wait+" s.") || !strings.Contains(got.body, `value="/k/x"`) {
		t.Errorf("one too many is answered with %v %s", got.header, got.body)
	}
	// It holds up signing in and nothing else.
	r.call("GET", "/v1/keys", "", bearer(mia.Secret)...).want(200)
	r.call("GET", "/v1/keys", "", browser(before)...).want(200)
	r.call("POST", "/sign-in", "credential=x&credential=y", "Content-Type", formType).want(400)
	r.call("POST", "/sign-in", `{"credential":"x"}`, "Content-Type", "application/json").want(400)
}

// A database that is away is no failure of who signs in, and no end of a session.
func TestSignInWhileAway(t *testing.T) {
	t.Parallel()
	r := newSignRig(t, web.Options{})
	mia := r.make("mia", "read")
	cookie := r.signIn(mia.Secret.Reveal(), "").want(303).cookie()
	for _, operation := range []string{"FindCredential", "CreateSession", "FindSession", "EndSession"} {
		r.pointers.Faults.Add(publishtest.Fault{Operation: operation, Times: -1})
	}
	for range 8 {
		r.signIn(mia.Secret.Reveal(), "").wantProblem(publish.ErrUnavailable)
	}
	r.call("GET", "/v1/keys", "", browser(cookie)...).wantProblem(publish.ErrUnavailable)
	r.call("POST", "/sign-out", "", browser(cookie)...).want(503)
	r.pointers.Faults.Clear()
	r.call("GET", "/v1/keys", "", browser(cookie)...).want(200)
	r.signIn(mia.Secret.Reveal(), "").want(303)
}

// What is public is read without signing in, also by who was signed in once; the head of the page leads to signing in.
func TestPublicWithoutSession(t *testing.T) {
	t.Parallel()
	r := newSignRig(t, web.Options{PublicRead: publish.ReachOf("press/")})
	ops := r.make("ops", "admin")
	r.publishedBy(bearer(ops.Secret), "press/x", "x")
	ended := &http.Cookie{Name: "pawl", Value: publish.NewSessionID().Reveal()}
	for _, headers := range [][]string{browser(), browser(ended), browser(&http.Cookie{Name: "pawl", Value: "nonsense"})} {
		page := r.call("GET", "/k/press/x", "", headers...).want(200)
		if !strings.Contains(page.body, `<a href="/sign-in?next=%2Fk%2Fpress%2Fx">Sign in</a>`) || strings.Contains(page.body, ">Upload") || strings.Contains(page.body, ">Policies<") {
			t.Errorf("the page is %s", page.body)
		}
		r.call("GET", "/k/other", "", headers...).want(303)
		r.call("GET", "/v1/keys/press/x", "", headers...).want(200)
		r.call("GET", "/policies", "", headers...).want(303)
	}
}

// Streams live as long as the session: one that ends takes them along, and being open keeps none alive.
func TestStreamEndsWithSession(t *testing.T) {
	t.Parallel()
	r := newSignRig(t, web.Options{Recheck: 5 * time.Millisecond})
	r.runEvents()
	mia := r.make("mia", "read")
	first, second := r.signIn(mia.Secret.Reveal(), "").want(303).cookie(), r.signIn(mia.Secret.Reveal(), "").want(303).cookie()
	waiting := r.begin(browser(first), "GET", "/v1/events?wait=55s", "")
	looks := func() int { return r.pointers.Faults.Calls("FindSession") }
	before := looks()
	await(t, func() bool { return looks() > before+5 })
	select {
	case got := <-waiting:
		t.Fatalf("a good session ends: %s", got.body)
	default:
	}
	r.call("POST", "/sign-out-everywhere", "", browser(second)...).want(303)
	(<-waiting).wantProblem(publish.ErrUnauthorized)
	if n := r.pointers.Faults.Calls("UseSession"); n != 0 {
		t.Errorf("%d uses were noted", n)
	}
}

// A browser keeps no file that it may show without asking whether the session goes on: after signing out nothing is read from its cache.
func TestFilesAreNotKeptBeyondTheSession(t *testing.T) {
	t.Parallel()
	r := newSignRig(t, web.Options{})
	mia := r.make("mia", "publish")
	bearer := []string{"Authorization", "Bearer " + mia.Secret.Reveal()}
	w := r.publishedBy(bearer, "k", "x")
	file := w.generation() + "/files/f"
	if got := r.call("GET", file, "", bearer...).want(200).header.Get("Cache-Control"); got != "private, max-age=31536000, immutable" {
		t.Errorf("by a credential the file is kept as %q", got)
	}
	cookie := r.signIn(mia.Secret.Reveal(), "").want(303).cookie()
	shown := r.call("GET", file, "", browser(cookie)...).want(200)
	if got := shown.header.Get("Cache-Control"); got != "private, no-cache" {
		t.Errorf("by a session the file is kept as %q", got)
	}
	again := append(browser(cookie), "If-None-Match", shown.header.Get("ETag"))
	r.call("GET", file, "", again...).want(304)
	r.call("POST", "/sign-out", "", browser(cookie)...).want(303)
	r.call("GET", file, "", again...).want(401)
}
