package web_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"strings"
	"testing"

	"github.com/pawlhq/pawl/web"
)

// By HTTP/2 a body that is refused ends with its own stream: the connection goes on for the other requests.
func TestRefusedBodyKeepsTheConnectionOfHTTP2(t *testing.T) {
	t.Parallel()
	r := newRig(t, web.Options{})
	w := r.published("k", "f", "x")
	server := httptest.NewUnstartedServer(r.handler)
	server.EnableHTTP2 = true
	server.StartTLS()
	client := server.Client()
	t.Cleanup(func() {
		client.CloseIdleConnections()
		server.Close()
	})
	reused := 0
	send := func(method, target string, body io.Reader, want int) {
		t.Helper()
		trace := &httptrace.ClientTrace{GotConn: func(got httptrace.GotConnInfo) {
			if got.Reused {
				reused++
			}
		}}
		req, err := http.NewRequestWithContext(httptrace.WithClientTrace(t.Context(), trace), method, server.URL+target, body)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Pawl-Lease", w.lease)
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
		if resp.StatusCode != want || resp.ProtoMajor != 2 || resp.Header.Get("Strict-Transport-Security") == "" {
			t.Errorf("%s %s: %s by %s, %v", method, target, resp.Status, resp.Proto, resp.Header)
		}
	}
	send("GET", w.generation()+"/files/f", nil, http.StatusOK)
	for range 3 {
		send("PUT", w.generation()+"/files/late", strings.NewReader(strings.Repeat("x", 1<<20)), http.StatusConflict)
	}
	send("GET", w.generation()+"/files/f", nil, http.StatusOK)
	if reused != 4 {
		t.Errorf("of four further requests %d have used the same connection", reused)
	}
}
