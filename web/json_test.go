package web_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/pawlhq/pawl/publish"
	"github.com/pawlhq/pawl/publish/publishtest"
	"github.com/pawlhq/pawl/web"
)

// What is wrong with a body as a whole is said of it, without the name of a field.
func TestBodyThatIsNoJSON(t *testing.T) {
	t.Parallel()
	r := newRig(t, web.Options{})
	for body, want := range map[string]string{
		`{"holder":}`: "the body is not well-formed JSON at byte ", `{`: "the body is not well-formed JSON", `[]`: "the body must be a JSON object",
		`{"holder":"a"} x`: "something follows the JSON object; remove it",
	} {
		members := r.call("POST", "/v1/keys/k/-/lease", body).want(400).wantProblem(publish.ErrInvalidRequest)
		if detail := fmt.Sprint(members["detail"]); !strings.HasPrefix(detail, want) {
			t.Errorf("%s: %s, want %s", body, detail, want)
		}
	}
}

// TestJSONIsReadStrictly covers bodies that are refused, with the pointer to what is wrong.
func TestJSONIsReadStrictly(t *testing.T) {
	t.Parallel()
	r := newRig(t, web.Options{})
	const lease, publishing = "/v1/keys/k/-/lease", "/v1/keys/k/-/generations/1/publish"
	for _, test := range []struct{ target, body, pointer string }{
		{lease, `{}`, "/holder"},
		{lease, ``, "/holder"},
		{lease, `{"holder":""}`, "/holder"},
		{lease, `{"holder":7}`, "/holder"},
		{lease, `{"holder":null}`, "/holder"},
		{lease, `{"holder":"a\ud800b"}`, "/holder"},
		{lease, `{"holder":"a\u0000b"}`, "/holder"},
		{lease, `{"holder":"a","holder":"b"}`, "/holder"},
		{lease, `{"holder":"a","ttl":30}`, "/ttl"},
		{lease, `{"holder":"a","ttl":"30"}`, "/ttl"},
		{lease, `{"holder":"a","ttl":"1ms"}`, "/ttl"},
		{lease, `{"holder":"a","ttl":"0s"}`, "/ttl"},
		{lease, `{"holder":"a","ttl":"-1s"}`, "/ttl"},
		{lease, `{"holder":"a","wait":"2h"}`, "/wait"},
		{lease, `{"holder":"a","wait":{}}`, "/wait"},
		{lease, `{"holder":"a","labels":[]}`, "/labels"},
		{lease, `{"holder":"a","labels":{"x":1}}`, "/labels/x"},
		{lease, `{"holder":"a","labels":{"x/~":1}}`, "/labels/x~1~0"},
		{lease, `{"holder":"a","labels":{"x":"1","x":"2"}}`, "/labels/x"},
		{lease, `{"holder":"a","lease_id":"xyz"}`, "/lease_id"},
		{lease, `{"holder":"a","lease_id":12345678901234567890123456789012}`, "/lease_id"},
		{lease, `{"holder":"a","lease_id":"00000000000000000000000000000000"}`, "/lease_id"},
		{lease, `{"holder":"a","hodler":"b"}`, "/hodler"},
		{lease, `{"Holder":"a"}`, "/Holder"},
		{lease, `{"holder":"a"} x`, ""},
		{lease, `{"holder":"a"}{}`, ""},
		{lease, `{"holder":"a"`, ""},
		{lease, `{"holder":"a",}`, ""},
		{lease, `["holder"]`, ""},
		{lease, `null`, ""},
		{lease, `"holder"`, ""},
		{lease, "{\"holder\":\"\xff\"}", ""},
		{publishing, `{"final":"yes"}`, "/final"},
		{publishing, `{"final":null}`, "/final"},
		{publishing, `{"release":1}`, "/release"},
		{publishing, `{"metadata":{"x":{}}}`, "/metadata/x"},
		{publishing, `{"metadata":"x"}`, "/metadata"},
		{publishing, `{"metadata":["x"]}`, "/metadata"},
		{publishing, `{"metadata":{"a":"1","b":2}}`, "/metadata/b"},
		{publishing, `{"metadata":{"a/b":true}}`, "/metadata/a~1b"},
		{publishing, `{"metadata":{"a":null}}`, "/metadata/a"},
		{publishing, `{"metadata":{"a":["x"]}}`, "/metadata/a"},
		{publishing, `{"metadata":{"a":"x\u0000"}}`, "/metadata/a"},
		{publishing, `{"metadata":{"a":"1","a":"2"}}`, "/metadata/a"},
		{publishing, `{"metadata":{"":"x"}}`, "/metadata/"},
		{publishing, `{"metadata":{"a":"1","b":"` + strings.Repeat("x", 8<<10) + `"}}`, "/metadata/b"},
		{publishing, `{"manifest_digest":"abc"}`, "/manifest_digest"},
		{publishing, `{"source_revision":1.5}`, "/source_revision"},
		{publishing, `{"source_revision":1e3}`, "/source_revision"},
		{publishing, `{"source_revision":"7"}`, "/source_revision"},
		{publishing, `{"source_revision":-1}`, "/source_revision"},
		{publishing, `{"source_revision":9007199254740992}`, "/source_revision"},
		{publishing, `{"source_revision":99999999999999999999}`, "/source_revision"},
		{publishing, `{"expect":"a"}`, "/expect"},
		{publishing, `{"expect":null}`, "/expect"},
		{publishing, `{"expect":{"0":"a"}}`, "/expect"},
		{publishing, `{"expect":["a",null]}`, "/expect/1"},
		{publishing, `{"expect":["a","b",7]}`, "/expect/2"},
		{publishing, `{"expect":["a","b","c.[1-100000].exr"]}`, "/expect/2"},
		{publishing, `{"expect":["a.[2-1].exr"]}`, "/expect/0"},
		{publishing, `{"final":false,"expect":["a.[1-2x0].exr"]}`, "/expect/0"},
		{publishing, `{"reuse_from":"17"}`, "/reuse_from"},
		{publishing, `{"reuse_from":0}`, "/reuse_from"},
		{publishing, `{"reuse_from":-1}`, "/reuse_from"},
		{publishing, `{"reuse_from":1e1}`, "/reuse_from"},
		{publishing, `{"reuse_from":1.0}`, "/reuse_from"},
		{publishing, `{"reuse_from":007}`, "/reuse_from"},
		{publishing, `{"reuse_from":9007199254740992}`, "/reuse_from"},
		{publishing, `{"reuse_from":null}`, "/reuse_from"},
		{publishing, `{"reuse_from":"a/../b"}`, "/reuse_from"},
		{publishing, `{"reuse_from":1}`, "/reuse_from"}, // The generation's own.
		{publishing, `{"reuse_stale":true}`, "/reuse_stale"},
		{publishing, `{"reuse_stale":"yes"}`, "/reuse_stale"},
		{publishing, `{"allow_empty":"yes"}`, "/allow_empty"},
	} {
		got := r.call("POST", test.target, test.body, "Pawl-Lease", "0123456789abcdef0123456789abcdef")
		members := got.wantProblem(publish.ErrInvalidRequest)
		field := members["errors"].([]any)[0].(map[string]any)
		if field["pointer"] != test.pointer || field["detail"] == "" {
			t.Errorf("%s: pointer %v, want %s: %v", test.body, field["pointer"], test.pointer, field["detail"])
		}
		if strings.Contains(got.body, "1234567890123456789012") {
			t.Errorf("%s is repeated: %s", test.body, got.body)
		}
	}
	if n := r.pointers.Faults.Calls("Acquire") + r.pointers.Faults.Calls("Publish"); n != 0 {
		t.Errorf("%d of the refused bodies reached the store", n)
	}
	if got := r.call("POST", lease, `{"reuse":1}`); !strings.Contains(got.body, "not a member") {
		t.Errorf("an unknown member: %s", got.body)
	}
}

