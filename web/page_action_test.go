package web_test

import (
	"html"
	"maps"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/pawlhq/pawl/publish"
	"github.com/pawlhq/pawl/web"
)

const formType = "application/x-www-form-urlencoded"

// form is a form of a page as a browser holds it.
type form struct {
	*rig
	action string
	fields url.Values
}

var (
	formTag  = regexp.MustCompile(`(?s)<form class="act" method="post" action="([^"]*)">(.*?)</form>`)
	inputTag = regexp.MustCompile(`<input (?:type="hidden" )?name="([a-z_]+)" value="([^"]*)"`)
	optTag   = regexp.MustCompile(`<option value="([^"]*)"`)
	alertTag = regexp.MustCompile(`role="alert"><bdi>([^<]*)</bdi>`)
)

// formOn finds the form with that action on a page.
func (r *rig) formOn(page answer, action string) form {
	r.t.Helper()
	for _, found := range formTag.FindAllStringSubmatch(page.body, -1) {
		if found[1] != action {
			continue
		}
		f := form{rig: r, action: action, fields: url.Values{}}
		for _, input := range inputTag.FindAllStringSubmatch(found[2], -1) {
			f.fields.Set(input[1], html.UnescapeString(input[2]))
		}
		if option := optTag.FindStringSubmatch(found[2]); option != nil {
			f.fields.Set("to", option[1])
		}
		return f
	}
	r.t.Fatalf("there is no form for %s on %s", action, page.body)
	return form{}
}

// with gives the form with some fields typed; names and values in turn.
func (f form) with(pairs ...string) form {
	f.fields = maps.Clone(f.fields)
	for i := 0; i < len(pairs); i += 2 {
		f.fields.Set(pairs[i], pairs[i+1])
	}
	return f
}

func (f form) send(headers ...string) answer {
	f.t.Helper()
	return f.call("POST", f.action, f.fields.Encode(), append([]string{"Content-Type", formType, "Accept", "text/html"}, headers...)...)
}

// done sends the form and gives the page that it leads to.
func (f form) done() answer {
	f.t.Helper()
	location := f.send().want(303).header.Get("Location")
	page := f.call("GET", location, "").want(200)
	if !strings.Contains(page.body, `role="status"`) {
		f.t.Errorf("%s doesn't say what was done: %s", location, page.body)
	}
	return page
}

// refused sends the form, and gives what the page says then. What was typed is still there.
func (f form) refused(status int) string {
	f.t.Helper()
	got := f.send().want(status)
	alert := alertTag.FindStringSubmatch(got.body)
	if alert == nil || got.header.Get("Content-Security-Policy") == "" {
		f.t.Fatalf("there is no refusal on the page %s", got.body)
	}
	if reason := f.fields.Get("reason"); reason != "" && !strings.Contains(got.body, `value="`+html.EscapeString(reason)+`"`) {
		f.t.Errorf("the reason that was typed is lost: %s", got.body)
	}
	return html.UnescapeString(alert[1])
}

func (r *rig) etag(key string) string {
	r.t.Helper()
	return r.call("GET", "/v1/keys/"+key, "").header.Get("ETag")
}

