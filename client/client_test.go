package client

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/pawlhq/pawl/publish"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fake is a server whose answers a test scripts, one handler an attempt; the last one serves all further attempts.
type fake struct {
	*httptest.Server
	mu       sync.Mutex
	script   []http.HandlerFunc
	requests []*http.Request
}

func newFake(t *testing.T, script ...http.HandlerFunc) *fake {
	t.Helper()
	f := &fake{script: script}
	f.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f.mu.Lock()
		f.requests = append(f.requests, r)
		handle := f.script[min(len(f.requests), len(f.script))-1]
		f.mu.Unlock()
		handle(w, r)
	}))
	t.Cleanup(f.Close)
	return f
}

func (f *fake) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.requests)
}

// client makes a client that repeats quickly.
func (f *fake) client(t *testing.T, opts Options) *Client {
	t.Helper()
	return newClient(t, f.URL, opts)
}

func newClient(t *testing.T, url string, opts Options) *Client {
	t.Helper()
	if opts.RetryPause == 0 {
		opts.RetryPause = time.Millisecond
	}
	c, err := New(url, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// lose carries a request out as far as its reading and then breaks the connection, as if the answer were lost.
func lose(w http.ResponseWriter, r *http.Request) {
	_ = json.NewDecoder(r.Body).Decode(new(any))
	conn, _, err := w.(http.Hijacker).Hijack()
	if err != nil {
		panic(err)
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = conn.Close()
}

// answer gives a JSON answer.
func answer(status int, value any) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(value)
	}
}

// refuse gives a problem document, with headers as pairs of name and value.
func refuse(e *publish.Error, headers ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		kind := e.Code.Kind()
		raw, _ := json.Marshal(e)
		members := map[string]any{}
		_ = json.Unmarshal(raw, &members)
		members["status"], members["retryable"] = kind.Status, kind.Retryable
		w.Header().Set("Content-Type", "application/problem+json")
		for i := 0; i < len(headers); i += 2 {
			w.Header().Set(headers[i], headers[i+1])
		}
		w.WriteHeader(kind.Status)
		_ = json.NewEncoder(w).Encode(members)
	}
}

var grant = publish.Grant{Key: "thumbs/image-52", Token: 17, LeaseID: publish.NewLeaseID()}

func testContext(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func TestNewRefusesBadAddresses(t *testing.T) {
	t.Parallel()
	for _, address := range []string{"", "localhost:8484", "ftp://x", "http://", "http://me:secret@host", "http://host/?q=1", "http://host/#f"} {
		if _, err := New(address, Options{}); err == nil {
			t.Errorf("New(%q) accepted it", address)
		}
	}
}

func writeFile(t *testing.T, name, content string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}