func TestJSONBodiesAreBounded(t *testing.T) {
	t.Parallel()
	r := newRig(t, web.Options{})
	large := `{"holder":"` + strings.Repeat("a", 1<<20) + `"}`
	if members := r.call("POST", "/v1/keys/k/-/lease", large).wantProblem(publish.ErrTooLarge); members["limit"] != float64(1<<20) {
		t.Errorf("the limit is %v", members["limit"])
	}
	r.call("POST", "/v1/keys/k/-/lease", `{"holder":"a"}`, "Content-Type", "text/plain").wantProblem(publish.ErrInvalidRequest)
	r.call("POST", "/v1/keys/k/-/lease", `{"holder":"a"}`, "Content-Type", "application/json; charset=utf-8").want(201)
}

// TestCase51 sends what isn't a token in the URL.
func TestCase51(t *testing.T) {
	t.Parallel()
	r := newRig(t, web.Options{})
	r.published("k", "f", "x")
	for _, token := range []string{"0", "-1", "+1", "01", "1.0", "1e3", "%22007%22", "007", "null", "9007199254740992", "99999999999999999999", "%20", "x", "1%2F", ""} {
		for _, route := range []string{"GET ", "GET /files/f", "GET /files", "PUT /files/f", "DELETE /files/f", "POST /publish"} {
			method, rest, _ := strings.Cut(route, " ")
			if token == "1%2F" {
				continue // an empty segment behind the token: no such route
			}
			got := r.call(method, "/v1/keys/k/-/generations/"+token+rest, "", "Pawl-Lease", "0123456789abcdef0123456789abcdef")
			got.wantProblem(publish.ErrInvalidToken)
		}
		if token != "" {
			r.call("GET", "/v1/keys/k/-/generations?before="+token, "").wantProblem(publish.ErrInvalidToken)
		}
	}
	r.call("GET", "/v1/keys/k/-/generations/9007199254740991", "").wantProblem(publish.ErrNotFound)
	r.published("end", "f", "x")
	r.pointers.SetCounter("end", publish.MaxToken)
	r.call("POST", "/v1/keys/end/-/lease", `{"holder":"a"}`).wantProblem(publish.ErrTokenExhausted)
}

