package e2e

import (
	"strings"
	"testing"

	"github.com/pawlhq/pawl/internal/testenv"
)

// putAs publishes a text with a credential.
func (s *server) putAs(secret, key, text string) {
	s.t.Helper()
	p := startReading(s.t, strings.NewReader(text), []string{"PAWL_URL=" + s.url, "PAWL_CREDENTIAL=" + secret}, binary(s.t), "put", key, "-", "--path", "out.txt")
	if code := p.exit(); code != 0 {
		s.t.Fatalf("put exits %d: %s", code, p.errs.String())
	}
}

// signIn opens a page, and types the credential into the form that it leads to, as a person does.
func signIn(t *testing.T, tab *testenv.Tab, url, secret string) {
	t.Helper()
	tab.Open(url)
	awaitPage(t, tab, `location.pathname.endsWith("/sign-in") && document.querySelector("[name=credential]")`)
	eval[bool](t, tab, `document.querySelector("[name=credential]").focus(); true`)
	tab.Press(secret + "\r")
	awaitPage(t, tab, `!location.pathname.endsWith("/sign-in") && document.readyState === "complete"`)
}

// signedOut is true of the page that people sign in on.
const signedOut = `location.pathname.endsWith("/sign-in") && document.querySelector("[name=credential]")`

// headFaults is what stands wrong in the head of a page on a narrow screen, where the search has a line of its own or shares it.
const headFaults = `(() => {
	const box = (at) => document.querySelector(at)?.getBoundingClientRect();
	const [search, nav, before] = [box("[role=search]"), box("header nav"), box(".account") ?? box(".brand")];
	const faults = [...document.querySelectorAll(".account button")].filter((b) => b.scrollWidth > b.clientWidth).map((b) => b.textContent + " is wider than its button");
	if (Math.abs(search.right - nav.right) > 1) faults.push("the search ends before its line does");
	if (search.top >= before.bottom && Math.abs(search.left - nav.left) > 1) faults.push("there is a gap before the search");
	return faults.join(", ");
})()`

