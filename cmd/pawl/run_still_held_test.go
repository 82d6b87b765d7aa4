//go:build linux

package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pawlhq/pawl/client"
	"github.com/pawlhq/pawl/publish"
	"github.com/pawlhq/pawl/publish/publishtest"
)

// A wrapper that was suspended past its lease asks for the lease before it publishes what the command has left, even though the fence would
// let it: whoever holds the key now hasn't published yet.
func TestSuspendedWrapperAsksForItsLease(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		taken bool
		code  int
	}{
		"another holds it": {true, exitFenced},
		"nobody took over": {false, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, dir := newRig(t), t.TempDir()
			const ttl = time.Second
			a := startRun(t, r, dir, `echo $$ >a.pid; `+until+`echo a >"$PAWL_OUT/out.txt"`, "--ttl", ttl.String(), "--json")
			command := pids(t, dir, 1)[0]
			a.signal(t, syscall.SIGSTOP)
			stopped := time.Now()
			touch(t, filepath.Join(dir, "go"))
			eventually(t, "the end of the command and of the lease", func() bool { return !running(command) && time.Since(stopped) > ttl })
			r.pointers.Expire("k")
			if c.taken {
				r.acquire(t, "k", "render-b", time.Minute)
			}
			// The keeper's own renewal, and the first of the other, fail: without a second look the publish would be sent before the keeper's next.
			r.pointers.Faults.Add(publishtest.Fault{Operation: "Renew", Times: 2})
			a.signal(t, syscall.SIGCONT)
			a.exit(t, c.code)
			if c.taken {
				r.unpublished(t)
				if !strings.Contains(a.stderr.String(), "fenced: ") || !strings.Contains(a.stderr.String(), "token 2") {
					t.Errorf("stderr %q", a.stderr.String())
				}
			} else if !strings.Contains(a.stdout.String(), `"lease_expired":false`) {
				t.Errorf("receipt %s", a.stdout.String())
			}
		})
	}
}

// Only the server's own word about the key or the grant ends a job as fenced: what a proxy or a wrong address answers leaves it to the fence.
func TestNotFoundOfSomethingElseIsNoLoss(t *testing.T) {
	t.Parallel()
	problem := func(status int, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/problem+json")
			w.WriteHeader(status)
			_, _ = io.WriteString(w, body)
		}
	}
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		fenced bool
	}{
		"a proxy":              {func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no such host here", http.StatusNotFound) }, false},
		"no route":             {problem(404, `{"code":"not-found","status":404,"detail":"there is no such route"}`), false},
		"the key":              {problem(404, `{"code":"not-found","status":404,"detail":"there is no such key","key":"k"}`), true},
		"the lease":            {problem(410, `{"code":"lease-lost","status":410,"key":"k","token":1,"granted_token":2}`), true},
		"a collected one":      {problem(410, `{"code":"generation-collected","status":410,"key":"k","token":1,"operation":"renew"}`), true},
		"a gone page of proxy": {func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "gone", http.StatusGone) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(c.answer)
			t.Cleanup(server.Close)
			pawl, err := client.New(server.URL, client.Options{RetryFor: -1})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(pawl.Close)
			expired := client.Lease{Lease: publish.Lease{Key: "k", Token: 1, TTLMillis: time.Hour.Milliseconds()}, Sent: time.Now().Add(-2 * time.Hour)}
			w := worker{client: pawl, lease: expired, keeper: pawl.KeepLease(t.Context(), expired)}
			w.keeper.Stop() // It asks no more by itself.
			err = w.stillHeld(t.Context())
			if c.fenced != (err != nil) || err != nil && exitCode(err) != exitFenced {
				t.Errorf("got %v", err)
			}
		})
	}
}