func TestQueriesAreReadStrictly(t *testing.T) {
	t.Parallel()
	r := newRig(t, web.Options{})
	w := r.published("k", "f", "x")
	for _, target := range []string{
		"/v1/keys?limit=0", "/v1/keys?limit=x", "/v1/keys?limit=1001", "/v1/keys?limit=-1", "/v1/keys?delimiter=x", "/v1/keys?prefx=a",
		"/v1/keys?prefix=a;b=c", "/v1/keys?prefix=%zz", "/v1/keys?limit=1&limit=2", "/v1/keys?limit=", "/v1/keys?limit", "/v1/keys?prefix=a&prefix=b",
		"/v1/keys/k?wait=", "/v1/keys/k?wait", "/v1/keys/k?wait=5s&wait=6s", "/v1/keys/k/-/generations?before=", "/v1/keys/k/-/generations?limit=",
		w.generation() + "/files?limit", "/v1/keys/k?wait=5", "/v1/keys/k?wait=-1s", "/v1/keys/k?wait=1h",
		"/v1/keys/k?w=1s", w.generation() + "/files?limit=0", "/v1/keys/k/-/generations?limit=2000", "/v1/keys/k/-/lease?x=1",
	} {
		r.call("GET", target, "").wantProblem(publish.ErrInvalidRequest)
	}
	w = r.grant("k2")
	for _, query := range []string{"?publish=yes", "?publish=1", "?publsh=true"} {
		w.put("f"+query, "x").wantProblem(publish.ErrInvalidRequest)
	}
	w.put("f", "x", "If-Match", `"1.1"`).wantProblem(publish.ErrInvalidRequest)
	if names := r.blobs.Names(); len(names) != 1 {
		t.Errorf("stored: %v", names)
	}
}

