package client

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/pawlhq/pawl/publish"
)

func lease(ttl time.Duration) publish.Lease {
	return publish.Lease{Key: grant.Key, Token: 17, LeaseID: grant.LeaseID, Holder: "me", Held: true, TTLMillis: ttl.Milliseconds()}
}

// acquireBody is what an acquire sends.
type acquireBody struct {
	LeaseID publish.LeaseID `json:"lease_id"`
	Wait    string          `json:"wait"`
	TTL     string          `json:"ttl"`
}

func readAcquire(t *testing.T, r *http.Request) acquireBody {
	t.Helper()
	var body acquireBody
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
		t.Error(err)
	}
	return body
}

// A lost acquire is repeated with the lease_id that it had, so it can't wait for itself.
func TestAcquireRepeatsWithItsOwnID(t *testing.T) {
	t.Parallel()
	ids := make(chan publish.LeaseID, 2)
	f := newFake(t,
		func(w http.ResponseWriter, r *http.Request) { ids <- readAcquire(t, r).LeaseID; lose(w, r) },
		func(w http.ResponseWriter, r *http.Request) {
			ids <- readAcquire(t, r).LeaseID
			answer(201, lease(time.Minute))(w, r)
		})
	got, err := f.client(t, Options{}).Acquire(testContext(t), publish.AcquireRequest{Key: grant.Key, Holder: "me", TTL: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	if first, second := <-ids, <-ids; first != second || first.IsZero() || got.LeaseID != first {
		t.Fatal("the lease_id changed")
	}
	if got.Remaining() <= 59*time.Second || got.Remaining() > time.Minute {
		t.Fatalf("remaining %s", got.Remaining())
	}
}

// A grant that was made, lost, and superseded meanwhile isn't the end: a new attempt has a new lease_id.
func TestAcquireStartsAnewWhenItsOwnGrantIsOver(t *testing.T) {
	t.Parallel()
	f := newFake(t, lose, refuse(&publish.Error{Code: publish.ErrLeaseLost}), answer(201, lease(time.Minute)))
	if _, err := f.client(t, Options{}).Acquire(testContext(t), publish.AcquireRequest{Key: grant.Key, Holder: "me", TTL: time.Minute}); err != nil {
		t.Fatal(err)
	}
	// With an id of the caller's own it is his business.
	f = newFake(t, refuse(&publish.Error{Code: publish.ErrLeaseLost}))
	_, err := f.client(t, Options{}).Acquire(testContext(t), publish.AcquireRequest{Key: grant.Key, Holder: "me", TTL: time.Minute, LeaseID: grant.LeaseID})
	if !errors.Is(err, publish.ErrLeaseLost) || f.count() != 1 {
		t.Fatalf("got %v after %d requests", err, f.count())
	}
}

// Whoever gives up waiting doesn't leave a lease behind.
func TestAbandonedAcquireReleases(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(testContext(t))
	released := make(chan string, 1)
	f := newFake(t,
		func(_ http.ResponseWriter, r *http.Request) { readAcquire(t, r); cancel(); <-r.Context().Done() },
		func(w http.ResponseWriter, r *http.Request) {
			released <- r.Method + " " + r.Header.Get(headerLease)
			w.WriteHeader(204)
		})
	_, err := f.client(t, Options{}).Acquire(ctx, publish.AcquireRequest{Key: grant.Key, Holder: "me", TTL: time.Minute})
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v", err)
	}
	if got := <-released; len(got) != len("DELETE ")+32 {
		t.Fatalf("got %q", got)
	}
}

func TestAcquireHeldIsAnswered(t *testing.T) {
	t.Parallel()
	f := newFake(t, refuse(&publish.Error{Code: publish.ErrLeaseHeld, Holder: "b", Token: 18}, "Retry-After", "1"))
	_, err := f.client(t, Options{}).Acquire(testContext(t), publish.AcquireRequest{Key: grant.Key, Holder: "me", TTL: time.Minute})
	if !errors.Is(err, publish.ErrLeaseHeld) || f.count() != 1 {
		t.Fatalf("got %v after %d requests", err, f.count())
	}
}

// Case 3: the TTL of a waiter counts from its grant; by the own clock that moment isn't known, so it renews at once.
func TestAWaiterRenewsAtOnce(t *testing.T) {
	t.Parallel()
	const ttl = time.Second // A busy machine may stand still for a while.
	f := newFake(t,
		func(w http.ResponseWriter, r *http.Request) {
			readAcquire(t, r)
			time.Sleep(2 * ttl) // The server waits for the other holder: this is what is tested.
			answer(201, lease(ttl))(w, r)
		},
		answer(200, lease(ttl)))
	got, err := f.client(t, Options{}).Acquire(testContext(t), publish.AcquireRequest{Key: grant.Key, Holder: "me", TTL: ttl, Wait: time.Minute})
	if err != nil || f.count() != 2 || got.Remaining() <= 0 {
		t.Fatalf("got remaining %s, %v after %d requests", got.Remaining(), err, f.count())
	}
}

func TestRenewAndRelease(t *testing.T) {
	t.Parallel()
	f := newFake(t, answer(200, lease(time.Minute)), func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(204) })
	c := f.client(t, Options{})
	got, err := c.Renew(testContext(t), grant.Key, grant.LeaseID, time.Minute)
	if err != nil || got.Grant() != grant {
		t.Fatalf("got %+v, %v", got, err)
	}
	if err := c.Release(testContext(t), grant.Key, grant.LeaseID); err != nil {
		t.Fatal(err)
	}
	if got := f.requests[1]; got.Method != http.MethodDelete || got.URL.Path != "/v1/keys/thumbs/image-52/-/lease" || got.Header.Get(headerLease) != grant.LeaseID.Hex() {
		t.Fatalf("sent %s %s", got.Method, got.URL.Path)
	}
}

// A waiter whose first renewal doesn't get through has its lease all the same, and at once: repeating would use it up.
func TestAWaiterIsNotKeptFromItsLease(t *testing.T) {
	t.Parallel()
	const ttl = 300 * time.Millisecond
	f := newFake(t,
		func(w http.ResponseWriter, r *http.Request) {
			readAcquire(t, r)
			time.Sleep(ttl / 2) // The server waits for the other holder: this is what is tested.
			answer(201, lease(ttl))(w, r)
		},
		lose)
	start := time.Now()
	got, err := f.client(t, Options{}).Acquire(testContext(t), publish.AcquireRequest{Key: grant.Key, Holder: "me", TTL: ttl, Wait: time.Minute})
	if took := time.Since(start); err != nil || got.Token != 17 || f.count() != 2 || took > time.Minute/2 {
		t.Fatalf("got %+v, %v after %d requests and %s", got, err, f.count(), took)
	}
}
