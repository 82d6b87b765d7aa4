package pointer_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawlhq/pawl/internal/testenv"
	"github.com/pawlhq/pawl/publish"
)

// Case 11: a replica whose clock is wrong, by 26 years here, gives the same answers as one whose clock is right: leases begin, run and
// end by the database's clock alone.
func TestCase11ReplicaWithAWrongClock(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	dsn := testenv.Postgres(t)
	right := openStore(t, dsn)
	now := time.Now()
	same := func(t *testing.T, what string, wrong, right publish.Lease) {
		t.Helper()
		if wrong.Token != right.Token || wrong.Held != right.Held || wrong.ExpiresAt == nil || !wrong.ExpiresAt.Equal(right.ExpiresAt.Time) {
			t.Errorf("%s: the wrong replica says %+v, the right one %+v", what, wrong, right)
		}
	}
	// What the right replica does is done outside of the bubble, by a goroutine with the right clock.
	tasks, done := make(chan func()), make(chan struct{})
	defer close(tasks)
	go func() {
		for task := range tasks {
			task()
			done <- struct{}{}
		}
	}()
	outside := func(task func()) { tasks <- task; <-done }

	// The clock of a synctest bubble stands at the beginning of the year 2000 and moves only while everything in it sleeps.
	synctest.Test(t, func(t *testing.T) {
		if off := time.Until(now); off < 20*365*24*time.Hour {
			t.Fatalf("the replica's clock is off by %v only", off)
		}
		store := openStore(t, dsn)
		wrong := &publish.Service{Pointers: store, Blobs: nil}
		request := func(holder string) publish.AcquireRequest {
			return publish.AcquireRequest{Key: "k", Holder: holder, TTL: time.Minute, LeaseID: publish.NewLeaseID()}
		}
		a, err := wrong.Acquire(ctx, request("A"))
		if err != nil || a.ServerTime.Before(now.Add(-time.Minute)) || a.ExpiresAt.Sub(a.ServerTime.Time) != time.Minute {
			t.Fatalf("the lease is %+v, %v; want it by the database's clock", a, err)
		}
		var seen publish.Lease
		outside(func() { seen, err = right.Lease(ctx, "k") })
		if err != nil {
			t.Fatal(err)
		}
		same(t, "granted by the wrong one", a, seen)

		// While it runs, neither grants it; once it has run out, by the database's clock, either does.
		_, errWrong := store.Acquire(ctx, request("B"))
		var errRight error
		outside(func() { _, errRight = right.Acquire(ctx, request("B")) })
		if !errors.Is(errWrong, publish.ErrLeaseHeld) || !errors.Is(errRight, publish.ErrLeaseHeld) {
			t.Errorf("acquire of a running lease: %v from the wrong replica, %v from the right one; want lease-held", errWrong, errRight)
		}
		exec1(t, dsn, `UPDATE pawl.keys SET lease_expires_at = clock_timestamp() - interval '1 ms'`)
		var b worker
		outside(func() { b.lease, err = right.Acquire(ctx, request("B")) })
		if err != nil {
			t.Fatal(err)
		}
		if _, err := wrong.Renew(ctx, "k", a.LeaseID, 0); !errors.Is(err, publish.ErrLeaseLost) {
			t.Errorf("renew of a replaced lease: %v, want lease-lost", err)
		}
		seen, err = store.Lease(ctx, "k")
		if err != nil {
			t.Fatal(err)
		}
		same(t, "granted by the right one", seen, b.lease)
		exec1(t, dsn, `UPDATE pawl.keys SET lease_expires_at = clock_timestamp() - interval '1 ms'`)
		renewed, err := wrong.Renew(ctx, "k", b.lease.LeaseID, 0)
		if err != nil || !renewed.Held || renewed.Token != b.lease.Token {
			t.Errorf("renew of an expired lease that nobody replaced: %+v, %v", renewed, err)
		}
	})
}
