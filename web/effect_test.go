package web_test

import (
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/pawlhq/pawl/publish"
	"github.com/pawlhq/pawl/web"
)

func (w worker) effect(name, body string) answer {
	w.t.Helper()
	return w.call("POST", w.generation()+"/effects/"+name, body, "Pawl-Lease", w.lease)
}

// A stalled worker and its successor get the same idempotency key, and the successor learns what was done.
func TestEffect(t *testing.T) {
	t.Parallel()
	r := newRig(t, web.Options{})
	a := r.grant("invoices/52")
	asked := a.effect("charge", "").want(200)
	members := asked.json()
	for _, absent := range []string{"done_token", "done_at", "result", "superseded_by", "tokens"} {
		if _, there := members[absent]; there {
			t.Errorf("a pending effect has %s: %s", absent, asked.body)
		}
	}
	if members["key"] != "invoices/52" || members["name"] != "charge" || members["state"] != "pending" ||
		members["first_token"] != 1.0 || members["token"] != 1.0 || members["first_at"] == nil || members["asked_at"] == nil {
		t.Errorf("the answer is %s", asked.body)
	}
	prefix, _ := r.call("GET", "/v1/keys/invoices/52/-/lease", "").want(200).json()["effect_prefix"].(string)
	key := members["idempotency_key"]
	if prefix == "" || key != prefix+"charge" {
		t.Errorf("the idempotency key is %v, the prefix of the lease %q", key, prefix)
	}
	r.pointers.Expire("invoices/52")
	b := r.grant("invoices/52")
	if got := b.effect("charge", `{"state":"done","result":"ch_1"}`).want(200); got.json()["idempotency_key"] != key ||
		got.json()["done_token"] != 2.0 || got.json()["result"] != "ch_1" || got.json()["done_at"] == nil {
		t.Errorf("the successor's answer is %s", got.body)
	}
	late := a.effect("charge", `{"state":"pending"}`).want(200)
	if late.json()["state"] != "done" || late.header.Get("Pawl-Superseded-By") != "2" || late.json()["superseded_by"] != 2.0 {
		t.Errorf("the older one's answer is %v %s", late.header, late.body)
	}
	b.put("receipt.json", "{}").want(201)
	b.publish("").want(200)
	if got := b.effect("mail", "").want(200); got.header.Get("Pawl-Superseded-By") != "" { // after its final publish
		t.Errorf("superseded by %q", got.header.Get("Pawl-Superseded-By"))
	}
	if refused := a.effect("charge", "").wantProblem(publish.ErrStaleToken); refused["operation"] != "effect" || refused["path"] != "charge" {
		t.Errorf("the refusal is %v", refused)
	}
	if got := r.call("GET", "/metrics", "").body; !strings.Contains(got, `pawl_fence_rejections_total{operation="effect"} 1`) {
		t.Error("the rejection isn't counted")
	}
	if log := r.log.String(); !strings.Contains(log, `"msg":"fence_rejected"`) || !strings.Contains(log, `"operation":"effect"`) {
		t.Error("the rejection isn't logged")
	}
	history := r.call("GET", "/v1/keys/invoices/52/-/generations/1", "").want(200)
	if !strings.Contains(history.body, `"operation":"effect","code":"stale-token","path":"charge"`) {
		t.Errorf("the rejection isn't in the history: %s", history.body)
	}
	page := r.call("GET", "/v1/keys/invoices/52/-/effects?limit=1", "").want(200)
	if page.json()["next"] != "charge" || !strings.Contains(page.body, `"tokens":[{"token":2,"holder":"test",`) {
		t.Errorf("the first page is %s", page.body)
	}
	page = r.call("GET", "/v1/keys/invoices/52/-/effects?after=charge", "").want(200)
	if !strings.Contains(page.body, `"name":"mail"`) || strings.Contains(page.body, `"next"`) || strings.Contains(page.body, `"name":"charge"`) {
		t.Errorf("the second page is %s", page.body)
	}
}

// legalEffectNames come back byte for byte, in whatever way a URL spells them.
var legalEffectNames = []string{"n", "N", "0", "-", "_", "~", "...", "a.b", "a:b@c+d=e,f", "tenant-7:invoice-52", "a..b", strings.Repeat("x", 128)}

