package web_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/pawlhq/pawl/publish"
	"github.com/pawlhq/pawl/web"
)

func TestResolve(t *testing.T) {
	t.Parallel()
	r := newRig(t, web.Options{BasePath: "/pawl"})
	r.published("a%20b", "f+g.png", "one")
	open := r.grant("open")
	open.put("x.m3u8", "first").want(201)
	open.publish(`{"final":false}`).want(200)
	set := r.grant("set")
	set.put("a", "x").want(201)
	set.put("b", "x").want(201)
	set.publish("").want(200)

	got := r.call("POST", "/v1/resolve", `{"keys":["set","nosuch","open","a b","set"]}`).want(200)
	var lines []string
	for _, entry := range got.json()["keys"].([]any) {
		e := entry.(map[string]any)
		lines = append(lines, fmt.Sprint(e["key"], " ", e["found"], " ", e["token"], " ", e["revision"], " ", e["primary"], " ", e["url"]))
	}
	want := []string{
		"set true 1 1 <nil> <nil>",
		"nosuch false <nil> <nil> <nil> <nil>",
		"open true 1 1 x.m3u8 /pawl/v1/keys/open/-/generations/1/files/x.m3u8?revision=1",
		"a b true 1 1 f+g.png /pawl/v1/keys/a%20b/-/generations/1/files/f%2Bg.png",
		"set true 1 1 <nil> <nil>",
	}
	if strings.Join(lines, "\n") != strings.Join(want, "\n") {
		t.Errorf("resolved\n%s\nwant\n%s", strings.Join(lines, "\n"), strings.Join(want, "\n"))
	}
	if digest := got.json()["keys"].([]any)[0].(map[string]any)["manifest_digest"]; digest != r.call("GET", "/v1/keys/set", "").json()["manifest_digest"] {
		t.Errorf("manifest_digest %v", digest)
	}
	// What was resolved stays readable as it was, whatever is published next.
	open.put("x.m3u8", "second").want(200)
	open.publish(`{"final":false}`).want(200)
	url := got.json()["keys"].([]any)[2].(map[string]any)["url"].(string)
	if got := r.call("GET", url, "").want(200); got.body != "first" {
		t.Errorf("%s gives %q", url, got.body)
	}
}

// Cases 34 and 35 for resolve: what is wrong is told of each key, before any look-up.
func TestResolveRefusesNames(t *testing.T) {
	t.Parallel()
	r := newRig(t, web.Options{})
	keys := []string{"good", "a/../b", "a/-/b", "cafe\u0301.png", "//a", `a\..\b`, "%2e%2e/x", "a\u202eb", "", "a\x7fb", strings.Repeat("k", 401), "fine"}
	members := r.call("POST", "/v1/resolve", `{"keys":`+jsonOf(keys)+`}`).wantProblem(publish.ErrInvalidKey)
	wrong := members["errors"].([]any)
	if len(wrong) != len(keys)-2 {
		t.Errorf("%d keys are refused, want all but the first and the last: %v", len(wrong), wrong)
	}
	for i, field := range wrong {
		f := field.(map[string]any)
		if f["pointer"] != fmt.Sprint("/keys/", i+1) || f["detail"] == "" {
			t.Errorf("error %d is about %v", i, f)
		}
	}
	one := r.call("POST", "/v1/resolve", `{"keys":["a","b","/c"]}`).wantProblem(publish.ErrInvalidKey)
	if !strings.HasPrefix(one["detail"].(string), "/keys/2: has an empty segment") {
		t.Errorf("the detail is %q", one["detail"])
	}
	many := jsonOf(strings.Split(strings.Repeat("k,", publish.MaxResolveKeys)+"k", ","))
	for body, pointer := range map[string]string{
		``: "/keys", `{}`: "/keys", `{"keys":[]}`: "/keys", `{"keys":"a"}`: "/keys", `{"keys":null}`: "/keys", `{"keys":["a",7]}`: "/keys/1",
		`{"keys":["a\ud800"]}`: "/keys/0", `{"keys":["a"],"at":1}`: "/at", `{"keys":` + many + `}`: "/keys",
	} {
		members := r.call("POST", "/v1/resolve", body).wantProblem(publish.ErrInvalidRequest)
		if field := members["errors"].([]any)[0].(map[string]any); field["pointer"] != pointer {
			t.Errorf("%.40s: pointer %v, want %s", body, field["pointer"], pointer)
		}
	}
	if n := r.pointers.Faults.Calls("Resolve"); n != 0 {
		t.Errorf("%d of the refused requests reached the store", n)
	}
	r.call("GET", "/v1/resolve", "").wantProblem(publish.ErrMethodNotAllowed)
	r.call("POST", "/v1/resolve?x=1", `{"keys":["a"]}`).wantProblem(publish.ErrInvalidRequest)
}
