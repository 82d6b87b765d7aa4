package web_test

import (
	"strings"
	"testing"

	"github.com/pawlhq/pawl/publish"
	"github.com/pawlhq/pawl/web"
)

// Who acts is who the credential says, in the API and on the page; a request that says otherwise is refused.
func TestTheCredentialSaysWhoActs(t *testing.T) {
	t.Parallel()
	r, known := newAuthRig(t, web.Options{})
	ops := known.issue(t, "ops team", "admin")
	r.publishedBy(ops, "k", "x")
	pin := func(headers ...string) answer {
		return r.with(ops, "PUT", "/v1/keys/k/-/pin", `{"reason":"r"}`, headers...)
	}
	got := pin("Pawl-By", "mallory")
	if got.wantProblem(publish.ErrInvalidRequest); !strings.Contains(got.body, "Pawl-By") || !strings.Contains(got.body, "leave it out") {
		t.Errorf("the refusal is %s", got.body)
	}
	if by := pin().want(200).json()["by"]; by != "ops team" {
		t.Errorf("pinned by %v", by)
	}
	pin("Pawl-By", "ops team").want(200)

	page := r.with(ops, "GET", "/k/k", "").want(200)
	if strings.Contains(page.body, `name="by" value=""`) || !strings.Contains(page.body, "You act as <bdi>ops team</bdi>") {
		t.Errorf("the page asks who they are: %s", page.body)
	}
	unpin := r.formOn(page, "/k/k/-/unpin")
	unpin.with("by", "mallory").send(ops...).want(400)
	unpin.send(ops...).want(303)

	policies := r.with(ops, "GET", "/policies", "").want(200)
	if strings.Contains(policies.body, `name="by"`) {
		t.Error("the page of policies asks who they are")
	}
	r.with(ops, "POST", "/policies", "prefix=k&fence_mode=granted&by=mallory", "Content-Type", formType).want(400)
	r.with(ops, "POST", "/policies", "prefix=k&fence_mode=granted", "Content-Type", formType).want(303)
	body, kind := uploadBody(t, "by=mallory", "f:y")
	r.with(ops, "POST", "/k/k/-/upload", body, "Content-Type", kind).want(400)
	body, kind = uploadBody(t, "by=ops team", "f:y")
	r.with(ops, "POST", "/k/k/-/upload", body, "Content-Type", kind).want(303)
	if by := r.with(ops, "GET", "/v1/keys/k", "").want(200).json()["publisher"]; by != "page: ops team" {
		t.Errorf("published by %v", by)
	}
	if audit := r.with(ops, "GET", "/v1/audit", "").want(200); strings.Count(audit.body, `"by":"ops team","action"`) != 3 || strings.Contains(audit.body, "mallory") {
		t.Errorf("the audit is %s", audit.body)
	}
}

// A page offers what its reader may do.
func TestPagesOfferWhatIsAllowed(t *testing.T) {
	t.Parallel()
	r, known := newAuthRig(t, web.Options{PublicRead: publish.ReachOf("k")})
	admin := known.issue(t, "root", "admin")
	r.publishedBy(admin, "k", "x")
	for _, test := range []struct {
		caller         []string
		upload, retire bool
	}{
		{nil, false, false},
		{known.issue(t, "reader", "read"), false, false},
		{known.issue(t, "worker", "publish"), true, false},
		{known.issue(t, "operator", "operate"), true, true},
	} {
		page := r.with(test.caller, "GET", "/k/k", "").want(200).body
		if got := strings.Contains(page, `action="/k/k/-/upload"`); got != test.upload || got != strings.Contains(page, "/static/upload.js") {
			t.Errorf("%v is offered to upload: %t", test.caller, got)
		}
		if got := strings.Contains(page, `action="/k/k/-/retire"`); got != test.retire {
			t.Errorf("%v is offered to retire: %t", test.caller, got)
		}
	}
}
