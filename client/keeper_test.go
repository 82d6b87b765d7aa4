package client

import (
	"context"
	"errors"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/pawlhq/pawl/publish"
)

func keep(t *testing.T, f *fake, ttl time.Duration) *Keeper {
	t.Helper()
	k := f.client(t, Options{}).KeepLease(testContext(t), Lease{Lease: lease(ttl), Sent: time.Now()})
	t.Cleanup(k.Stop)
	return k
}

func await(t *testing.T, what string, ch <-chan struct{}) {
	t.Helper()
	select {
	case <-ch:
	case <-time.After(time.Minute):
		t.Fatalf("%s didn't come", what)
	}
}

// Case 4: the lease outlives its TTL while it is kept.
func TestKeeperRenews(t *testing.T) {
	t.Parallel()
	const ttl = 1500 * time.Millisecond // A busy machine may stand still for a while.
	renewed := make(chan time.Time, 100)
	f := newFake(t, func(w http.ResponseWriter, r *http.Request) { renewed <- time.Now(); answer(200, lease(ttl))(w, r) })
	start := time.Now()
	k := keep(t, f, ttl)
	var last time.Time
	for range 6 {
		select {
		case last = <-renewed:
		case <-k.Context().Done():
			t.Fatalf("lost: %v", context.Cause(k.Context()))
		}
	}
	if took := last.Sub(start); took < ttl {
		t.Fatalf("six renewals in %s: more often than at a third of the TTL", took)
	}
	k.Stop()
	if k.Err() != nil || !errors.Is(context.Cause(k.Context()), context.Canceled) {
		t.Fatalf("after Stop: %v, %v", k.Err(), context.Cause(k.Context()))
	}
}

// A lease is lost to another holder, or with its generation.
func TestKeeperNoticesALostLease(t *testing.T) {
	t.Parallel()
	for _, code := range []publish.Code{publish.ErrLeaseLost, publish.ErrGenerationCollected} {
		t.Run(string(code), func(t *testing.T) {
			t.Parallel()
			f := newFake(t, refuse(&publish.Error{Code: code, Token: 17, GrantedToken: 18}))
			k := keep(t, f, 300*time.Millisecond)
			await(t, "the loss", k.Lost())
			if !errors.Is(k.Err(), code) || !errors.Is(context.Cause(k.Context()), code) {
				t.Fatalf("got %v, %v", k.Err(), context.Cause(k.Context()))
			}
			k.Stop()
			if f.count() != 1 {
				t.Fatalf("%d requests", f.count())
			}
		})
	}
}

// Case 4: when only renewals are cut, the client notices by its own clock; a server that is silent does no better
// than one that is away. Expiry isn't loss: nobody may have replaced the holder.
func TestKeeperExpiresByItsOwnClock(t *testing.T) {
	t.Parallel()
	for name, handler := range map[string]http.HandlerFunc{
		"silent": func(_ http.ResponseWriter, r *http.Request) { _, _ = io.ReadAll(r.Body); <-r.Context().Done() },
		"away":   lose,
		"down":   refuse(publish.Unavailable("Postgres", nil)),
		"route":  refuse(&publish.Error{Code: publish.ErrNotFound, Detail: "there is no such route"}),
		"proxy":  func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no such host here", http.StatusNotFound) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const ttl = 400 * time.Millisecond
			f := newFake(t, handler)
			start := time.Now()
			k := keep(t, f, ttl)
			await(t, "the expiry", k.Context().Done())
			if took := time.Since(start); took < ttl-50*time.Millisecond || took > time.Minute {
				t.Fatalf("expired after %s", took)
			}
			if !errors.Is(context.Cause(k.Context()), ErrLeaseExpired) || k.Err() != nil {
				t.Fatalf("got %v, %v", context.Cause(k.Context()), k.Err())
			}
			k.Stop()
		})
	}
}

// The remaining time counts from when the good renewal was sent, not from when its answer came.
func TestKeeperCountsFromSending(t *testing.T) {
	t.Parallel()
	const ttl = 900 * time.Millisecond
	const slow = 200 * time.Millisecond
	f := newFake(t, func(w http.ResponseWriter, r *http.Request) {
		time.Sleep(slow) // The answer is slow: this is what is tested.
		answer(200, lease(ttl))(w, r)
	})
	c := f.client(t, Options{})
	k := c.KeepLease(testContext(t), Lease{Lease: lease(ttl), Sent: time.Now()})
	defer k.Stop()
	before := k.Lease().Sent
	for k.Lease().Sent.Equal(before) {
		time.Sleep(time.Millisecond)
	}
	if left := k.Lease().Remaining(); left > ttl-slow+5*time.Millisecond {
		t.Fatalf("%s remain although the renewal took %s", left, slow)
	}
}

// A lease that expired while the server was away is renewed when it is back, if nobody replaced it.
func TestKeeperGoesOnAfterExpiry(t *testing.T) {
	t.Parallel()
	const ttl = 200 * time.Millisecond
	back := make(chan struct{})
	good := make(chan struct{}, 100)
	f := newFake(t, func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-back:
			answer(200, lease(ttl))(w, r)
			good <- struct{}{}
		default:
			refuse(publish.Unavailable("Postgres", nil))(w, r)
		}
	})
	k := keep(t, f, ttl)
	await(t, "the expiry", k.Context().Done())
	close(back)
	await(t, "a renewal", good)
	if k.Err() != nil {
		t.Fatal(k.Err())
	}
}
