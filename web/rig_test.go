package web_test

import (
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/pawlhq/pawl/internal/testenv"
	"github.com/pawlhq/pawl/publish"
	"github.com/pawlhq/pawl/publish/publishtest"
	"github.com/pawlhq/pawl/web"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// rig is a whole server on the doubles of both stores.
type rig struct {
	t        *testing.T
	pointers *publishtest.Pointers
	blobs    *publishtest.Blobs
	service  *publish.Service
	handler  *web.Handler
	server   *httptest.Server
	client   *http.Client
	log      *testenv.Buffer
}

func newRig(t *testing.T, opts web.Options) *rig {
	t.Helper()
	r := &rig{t: t, pointers: publishtest.NewPointers(), blobs: publishtest.NewBlobs(), log: &testenv.Buffer{}}
	return r.start(r.blobs, opts)
}

// start serves; blobs may be another store than the double.
func (r *rig) start(blobs publish.BlobStore, opts web.Options) *rig {
	r.t.Helper()
	log := slog.New(slog.NewJSONHandler(r.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	opts.Log = log
	if opts.Metrics == nil {
		opts.Metrics = web.NewMetrics()
	}
	r.service = &publish.Service{Pointers: r.pointers, Blobs: blobs, Direct: r.blobs, Log: log, Observer: opts.Metrics}
	r.t.Cleanup(r.service.Close)
	var err error
	if r.handler, err = web.New(r.service, opts); err != nil {
		r.t.Fatal(err)
	}
	r.server = httptest.NewUnstartedServer(r.handler)
	r.server.Config = web.NewServer(r.handler, log)
	r.server.Start()
	transport := &http.Transport{ExpectContinueTimeout: 0}
	r.client = &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	r.t.Cleanup(func() {
		transport.CloseIdleConnections()
		r.server.Close()
	})
	return r
}

// answer is a response with its body read.
type answer struct {
	t      *testing.T
	status int
	header http.Header
	body   string
}

// call sends a request. headers are names and values in turn.
func (r *rig) call(method, target, body string, headers ...string) answer {
	r.t.Helper()
	req, err := http.NewRequestWithContext(r.t.Context(), method, r.server.URL+target, strings.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Add(headers[i], headers[i+1])
	}
	res, err := r.client.Do(req)
	if err != nil {
		r.t.Fatalf("%s %s: %v", method, target, err)
	}
	defer func() { _ = res.Body.Close() }()
	got, err := io.ReadAll(res.Body)
	if err != nil {
		r.t.Fatalf("%s %s: %v", method, target, err)
	}
	return answer{t: r.t, status: res.StatusCode, header: res.Header, body: string(got)}
}

// want fails unless the answer has the status, and returns it.
func (a answer) want(status int) answer {
	a.t.Helper()
	if a.status != status {
		a.t.Fatalf("status %d, want %d; body: %s", a.status, status, a.body)
	}
	return a
}

// wantProblem fails unless the answer is a problem document of that kind, and returns its members.
func (a answer) wantProblem(code publish.Code) map[string]any {
	a.t.Helper()
	if kind := a.header.Get("Content-Type"); kind != "application/problem+json" {
		a.t.Fatalf("status %d, Content-Type %q, want a problem document; body: %s", a.status, kind, a.body)
	}
	members := a.json()
	if members["code"] != string(code) {
		a.t.Fatalf("code %v, want %s; body: %s", members["code"], code, a.body)
	}
	kind := code.Kind()
	if a.status != kind.Status || members["status"] != float64(kind.Status) || members["retryable"] != kind.Retryable || members["title"] != kind.Title {
		a.t.Fatalf("status %d with members %v, want those of %+v", a.status, members, kind)
	}
	if members["request_id"] != a.header.Get("X-Request-Id") || members["request_id"] == "" {
		a.t.Fatalf("request_id %v, but X-Request-Id %q", members["request_id"], a.header.Get("X-Request-Id"))
	}
	if a.header.Get("Cache-Control") != "no-store" {
		a.t.Fatalf("an error with Cache-Control %q", a.header.Get("Cache-Control"))
	}
	return members
}

func (a answer) json() map[string]any {
	a.t.Helper()
	var members map[string]any
	if err := json.Unmarshal([]byte(a.body), &members); err != nil {
		a.t.Fatalf("%v in %s", err, a.body)
	}
	return members
}

// grant acquires a key, given escaped, over HTTP.
func (r *rig) grant(key string) worker {
	r.t.Helper()
	got := r.call("POST", "/v1/keys/"+key+"/-/lease", `{"holder":"test"}`).want(201)
	var lease struct {
		Token   int64  `json:"token"`
		LeaseID string `json:"lease_id"`
	}
	if err := json.Unmarshal([]byte(got.body), &lease); err != nil || lease.LeaseID == "" {
		r.t.Fatalf("no lease in %s (%v)", got.body, err)
	}
	return worker{rig: r, key: key, token: lease.Token, lease: lease.LeaseID}
}

// worker holds a grant.
type worker struct {
	*rig
	key   string
	token int64
	lease string
}

func (w worker) generation() string {
	return "/v1/keys/" + w.key + "/-/generations/" + jsonOf(w.token)
}

func (w worker) put(path, body string, headers ...string) answer {
	w.t.Helper()
	return w.call("PUT", w.generation()+"/files/"+path, body, append([]string{"Pawl-Lease", w.lease}, headers...)...)
}

func (w worker) publish(body string, headers ...string) answer {
	w.t.Helper()
	return w.call("POST", w.generation()+"/publish", body, append([]string{"Pawl-Lease", w.lease}, headers...)...)
}

// published makes a key with one published file.
func (r *rig) published(key, path, body string, headers ...string) worker {
	r.t.Helper()
	w := r.grant(key)
	w.put(path, body, headers...).want(201)
	w.publish(`{"release":true}`).want(200)
	return w
}

func jsonOf(v any) string {
	b, _ := json.Marshal(v) // only numbers and strings come here
	return string(b)
}
