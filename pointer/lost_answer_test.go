package pointer_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/pawlhq/pawl/internal/testenv"
	"github.com/pawlhq/pawl/pointer"
	"github.com/pawlhq/pawl/publish"
)

// Cases 15 and 16: each changing call, when its request never arrived and when it was carried out but the answer was lost. Either is
// outcome-unknown, and repeating the very same call leads to the same state as if nothing had happened.
func TestCase15LostAnswers(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	for _, fault := range []struct {
		name string
		set  func(*testenv.FaultProxy, string) <-chan struct{}
	}{
		{"not applied", (*testenv.FaultProxy).CutRequest},
		{"applied, answer lost", (*testenv.FaultProxy).LoseAnswer},
	} {
		t.Run(fault.name, func(t *testing.T) {
			t.Parallel()
			dsn := testenv.Postgres(t)
			proxy, through := testenv.PostgresProxy(t, dsn)
			store := openStore(t, through)
			// A first round on another key prepares the statements on the connection.
			ready := grant(t, store, "ready", "W")
			ready.ship()

			const key = "lost/answers"
			request := publish.AcquireRequest{Key: key, Holder: "W", TTL: time.Minute, LeaseID: publish.NewLeaseID()}
			var lease publish.Lease
			var start publish.UploadStart
			var receipt publish.Receipt
			steps := []struct {
				name string
				call func() error
			}{
				{"acquire", func() (err error) { lease, err = store.Acquire(ctx, request); return err }},
				{"renew", func() (err error) { _, err = store.Renew(ctx, key, request.LeaseID, 0); return err }},
				{"begin", func() (err error) {
					start, err = store.BeginUpload(ctx, publish.BeginUploadRequest{
						Grant: publish.Grant{Key: key, Token: lease.Token, LeaseID: request.LeaseID}, Path: "out",
					})
					return err
				}},
				{"complete", func() (err error) {
					_, err = store.CompleteUpload(ctx, start.Upload, publish.File{Path: "out", Size: 1, SHA256: publish.Digest{1}, ContentType: "text/plain"})
					return err
				}},
				{"publish", func() (err error) {
					receipt, err = store.Publish(ctx, publish.PublishRequest{
						Grant: publish.Grant{Key: key, Token: lease.Token, LeaseID: request.LeaseID}, Final: true,
					})
					return err
				}},
				{"release", func() (err error) { return store.Release(ctx, key, request.LeaseID) }},
			}
			for _, step := range steps {
				sprung := fault.set(proxy, key)
				if err := step.call(); !errors.Is(err, publish.ErrOutcomeUnknown) {
					t.Fatalf("%s: %v, want outcome-unknown", step.name, err)
				}
				<-sprung
				testenv.Eventually(t, 10*time.Second, step.call)
			}
			if lease.Token != 1 || receipt.Token != 1 || receipt.Revision != 1 {
				t.Errorf("lease %+v and receipt %+v, want one grant and one publish", lease, receipt)
			}
			if applied := fault.name != "not applied"; lease.Replayed != applied || receipt.Replayed != applied {
				t.Errorf("replayed: lease %v, receipt %v; want %v", lease.Replayed, receipt.Replayed, applied)
			}
			g, err := store.Generation(ctx, key, 1)
			if err != nil || len(g.Receipts) != 1 || g.State != publish.StateSealed || g.ReleasedAt == nil {
				t.Errorf("generation %+v, %v; want it sealed by one receipt and released", g, err)
			}
		})
	}
}

// Case 16: the answer to A's publish is lost, and B publishes before A asks again: A learns that it was published, and superseded since.
func TestCase16PublishedAndSupersededSince(t *testing.T) {
	t.Parallel()
	dsn := testenv.Postgres(t)
	proxy, through := testenv.PostgresProxy(t, dsn)
	viaProxy, direct := openStore(t, through), openStore(t, dsn)
	grant(t, viaProxy, "ready", "W").ship()

	const key = "lost/publish"
	a := grant(t, viaProxy, key, "A")
	if err := a.upload(viaProxy, "out"); err != nil {
		t.Fatal(err)
	}
	sprung := proxy.LoseAnswer(key)
	if _, err := a.publish(viaProxy); !errors.Is(err, publish.ErrOutcomeUnknown) {
		t.Fatalf("A's publish: %v, want outcome-unknown", err)
	}
	<-sprung
	testenv.Eventually(t, 10*time.Second, func() error { return direct.Release(context.Background(), key, a.lease.LeaseID) })
	b := grant(t, direct, key, "B")
	b.ship()

	receipt, err := a.publish(direct)
	if err != nil || !receipt.Replayed || receipt.Token != a.lease.Token || receipt.Current == nil || receipt.Current.Token != b.lease.Token {
		t.Errorf("A's repeat: %+v, %v; want its own receipt, replayed, with B's version current", receipt, err)
	}
}

// What can't be reached is unavailable, and says that nothing was changed; what doesn't answer in time is unknown.
func TestUnreachablePostgres(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	dsn := testenv.Postgres(t)
	proxy, through := testenv.PostgresProxy(t, dsn)
	store, err := pointer.Open(ctx, through, pointer.Options{Timeout: 500 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	a := grant(t, store, "k", "A")

	proxy.Pause()
	if _, err := store.Renew(ctx, "k", a.lease.LeaseID, 0); !errors.Is(err, publish.ErrOutcomeUnknown) {
		t.Errorf("renew on a dead link: %v, want outcome-unknown", err)
	}
	if _, err := store.Lease(ctx, "k"); !errors.Is(err, publish.ErrUnavailable) {
		t.Errorf("read on a dead link: %v, want unavailable", err)
	}
	proxy.Resume()
	proxy.Refuse(true)
	proxy.Cut()
	if _, err := store.Renew(ctx, "k", a.lease.LeaseID, 0); !errors.Is(err, publish.ErrUnavailable) && !errors.Is(err, publish.ErrOutcomeUnknown) {
		t.Errorf("renew through a cut connection: %v, want unavailable or outcome-unknown", err)
	}
	if _, err := store.Renew(ctx, "k", a.lease.LeaseID, 0); !errors.Is(err, publish.ErrUnavailable) {
		t.Errorf("renew without a connection: %v, want unavailable", err)
	}
	if err := store.Check(ctx); !errors.Is(err, publish.ErrUnavailable) {
		t.Errorf("check without a connection: %v, want unavailable", err)
	}
	proxy.Refuse(false)
	testenv.Eventually(t, 10*time.Second, func() error { return store.Check(ctx) })
}
