package web_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/pawlhq/pawl/publish"
	"github.com/pawlhq/pawl/web"
)

const by = publish.HeaderBy

// words puts facts into one line.
func words(facts ...any) string { return strings.TrimSpace(fmt.Sprintln(facts...)) }

// Two versions, and the first one again: files by reference, at permanent addresses of the new generation.
func TestRollback(t *testing.T) {
	t.Parallel()
	r := newRig(t, web.Options{})
	r.published("k", "f", "one")
	r.published("k", "f", "two")
	stored := r.blobs.Faults.Calls("Put")
	const body = `{"to":1,"reason":"two flickers","pin":true}`
	id := publish.NewLeaseID().Hex()
	receipt := r.call("POST", "/v1/keys/k/-/rollback", body, by, "mia@ws-12", "Idempotency-Key", id).want(200).json()
	got := words(receipt["token"], receipt["revision"], receipt["publisher"], receipt["reason"], receipt["rollback_to"], receipt["previous"], receipt["url"], receipt["replayed"])
	want := "3 1 mia@ws-12 two flickers map[revision:1 token:1] map[revision:1 token:2] /v1/keys/k/-/generations/3/files/f false"
	if got != want {
		t.Errorf("the receipt says\n%s, want\n%s", got, want)
	}
	if r.blobs.Faults.Calls("Put") != stored {
		t.Error("bytes were copied")
	}
	if got := r.call("GET", "/v1/keys/k/-/generations/3/files/f", "").want(200); got.body != "one" || !strings.Contains(got.header.Get("Cache-Control"), "immutable") {
		t.Errorf("the file is %q with %v", got.body, got.header)
	}
	pointer := r.call("GET", "/v1/keys/k", "").want(200)
	if !strings.Contains(pointer.body, `"pinned":{"reason":"two flickers","by":"mia@ws-12","at":"`) || pointer.header.Get("ETag") != `"3.1"` {
		t.Errorf("the pointer is %s with %v", pointer.body, pointer.header)
	}
	again := r.call("POST", "/v1/keys/k/-/rollback", body, by, "mia@ws-12", "Idempotency-Key", id).want(200).json()
	if again["replayed"] != true || again["token"] != 3.0 {
		t.Errorf("the repeat gave %v", again)
	}
	other := r.call("POST", "/v1/keys/k/-/rollback", `{"to":2,"reason":"r"}`, "Idempotency-Key", id).wantProblem(publish.ErrInvalidRequest)
	if detail := fmt.Sprint(other["detail"]); !strings.Contains(detail, "Idempotency-Key: ") || !strings.Contains(detail, "send a new one") {
		t.Errorf("another request under the same id is told %v", other)
	}
	worker := r.grant("k")
	worker.put("f", "three").want(201)
	if members := worker.publish("").wantProblem(publish.ErrPinned); !strings.Contains(fmt.Sprint(members["detail"]), `"mia@ws-12" has pinned the key to version 3.1 (two flickers)`) {
		t.Errorf("the refusal says %v", members)
	}
	worker.put("f?publish=true", "three").wantProblem(publish.ErrPinned)
	r.call("DELETE", "/v1/keys/k/-/pin", "").want(204)
	r.call("DELETE", "/v1/keys/k/-/pin", "").want(204)
	worker.publish("").want(200)
	for to, code := range map[string]publish.Code{`"1.2"`: publish.ErrNotFound, `9`: publish.ErrNotFound, `"4"`: publish.ErrLeaseHeld} {
		r.call("POST", "/v1/keys/k/-/rollback", `{"to":`+to+`,"reason":"r"}`).wantProblem(code)
	}
	r.call("POST", "/v1/keys/k/-/rollback", `{"to":"2.1","reason":"r","break_lease":true}`).want(200)
	worker.publish("").want(200) // its own replay
	worker.put("f", "four").wantProblem(publish.ErrStaleToken)
}

func TestPin(t *testing.T) {
	t.Parallel()
	r := newRig(t, web.Options{})
	r.call("PUT", "/v1/keys/k/-/pin", `{"reason":"r"}`).wantProblem(publish.ErrNotFound)
	r.call("DELETE", "/v1/keys/k/-/pin", "").wantProblem(publish.ErrNotFound)
	r.published("k", "f", "one")
	r.call("PUT", "/v1/keys/k/-/pin", `{"reason":"r","current":"2.1"}`).wantProblem(publish.ErrPreconditionFailed)
	answer := r.call("PUT", "/v1/keys/k/-/pin", `{"reason":"r","current":"1.1"}`).want(200).json()
	if got := words(answer["key"], answer["current"], answer["reason"], answer["by"]); got != "k map[revision:1 token:1] r unknown" {
		t.Errorf("the pin is %s", got)
	}
	if members := r.call("DELETE", "/v1/keys/k", "").wantProblem(publish.ErrPinned); !strings.Contains(fmt.Sprint(members["detail"]), "unpin it first") {
		t.Errorf("the refusal says %v", members)
	}
}

