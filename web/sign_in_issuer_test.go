package web_test

import (
	"html"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawlhq/pawl/publish"
	"github.com/pawlhq/pawl/publish/publishtest"
	"github.com/pawlhq/pawl/web"
)

// People sign in by an issuer as with a credential: what they may do is what the rules say. The log and the pages have no code, no secret of the attempt, and no token.
func TestSignInByIssuer(t *testing.T) {
	t.Parallel()
	r := newIssuerRig(t)
	ops := r.make("ops", "admin")
	r.publishedBy(bearer(ops.Secret), "press/x", "x")
	r.publishedBy(bearer(ops.Secret), "other/y", "y")
	form := r.call("GET", "/pawl/sign-in?next=%2Fk%2Fpress%2Fx", "", browser()...).want(200)
	for _, want := range []string{`action="/pawl/sign-in/issuer"`, `value="` + r.issuers[0].URL + `"`, "Sign in with <bdi>Acme</bdi>", `name="next" value="/k/press/x"`, `name="credential"`} {
		if !strings.Contains(form.body, want) {
			t.Errorf("%s isn't on the page: %s", want, form.body)
		}
	}
	begun := r.begin(r.issuers[0].URL, "/k/press/x?a=b", browser()...)
	if c := begun.cookie; !strings.HasPrefix(c.Name, "pawl-sign-in-") || c.Secure || !c.HttpOnly || c.SameSite != http.SameSiteLaxMode || c.Path != "/" || c.Domain != "" || c.MaxAge != 600 {
		t.Errorf("the attempt is kept in %+v", c)
	}
	back := r.agree(begun)
	r.call("HEAD", back, "", browser(begun.cookie)...).want(400) // spends nothing
	got := r.call("GET", back, "", browser(begun.cookie)...).want(303)
	session := got.signedIn()
	if got.header.Get("Location") != "/pawl/k/press/x?a=b" || session == nil || session.Name != "pawl" || !session.HttpOnly || session.SameSite != http.SameSiteLaxMode {
		t.Fatalf("signing in leads to %v", got.header)
	}
	if !slices.ContainsFunc(got.cookies(), func(c *http.Cookie) bool { return c.Name == begun.cookie.Name && c.MaxAge < 0 }) {
		t.Errorf("the attempt isn't taken away: %v", got.header)
	}
	if log := r.log.String(); !regexp.MustCompile(`"signed_in","name":"acme mia@acme.example","credential":"oidc-[0-9a-f]{32}","issuer":"`+regexp.QuoteMeta(r.issuers[0].URL)).MatchString(log) || strings.Count(log, "signed_in") != 1 {
		t.Errorf("the log doesn't say who has signed in:\n%s", log)
	}
	page := r.call("GET", "/k/press/x", "", browser(session)...).want(200)
	if !strings.Contains(page.body, `<bdi>acme mia@acme.example</bdi>`) || !strings.Contains(page.body, `action="/pawl/sign-out-everywhere"`) {
		t.Errorf("the page is %s", page.body)
	}
	r.call("GET", "/k/other/y", "", browser(session)...).want(404)
	if pin := r.call("PUT", "/v1/keys/press/x/-/pin", `{"reason":"r"}`, browser(session)...).want(200); pin.json()["by"] != "acme mia@acme.example" {
		t.Errorf("the pin is %s", pin.body)
	}
	r.call("POST", "/sign-out", "", browser(session)...).want(303)
	r.call("GET", "/v1/keys", "", browser(session)...).want(401)

	// The same answer again, with or without the cookie, as by the button back.
	r.refuses(401, "was used already", back, browser(begun.cookie)...)
	r.refuses(400, "at https://pawl.example/pawl/sign-in.", back, browser()...)
	to, _ := url.Parse(begun.to)
	callback, _ := url.Parse(back)
	for _, secret := range []string{callback.Query().Get("code"), to.Query().Get("state"), to.Query().Get("nonce"), begun.cookie.Value, session.Value, "eyJ"} {
		if secret == "" || strings.Contains(r.log.String(), secret) || strings.Contains(page.body, secret) {
			t.Errorf("%q is in the log or on a page", secret)
		}
	}
	if !strings.Contains(r.log.String(), `"route":"/sign-in/callback","key":"","credential":"oidc-`) {
		t.Error("the log doesn't say who has signed in")
	}
}

