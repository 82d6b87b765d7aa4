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

var shownSecret = regexp.MustCompile(`pawl_c_[0-9A-Za-z]{38}`)

// Admins make, rotate and revoke credentials on a page, within what they are admin of; each text is shown once.
func TestCredentialsPage(t *testing.T) {
	t.Parallel()
	r := newSignRig(t, web.Options{})
	root, narrow := r.make("root", "admin"), r.make("narrow", "admin:team-a/")
	session := browser(r.signIn(narrow.Secret.Reveal(), "").want(303).cookie())
	send := func(action string, fields ...string) answer {
		t.Helper()
		form := url.Values{}
		for i := 0; i < len(fields); i += 2 {
			form.Set(fields[i], fields[i+1])
		}
		return r.call("POST", action, form.Encode(), slices.Concat([]string{"Content-Type", formType}, session)...)
	}
	good := func(text string, want int) {
		t.Helper()
		r.call("GET", "/v1/keys", "", "Authorization", "Bearer "+text).want(want)
	}
	page := r.call("GET", "/credentials", "", session...).want(200)
	if !strings.Contains(page.body, `<a href="/credentials" aria-current="page">Credentials</a>`) || strings.Contains(page.body, string(root.ID)) || !strings.Contains(page.body, string(narrow.ID)) ||
		shownSecret.MatchString(page.body) {
		t.Errorf("the page is %s", page.body)
	}

	request := r.formFields(page, "/credentials").Get("request")
	typed := []string{"request", request, "name", "<ci>", "scopes", "publish:team-a/x/, read:team-a/", "expires_in", "12h"}
	first := send("/credentials", typed...).want(201)
	made := send("/credentials", typed...).want(201) // The page is loaded anew.
	const worthless = "The text shown before opens nothing now."
	if strings.Contains(first.body, worthless) || !strings.Contains(made.body, worthless) {
		t.Errorf("the page of the repeated request is %s", made.body)
	}
	good(shownSecret.FindString(first.body), 401)
	text := shownSecret.FindString(made.body)
	if text == "" || !strings.Contains(made.body, html.EscapeString("<ci>")) || made.header.Get("Cache-Control") != "no-store" {
		t.Fatalf("what was made is %s", made.body)
	}
	good(text, 200)
	if again := r.call("GET", "/credentials", "", session...).want(200); strings.Contains(again.body, text) {
		t.Error("the text is shown once more")
	}
	send("/credentials", typed...).want(400) // It was used since.
	list := r.call("GET", "/v1/credentials", "", bearer(root.Secret)...).want(200)
	if !strings.Contains(list.body, `"created_by":"narrow"`) || strings.Count(list.body, `"name":"<ci>"`)+strings.Count(list.body, `"name":"\u003cci\u003e"`) != 1 {
		t.Errorf("the list is %s", list.body)
	}

	// What is refused is said beside what was typed.
	for name, test := range map[string]struct {
		fields []string
		status int
		said   string
	}{
		"beyond":   {[]string{"name", "typed", "scopes", "read"}, 403, `the scope &#34;read&#34; can be given only by who`},
		"scope":    {[]string{"name", "typed", "scopes", "write:team-a/"}, 400, "begins with no verb"},
		"none":     {[]string{"name", "typed", "scopes", ""}, 400, "begins with no verb"},
		"lifetime": {[]string{"name", "typed", "scopes", "read:team-a/", "expires_in", "soon"}, 400, "expires_in"},
		"name":     {[]string{"name", "", "scopes", "read:team-a/"}, 400, "name"},
		"taken":    {[]string{"name", "<ci>", "scopes", "read:team-a/"}, 409, "is that of another credential"},
	} {
		got := send("/credentials", test.fields...).want(test.status)
		if alert := alertTag.FindStringSubmatch(got.body); alert == nil || !strings.Contains(alert[1], test.said) || !strings.Contains(got.body, html.EscapeString(test.fields[1])) {
			t.Errorf("%s: the page says %q", name, alert)
		}
		if _, form, _ := strings.Cut(got.body, "Make a credential</h2>"); !alertTag.MatchString(form) || !strings.Contains(form, ` autofocus aria-describedby="refused"`) {
			t.Errorf("%s: it isn't said at the form: %s", name, got.body)
		}
	}

	// A rotation shows the new text, and lets the old one end when it was told to.
	id := regexp.MustCompile(`action="/credentials/([0-9a-f]{16})/rotate"`).FindAllStringSubmatch(made.body, -1)[0][1]
	rotated := send("/credentials/"+id+"/rotate", "overlap", "0s").want(201)
	if strings.Contains(rotated.body, worthless) {
		t.Errorf("the rotation shows %s", rotated.body)
	}
	next := shownSecret.FindString(rotated.body)
	if next == "" || next == text {
		t.Fatalf("the rotation shows %s", rotated.body)
	}
	good(text, 401)
	good(next, 200)
	send("/credentials/"+id+"/rotate", "overlap", "0s").want(409)
	if got := send("/credentials/"+id+"/rotate", "overlap", "long").want(400); strings.Count(got.body, `role="alert"`) != 1 || strings.Contains(got.body, "autofocus") {
		t.Errorf("a refused rotation shows %s", got.body)
	}
	latest := regexp.MustCompile(`action="/credentials/([0-9a-f]{16})/rotate"`).FindAllStringSubmatch(rotated.body, -1)[0][1]
	revoke := "/credentials/" + latest + "/revoke"
	asked := r.call("GET", revoke, "", session...).want(200)
	if !strings.Contains(asked.body, `method="post" action="`+revoke+`"`) || !strings.Contains(asked.body, "Cancel") || strings.Contains(asked.body, "your own") {
		t.Errorf("before it is revoked the page asks %s", asked.body)
	}
	good(next, 200)
	if early := r.call("GET", "/credentials?revoked="+latest, "", session...).want(200); strings.Contains(early.body, "is revoked") {
		t.Error("a link says of a good credential that it is revoked")
	}
	said := send(revoke).want(303).header.Get("Location")
	if page := r.call("GET", said, "", session...).want(200); !strings.Contains(page.body, `<code>`+latest+`</code> is revoked.`) {
		t.Errorf("%s says %s", said, page.body)
	}
	good(next, 401)
	if again := r.call("GET", revoke, "", session...).want(200); strings.Contains(again.body, `action="`+revoke) || !strings.Contains(again.body, "it is revoked") {
		t.Errorf("the page of a revoked one is %s", again.body)
	}

	// Others' don't exist.
	for _, verb := range []string{"rotate", "revoke"} {
		send("/credentials/" + string(root.ID) + "/" + verb).want(404)
		send("/credentials/nonsense/" + verb).want(400)
	}
	r.call("GET", "/credentials/"+string(root.ID)+"/revoke", "", session...).want(404)
	r.call("GET", "/credentials?revoked="+string(root.ID), "", session...).want(404)
	good(root.Secret.Reveal(), 200)
	for _, secret := range []string{text, next} {
		if strings.Contains(r.log.String(), secret) {
			t.Error("a text is in the log")
		}
	}
}

