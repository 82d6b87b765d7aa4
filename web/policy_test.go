package web_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/pawlhq/pawl/publish"
	"github.com/pawlhq/pawl/web"
)

// A policy is set, shown, in force at once, and removed; each change is in the audit.
func TestPolicies(t *testing.T) {
	t.Parallel()
	r := newRig(t, web.Options{})
	if got := r.call("GET", "/v1/policies", "").want(200); got.body != `{"policies":[]}`+"\n" {
		t.Errorf("no policies are %s", got.body)
	}
	const limits = `{"fence_mode":"granted","keep_generations":5,"keep_for":"720h","keep_unpublished_for":"48h","max_ttl":"1m","max_file_bytes":4,"max_generation_bytes":6}`
	const want = `{"prefix":"a/b","fence_mode":"granted","keep_generations":5,"keep_for":"720h0m0s","keep_unpublished_for":"48h0m0s","max_ttl":"1m0s","max_file_bytes":4,"max_generation_bytes":6}`
	if got := r.call("PUT", "/v1/policies?prefix=a/b", limits, by, "mia@ws-12").want(200); got.body != want+"\n" {
		t.Errorf("the answer is %s", got.body)
	}
	r.call("PUT", "/v1/policies?prefix=", "").want(200)
	if got := r.call("GET", "/v1/policies?limit=1", "").want(200); got.body != `{"policies":[{"prefix":"","fence_mode":"accepted"}],"next":""}`+"\n" {
		t.Errorf("the first page is %s", got.body)
	}
	if got := r.call("GET", "/v1/policies?limit=1&after=", "").want(200); got.body != `{"policies":[`+want+"]}\n" {
		t.Errorf("the second page is %s", got.body)
	}

	members := r.call("POST", "/v1/keys/a/b/c/-/lease", `{"holder":"w","ttl":"61s"}`).wantProblem(publish.ErrInvalidRequest)
	if !strings.Contains(fmt.Sprint(members["errors"]), "pointer:/ttl]") || !strings.Contains(fmt.Sprint(members["detail"]), `the policy of prefix "a/b" allows`) {
		t.Errorf("the refusal of a long lease says %v", members)
	}
	w := r.grant("a/b/c")
	for _, header := range [][]string{nil, {"Repr-Digest", "sha-256=:" + strings.Repeat("B", 42) + "A=:"}} {
		if members := w.put("f", "12345", header...).wantProblem(publish.ErrTooLarge); members["limit"] != 4.0 {
			t.Errorf("the refusal of a large file says %v", members)
		}
	}
	if members := w.begin("f", "12345").wantProblem(publish.ErrTooLarge); members["limit"] != 4.0 {
		t.Errorf("the refusal of a large direct upload says %v", members)
	}
	w.put("f", "1234").want(201)
	w.put("g", "123").want(201)
	members = w.publish("").wantProblem(publish.ErrTooLarge)
	if members["limit"] != 6.0 || !strings.Contains(fmt.Sprint(members["detail"]), "7 bytes, more than the 6") {
		t.Errorf("the refusal of a large set says %v", members)
	}
	w.put("g", "12").want(200)
	w.publish("").want(200)

	r.call("DELETE", "/v1/policies?prefix=a/b", "").want(204)
	r.call("DELETE", "/v1/policies?prefix=a/b", "").want(204)
	audit := r.call("GET", "/v1/audit", "").want(200)
	if n := strings.Count(audit.body, `"action":"policy"`); n != 3 || !strings.Contains(audit.body, `"by":"mia@ws-12","action":"policy","subject":"a/b","after":{`) {
		t.Errorf("the audit is %s", audit.body)
	}
	if got := r.call("GET", "/v1/audit?limit=1&before=2", "").want(200); !strings.Contains(got.body, `"id":1,`) || strings.Contains(got.body, "next") {
		t.Errorf("the last page of the audit is %s", got.body)
	}
}

