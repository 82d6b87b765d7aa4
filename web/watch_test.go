package web_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/pawlhq/pawl/publish"
	"github.com/pawlhq/pawl/publish/publishtest"
	"github.com/pawlhq/pawl/web"
)

// begin sends a request in the background. Its answer comes once it is over.
func (r *rig) begin(caller []string, method, target, body string, headers ...string) <-chan answer {
	done := make(chan answer, 1)
	go func() { done <- r.with(caller, method, target, body, headers...) }()
	return done
}

// TestRevokedWhileItLasts: a request that waits is over soon after its credential is revoked, and not when nobody can be asked about that.
func TestRevokedWhileItLasts(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ method, target, body string }{
		"a long poll of a key": {"GET", "/v1/keys/k?wait=55s", ""},
		"one of events":        {"GET", "/v1/events?wait=55s", ""},
		"a wait for a lease":   {"POST", "/v1/keys/held/-/lease", `{"holder":"h","ttl":"1m","wait":"55s"}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, known := newAuthRig(t, web.Options{Recheck: 5 * time.Millisecond})
			r.runEvents()
			admin, caller := known.issue(t, "root", "admin"), known.issue(t, "worker", "publish")
			r.grantTo(admin, "held")
			asked := known.timesAsked()
			done := r.begin(caller, test.method, test.target, test.body)
			await(t, func() bool { return known.timesAsked() > asked+2 })
			known.goAway(true)
			asked = known.timesAsked()
			await(t, func() bool { return known.timesAsked() > asked+2 })
			select {
			case got := <-done:
				t.Fatalf("it is over: %d %s", got.status, got.body)
			default:
			}
			known.goAway(false)
			known.revoke("worker")
			got := <-done
			got.wantProblem(publish.ErrUnauthorized)
			if !strings.Contains(got.challenges(), "Bearer") {
				t.Errorf("it asks for %s", got.challenges())
			}
		})
	}
}

// A stream of events ends, and can't be opened again.
func TestRevokedStream(t *testing.T) {
	t.Parallel()
	r, known := newAuthRig(t, web.Options{Recheck: 5 * time.Millisecond, EventHeartbeat: 10 * time.Millisecond})
	r.runEvents()
	caller := known.issue(t, "reader", "read")
	s := r.open("/v1/events", caller...)
	if s.resp.StatusCode != 200 {
		t.Fatalf("status %d", s.resp.StatusCode)
	}
	s.block()
	asked := known.timesAsked()
	await(t, func() bool { return known.timesAsked() > asked+2 })
	if s.block() == nil {
		t.Fatal("the stream has ended by itself")
	}
	known.revoke("reader")
	for s.block() != nil {
	}
	if err := s.lines.Err(); err != nil {
		t.Errorf("the stream ends with %v", err)
	}
	if again := r.open("/v1/events", caller...); again.resp.StatusCode != 401 {
		t.Errorf("it opens again: %d", again.resp.StatusCode)
	}
}

// A stream ends also when the credential may do less than before.
func TestNarrowedStream(t *testing.T) {
	t.Parallel()
	r, known := newAuthRig(t, web.Options{Recheck: 5 * time.Millisecond, EventHeartbeat: 10 * time.Millisecond})
	r.runEvents()
	caller := known.issue(t, "reader", "read")
	s := r.open("/v1/events", caller...)
	s.block()
	secret := secretOf(t, strings.TrimPrefix(caller[1], "Bearer "))
	known.mu.Lock()
	narrowed := known.callers[secret]
	narrowed.Scopes = publish.Scopes{{Verb: publish.VerbRead, Prefix: "a/"}}
	known.callers[secret] = narrowed
	known.mu.Unlock()
	for s.block() != nil {
	}
	if err := s.lines.Err(); err != nil {
		t.Errorf("the stream ends with %v", err)
	}
	if again := r.open("/v1/events", caller...); again.resp.StatusCode != 200 {
		t.Errorf("it doesn't open again: %d", again.resp.StatusCode)
	}
}

// An upload that has begun is broken off, whether its client waits or sends on, and nothing of it is kept.
func TestRevokedUpload(t *testing.T) {
	t.Parallel()
	form := "--B\r\nContent-Disposition: form-data; name=\"file\"; filename=\"f\"\r\n\r\n"
	for name, test := range map[string]struct{ method, target, contentType, begin, more string }{
		"a client that waits":     {"PUT", "/v1/keys/k/-/generations/1/files/f", "text/plain", "x", ""},
		"a client that goes on":   {"PUT", "/v1/keys/k/-/generations/1/files/f", "text/plain", "x", "x"},
		"a form that waits":       {"POST", "/k/page/-/upload", "multipart/form-data; boundary=B", form, ""},
		"a form that goes on":     {"POST", "/k/page/-/upload", "multipart/form-data; boundary=B", form, "x"},
		"a request in JSON":       {"POST", "/v1/keys/k/-/generations/1/publish", "application/json", "{", ""},
		"one that also publishes": {"PUT", "/v1/keys/k/-/generations/1/files/f?publish=true", "text/plain", "x", "x"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, known := newAuthRig(t, web.Options{Recheck: 5 * time.Millisecond})
			admin, caller := known.issue(t, "root", "admin"), known.issue(t, "worker", "publish")
			w := r.grantTo(admin, "k")
			from, to := io.Pipe()
			defer func() { _ = to.Close() }()
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			req, err := http.NewRequestWithContext(ctx, test.method, r.server.URL+test.target, from)
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set(caller[0], caller[1])
			req.Header.Set("Content-Type", test.contentType)
			if strings.HasPrefix(test.target, "/v1/") { // A form takes a lease of its own.
				req.Header.Set("Pawl-Lease", w.lease)
			}
			go func() {
				_, err := io.WriteString(to, test.begin)
				asked := known.timesAsked()
				for err == nil && known.timesAsked() < asked+3 {
					time.Sleep(time.Millisecond)
				}
				known.revoke("worker")
				for err == nil && test.more != "" {
					_, err = io.WriteString(to, test.more)
					time.Sleep(time.Millisecond)
				}
			}()
			res, err := r.client.Do(req)
			// To who goes on sending the server closes the connection, and its answer may be lost with that.
			cut := test.more != "" && (errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET))
			switch {
			case err != nil && !cut:
				t.Fatal(err)
			case err == nil:
				defer func() { _ = res.Body.Close() }()
				if res.StatusCode != http.StatusUnauthorized {
					t.Errorf("status %d", res.StatusCode)
				}
			}
			if got := r.with(admin, "GET", "/v1/keys/k/-/generations/1/files/f", "", "Pawl-Lease", w.lease); got.status != http.StatusNotFound {
				t.Errorf("the file is kept: %d", got.status)
			}
		})
	}
}

// A download that has begun is broken off: its length was promised, so nobody takes what came for all of it.
func TestRevokedDownload(t *testing.T) {
	t.Parallel()
	r, known := newAuthRig(t, web.Options{Recheck: 5 * time.Millisecond})
	admin, caller := known.issue(t, "root", "admin"), known.issue(t, "reader", "read")
	w := r.publishedBy(admin, "k", strings.Repeat("x", 1<<20))
	var reads atomic.Int64
	r.blobs.Faults.Add(publishtest.Fault{Operation: "Read", Times: -1, Before: func(ctx context.Context) {
		if reads.Add(1) > 3 {
			<-ctx.Done()
		}
	}})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, "GET", r.server.URL+w.generation()+"/files/f", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set(caller[0], caller[1])
	res, err := r.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode != 200 {
		t.Fatalf("status %d", res.StatusCode)
	}
	known.revoke("reader")
	if got, err := io.ReadAll(res.Body); err == nil || ctx.Err() != nil || len(got) == 1<<20 {
		t.Errorf("%d bytes came, %v", len(got), err)
	}
}