// An answer counts in the browser alone that has begun, and once: a stranger can't sign others in as himself, and can't use what he has seen of another's answer.
func TestSignInBelongsToItsBrowser(t *testing.T) {
	t.Parallel()
	r := newIssuerRig(t)
	begun, other := r.begin(r.issuers[0].URL, "/"), r.begin(r.issuers[0].URL, "/")
	const says = "belongs to no sign-in that is under way in this browser"
	back, others := r.agree(begun), r.agree(other)
	twice := append(browser(begun.cookie), "Cookie", begun.cookie.Name+"="+other.cookie.Value)
	alike := valueOf(back, "state")[:25] + "2"
	if alike == valueOf(back, "state") {
		alike = alike[:25] + "3"
	}
	for name, test := range map[string]struct {
		address string
		headers []string
	}{
		"no cookie":            {back, browser()},
		"another's cookie":     {back, browser(other.cookie)},
		"another's value":      {back, browser(&http.Cookie{Name: begun.cookie.Name, Value: other.cookie.Value})},
		"no value":             {back, browser(&http.Cookie{Name: begun.cookie.Name, Value: ""})},
		"nonsense":             {back, browser(&http.Cookie{Name: begun.cookie.Name, Value: "bm9uc2Vuc2U"})},
		"two cookies":          {back, twice},
		"no state":             {changed(back, "state", ""), browser(begun.cookie)},
		"another state":        {others, browser(begun.cookie)},
		"a state like it":      {changed(back, "state", alike), browser(begun.cookie)},
		"a state that is long": {changed(back, "state", valueOf(back, "state")+"2"), browser(begun.cookie)},
		"two states":           {back + "&state=" + valueOf(back, "state"), browser(begun.cookie)},
		"no state's form":      {changed(back, "state", "x"), browser(begun.cookie)},
		"nothing":              {"/sign-in/callback", browser(begun.cookie)},
		"an error of nobody":   {"/sign-in/callback?error=access_denied&error_description=call+a+stranger", browser()},
	} {
		got := r.refuses(400, says, test.address, test.headers...)
		if strings.Contains(got.body, "call a stranger") {
			t.Errorf("%s: a stranger's words are shown: %s", name, got.body)
		}
	}
	// None of that has spent the code, nor counted as a failure.
	r.call("GET", back, "", browser(begun.cookie)...).want(303)
	// Over TLS the cookie is one that nobody else can plant, and no other is looked at.
	tls := []string{"X-Forwarded-Proto", "https"}
	sealed := r.begin(r.issuers[0].URL, "/", tls...)
	if !strings.HasPrefix(sealed.cookie.Name, "__Host-pawl-sign-in-") || !sealed.cookie.Secure || sealed.cookie.Domain != "" {
		t.Errorf("the attempt is kept in %+v", sealed.cookie)
	}
	back = r.agree(sealed)
	r.refuses(400, says, back, append(browser(&http.Cookie{Name: strings.TrimPrefix(sealed.cookie.Name, "__Host-"), Value: sealed.cookie.Value}), tls...)...)
	if got := r.call("GET", back, "", append(browser(sealed.cookie), tls...)...).want(303); got.signedIn().Name != "__Host-pawl" || !got.signedIn().Secure {
		t.Errorf("the session is %v", got.header)
	}
}

// Several tabs, and several replicas: each attempt ends where it likes, and the browser has one session.
func TestSignInInTabsAndReplicas(t *testing.T) {
	t.Parallel()
	r := newIssuerRig(t)
	replica := r.replica()
	first, second := r.begin(r.issuers[0].URL, "/k/a"), replica.begin(r.issuers[0].URL, "/k/b")
	both := []*http.Cookie{first.cookie, second.cookie}
	got := replica.call("GET", r.agree(first), "", browser(both...)...).want(303)
	one := got.signedIn()
	if got.header.Get("Location") != "/pawl/k/a" || one == nil {
		t.Fatalf("the first leads to %v", got.header)
	}
	got = r.call("GET", r.agree(second), "", browser(second.cookie, one)...).want(303)
	two := got.signedIn()
	if got.header.Get("Location") != "/pawl/k/b" || two == nil || two.Value == one.Value {
		t.Fatalf("the second leads to %v", got.header)
	}
	// The session before ends, and an id that the browser had is never taken over (session fixation).
	replica.call("GET", "/v1/keys", "", browser(two)...).want(200)
	r.call("GET", "/v1/keys", "", browser(one)...).want(401)
	planted := &http.Cookie{Name: "pawl", Value: publish.NewSessionID().Reveal()}
	third := r.begin(r.issuers[0].URL, "/", browser(planted)...)
	if in := r.call("GET", r.agree(third), "", browser(third.cookie, planted)...).want(303).signedIn(); in.Value == planted.Value {
		t.Error("a planted id was taken")
	}
	r.call("GET", "/v1/keys", "", browser(planted)...).want(401)

	// A browser that begins again and again doesn't carry ever more.
	var kept []*http.Cookie
	for range 4 {
		kept = append(kept, r.begin(r.issuers[0].URL, "/", browser(kept...)...).cookie)
	}
	dropped := 0
	form := url.Values{"issuer": {r.issuers[0].URL}}
	for _, cookie := range r.call("POST", "/sign-in/issuer", form.Encode(), append(browser(kept...), "Content-Type", formType)...).want(200).cookies() {
		if cookie.MaxAge < 0 {
			dropped++
		}
	}
	if dropped != 4 {
		t.Errorf("%d attempts are dropped", dropped)
	}
}