func TestLeaseRoutes(t *testing.T) {
	t.Parallel()
	r := newRig(t, web.Options{})
	const id = "0123456789abcdef0123456789abcdef"
	body := fmt.Sprintf(`{"holder":"node-7","ttl":"45s","labels":{"job":"12"},"lease_id":%q}`, id)
	got := r.call("POST", "/v1/keys/k/-/lease", body).want(201)
	if m := got.json(); m["token"] != 1.0 || m["lease_id"] != id || m["ttl_ms"] != 45000.0 || m["holder"] != "node-7" || got.header.Get("Cache-Control") != "no-store" {
		t.Errorf("the lease is %s", got.body)
	}
	if m := r.call("POST", "/v1/keys/k/-/lease", body).want(201).json(); m["token"] != 1.0 {
		t.Errorf("a repeat gave token %v", m["token"])
	}
	held := r.call("POST", "/v1/keys/k/-/lease", `{"holder":"node-8"}`)
	if m := held.wantProblem(publish.ErrLeaseHeld); m["holder"] != "node-7" || m["token"] != 1.0 || m["expires_at"] == nil || strings.Contains(held.body, id) {
		t.Errorf("the refusal is %s", held.body)
	}
	if after := held.header.Get("Retry-After"); after != "45" {
		t.Errorf("Retry-After %q, want 45", after)
	}
	if shown := r.call("GET", "/v1/keys/k/-/lease", "").want(200); strings.Contains(shown.body, id) || strings.Contains(shown.body, "lease_id") || shown.json()["held"] != true {
		t.Errorf("the lease is shown as %s", shown.body)
	}
	if m := r.call("PATCH", "/v1/keys/k/-/lease", `{"ttl":"60s"}`, "Pawl-Lease", id).want(200).json(); m["ttl_ms"] != 60000.0 {
		t.Errorf("renewed for %v ms", m["ttl_ms"])
	}
	if m := r.call("PATCH", "/v1/keys/k/-/lease", "", "Pawl-Lease", id).want(200).json(); m["ttl_ms"] != 60000.0 {
		t.Errorf("renewed without a ttl for %v ms", m["ttl_ms"])
	}
	r.call("PATCH", "/v1/keys/k/-/lease", `{"ttl":"0s"}`, "Pawl-Lease", id).wantProblem(publish.ErrInvalidRequest)
	for range 2 {
		r.call("DELETE", "/v1/keys/k/-/lease", "", "Pawl-Lease", id).want(204)
	}
	r.call("PATCH", "/v1/keys/k/-/lease", "", "Pawl-Lease", id).wantProblem(publish.ErrLeaseLost)
	r.call("GET", "/v1/keys/none/-/lease", "").wantProblem(publish.ErrNotFound)
	if m := r.call("POST", "/v1/keys/k/-/lease", `{"holder":"node-8"}`).want(201).json(); m["token"] != 2.0 || m["ttl_ms"] != 30000.0 {
		t.Errorf("the next lease is %v", m)
	}
	if strings.Contains(r.log.String(), id) {
		t.Error("the lease id is in the log")
	}
	r.service.Pointers = leakyStore{r.pointers}
	if shown := r.call("GET", "/v1/keys/k/-/lease", "").want(200); strings.Contains(shown.body, "lease_id") {
		t.Errorf("a store's slip shows: %s", shown.body)
	}
}

// leakyStore gives the lease id away where it shouldn't.
type leakyStore struct{ *publishtest.Pointers }

func (s leakyStore) Lease(ctx context.Context, key publish.Key) (publish.Lease, error) {
	lease, err := s.Pointers.Lease(ctx, key)
	lease.LeaseID = publish.NewLeaseID()
	return lease, err
}
