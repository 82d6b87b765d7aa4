package publish_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawlhq/pawl/publish"
	"github.com/pawlhq/pawl/publish/publishtest"
)

func request(holder string, ttl, wait time.Duration) publish.AcquireRequest {
	return publish.AcquireRequest{Key: "k", Holder: holder, TTL: ttl, Wait: wait}
}

// TestAcquireWaits is case 3: a waiter gets the lease as soon as it ends, and its TTL counts from the grant.
func TestAcquireWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { // Time passes only while all wait, the double's clock with it.
		service := &publish.Service{Pointers: publishtest.NewPointers()}
		if _, err := service.Acquire(t.Context(), request("a", 2*time.Minute, 0)); err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		lease, err := service.Acquire(t.Context(), request("b", 5*time.Second, 3*time.Minute))
		if err != nil || lease.Token != 2 || lease.LeaseID.IsZero() {
			t.Fatalf("%+v, %v", lease, err)
		}
		waited := time.Since(start)
		if waited < 2*time.Minute || waited > 2*time.Minute+time.Second {
			t.Errorf("waited %s for a lease of 2m", waited)
		}
		if left := time.Until(lease.ExpiresAt.Time); left < 4*time.Second || left > 5*time.Second {
			t.Errorf("%s are left of 5s after a wait", left)
		}
	})
}

func TestAcquireWaitsForRelease(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		service := &publish.Service{Pointers: publishtest.NewPointers()}
		a, err := service.Acquire(t.Context(), request("a", time.Hour, 0))
		if err != nil {
			t.Fatal(err)
		}
		released := make(chan error, 1)
		time.AfterFunc(10*time.Second, func() { released <- service.Release(t.Context(), "k", a.LeaseID) })
		start := time.Now()
		lease, err := service.Acquire(t.Context(), request("b", time.Minute, time.Hour))
		if err := errors.Join(err, <-released); err != nil || lease.Token != 2 {
			t.Fatalf("%+v, %v", lease, err)
		}
		if waited := time.Since(start); waited > 11*time.Second {
			t.Errorf("waited %s for a lease that was released after 10s", waited)
		}
	})
}

func TestAcquireWaitEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := publishtest.NewPointers()
		service := &publish.Service{Pointers: store}
		if _, err := service.Acquire(t.Context(), request("a", time.Hour, 0)); err != nil {
			t.Fatal(err)
		}
		for _, wait := range []time.Duration{0, time.Millisecond, 10 * time.Second} {
			start := time.Now()
			_, err := service.Acquire(t.Context(), request("b", time.Minute, wait))
			is(t, "acquire", err, publish.ErrLeaseHeld)
			if waited := time.Since(start); waited < wait || waited > wait+time.Second {
				t.Errorf("waited %s of %s", waited, wait)
			}
		}

		// A waiter that goes away is out of the queue: the next one gets the key.
		ctx, cancel := context.WithTimeout(t.Context(), 2900*time.Millisecond)
		defer cancel()
		start := time.Now()
		_, err := service.Acquire(ctx, request("gone", time.Minute, time.Hour))
		if !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != 2900*time.Millisecond {
			t.Errorf("a waiter whose time is over: %v after %s", err, time.Since(start))
		}
		store.Expire("k")
		if lease, err := service.Acquire(t.Context(), request("c", time.Minute, time.Hour)); err != nil || lease.Token != 2 || lease.Holder != "c" {
			t.Errorf("%+v, %v", lease, err)
		}
	})
}

// TestAcquireOutcomeUnknown: a wait doesn't repeat a request whose outcome is unknown behind the client's back; the client does,
// with its own lease_id, and has one grant.
func TestAcquireOutcomeUnknown(t *testing.T) {
	t.Parallel()
	store := publishtest.NewPointers()
	service := &publish.Service{Pointers: store}
	store.Faults.Add(publishtest.Fault{Operation: "Acquire", Applied: true})
	req := request("a", time.Minute, time.Minute)
	req.LeaseID = publish.NewLeaseID()
	_, err := service.Acquire(t.Context(), req)
	is(t, "acquire", err, publish.ErrOutcomeUnknown)
	if lease, err := service.Acquire(t.Context(), req); err != nil || lease.Token != 1 || !lease.Replayed || lease.LeaseID != req.LeaseID {
		t.Errorf("the repeat: %+v, %v", lease, err)
	}
}

// TestAcquireRequest: what is wrong with a request is said before any store is asked.
func TestAcquireRequest(t *testing.T) {
	t.Parallel()
	labels := map[string]string{}
	for i := range publish.MaxLabels + 1 {
		labels[strings.Repeat("x", i+1)] = ""
	}
	service := &publish.Service{} // Asking a store would panic.
	for name, test := range map[string]struct {
		pointer string
		change  func(*publish.AcquireRequest)
	}{
		"no holder":        {"/holder", func(r *publish.AcquireRequest) { r.Holder = "" }},
		"long holder":      {"/holder", func(r *publish.AcquireRequest) { r.Holder = strings.Repeat("x", publish.MaxHolderBytes+1) }},
		"holder's newline": {"/holder", func(r *publish.AcquireRequest) { r.Holder = "a\nlevel=INFO" }},
		"holder's bytes":   {"/holder", func(r *publish.AcquireRequest) { r.Holder = "\xff" }},
		"holder's bidi":    {"/holder", func(r *publish.AcquireRequest) { r.Holder = "a\u202e" }},
		"no ttl":           {"/ttl", func(r *publish.AcquireRequest) { r.TTL = 0 }},
		"short ttl":        {"/ttl", func(r *publish.AcquireRequest) { r.TTL = publish.MinTTL - 1 }},
		"long ttl":         {"/ttl", func(r *publish.AcquireRequest) { r.TTL = publish.MaxTTL + 1 }},
		"negative wait":    {"/wait", func(r *publish.AcquireRequest) { r.Wait = -1 }},
		"long wait":        {"/wait", func(r *publish.AcquireRequest) { r.Wait = publish.MaxWait + 1 }},
		"many labels":      {"/labels", func(r *publish.AcquireRequest) { r.Labels = labels }},
		"label's name":     {"/labels", func(r *publish.AcquireRequest) { r.Labels = map[string]string{"": "x"} }},
		"label's NUL":      {"/labels", func(r *publish.AcquireRequest) { r.Labels = map[string]string{"a": "\x00"} }},
		"label's length": {"/labels", func(r *publish.AcquireRequest) {
			r.Labels = map[string]string{"a": strings.Repeat("x", publish.MaxLabelBytes+1)}
		}},
		"half a character": {"/labels", func(r *publish.AcquireRequest) { r.Labels = map[string]string{"caf\xc3": "\xa9"} }},
	} {
		req := request("a", time.Minute, 0)
		test.change(&req)
		_, err := service.Acquire(t.Context(), req)
		refusedField(t, name, err, publish.ErrInvalidRequest, test.pointer)
	}
	_, err := service.Renew(t.Context(), "k", publish.NewLeaseID(), publish.MinTTL-1)
	refusedField(t, "renew", err, publish.ErrInvalidRequest, "/ttl")
}