// A code of one issuer isn't shown to another one, whatever the answer looks like.
func TestSignInMixedUp(t *testing.T) {
	t.Parallel()
	r := newIssuerRig(t, "Acme", "Evil")
	begun := r.begin(r.issuers[1].URL, "/")
	honest := r.begin(r.issuers[0].URL, "/")
	code := valueOf(r.agree(honest), "code")
	before := r.issuers[1].Requests()
	address := "/sign-in/callback?" + url.Values{"code": {code}, "state": {valueOf(begun.to, "state")}, "iss": {r.issuers[0].URL}}.Encode()
	r.refuses(401, "doesn&#39;t prove who you are", address, browser(begun.cookie)...)
	if got := r.issuers[1].Requests(); got != before {
		t.Errorf("the other issuer had %d requests", got-before)
	}
	// Without iss it is shown, and is no good: the other issuer hasn't made it.
	begun = r.begin(r.issuers[1].URL, "/")
	address = "/sign-in/callback?" + url.Values{"code": {code}, "state": {valueOf(begun.to, "state")}}.Encode()
	r.refuses(401, "was used already", address, browser(begun.cookie)...)
}

// What the issuer says of who it is decides; the page tells what it came to.
func TestSignInRefusals(t *testing.T) {
	t.Parallel()
	r := newIssuerRig(t)
	artist := map[string]any{"email": "mia@acme.example", "groups": []string{"artists"}}
	for name, test := range map[string]struct {
		person map[string]any
		status int
		says   string
	}{
		"another nonce":    {map[string]any{"nonce": "x", "groups": "artists"}, 401, "Acme doesn&#39;t prove who you are. Begin anew"},
		"another audience": {map[string]any{"aud": "x", "groups": "artists"}, 401, "Acme doesn&#39;t prove who you are"},
		"expired":          {map[string]any{"exp": 1000, "groups": "artists"}, 401, "Acme doesn&#39;t prove who you are"},
		"a long token":     {map[string]any{"groups": strings.Repeat("x", 17<<10)}, 401, "from Acme is longer than 16 KiB, so it isn&#39;t read: the issuer must put less into it"},
		"no rule":          {map[string]any{"email": "<b>eve@acme.example", "groups": "guests"}, 403, "Acme says that you are &lt;b&gt;eve@acme.example (sub person-1), and nothing here is open to you"},
	} {
		r.issuers[0].SetPerson(test.person)
		begun := r.begin(r.issuers[0].URL, "/k/x")
		got := r.refuses(test.status, test.says, r.agree(begun), browser(begun.cookie)...)
		if !strings.Contains(got.body, `name="next" value="/k/x"`) || got.cookies()[0].MaxAge >= 0 {
			t.Errorf("%s: %v %s", name, got.header, got.body)
		}
	}
	if log := r.log.String(); strings.Contains(log, "eve@") || !strings.Contains(log, "sign_in_failed") || !strings.Contains(log, "the token has expired") || !strings.Contains(log, "the ID token has ") {
		t.Errorf("the log is %s", log)
	}
	r.issuers[0].SetPerson(artist)

	// The issuer's own words are text.
	for code, want := range map[string]int{"access_denied": 403, "temporarily_unavailable": 503, "invalid_scope": 502, "<script>alert(1)</script>\u202e": 502, strings.Repeat("x", 9000): 502} {
		begun := r.begin(r.issuers[0].URL, "/")
		address := changed("/sign-in/callback", "state", valueOf(begun.to, "state"), "error", code, "error_description", "<img src=x>\r\n\u2066"+strings.Repeat("y", 5000))
		got := r.refuses(want, "Acme hasn&#39;t let you in: "+html.EscapeString(code[:1]), address, browser(begun.cookie)...)
		if code[0] == '<' {
			r.refuses(400, "belongs to no", address, browser()...)
		}
		for _, bad := range []string{"<script>alert", "<img src=x", "\u202e", "\u2066", strings.Repeat("x", 300), strings.Repeat("y", 300)} {
			if strings.Contains(got.body, bad) {
				t.Errorf("%.40q: %q is on the page", code, bad)
			}
		}
		if (want == 503) != (got.header.Get("Retry-After") != "") {
			t.Errorf("%.40q: Retry-After is %q", code, got.header.Get("Retry-After"))
		}
	}
	begun := r.begin(r.issuers[0].URL, "/")
	r.refuses(502, "no code", changed(r.agree(begun), "code", ""), browser(begun.cookie)...)
}