// Case 51: a retired key is told from one that never was, everywhere, and can be published again under a greater token.
func TestCase51Retire(t *testing.T) {
	t.Parallel()
	r := newRig(t, web.Options{})
	r.call("DELETE", "/v1/keys/k", "").wantProblem(publish.ErrNotFound)
	r.published("k", "f", "one")
	r.call("DELETE", "/v1/keys/k?current=2.1", "").wantProblem(publish.ErrPreconditionFailed)
	r.call("POST", "/v1/keys/k/-/rollback", `{"to":1,"reason":"r","current":"2.1"}`).wantProblem(publish.ErrPreconditionFailed)
	held := r.grant("k")
	members := r.call("DELETE", "/v1/keys/k", "").wantProblem(publish.ErrLeaseHeld)
	if !strings.Contains(fmt.Sprint(members["detail"]), "break_lease") {
		t.Errorf("the refusal says %v", members)
	}
	retired := r.call("DELETE", "/v1/keys/k?break_lease=true&reason=shot+was+cut", "", by, "mia@ws-12").want(200).json()
	if got := words(retired["token"], retired["reason"], retired["by"], retired["previous"]); got != "3 shot was cut mia@ws-12 map[revision:1 token:1]" {
		t.Errorf("the retirement is %s", got)
	}
	held.put("f", "late").wantProblem(publish.ErrStaleToken)
	for _, target := range []string{"/v1/keys/k", "/v1/keys/k/-/current", "/v1/keys/k/-/current/f", "/v1/keys/k?wait=10ms"} {
		members := r.call("GET", target, "").wantProblem(publish.ErrRetired)
		if !strings.Contains(fmt.Sprint(members["detail"]), `"mia@ws-12" has retired the key under token 3 (shot was cut)`) {
			t.Errorf("GET %s says %v", target, members)
		}
	}
	if got := r.call("GET", "/v1/keys", "").want(200); strings.Contains(got.body, `"k"`) {
		t.Errorf("the list is %s", got.body)
	}
	if got := r.call("POST", "/v1/resolve", `{"keys":["k"]}`).want(200); !strings.Contains(got.body, `{"key":"k","found":false,"retired":true,"url":null}`) {
		t.Errorf("the key resolves to %s", got.body)
	}
	if got := r.call("GET", "/v1/keys/k/-/generations/1/files/f", "").want(200); got.body != "one" {
		t.Errorf("the permanent address gives %q", got.body)
	}
	if got := r.call("GET", "/v1/keys/k/-/generations", "").want(200); !strings.Contains(got.body, `"kind":"retire"`) || !strings.Contains(got.body, `"retired":{"key":"k","token":3,`) {
		t.Errorf("the history is %s", got.body)
	}
	if again := r.call("DELETE", "/v1/keys/k", "").want(200).json(); again["token"] != 3.0 || again["replayed"] != true {
		t.Errorf("the repeat gave %v", again)
	}
	b := r.grant("k")
	b.put("f", "two").want(201)
	r.call("POST", b.generation()+"/publish", "", "Pawl-Lease", b.lease, "If-None-Match", "*").want(200)
	if got := r.call("GET", "/v1/keys/k", "").want(200); got.header.Get("ETag") != `"4.1"` {
		t.Errorf("it came back as %s", got.body)
	}
}

// What is wrong with a request of an operator is named, with its cure.
func TestOperatorRequests(t *testing.T) {
	t.Parallel()
	r := newRig(t, web.Options{})
	r.published("k", "f", "one")
	tests := []struct{ method, target, body, header, value, pointer string }{
		{"POST", "/-/rollback", `{"reason":"r"}`, "", "", "/to"},
		{"POST", "/-/rollback", `{"to":1e0,"reason":"r"}`, "", "", "/to"},
		{"POST", "/-/rollback", `{"to":1.1,"reason":"r"}`, "", "", "/to"},
		{"POST", "/-/rollback", `{"to":0,"reason":"r"}`, "", "", "/to"},
		{"POST", "/-/rollback", `{"to":"1.1.1","reason":"r"}`, "", "", "/to"},
		{"POST", "/-/rollback", `{"to":1}`, "", "", "/reason"},
		{"POST", "/-/rollback", `{"to":1,"reason":"` + strings.Repeat("x", 501) + `"}`, "", "", "/reason"},
		{"POST", "/-/rollback", `{"to":1,"reason":"a\nb"}`, "", "", "/reason"},
		{"POST", "/-/rollback", `{"to":1,"reason":"r","force":true}`, "", "", "/force"},
		{"POST", "/-/rollback", `{"to":1,"reason":"r"}`, by, "", by},
		{"POST", "/-/rollback", `{"to":1,"reason":"r"}`, by, strings.Repeat("x", 201), by},
		{"POST", "/-/rollback", `{"to":1,"reason":"r"}`, "Idempotency-Key", "once", "Idempotency-Key"},
		{"POST", "/-/rollback?to=1", `{"to":1,"reason":"r"}`, "", "", "query"},
		{"POST", "/-/rollback", `{"to":1,"reason":"r","current":"1"}`, "", "", "/current"},
		{"PUT", "/-/pin", `{}`, "", "", "/reason"},
		{"PUT", "/-/pin", `{"reason":"r","current":"1"}`, "", "", "/current"},
		{"PUT", "/-/pin", `{"reason":"r"}`, "Pawl-Lease", publish.NewLeaseID().Hex(), "Pawl-Lease"},
		{"DELETE", "?break_lease=yes", "", "", "", "break_lease"},
		{"DELETE", "?current=1", "", "", "", "current"},
		{"DELETE", "?force=true", "", "", "", "query"},
	}
	for _, test := range tests {
		var headers []string
		if test.header != "" {
			headers = []string{test.header, test.value}
		}
		members := r.call(test.method, "/v1/keys/k"+test.target, test.body, headers...).wantProblem(publish.ErrInvalidRequest)
		if got := fmt.Sprint(members["errors"]); !strings.Contains(got, "pointer:"+test.pointer+"]") {
			t.Errorf("%s %s %s: the error names %s, want %s", test.method, test.target, test.body, got, test.pointer)
		}
	}
	if got := r.call(http.MethodGet, "/v1/keys/k", "").want(200); got.header.Get("ETag") != `"1.1"` || strings.Contains(got.body, "pinned") {
		t.Errorf("something was changed: %s", got.body)
	}
}
