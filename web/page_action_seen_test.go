package web_test

import (
	"strings"
	"testing"

	"github.com/pawlhq/pawl/publish"
	"github.com/pawlhq/pawl/web"
)

// A button on an old page ends no lease but the one that stood beside it.
func TestActionsEndTheLeaseThatWasSeen(t *testing.T) {
	t.Parallel()
	for _, action := range []string{"rollback", "retire"} {
		t.Run(action, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, web.Options{})
			r.published("k", "f", "one")
			r.published("k", "f", "two")
			seen := r.grant("k")
			page := r.call("GET", "/k/k", "").want(200)
			if strings.Count(page.body, `name="break_lease" value="3"`) != 2 {
				t.Errorf("the page doesn't say whose lease it would end: %s", page.body)
			}
			r.call("DELETE", "/v1/keys/k/-/lease", "", "Pawl-Lease", seen.lease).want(204)
			unseen := r.grant("k")
			old := r.formOn(page, "/k/k/-/"+action).with("reason", "r", "confirm", "k", "break_lease", "3")
			if got := old.refused(423); !strings.Contains(got, `"test" holds the key under token 4`) {
				t.Errorf("an old page says %q", got)
			}
			if again := old.send(); strings.Contains(again.body, " checked") || !strings.Contains(again.body, `name="break_lease" value="4"`) {
				t.Errorf("the form agrees to end another lease: %s", again.body)
			}
			r.call("PATCH", "/v1/keys/k/-/lease", "", "Pawl-Lease", unseen.lease).want(200)
			old.with("break_lease", "true").send().want(400)
			old.with("break_lease", "4").send().want(303)
		})
	}
}

// A form that stood where nothing was current brings nothing back over what was published since.
func TestRollbackOnAPageWithoutVersion(t *testing.T) {
	t.Parallel()
	r := newRig(t, web.Options{})
	r.published("k", "f", "one")
	r.call("DELETE", "/v1/keys/k", "").want(200)
	old := r.formOn(r.call("GET", "/k/k/-/rollback", ""), "/k/k/-/rollback").with("reason", "r")
	if old.fields.Get("current") != "none" {
		t.Errorf("the form says that %q was current", old.fields.Get("current"))
	}
	r.published("k", "f", "fresh")
	if got := old.refused(412); !strings.Contains(got, "3.1 is") {
		t.Errorf("an old page says %q", got)
	}
	if r.etag("k") != `"3.1"` {
		t.Errorf("%s is current", r.etag("k"))
	}
	for _, field := range []string{"request", "current", "pinned"} {
		bare := old.with()
		bare.fields.Del(field)
		if got := bare.refused(400); !strings.HasPrefix(got, field+": is missing") {
			t.Errorf("without %s: %q", field, got)
		}
	}
	r.call("DELETE", "/v1/keys/k?current=none", "").wantProblem(publish.ErrPreconditionFailed)
	r.call("POST", "/v1/keys/k/-/rollback", `{"to":1,"reason":"r","current":"none"}`).wantProblem(publish.ErrPreconditionFailed)
	r.call("PUT", "/v1/keys/k/-/pin", `{"reason":"r","current":"none"}`).wantProblem(publish.ErrPreconditionFailed)
}

