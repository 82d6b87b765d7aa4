package client

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/pawlhq/pawl/internal/testenv"
	"github.com/pawlhq/pawl/publish"
)

// Case 50: neither the credential nor a lease_id shows in an error, in the log, in an address, or in what a client and a lease print as. Whatever
// goes wrong. Every call to the server sends the credential.
func TestCase50SecretsStaySecret(t *testing.T) {
	t.Parallel()
	const credential = "canary-credential-7f3a"
	secrets := []string{credential, grant.LeaseID.Hex(), strings.ToUpper(grant.LeaseID.Hex())}
	check := func(what, text string) {
		for _, secret := range secrets {
			if strings.Contains(text, secret) {
				t.Errorf("%s: a secret shows: %s", what, text)
			}
		}
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nobody := "http://" + listener.Addr().String()
	_ = listener.Close()
	var lines testenv.Buffer
	opts := Options{
		Credential: credential, RetryFor: 5 * time.Millisecond, RetryPause: time.Millisecond, Timeout: time.Second,
		Log: slog.New(slog.NewTextHandler(&lines, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
	drain := func(handle http.HandlerFunc) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body); handle(w, r) }
	}
	faults := map[string]http.HandlerFunc{
		"stale":       refuse(stale()),
		"unavailable": refuse(publish.Unavailable("Postgres", nil)),
		"lost":        lose,
		"a proxy":     drain(func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "<html>", http.StatusBadGateway) }),
		"nonsense":    drain(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "<html>") }),
		"sent away": drain(func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, nobody+"/x", http.StatusTemporaryRedirect)
		}),
		"away": nil,
	}
	for fault, handle := range faults {
		url := nobody
		var f *fake
		if handle != nil {
			f = newFake(t, handle)
			url = f.URL
		}
		c := newClient(t, url, opts)
		for name, call := range everyCall(t) {
			if err := call(testContext(t), c); err != nil {
				check(fault+": "+name, fmt.Sprintf("%v %+v %#v %q", err, err, err, err.Error()))
			}
		}
		if f != nil {
			f.mu.Lock()
			for _, r := range f.requests {
				check(fault, r.URL.String())
				if r.Header.Get("Authorization") != "Bearer "+credential {
					t.Errorf("%s: %s %s went without the credential", fault, r.Method, r.URL.Path)
				}
			}
			f.mu.Unlock()
		}
	}

	// A keeper that fails to renew, and a run that fails to release, say so in the log.
	f := newFake(t, answer(201, lease(300*time.Millisecond)), refuse(publish.Unavailable("Postgres", nil)))
	c := newClient(t, f.URL, opts)
	_ = c.Run(testContext(t), grant.Key, func(ctx context.Context, held *Lease) error {
		check("a lease", fmt.Sprintf("%v %+v %#v %s", held, *held, *held, slog.AnyValue(*held)))
		<-ctx.Done()
		return nil
	}, func(req *publish.AcquireRequest) { req.LeaseID = grant.LeaseID })
	check("a client", fmt.Sprintf("%v %+v %#v %v", c, c, c, slog.AnyValue(c)))
	text := lines.String()
	check("the log", text)
	for _, want := range []string{"request_repeated", "renewal_failed", "lease_not_released"} {
		if !strings.Contains(text, want) {
			t.Errorf("the log lacks %s, so it proves nothing", want)
		}
	}
}
