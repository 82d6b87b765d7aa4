package web_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/pawlhq/pawl/publish"
	"github.com/pawlhq/pawl/publish/publishtest"
	"github.com/pawlhq/pawl/web"
)

// TestFailuresHideTheirCause makes the store fail in ways that people must not see, but operators must.
func TestFailuresHideTheirCause(t *testing.T) {
	t.Parallel()
	const secret = "postgres://user:canary@db/pawl"
	for name, test := range map[string]struct {
		fault publishtest.Fault
		code  publish.Code
	}{
		"an unknown error":   {publishtest.Fault{Err: errors.New("dial " + secret)}, publish.ErrInternal},
		"an internal error":  {publishtest.Fault{Err: &publish.Error{Code: publish.ErrInternal, Detail: "dsn " + secret, Holder: secret}}, publish.ErrInternal},
		"a panic":            {publishtest.Fault{Before: func(context.Context) { panic(secret) }}, publish.ErrInternal},
		"unavailable":        {publishtest.Fault{Err: publish.Unavailable("Postgres", errors.New(secret))}, publish.ErrUnavailable},
		"outcome unknown":    {publishtest.Fault{Err: &publish.Error{Code: publish.ErrOutcomeUnknown, Cause: errors.New(secret)}}, publish.ErrOutcomeUnknown},
		"a deadline":         {publishtest.Fault{Err: context.DeadlineExceeded}, publish.ErrUnavailable},
		"a code of tomorrow": {publishtest.Fault{Err: &publish.Error{Code: "new-code", Detail: secret}}, "new-code"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, web.Options{})
			test.fault.Operation = "Pointer"
			r.pointers.Faults.Add(test.fault)
			got := r.call("GET", "/v1/keys/k", "", "X-Request-Id", "my-id.1")
			members := got.wantProblem(test.code)
			if strings.Contains(got.body, "canary") {
				t.Errorf("the cause shows: %s", got.body)
			}
			if members["request_id"] != "my-id.1" || members["type"] != "/problems/"+string(test.code) {
				t.Errorf("the members are %v", members)
			}
			if again := got.header.Get("Retry-After"); (again == "1") != (got.status == http.StatusServiceUnavailable) {
				t.Errorf("status %d with Retry-After %q", got.status, again)
			}
			if log := r.log.String(); got.status == 500 && (!strings.Contains(log, "canary") || !strings.Contains(log, `"request_id":"my-id.1"`) || !strings.Contains(log, `"level":"ERROR"`)) {
				t.Errorf("the log lacks the cause: %s", log)
			}
		})
	}
}

func TestRequestIDs(t *testing.T) {
	t.Parallel()
	r := newRig(t, web.Options{})
	seen := map[string]bool{}
	for _, given := range []string{"", "with space", "a\tb", strings.Repeat("x", 65), `"quoted"`} {
		var headers []string
		if given != "" {
			headers = []string{"X-Request-Id", given}
		}
		id := r.call("GET", "/livez", "", headers...).header.Get("X-Request-Id")
		if id == "" || id == given || seen[id] {
			t.Errorf("given %q, the id is %q", given, id)
		}
		seen[id] = true
	}
}

// TestAccessLog checks the one line of a request.
func TestAccessLog(t *testing.T) {
	t.Parallel()
	r := newRig(t, web.Options{})
	w := r.grant("a/b")
	w.put("f?publish=true", "x").want(201)
	lines := strings.Split(strings.TrimSpace(r.log.String()), "\n")
	last := lines[len(lines)-1]
	for _, want := range []string{`"msg":"request"`, `"method":"PUT"`, `"route":"/v1/keys/{key}/-/generations/{token}/files/{path}"`, `"key":"a/b"`, `"status":201`, `"request_id"`} {
		if !strings.Contains(last, want) {
			t.Errorf("%s is missing in %s", want, last)
		}
	}
	if strings.Contains(r.log.String(), w.lease) {
		t.Error("the lease id is in the log")
	}
}

// TestClientThatLeft checks that a client that hangs up is no failure.
func TestClientThatLeft(t *testing.T) {
	t.Parallel()
	r := newRig(t, web.Options{})
	ctx, cancel := context.WithCancel(t.Context())
	req, err := http.NewRequestWithContext(ctx, "GET", r.server.URL+"/v1/keys/k?wait=30s", nil)
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		await(t, func() bool { return r.pointers.Faults.Calls("Pointer") > 0 })
		cancel()
	}()
	if _, err := r.client.Do(req); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	await(t, func() bool { return strings.Contains(r.log.String(), `"status":499`) })
	if log := r.log.String(); strings.Contains(log, "WARN") || strings.Contains(log, "ERROR") {
		t.Errorf("a client that left is logged as a failure: %s", log)
	}
}