// Who revokes the credential that he has signed in with is told so before, and, signed out, after.
func TestRevokeOwnCredential(t *testing.T) {
	t.Parallel()
	r := newSignRig(t, web.Options{})
	root := r.make("root", "admin")
	session := browser(r.signIn(root.Secret.Reveal(), "").want(303).cookie())
	list := r.call("GET", "/credentials", "", session...).want(200)
	revoke := "/credentials/" + string(root.ID) + "/revoke"
	if strings.Contains(list.body, `action="`+revoke) || !strings.Contains(list.body, `href="`+revoke+`"`) || !strings.Contains(list.body, ">yours<") {
		t.Errorf("the list is %s", list.body)
	}
	if asked := r.call("GET", revoke, "", session...).want(200); !strings.Contains(asked.body, "This is your own credential, and you will be signed out") {
		t.Errorf("the page asks %s", asked.body)
	}
	done := r.call("POST", revoke, "", slices.Concat([]string{"Content-Type", formType}, session)...).want(200)
	if !strings.Contains(done.body, "You have revoked root, your own credential") || !strings.Contains(done.body, `name="next" value="/credentials"`) || strings.Contains(done.body, "Sign out") ||
		strings.Contains(done.body, ">Audit</a>") {
		t.Errorf("afterwards the page says %s", done.body)
	}
	if cookie := done.cookie(); cookie == nil || cookie.MaxAge >= 0 {
		t.Errorf("the browser keeps the cookie %v", cookie)
	}
	r.with(bearer(root.Secret), "GET", "/v1/keys", "").want(401)
}

// formFields are the hidden fields of the form with that action.
func (r *rig) formFields(page answer, action string) url.Values {
	r.t.Helper()
	fields := url.Values{}
	_, form, found := strings.Cut(page.body, `method="post" action="`+action+`">`)
	if form, _, _ = strings.Cut(form, "</form>"); !found {
		r.t.Fatalf("there is no form for %s on %s", action, page.body)
	}
	for _, input := range inputTag.FindAllStringSubmatch(form, -1) {
		fields.Set(input[1], html.UnescapeString(input[2]))
	}
	return fields
}