// People sign in with a credential, see what it shows them, act under its name, and leave nothing behind: not in the browser's history, and, if they say so, not in
// another browser, whose stream ends.
func TestSignIn(t *testing.T) {
	t.Parallel()
	axe, tab, other := testenv.Axe(t), testenv.Browser(t), testenv.Browser(t)
	dsn := testenv.Postgres(t)
	s := serve(t, dsn, directory(t), "PAWL_AUTH=required")
	root, service := issue(t, dsn, "acme maximiliane.mustermann@studio.acme.example", "admin")
	mia, _ := issue(t, dsn, "mia", "operate:press/")
	s.putAs(root, "press/x", "one")
	s.putAs(root, "secret/y", "hidden")

	signIn(t, tab, s.url+"/b/press/?view=grid", mia)
	awaitPage(t, tab, `location.pathname + location.search === "/b/press/?view=grid"`)
	cookies := eval[string](t, tab, `document.cookie`)
	if cookies != "" {
		t.Errorf("scripts see the cookies %q", cookies)
	}
	tab.Open(s.url + "/")
	awaitPage(t, tab, `document.querySelector("main").textContent.includes("press/") && !document.body.textContent.includes("secret/")`)
	awaitPage(t, tab, `document.querySelector(".account bdi").textContent === "mia"`)

	// The page of a key, its stream, its scripts and its forms go by the cookie.
	openLive(t, tab, s.url+"/k/press/x")
	s.putAs(root, "press/x", "two")
	awaitPage(t, tab, fresh)
	if got := eval[string](t, tab, `fetch("/v1/keys/press/x/-/current").then((answer) => answer.text())`); got != "two" {
		t.Errorf("a script of the page reads %q", got)
	}
	tab.Open(s.url + "/k/press/x/-/pin")
	eval[bool](t, tab, `document.querySelector("[name=reason]").value = "r"; document.querySelector("form.act").requestSubmit(); true`)
	awaitPage(t, tab, `location.search === "?done=pin"`)
	if overview, err := service.Overview(t.Context(), "press/x"); err != nil || overview.Pinned == nil || overview.Pinned.By != "mia" {
		t.Errorf("the pin is %+v, %v", overview.Pinned, err)
	}

	// Signing out leaves nothing to go back to.
	signIn(t, other, s.url+"/k/press/x", mia)
	openLive(t, other, s.url+"/k/press/x")
	press(t, tab, `form[action="/sign-out"] button`)
	awaitPage(t, tab, signedOut)
	eval[bool](t, tab, `history.back(); true`)
	awaitPage(t, tab, `document.readyState === "complete" && `+signedOut)
	if text := eval[string](t, tab, `document.body.innerText`); strings.Contains(text, "press/x") {
		t.Errorf("going back shows %s", text)
	}
	awaitPage(t, other, `document.querySelector(".live")?.dataset.is === "on"`)

	// Everywhere means the other browser too, and what it is listening to.
	signIn(t, tab, s.url+"/k/press/x", mia)
	press(t, tab, `form[action="/sign-out-everywhere"] button`)
	awaitPage(t, tab, signedOut)
	awaitPage(t, other, fresh+`.includes("You are signed out")`)
	other.Open(s.url + "/k/press/x")
	awaitPage(t, other, signedOut)

	// An admin makes a credential on the page, sees its text once, and it lets in.
	signIn(t, tab, s.url+"/credentials", root)
	eval[bool](t, tab, `const form = document.querySelector('form[action="/credentials"]');
		form.elements.name.value = "jo"; form.elements.scopes.value = "read:press/"; form.requestSubmit(); true`)
	awaitPage(t, tab, `document.querySelector(".copyable code")`)
	made := eval[string](t, tab, `document.querySelector(".copyable code").textContent`)
	accessible := func(tab *testenv.Tab, page string) {
		t.Helper()
		for _, look := range []string{"light", "dark"} {
			tab.Prefer(look)
			for _, width := range []int64{1280, 390} {
				tab.Resize(width, 900)
				for _, broken := range tab.Violations(axe, "") {
					t.Errorf("%s, %d pixels, %s: %s", page, width, look, broken)
				}
			}
		}
		for _, width := range []int64{320, 390} {
			tab.Resize(width, 700)
			if wide := eval[float64](t, tab, `document.documentElement.scrollWidth`); wide > float64(width) {
				t.Errorf("%s is %g pixels wide on a screen of %d", page, wide, width)
			}
			if out := eval[string](t, tab, headFaults); out != "" {
				t.Errorf("%s, %d pixels: %s", page, width, out)
			}
		}
	}
	accessible(tab, "what was made")
	tab.Open(s.url + "/credentials")
	awaitPage(t, tab, `!document.body.textContent.includes("pawl_c_") || !document.querySelector(".copyable")`)
	accessible(tab, "the credentials")
	press(t, tab, `a.danger[href$="/revoke"]`)
	awaitPage(t, tab, `location.pathname.endsWith("/revoke") && document.readyState === "complete"`)
	accessible(tab, "the form to revoke one")
	accessible(other, "the form to sign in")
	signIn(t, other, s.url+"/", made)
	awaitPage(t, other, `document.querySelector(".account bdi").textContent === "jo"`)
}

// Without scripts the forms work as well.
func TestSignInWithoutScripts(t *testing.T) {
	t.Parallel()
	tab := testenv.Browser(t)
	dsn := testenv.Postgres(t)
	s := serve(t, dsn, directory(t), "PAWL_AUTH=required", "PAWL_BASE_PATH=/pawl")
	root, _ := issue(t, dsn, "root", "admin")
	tab.DisableScripts()
	signIn(t, tab, s.url+"/credentials", root)
	awaitPage(t, tab, `location.pathname === "/pawl/credentials"`)
	press(t, tab, `form[action="/pawl/sign-out"] button`)
	awaitPage(t, tab, signedOut)
}