// A name that could be lost on its way in a header or a URL is refused before any body is read and before any look-up.
func TestEffectNames(t *testing.T) {
	t.Parallel()
	r := newRig(t, web.Options{})
	w := r.grant("k")
	for _, name := range legalEffectNames {
		escaped := ""
		for i := range len(name) {
			escaped += fmt.Sprintf("%%%02x", name[i])
		}
		for _, spelling := range []string{name, url.PathEscape(name), escaped} {
			if got := w.effect(spelling, "").want(200).json()["name"]; got != name {
				t.Errorf("%q came back as %q", name, got)
			}
		}
	}
	calls := r.pointers.Faults.Calls("Effect")
	refused := []string{
		"", ".", "..", "%2e", "%2E%2e", "a/b", "a%2Fb", "/", "a/", "%00", "a%0Ab", "a%0D%0AX-Evil:%201", "a%20b", "%20", "a%09b", "a%7Fb", "caf%C3%A9", "cafe%CC%81",
		"a%E2%80%AEb", "%F0%9F%98%80", "a%C0%AFb", "a%FFb", "a%25b", "%252e%252e", "a%253Fb", "a%3Fb", "a%23b", "a%22b", "a'b", "a;b", "a&b", "a*b", "a!b", "a(b)", "a%5Cb",
		"a%7Cb", "a%3Cb%3E", "%24x", "a%5Bb%5D", strings.Repeat("x", 129), strings.Repeat("x", 5000),
	}
	for _, name := range refused {
		for _, method := range []string{"POST", "BREW"} {
			got := r.head(method, w.generation()+"/effects/"+name)
			if got.header.Get("X-Continued") != "" {
				t.Fatalf("%s %q: the body was asked for", method, name)
			}
			got.wantProblem(publish.ErrInvalidRequest)
			if !strings.Contains(got.body, `"pointer":"name"`) {
				t.Errorf("%s %q: the field isn't named: %s", method, name, got.body)
			}
			if name != "" && strings.Contains(name, "Evil") && strings.Contains(got.body, "Evil") {
				t.Errorf("the answer repeats %q", name)
			}
		}
	}
	if got := r.pointers.Faults.Calls("Effect"); got != calls {
		t.Errorf("refused names were looked up %d times", got-calls)
	}
	for _, after := range []string{"a/b", "..", "a b", "é", strings.Repeat("x", 129)} {
		got := r.call("GET", "/v1/keys/k/-/effects?after="+url.QueryEscape(after), "")
		if got.wantProblem(publish.ErrInvalidRequest); !strings.Contains(got.body, `"pointer":"after"`) {
			t.Errorf("after=%q: the field isn't named: %s", after, got.body)
		}
	}
	r.call("GET", "/v1/keys/k/-/effects?after=&limit=1", "").want(200)
	r.call("GET", "/v1/keys/unknown/-/effects", "").wantProblem(publish.ErrNotFound)
}

// A body that isn't what an effect takes is refused by its member, and the store isn't asked.
func TestEffectBodies(t *testing.T) {
	t.Parallel()
	r := newRig(t, web.Options{})
	w := r.grant("k")
	for body, pointer := range map[string]string{
		`{"state":"maybe"}`:                    "/state",
		`{"state":""}`:                         "/state",
		`{"state":"Done"}`:                     "/state",
		`{"state":null}`:                       "/state",
		`{"state":1}`:                          "/state",
		`{"result":"x"}`:                       "/result",
		`{"state":"pending","result":"x"}`:     "/result",
		`{"state":"done","result":7}`:          "/result",
		`{"state":"done","result":"a\u0000b"}`: "/result",
		`{"state":"done","result":"a\ud800b"}`: "/result",
		`{"state":"done","name":"n"}`:          "/name",
		`{"state":"done","state":"done"}`:      "/state",
		`{"state":"done","result":"` + strings.Repeat("é", 513) + `"}`: "/result",
		`["done"]`: "",
	} {
		got := w.effect("n", body)
		if got.wantProblem(publish.ErrInvalidRequest); !strings.Contains(got.body, `"pointer":"`+pointer+`"`) {
			t.Errorf("%.80s: want %s named, got %s", body, pointer, got.body)
		}
	}
	if n := r.pointers.Faults.Calls("Effect"); n != 0 {
		t.Errorf("the store was asked %d times", n)
	}
	w.call("POST", w.generation()+"/effects/n?done=true", "", "Pawl-Lease", w.lease).wantProblem(publish.ErrInvalidRequest)
	longest := strings.Repeat("é", 512)
	if got := w.effect("n", `{"state":"done","result":"`+longest+`"}`).want(200).json()["result"]; got != longest {
		t.Errorf("the longest result came back as %q", got)
	}
	// Who isn't the grant's holder gets no idempotency key.
	other := worker{rig: r, key: "k", token: 1, lease: strings.Repeat("0123456789abcdef", 2)}
	other.effect("n", "").wantProblem(publish.ErrLeaseLost)
	other.token = 2
	other.effect("n", "").wantProblem(publish.ErrUnknownToken)
	other.key = "unknown"
	other.effect("n", "").wantProblem(publish.ErrNotFound)
}