// Who may not do something is told what it takes, by the name that he has, and nothing about programs or other causes.
func TestForbiddenPage(t *testing.T) {
	t.Parallel()
	r := newSignRig(t, web.Options{})
	mia := r.make("acme mia@acme.example", "read:press/")
	page := r.with(bearer(mia.Secret), "GET", "/credentials", "", "Accept", "text/html").want(403)
	if !strings.Contains(page.body, "<bdi>acme mia@acme.example may not do this: it takes the verb admin") || !strings.Contains(page.body, "Who is an admin of these keys") ||
		strings.Contains(page.body, "the member scope") || strings.Contains(page.body, "another site") {
		t.Errorf("the page is %s", page.body)
	}
}

// Long lists have pages.
func TestCredentialsPageByPage(t *testing.T) {
	t.Parallel()
	r := newSignRig(t, web.Options{})
	root := r.make("root", "admin")
	for range publish.DefaultPageSize {
		r.make("c"+publish.NewLeaseID().Hex(), "read")
	}
	page := r.with(bearer(root.Secret), "GET", "/credentials", "").want(200)
	next := regexp.MustCompile(`rel="next" href="([^"]+)"`).FindStringSubmatch(page.body)
	if next == nil {
		t.Fatal("there is no next page")
	}
	if last := r.with(bearer(root.Secret), "GET", html.UnescapeString(next[1]), "").want(200); !strings.Contains(last.body, string(root.ID)) || strings.Contains(last.body, `rel="next"`) {
		t.Errorf("the last page is %s", last.body)
	}
	r.with(bearer(root.Secret), "GET", "/credentials?after=nonsense", "").want(400)
}

// Where nobody is asked for a credential the page says how to begin, and makes none.
func TestCredentialsPageUnasked(t *testing.T) {
	t.Parallel()
	r := newRig(t, web.Options{})
	page := r.call("GET", "/credentials", "").want(200)
	if strings.Contains(page.body, `method="post"`) || !strings.Contains(page.body, "PAWL_AUTH=required") || strings.Contains(page.body, ">Credentials</a>") {
		t.Errorf("the page is %s", page.body)
	}
	if page := r.call("GET", "/sign-in", "").want(200); strings.Contains(page.body, "<form class") || !strings.Contains(page.body, "asks nobody") {
		t.Errorf("the page is %s", page.body)
	}
}

// Nobody is shown a button for what they may not do.
func TestOnlyWhatTheCallerMay(t *testing.T) {
	t.Parallel()
	r := newSignRig(t, web.Options{})
	root := r.make("root", "admin")
	r.publishedBy(bearer(root.Secret), "press/x", "1")
	r.publishedBy(bearer(root.Secret), "press/x", "2")
	for _, prefix := range []string{"", "press", "press/x"} {
		r.with(bearer(root.Secret), "PUT", "/v1/policies?prefix="+url.QueryEscape(prefix), `{"fence_mode":"granted"}`).want(200)
	}
	for scope, want := range map[string]struct {
		upload, act, policies bool
		removes               int
		nav                   string
	}{
		"read:press/":    {nav: "Keys Activity Rejections Leases Policies"},
		"publish:press/": {upload: true, nav: "Keys Activity Rejections Leases Policies Upload"},
		"operate:press/": {upload: true, act: true, nav: "Keys Activity Rejections Leases Policies Upload"},
		"admin:press/":   {upload: true, act: true, policies: true, removes: 1, nav: "Keys Activity Rejections Leases Policies Audit Credentials Upload"},
		"admin":          {upload: true, act: true, policies: true, removes: 3, nav: "Keys Activity Rejections Leases Policies Audit Credentials Upload"},
	} {
		caller := bearer(r.make(scope, scope).Secret)
		key := r.with(caller, "GET", "/k/press/x", "").want(200)
		for action, shown := range map[string]bool{"upload": want.upload, "rollback": want.act, "pin": want.act, "retire": want.act} {
			if strings.Contains(key.body, `action="/k/press/x/-/`+action+`"`) != shown {
				t.Errorf("%s: that %s is shown isn't %t", scope, action, shown)
			}
		}
		var nav []string
		head, _, _ := strings.Cut(key.body, "</nav>")
		for _, link := range regexp.MustCompile(`<a href="[^"]*">(\w+)</a>`).FindAllStringSubmatch(head, -1) {
			nav = append(nav, link[1])
		}
		if got := strings.Join(nav, " "); got != want.nav {
			t.Errorf("%s: the navigation has %s, want %s", scope, got, want.nav)
		}
		policies := r.with(caller, "GET", "/policies", "").want(200)
		if strings.Contains(policies.body, "Set a policy") != want.policies || strings.Count(policies.body, `name="remove"`) != want.removes {
			t.Errorf("%s: the policies are %s", scope, policies.body)
		}
	}
}