// An attempt is over after ten minutes, whatever the browser keeps.
func TestSignInTakesTooLong(t *testing.T) {
	t.Parallel()
	r := newIssuerRig(t)
	before := time.Now()
	begun := r.begin(r.issuers[0].URL, "/")
	until, _ := begun.kept(t)["until"].(float64)
	if left := time.Unix(int64(until), 0).Sub(before); left < 599*time.Second || left > 11*time.Minute {
		t.Errorf("it may take %s", left)
	}
	r.refuses(400, "has taken longer than 10 minutes", r.agree(begun), browser(begun.with(t, "until", time.Now().Unix()))...)
}

// While an issuer is away its button says so, and credentials go on; nothing of that counts as a failure.
func TestSignInWhileTheIssuerIsAway(t *testing.T) {
	t.Parallel()
	r := newIssuerRig(t)
	mia := r.make("mia", "read")
	begun := r.begin(r.issuers[0].URL, "/")
	back := r.agree(begun)
	r.issuers[0].SetAway(true)
	before, dropped := r.issuers[0].Requests(), 0
	for range 8 {
		got := r.refuses(503, "Acme can&#39;t be asked who you are just now", back, browser(begun.cookie)...)
		if got.header.Get("Retry-After") == "" || strings.Contains(got.body, "Reload this page") == (len(got.cookies()) > 0) {
			t.Errorf("the answer is %v %s", got.header, got.body)
		}
		dropped += len(got.cookies())
	}
	// An attempt whose code the issuer wasn't asked about goes on, as soon as that is well again.
	if asked := r.issuers[0].Requests() - before; dropped != asked || asked < 1 || asked > 7 {
		t.Errorf("the issuer was asked %d times, and %d attempts are taken away", asked, dropped)
	}
	r.signIn(mia.Secret.Reveal(), "").want(303)
	r.issuers[0].SetAway(false)
	await(t, func() bool {
		got := r.call("GET", back, "", browser(begun.cookie)...)
		return got.status == 303 && got.signedIn() != nil
	})

	away := newIssuerRig(t)
	away.issuers[0].SetAway(true)
	away.call("GET", "/sign-in", "").want(200)
	form := url.Values{"issuer": {away.issuers[0].URL}, "next": {"/k/x"}}
	got := away.call("POST", "/sign-in/issuer", form.Encode(), "Content-Type", formType).want(503)
	if got.header.Get("Retry-After") == "" || got.header.Get("Refresh") != "" || len(got.cookies()) > 0 || !strings.Contains(got.body, `name="next" value="/k/x"`) {
		t.Errorf("the answer is %v %s", got.header, got.body)
	}
}

// Codes that aren't good count as failed sign-ins, so that nobody makes the server ask the issuer about one after the other.
func TestFailedSignInsByIssuer(t *testing.T) {
	t.Parallel()
	r := newIssuerRig(t)
	clock := r.stopClock()
	guess := func(want int) answer {
		t.Helper()
		begun := r.begin(r.issuers[0].URL, "/")
		return r.call("GET", changed(r.agree(begun), "code", "guessed"), "", browser(begun.cookie)...).want(want)
	}
	for range 20 {
		begun := r.begin(r.issuers[0].URL, "/")
		r.call("GET", r.agree(begun), "", browser(begun.cookie)...).want(303)
	}
	for range 5 {
		guess(401)
	}
	before := r.issuers[0].Requests()
	if got := guess(429); got.header.Get("Retry-After") == "" || !strings.Contains(got.body, "Too many sign-ins from your address have failed") || r.issuers[0].Requests() != before {
		t.Errorf("one too many is answered with %v, and the issuer had %d requests", got.header, r.issuers[0].Requests()-before)
	}
	// It isn't over: when the time has come, the browser asks for the same address again.
	begun := r.begin(r.issuers[0].URL, "/k/x")
	back := r.agree(begun)
	if got := r.call("GET", back, "", browser(begun.cookie)...).want(429); len(got.cookies()) > 0 {
		t.Errorf("an attempt that has to wait is taken away: %v", got.header)
	}
	clock.Add(int64(12 * time.Second))
	if got := r.call("GET", back, "", browser(begun.cookie)...).want(303).header.Get("Location"); got != "/pawl/k/x" {
		t.Errorf("it leads to %q", got)
	}
}