// Buttons on old pages neither take away nor replace a pin that nobody saw there.
func TestActionsKeepAPinThatWasNotSeen(t *testing.T) {
	t.Parallel()
	r := newRig(t, web.Options{})
	r.published("k", "f", "one")
	r.published("k", "f", "two")
	unpinned := r.call("GET", "/k/k", "")
	r.call("PUT", "/v1/keys/k/-/pin", `{"reason":"review"}`, publish.HeaderBy, "anna").want(200)
	unpin := r.formOn(r.call("GET", "/k/k", ""), "/k/k/-/unpin")
	unpin.send().want(303)
	unpin.send().want(303) // a double click
	r.pointers.Advance(2e9)
	r.call("PUT", "/v1/keys/k/-/pin", `{"reason":"LEGAL HOLD"}`, publish.HeaderBy, "bob").want(200)
	for _, f := range []form{
		unpin, r.formOn(unpinned, "/k/k/-/pin").with("reason", "mine", "by", "anna"), r.formOn(unpinned, "/k/k/-/rollback").with("reason", "r", "pin", "true"),
	} {
		if got := f.refused(412); !strings.Contains(got, `"bob" has pinned the key since (LEGAL HOLD)`) {
			t.Errorf("%s says %q", f.action, got)
		}
	}
	r.call("DELETE", "/v1/keys/k/-/pin?pinned_at=none", "").wantProblem(publish.ErrPreconditionFailed)
	r.call("DELETE", "/v1/keys/k/-/pin?pinned_at=noon", "").wantProblem(publish.ErrInvalidRequest)
	pin := r.call("GET", "/v1/keys/k", "").want(200)
	if !strings.Contains(pin.body, "LEGAL HOLD") {
		t.Errorf("the pin is gone: %s", pin.body)
	}
	r.formOn(unpin.send(), unpin.action).send().want(303) // Now it was seen.
	mine := r.formOn(r.call("GET", "/k/k", ""), "/k/k/-/pin").with("reason", "mine", "by", "anna")
	mine.send().want(303)
	mine.send().want(303)
}

// What the page says was done is said only where it is so.
func TestDoneIsSaidWhereItIsSo(t *testing.T) {
	t.Parallel()
	r := newRig(t, web.Options{})
	r.published("k", "f", "one")
	r.grant("k")
	for _, word := range []string{"retire", "pin", "break-lease", "uploaded", "rollback"} {
		if page := r.call("GET", "/k/k?done="+word, "").want(200); strings.Contains(page.body, "notice good") {
			t.Errorf("%s: the page says that it is done", word)
		}
	}
	r.call("PUT", "/v1/keys/k/-/pin", `{"reason":"review"}`).want(200)
	if page := r.call("GET", "/k/k?done=unpin", "").want(200); strings.Contains(page.body, "notice good") {
		t.Error("unpin: the page says that it is done")
	}
}

// A lease that was over by itself isn't said to be broken, and nothing is recorded of it. That of a double click is.
func TestBreakLeaseOfALeaseThatIsOver(t *testing.T) {
	t.Parallel()
	r := newRig(t, web.Options{})
	r.published("k", "f", "one")
	held := r.grant("k")
	f := r.formOn(r.call("GET", "/k/k", ""), "/k/k/-/break-lease").with("reason", "gone", "by", "mia")
	r.call("DELETE", "/v1/keys/k/-/lease", "", "Pawl-Lease", held.lease).want(204)
	page := f.send().want(412)
	page.shows(`The lease of "test" is over already: it was given back, or ran out. Nothing was done.`, "Nobody holds the key.")
	page.lacks("The lease is broken.")
	if audit := r.call("GET", "/v1/audit", "").want(200); strings.Contains(audit.body, "break-lease") {
		t.Errorf("the audit is %s", audit.body)
	}
	r.grant("k")
	again := r.formOn(r.call("GET", "/k/k", ""), "/k/k/-/break-lease").with("reason", "gone")
	again.done()
	again.done().shows("The lease is broken.")
}

// A form may say its charset, and one that is too large is called no JSON. A bad name is a fault of its field, on other pages too.
func TestFormsAreReadAsForms(t *testing.T) {
	t.Parallel()
	r := newRig(t, web.Options{})
	r.published("k", "f", "one")
	f := r.formOn(r.call("GET", "/k/k", ""), "/k/k/-/pin").with("reason", "r")
	f.send("Content-Type", formType+"; charset=UTF-8").want(303)
	if got := f.with("reason", strings.Repeat("x", 2<<20)).send().want(413); strings.Contains(got.body, "JSON") {
		t.Errorf("a large form: %s", got.body)
	}
	got := r.call("POST", "/policies", "prefix=a&fence_mode=granted&by=a%0Ab", "Content-Type", formType, "Accept", "text/html").want(400)
	if strings.Contains(got.body, publish.HeaderBy) || !strings.Contains(got.body, "by: has a control") {
		t.Errorf("a bad name in a policy: %s", got.body)
	}
}