func TestReadiness(t *testing.T) {
	t.Parallel()
	r := newRig(t, web.Options{ReadyTimeout: 50e6})
	r.call("GET", "/readyz", "").want(200)
	r.pointers.Faults.Add(publishtest.Fault{Operation: "Check"})
	if m := r.call("GET", "/readyz", "").wantProblem(publish.ErrUnavailable); !strings.Contains(m["detail"].(string), "Postgres") || strings.Contains(m["detail"].(string), "blob") {
		t.Errorf("it says %v", m["detail"])
	}
	r.blobs.Faults.Add(publishtest.Fault{Operation: "Check", Before: func(ctx context.Context) { <-ctx.Done() }})
	if m := r.call("GET", "/readyz", "").wantProblem(publish.ErrUnavailable); !strings.Contains(m["detail"].(string), "the blob store") {
		t.Errorf("it says %v", m["detail"])
	}
	r.call("GET", "/readyz", "").want(200)
	r.handler.Drain()
	r.call("GET", "/readyz", "").wantProblem(publish.ErrUnavailable)
	r.call("GET", "/livez", "").want(200)
}

func TestMetrics(t *testing.T) {
	t.Parallel()
	r := newRig(t, web.Options{})
	late := r.grant("secret-key")
	late.put("f", "12345").want(201)
	r.pointers.Expire("secret-key")
	w := r.published("secret-key", "f", "123")
	w.publish(`{"release":true}`).want(200)
	for range publish.RetryLoopAt + 1 {
		late.publish("").wantProblem(publish.ErrStaleToken)
	}
	r.call("BREW", "/v1/keys/secret-key", "")
	got := r.call("GET", "/metrics", "").want(200)
	for _, want := range []string{
		"pawl_grants_total 2\n", "pawl_uploads_total 2\n", "pawl_upload_bytes_total 8\n", `pawl_publishes_total{outcome="published"} 1` + "\n",
		`pawl_publishes_total{outcome="replayed"} 1` + "\n", `pawl_fence_rejections_total{operation="publish"} 4` + "\n", `pawl_fence_rejections_total{operation="upload"} 0` + "\n",
		"pawl_retry_loops_total 1\n", `pawl_refusals_total{code="stale-token"} 4` + "\n", "pawl_uploads_in_flight 0\n",
		`pawl_http_request_duration_seconds_count{method="other",route="/v1/keys/{key}",status="405"} 1` + "\n",
		`pawl_http_request_duration_seconds_count{method="POST",route="/v1/keys/{key}/-/lease",status="201"} 2` + "\n", "go_goroutines", "process_",
	} {
		if !strings.Contains(got.body, want) {
			t.Errorf("%q is missing", want)
		}
	}
	if strings.Contains(got.body, "secret-key") {
		t.Error("a key is a label")
	}
}

// TestBasePath serves below a path, for a proxy that strips it and for one that doesn't.
func TestBasePath(t *testing.T) {
	t.Parallel()
	r := newRig(t, web.Options{BasePath: "/tools/pawl/"})
	w := r.published("k", "a b", "x")
	for _, base := range []string{"", "/tools/pawl"} {
		got := r.call("GET", base+"/v1/keys/k", "").want(200)
		if m := got.json(); m["url"] != "/tools/pawl"+w.generation()+"/files/a%20b" {
			t.Errorf("the URL is %v", m["url"])
		}
		location := r.call("GET", base+"/v1/keys/k/-/current", "").want(307).header.Get("Location")
		if got := r.call("GET", location, ""); got.status != 200 || got.body != "x" {
			t.Errorf("the redirect leads to %s: %d", location, got.status)
		}
		if m := r.call("GET", base+"/v1/keys/none", "").wantProblem(publish.ErrNotFound); m["type"] != "/tools/pawl/problems/not-found" {
			t.Errorf("the type is %v", m["type"])
		}
		if page := r.call("GET", base+"/", "").want(200); !strings.Contains(page.body, `href="/tools/pawl/static/style.css?v=`) || !strings.Contains(page.body, `href="/tools/pawl/v1/keys/k/-/current"`) {
			t.Errorf("the page is %s", page.body)
		}
		r.call("GET", base+"/v1/keys/k%2F-%2Fx", "").wantProblem(publish.ErrInvalidKey)
	}
	r.call("GET", "/tools/pawl", "").want(200)
	r.call("GET", "/tools/pawlx", "").wantProblem(publish.ErrNotFound)
	for _, wrong := range []string{"pawl", "/a b", "/a?b", "//", "/a//b", "http://x/"} {
		if _, err := web.New(r.service, web.Options{BasePath: wrong}); (err == nil) != (wrong == "//") {
			t.Errorf("base path %q: %v", wrong, err)
		}
	}
}

// TestHandlerWithoutAConnection serves a recorder, as other tests do.
func TestHandlerWithoutAConnection(t *testing.T) {
	t.Parallel()
	r := newRig(t, web.Options{})
	recorder := httptest.NewRecorder()
	r.handler.ServeHTTP(recorder, httptest.NewRequest("POST", "/v1/keys/k/-/lease", strings.NewReader(`{"holder":"a"}`)))
	if recorder.Code != 201 {
		t.Errorf("status %d", recorder.Code)
	}
}