// People come back to this server and nowhere else, by the button as by the cookie.
func TestSignInByIssuerLeadsBack(t *testing.T) {
	t.Parallel()
	r := newIssuerRig(t)
	for next, want := range map[string]string{
		"": "/pawl/", "/k/a%2Fb?x=1": "/pawl/k/a%2Fb?x=1", "//evil": "/pawl/", `/\evil`: "/pawl/", "https://evil": "/pawl/", "/\t/evil": "/pawl/", "/k\r\nSet-Cookie: a=b": "/pawl/",
		"/" + strings.Repeat("a", 2000): "/pawl/", "/?" + strings.Repeat("&", 500): "/pawl/?" + strings.Repeat("&", 500),
	} {
		begun := r.begin(r.issuers[0].URL, next)
		if got := r.call("GET", r.agree(begun), "", browser(begun.cookie)...).want(303).header.Get("Location"); got != want {
			t.Errorf("%q leads to %q", next, got)
		}
		if len(begun.cookie.Value) > 1500 {
			t.Errorf("%q makes a cookie of %d bytes", next, len(begun.cookie.Value))
		}
	}
	begun := r.begin(r.issuers[0].URL, "/")
	if got := r.call("GET", r.agree(begun), "", browser(begun.with(t, "next", "//evil.example"))...).want(303).header.Get("Location"); got != "/pawl/" {
		t.Errorf("a forged place leads to %q", got)
	}
}

// The form is this page's own and names an issuer of the list; where people are sent back to is a setting, whatever the request's Host.
func TestSignInButton(t *testing.T) {
	t.Parallel()
	r := newIssuerRig(t)
	form := url.Values{"issuer": {r.issuers[0].URL}}.Encode()
	evil := []string{"Content-Type", formType, "Sec-Fetch-Site", "cross-site", "Origin", "https://evil.example"}
	r.call("POST", "/sign-in/issuer", form, evil...).wantProblem(publish.ErrForbidden)
	r.call("POST", "/sign-in/issuer", form+"x", "Content-Type", formType).wantProblem(publish.ErrInvalidRequest)
	r.call("POST", "/sign-in/issuer?x=1", form, "Content-Type", formType).wantProblem(publish.ErrInvalidRequest)
	r.call("GET", "/sign-in/issuer?"+form, "").wantProblem(publish.ErrMethodNotAllowed)
	begun := r.begin(r.issuers[0].URL, "", "X-Forwarded-Host", "evil.example", "Forwarded", "host=evil.example")
	if got := valueOf(begun.to, "redirect_uri"); got != callbackURI {
		t.Errorf("people are sent back to %q", got)
	}
	// A database that is away is no failure of who signs in.
	begun = r.begin(r.issuers[0].URL, "")
	r.pointers.Faults.Add(publishtest.Fault{Operation: "CreateSession", Times: 1})
	r.call("GET", r.agree(begun), "", "Cookie", begun.cookie.Name+"="+begun.cookie.Value).wantProblem(publish.ErrUnavailable)
}

func TestParseOrigin(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"": "", "https://pawl.example": "https://pawl.example", "HTTPS://Pawl.example:8443": "https://pawl.example:8443",
		"http://127.0.0.1:8484": "http://127.0.0.1:8484", "http://localhost:1": "http://localhost:1", "https://[2001:db8::1]": "https://[2001:db8::1]",
	} {
		if got, err := web.ParseOrigin(text); err != nil || got != want {
			t.Errorf("%q: %q, %v", text, got, err)
		}
	}
	for text, want := range map[string]string{
		"pawl.example": "is no origin", "https://pawl.example/": "is no origin", "https://pawl.example/pawl": "is no origin", "ftp://pawl.example": "is no origin",
		"https://u@pawl.example": "is no origin", "http://pawl.example": "must begin with https://", "http://localhost.example": "must begin with https://",
	} {
		if got, err := web.ParseOrigin(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %q, %v", text, got, err)
		}
	}
	_, options := signInIssuers(t, "Acme")
	if _, err := web.New(&publish.Service{}, web.Options{SignInIssuers: options}); err == nil {
		t.Error("issuers were taken without an origin")
	}
}