func TestRollbackOnThePage(t *testing.T) {
	t.Parallel()
	r := newRig(t, web.Options{})
	r.published("a/k", "f", "one")
	if page := r.call("GET", "/k/a/k", "").want(200); strings.Contains(page.body, "/-/rollback") || !strings.Contains(page.body, "/-/retire") {
		t.Errorf("one version alone can't be rolled back: %s", page.body)
	}
	r.published("a/k", "f", "two")
	const action = "/k/a/k/-/rollback"
	first := r.formOn(r.call("GET", "/k/a/k", "").want(200), action).with("reason", `<b>"flicker"</b>`, "by", "mia")
	if got := first.fields.Get("to") + " " + first.fields.Get("current"); got != "1.1 2.1" {
		t.Errorf("the form holds %s", got)
	}
	if got := first.with("reason", "").refused(400); !strings.HasPrefix(got, "reason: is missing") {
		t.Errorf("without a reason: %q", got)
	}
	if got := first.with("to", "").refused(400); got != "to: is missing; choose the version to bring back" {
		t.Errorf("without a version: %q", got)
	}
	if got := first.with("by", "a\nb").refused(400); !strings.HasPrefix(got, "by: has a control") {
		t.Errorf("by with a line break: %q", got)
	}
	first.send("Sec-Fetch-Site", "cross-site").want(403)
	first.send("Pawl-Lease", publish.NewLeaseID().Hex()).want(400)
	r.call("POST", action, `{"to":"1.1"}`, "Content-Type", "application/json").wantProblem(publish.ErrInvalidRequest)
	first.with("shape", "round").send().want(400)

	held := r.grant("a/k")
	if got := first.refused(423); !strings.Contains(got, `"test" holds the key under token 3 until`) {
		t.Errorf("while it is held: %q", got)
	}
	breaking := r.formOn(first.send(), action).with("reason", "r", "break_lease", "3", "pin", "true")
	if breaking.fields.Get("request") != first.fields.Get("request") {
		t.Error("the form that is shown again is another request")
	}
	page := breaking.done()
	if !strings.Contains(page.body, "current again") || r.etag("a/k") != `"4.1"` {
		t.Errorf("%s is current; the page says %s", r.etag("a/k"), page.body)
	}
	held.publish("").wantProblem(publish.ErrStaleToken)
	breaking.send().want(303) // A double click, or a reload, is a replay.
	if r.etag("a/k") != `"4.1"` {
		t.Errorf("a double click made %s", r.etag("a/k"))
	}
	if got := breaking.with("reason", "other").refused(400); !strings.HasPrefix(got, "This form has done something else already") {
		t.Errorf("another request under the same name: %q", got)
	}
	if again := r.formOn(breaking.with("reason", "other").send(), action); again.fields.Get("request") == breaking.fields.Get("request") {
		t.Error("the form keeps a name that is used up")
	}
	if audit := r.call("GET", "/v1/audit", "").want(200); !strings.Contains(audit.body, `"by":"mia","action":"rollback"`) {
		t.Errorf("the audit is %s", audit.body)
	}
}

// Who looks at an old page is told what is current now, on a form for that.
func TestActionsOnAnOutdatedPage(t *testing.T) {
	t.Parallel()
	r := newRig(t, web.Options{})
	r.published("k", "f", "one")
	r.published("k", "f", "two")
	old := r.call("GET", "/k/k", "").want(200)
	r.published("k", "f", "three")
	for _, f := range []form{
		r.formOn(old, "/k/k/-/rollback").with("reason", "r"), r.formOn(old, "/k/k/-/pin").with("reason", "r"), r.formOn(old, "/k/k/-/retire").with("confirm", "k"),
	} {
		if got := f.refused(412); !strings.Contains(got, "isn't current any more: 3.1 is") {
			t.Errorf("%s: %q", f.action, got)
		}
		if again := r.formOn(f.send(), f.action); again.fields.Get("current") != "3.1" {
			t.Errorf("%s: the form is still about %s", f.action, again.fields.Get("current"))
		}
	}
	if r.etag("k") != `"3.1"` {
		t.Errorf("%s is current", r.etag("k"))
	}
}

func TestPinOnThePage(t *testing.T) {
	t.Parallel()
	r := newRig(t, web.Options{})
	r.published("k", "f", "one")
	const hostile = `</p><script>alert(1)</script>` + "\u202e"
	r.formOn(r.call("GET", "/k/k", ""), "/k/k/-/pin").with("reason", hostile).refused(400)
	page := r.formOn(r.call("GET", "/k/k", ""), "/k/k/-/pin").with("reason", `</p><script>alert(1)</script>`, "by", `"><img src=x>`).done()
	if strings.Contains(page.body, "<script>alert") || strings.Contains(page.body, "<img src=x") || !strings.Contains(page.body, "&lt;script&gt;") {
		t.Errorf("the page has what was typed: %s", page.body)
	}
	if strings.Contains(page.body, `action="/k/k/-/pin"`) {
		t.Error("a pinned key offers to be pinned")
	}
	r.call("GET", "/k/k/-/pin", "").want(200)
	if got := r.formOn(page, "/k/k/-/retire").with("confirm", "k").refused(409); !strings.Contains(got, "unpin it first") {
		t.Errorf("retiring a pinned key: %q", got)
	}
	page = r.formOn(page, "/k/k/-/unpin").done()
	r.formOn(page, "/k/k/-/pin")
	if got := r.call("GET", "/v1/keys/k", ""); strings.Contains(got.body, "pinned") {
		t.Errorf("the key is %s", got.body)
	}
	if got := r.call("GET", "/k/k/-/unpin", "").want(200); !strings.Contains(got.body, "isn&#39;t pinned") {
		t.Errorf("the form for nothing says %s", got.body)
	}
}