func TestPolicyRequests(t *testing.T) {
	t.Parallel()
	r := newRig(t, web.Options{})
	tests := []struct{ method, target, body, pointer string }{
		{"PUT", "/v1/policies", "", "prefix"},
		{"DELETE", "/v1/policies", "", "prefix"},
		{"PUT", "/v1/policies?prefix=a/", "", "prefix"},
		{"PUT", "/v1/policies?prefix=/a", "", "prefix"},
		{"PUT", "/v1/policies?prefix=a/-", "", "prefix"},
		{"PUT", "/v1/policies?prefix=a%00", "", "prefix"},
		{"DELETE", "/v1/policies?prefix=a/", "", "prefix"},
		{"PUT", "/v1/policies?prefix=a", `{"fence_mode":"strict"}`, "/fence_mode"},
		{"PUT", "/v1/policies?prefix=a", `{"keep_generations":0}`, "/keep_generations"},
		{"PUT", "/v1/policies?prefix=a", `{"keep_generations":2147483648}`, "/keep_generations"},
		{"PUT", "/v1/policies?prefix=a", `{"max_file_bytes":-2}`, "/max_file_bytes"},
		{"PUT", "/v1/policies?prefix=a", `{"keep_for":"0s"}`, "/keep_for"},
		{"PUT", "/v1/policies?prefix=a", `{"keep_for":"1ms"}`, "/keep_for"},
		{"PUT", "/v1/policies?prefix=a", `{"max_ttl":"25h"}`, "/max_ttl"},
		{"PUT", "/v1/policies?prefix=a", `{"max_ttl":30}`, "/max_ttl"},
		{"PUT", "/v1/policies?prefix=a", `{"keep":1}`, "/keep"},
		{"GET", "/v1/policies?after=%00", "", "after"},
		{"GET", "/v1/audit?before=0", "", "before"},
		{"GET", "/v1/audit?before=x", "", "before"},
		{"GET", "/v1/audit?limit=1001", "", "limit"},
	}
	for _, test := range tests {
		members := r.call(test.method, test.target, test.body).wantProblem(publish.ErrInvalidRequest)
		if got := fmt.Sprint(members["errors"]); !strings.Contains(got, "pointer:"+test.pointer+"]") {
			t.Errorf("%s %s %s: the error names %s, want %s", test.method, test.target, test.body, got, test.pointer)
		}
	}
	if got := r.call("GET", "/v1/policies", "").want(200); got.body != `{"policies":[]}`+"\n" {
		t.Errorf("a policy was set: %s", got.body)
	}
}

// Tokens that run out are told of from 90 % on: to the worker, in the log and in a counter. At the end the refusal names the way out.
func TestTokensRunOut(t *testing.T) {
	t.Parallel()
	r := newRig(t, web.Options{})
	acquire := func() answer {
		return r.call("POST", "/v1/keys/k/-/lease", `{"holder":"w","ttl":"1h"}`)
	}
	const warnAt = publish.MaxToken / 10 * 9
	acquire().want(201)
	for _, step := range []struct {
		counter publish.Token
		left    int64 // 0: no warning
	}{{warnAt - 2, 0}, {warnAt - 1, int64(publish.MaxToken - warnAt)}, {publish.MaxToken - 2, 1}} {
		r.pointers.Expire("k")
		r.pointers.SetCounter("k", step.counter)
		lease := acquire().want(201)
		if got, want := strings.Contains(lease.body, fmt.Sprintf(`"tokens_left":%d`, step.left)), step.left > 0; got != want {
			t.Errorf("the grant after %d is %s", step.counter, lease.body)
		}
	}
	if n := strings.Count(r.log.String(), "tokens_running_out"); n != 2 {
		t.Errorf("the log has %d warnings", n)
	}
	if metrics := r.call("GET", "/metrics", "").want(200); !strings.Contains(metrics.body, "pawl_tokens_running_out_total 2\n") {
		t.Error("they aren't counted")
	}
	r.pointers.Expire("k")
	r.pointers.SetCounter("k", publish.MaxToken)
	if detail := fmt.Sprint(acquire().wantProblem(publish.ErrTokenExhausted)["detail"]); !strings.Contains(detail, "publish under another key") {
		t.Errorf("the refusal says %q", detail)
	}
}

// Who administers some of the keys that a policy is for sets one of his own for these: it may be stricter, and lifts no limit of the other.
func TestNarrowAdminLiftsNoLimit(t *testing.T) {
	t.Parallel()
	r, known := newAuthRig(t, web.Options{})
	wide, narrow := known.issue(t, "wide", "admin:team-a"), known.issue(t, "narrow", "admin:team-a/x")
	r.with(wide, "PUT", "/v1/policies?prefix=team-a", `{"max_ttl":"1m","max_file_bytes":4}`).want(200)
	r.with(narrow, "PUT", "/v1/policies?prefix=team-a", `{"max_ttl":"1h"}`).want(403)
	r.with(narrow, "PUT", "/v1/policies?prefix=team-a/x", `{"max_ttl":"1h","max_file_bytes":1000}`).want(200)
	r.with(narrow, "POST", "/v1/keys/team-a/x/k/-/lease", `{"holder":"w","ttl":"61s"}`).wantProblem(publish.ErrInvalidRequest)
	w := r.grantTo(narrow, "team-a/x/k")
	if members := w.put("f", "12345", narrow...).wantProblem(publish.ErrTooLarge); members["limit"] != 4.0 {
		t.Errorf("the refusal of a large file says %v", members)
	}
	r.with(narrow, "PUT", "/v1/policies?prefix=team-a/x", `{"max_file_bytes":2}`).want(200)
	w.put("f", "123", narrow...).wantProblem(publish.ErrTooLarge)
	r.with(narrow, "DELETE", "/v1/policies?prefix=team-a/x", "").want(204)
	w.put("f", "1234", narrow...).want(201)
	w.put("f", "12345", narrow...).wantProblem(publish.ErrTooLarge)
}
