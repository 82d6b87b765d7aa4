package pointer_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/pawlhq/pawl/pointer"
	"github.com/pawlhq/pawl/publish"
)

// A call that waits for a key's lock longer than its time is over for good: it is not carried out later, when the lock is free and nobody
// expects it any more.
func TestLockWaitEndsBeforeTheCall(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	direct, dsn := newStore(t)
	first := grant(t, direct, "k", "A")
	if err := direct.Release(ctx, "k", first.lease.LeaseID); err != nil {
		t.Fatal(err)
	}
	store, err := pointer.Open(ctx, dsn, pointer.Options{Timeout: 3 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()

	blocker := open(t, dsn)
	blocker.exec(`SELECT FROM pawl.keys WHERE name = 'k' FOR UPDATE`)
	_, err = store.Acquire(ctx, publish.AcquireRequest{Key: "k", Holder: "B", TTL: time.Hour, LeaseID: publish.NewLeaseID()})
	if !errors.Is(err, publish.ErrUnavailable) {
		t.Errorf("acquire behind a lock: %v, want unavailable: nothing was changed", err)
	}
	blocker.commit()
	if lease, err := direct.Lease(ctx, "k"); err != nil || lease.Held || lease.Token != first.lease.Token {
		t.Errorf("the lease is %+v, %v; want the first one, released", lease, err)
	}
}