func TestRetireOnThePage(t *testing.T) {
	t.Parallel()
	r := newRig(t, web.Options{})
	r.published("shots/010", "f", "one")
	const action = "/k/shots/010/-/retire"
	f := r.formOn(r.call("GET", "/k/shots/010", ""), action)
	if got := f.with("reason", "cut", "confirm", "shots").refused(400); got != `confirm: isn't "010", the last part of the key; type it to confirm` {
		t.Errorf("another name: %q", got)
	}
	f = f.with("confirm", "010", "reason", "cut", "by", "mia")
	f.send().want(303)
	f.send().want(303)
	r.call("GET", "/v1/keys/shots/010", "").wantProblem(publish.ErrRetired)
	if got := r.call("GET", action, "").want(200); !strings.Contains(got.body, "has no current version") {
		t.Errorf("the form of a retired key says %s", got.body)
	}
	back := r.formOn(r.call("GET", "/k/shots/010/-/rollback", "").want(200), "/k/shots/010/-/rollback").with("reason", "not cut")
	back.send().want(303)
	if r.etag("shots/010") != `"3.1"` {
		t.Errorf("%s is current", r.etag("shots/010"))
	}
}

func TestBreakLeaseOnThePage(t *testing.T) {
	t.Parallel()
	r := newRig(t, web.Options{})
	r.published("k", "f", "one")
	if page := r.call("GET", "/k/k", ""); strings.Contains(page.body, "/-/break-lease") {
		t.Error("the page offers to break a lease that nobody has")
	}
	if got := r.call("GET", "/k/k/-/break-lease", "").want(200); !strings.Contains(got.body, "Nobody holds the key") {
		t.Errorf("the form for nothing says %s", got.body)
	}
	late := r.grant("k")
	f := r.formOn(r.call("GET", "/k/k", ""), "/k/k/-/break-lease").with("reason", "gone", "by", "mia")
	f.done()
	f.send().want(303)
	r.call("PATCH", "/v1/keys/k/-/lease", "", "Pawl-Lease", late.lease).wantProblem(publish.ErrLeaseLost)

	// On an old page, the lease that is broken is never another one.
	r.grant("k")
	old := r.formOn(r.call("GET", "/k/k", ""), "/k/k/-/break-lease").with("reason", "gone")
	r.pointers.Expire("k")
	r.grant("k")
	if got := old.refused(412); got != `That lease is over already. "test" holds the key now, under token 4. Nothing was done.` {
		t.Errorf("a late click: %q", got)
	}
	if again := r.formOn(old.send(), old.action); again.fields.Get("token") != "4" {
		t.Errorf("the form is about token %s", again.fields.Get("token"))
	}
	if held := r.call("GET", "/v1/keys/k/-/lease", "").json(); held["held"] != true {
		t.Errorf("the lease is %v", held)
	}
	if got := f.with("token", "9").refused(422); !strings.Contains(got, "never granted") {
		t.Errorf("a token that isn't there: %q", got)
	}
}

// A word in the address can't put text on the page, and a key that isn't there has no forms.
func TestActionPagesThatAreNot(t *testing.T) {
	t.Parallel()
	r := newRig(t, web.Options{})
	r.published("k", "f", "one")
	if got := r.call("GET", "/k/k?done=You+are+hacked", "").want(200); strings.Contains(got.body, "hacked") || strings.Contains(got.body, "notice good") {
		t.Errorf("the page says %s", got.body)
	}
	for _, name := range []string{"rollback", "pin", "unpin", "retire", "break-lease"} {
		r.call("GET", "/k/none/-/"+name, "").wantProblem(publish.ErrNotFound)
		f := form{rig: r, action: "/k/none/-/" + name, fields: url.Values{"reason": {"r"}, "to": {"1.1"}, "confirm": {"none"}, "token": {"1"}, "current": {"none"}, "pinned": {"none"}}}
		if got := f.send().want(404); !strings.Contains(got.body, "<h1>Not found</h1>") {
			t.Errorf("%s: %s", name, got.body)
		}
	}
	if got := r.call("GET", "/k/k/-/rollback?to=7.1", "").want(200); !strings.Contains(got.body, "no other version") && !strings.Contains(got.body, `value="7.1" selected`) {
		t.Errorf("a link to a version that isn't there gives %s", got.body)
	}
}
