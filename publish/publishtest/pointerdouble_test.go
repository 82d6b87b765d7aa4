package publishtest_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/pawlhq/pawl/publish"
	"github.com/pawlhq/pawl/publish/publishtest"
)

// TestPointersAnswerLost shows what the double's faults are for: a publish whose answer was lost, and the repeat that tells.
func TestPointersAnswerLost(t *testing.T) {
	t.Parallel()
	ctx, store := t.Context(), publishtest.NewPointers()
	id := publish.NewLeaseID()
	lease, err := store.Acquire(ctx, publish.AcquireRequest{Key: "k", Holder: "a", TTL: time.Minute, LeaseID: id})
	if err != nil {
		t.Fatal(err)
	}
	grant := publish.Grant{Key: "k", Token: lease.Token, LeaseID: id}
	start, err := store.BeginUpload(ctx, publish.BeginUploadRequest{Grant: grant, Path: "f", ID: publish.UploadID{1}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.CompleteUpload(ctx, start.Upload, publish.File{Path: "f", Size: 1, ContentType: "text/plain"}); err != nil {
		t.Fatal(err)
	}
	store.Faults.Add(publishtest.Fault{Operation: "Publish"})
	store.Faults.Add(publishtest.Fault{Operation: "Publish", Applied: true})
	req := publish.PublishRequest{Grant: grant, Final: true}
	if _, err := store.Publish(ctx, req); !errors.Is(err, publish.ErrUnavailable) {
		t.Fatalf("a fault that isn't applied gave %v", err)
	}
	if _, err := store.Pointer(ctx, "k"); !errors.Is(err, publish.ErrNotFound) {
		t.Fatalf("a publish that wasn't applied left a pointer, or %v", err)
	}
	if _, err := store.Publish(ctx, req); !errors.Is(err, publish.ErrOutcomeUnknown) {
		t.Fatalf("a lost answer gave %v", err)
	}
	receipt, err := store.Publish(ctx, req)
	if err != nil || !receipt.Replayed || receipt.Revision != 1 {
		t.Fatalf("the repeat gave %+v, %v", receipt, err)
	}
	if calls := store.Faults.Calls("Publish"); calls != 3 {
		t.Fatalf("counted %d calls, want 3", calls)
	}
}

// TestPointersBlock holds a call back until its context ends.
func TestPointersBlock(t *testing.T) {
	t.Parallel()
	store := publishtest.NewPointers()
	ctx, cancel := context.WithCancel(t.Context())
	store.Faults.Add(publishtest.Fault{Operation: "Pointer", Before: func(ctx context.Context) { cancel(); <-ctx.Done() }})
	if _, err := store.Pointer(ctx, "k"); !errors.Is(err, context.Canceled) {
		t.Fatalf("a call whose context ended gave %v", err)
	}
}

// TestPointersAdvance lets a lease run out by the store's own clock.
func TestPointersAdvance(t *testing.T) {
	t.Parallel()
	store := publishtest.NewPointers()
	if _, err := store.Acquire(t.Context(), publish.AcquireRequest{Key: "k", Holder: "a", TTL: time.Hour, LeaseID: publish.NewLeaseID()}); err != nil {
		t.Fatal(err)
	}
	store.Advance(time.Hour)
	lease, err := store.Lease(t.Context(), "k")
	if err != nil || lease.Held {
		t.Fatalf("after its whole ttl the lease is %+v, %v", lease, err)
	}
}

// openPointers makes the double with the hands that the suite needs.
func openPointers(*testing.T) publishtest.PointerHarness {
	store := publishtest.NewPointers()
	return publishtest.PointerHarness{
		Store:  store,
		Expire: func(_ *testing.T, key publish.Key) { store.Expire(key) },
		Limit: func(_ *testing.T, limits publish.GenerationLimits) publish.PointerStore {
			store.Limit(limits)
			return store
		},
		RaiseEpoch:    func(*testing.T) { store.RaiseEpoch() },
		SetCounter:    func(_ *testing.T, key publish.Key, counter publish.Token) { store.SetCounter(key, counter) },
		Age:           func(_ *testing.T, key publish.Key, by time.Duration) { store.Age(key, by) },
		Antedate:      func(_ *testing.T, key publish.Key, by time.Duration) { store.Antedate(key, by) },
		AgeSession:    func(_ *testing.T, hash publish.Digest, by time.Duration) { store.AgeSession(hash, by) },
		Condemn:       func(_ *testing.T, key publish.Key, token publish.Token) { store.GiveUp(key, token) },
		AgeCredential: func(_ *testing.T, id publish.CredentialID, by time.Duration) { store.AgeCredential(id, by) },
	}
}

func TestPointers(t *testing.T) {
	t.Parallel()
	publishtest.TestPointerStore(t, openPointers)
}
