package oidc

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawlhq/pawl/publish"
)

// tokens makes the token endpoint answer with a status and an error while that isn't 0, and counts its requests.
func (r *signRig) tokens(status *atomic.Int64, code string) (asked *atomic.Int64) {
	asked = new(atomic.Int64)
	r.issuer.Intercept(func(w http.ResponseWriter, req *http.Request) bool {
		if req.URL.Path != "/token" {
			return false
		}
		asked.Add(1)
		answer := int(status.Load())
		if answer == 0 {
			return false
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(answer)
		_, _ = w.Write([]byte(`{"error":"` + code + `"}`))
		return true
	})
	return asked
}

// waits redeems a code and returns for how long the token endpoint isn't asked, 0 if it was.
func (r *signRig) waits(code string) time.Duration {
	r.Helper()
	_, err := r.signIn.Redeem(r.Context(), flow, code, r.issuer.URL)
	var refusal *publish.Error
	if !errors.As(err, &refusal) || refusal.Code != publish.ErrUnavailable {
		r.Fatalf("got %v", err)
	}
	return time.Duration(refusal.RetryAfterMillis) * time.Millisecond
}

// Who makes up codes can't make the server ask an issuer again and again that is ill: it pauses, for longer each time. A code that comes meanwhile is kept, and is good
// afterwards.
func TestIllIssuerIsLeftAlone(t *testing.T) {
	t.Parallel()
	r := newSignRig(t, "secret")
	c := &clock{now: time.Now()}
	r.signIn.pause.now = c.Now
	code, from := r.code()
	var status atomic.Int64
	status.Store(http.StatusInternalServerError)
	asked := r.tokens(&status, "server_error")
	var all sync.WaitGroup
	for range 5 { // Those that are under way together begin one pause.
		all.Go(func() { r.waits("guess") })
	}
	all.Wait()
	before := asked.Load()
	for i, want := range []time.Duration{1, 2, 4, 8, 16, 30, 30} {
		want *= time.Second
		for range 40 {
			if got := r.waits(code); got != want {
				t.Fatalf("pause %d is %s, want %s", i, got, want)
			}
		}
		if c.pass(want - time.Millisecond); r.waits(code) != time.Millisecond {
			t.Error("the pause ends too early")
		}
		if c.pass(time.Millisecond); r.waits("guess") != 0 {
			t.Error("the issuer isn't asked when the pause is over")
		}
	}
	if got := asked.Load() - before; before > 5 || got != 7 {
		t.Errorf("it was asked %d times, and %d times in 7 pauses", before, got)
	}
	c.pass(longestPause)
	status.Store(0)
	if _, err := r.signIn.Redeem(t.Context(), flow, code, from); err != nil {
		t.Fatalf("a code that was kept: %v", err)
	}
	code, from = r.code()
	if _, err := r.signIn.Redeem(t.Context(), flow, code, from); err != nil {
		t.Errorf("the issuer is well, and the pause goes on: %v", err)
	}
	status.Store(http.StatusInternalServerError)
	if r.waits("guess"); r.waits("guess") != shortestPause {
		t.Error("a new illness begins with a long pause")
	}
}

// A stranger can't keep others from signing in: not by codes that the issuer finds odd, and not by leaving.
func TestStrangersBeginNoPause(t *testing.T) {
	t.Parallel()
	r := newSignRig(t, "")
	var status atomic.Int64
	asked := r.tokens(&status, "invalid_request")
	for _, answer := range []int64{http.StatusBadRequest, http.StatusForbidden} {
		status.Store(answer)
		r.refused(flow, "odd", r.issuer.URL, publish.ErrUnauthorized, "doesn't prove who you are")
	}
	status.Store(0)
	gone, leave := context.WithCancel(t.Context())
	leave()
	if _, err := r.signIn.Redeem(gone, flow, "guess", r.issuer.URL); !errors.Is(err, publish.ErrUnauthorized) {
		t.Errorf("who has left isn't counted: %v", err)
	}
	before := asked.Load()
	for _, code := range []string{"a\nb", "\x00", "\u00e9", strings.Repeat("x", maxCode+1)} {
		r.refused(flow, code, r.issuer.URL, publish.ErrUnauthorized, "no code has")
	}
	if got := asked.Load(); got != before || got != 3 {
		t.Errorf("the issuer was asked %d times, then %d times", before, got-before)
	}
	code, from := r.code()
	if _, err := r.signIn.Redeem(t.Context(), flow, code, from); err != nil {
		t.Error(err)
	}
}
