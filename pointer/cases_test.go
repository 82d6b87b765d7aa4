package pointer_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawlhq/pawl/internal/testenv"
	"github.com/pawlhq/pawl/pointer"
	"github.com/pawlhq/pawl/publish"
)

// Case 6: an expired lease, a renewal and another's acquire that race 10,000 times: one of them gets the key, never both.
func TestCase06RenewAgainstAcquire(t *testing.T) {
	t.Parallel()
	store, dsn := newStore(t)
	const keys, rounds = 20, 500
	conn, err := pgx.Connect(context.Background(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background()) //nolint:errcheck // The test is over.

	holders := make([]publish.Lease, keys)
	for n := range holders {
		holders[n] = grant(t, store, publish.Key(fmt.Sprint("race/", n)), "first").lease
	}
	renewed, taken := 0, 0
	for round := range rounds {
		if _, err := conn.Exec(context.Background(), `UPDATE pawl.keys SET lease_expires_at = clock_timestamp() - interval '1 ms'`); err != nil {
			t.Fatal(err)
		}
		var racers sync.WaitGroup
		for n := range holders {
			racers.Go(func() {
				old := holders[n]
				next, renewErr, acquireErr := raceOnce(store, old, round)
				switch {
				case renewErr == nil && errors.Is(acquireErr, publish.ErrLeaseHeld):
				case acquireErr == nil && errors.Is(renewErr, publish.ErrLeaseLost) && next.Token == old.Token+1:
					holders[n] = next
				default:
					t.Errorf("%s: renew %v, acquire %v (%+v): want exactly one of them", old.Key, renewErr, acquireErr, next)
				}
			})
		}
		racers.Wait()
	}
	for _, h := range holders {
		taken += int(h.Token) - 1
	}
	renewed = keys*rounds - taken
	if renewed == 0 || taken == 0 {
		t.Errorf("%d renewals and %d takeovers won: the race is not one", renewed, taken)
	}
	t.Logf("%d renewals and %d takeovers won", renewed, taken)
}

// raceOnce lets a renewal of old and an acquire of its key go at once; odd and even rounds start the one or the other first.
func raceOnce(store *pointer.Store, old publish.Lease, round int) (next publish.Lease, renewErr, acquireErr error) {
	renew := func() {
		_, renewErr = store.Renew(context.Background(), old.Key, old.LeaseID, time.Minute)
	}
	acquire := func() {
		next, acquireErr = store.Acquire(context.Background(), publish.AcquireRequest{
			Key: old.Key, Holder: "other", TTL: time.Minute, LeaseID: publish.NewLeaseID(),
		})
	}
	if round%2 == 0 {
		renew, acquire = acquire, renew
	}
	var both sync.WaitGroup
	both.Go(renew)
	acquire()
	both.Wait()
	return next, renewErr, acquireErr
}

// Case 6: expired and not taken over: the renewal keeps the token.
func TestCase06RenewAfterExpiry(t *testing.T) {
	t.Parallel()
	store, dsn := newStore(t)
	a := grant(t, store, "k", "A")
	exec1(t, dsn, `UPDATE pawl.keys SET lease_expires_at = clock_timestamp() - interval '1 hour'`)
	lease, err := store.Renew(context.Background(), "k", a.lease.LeaseID, 0)
	if err != nil || lease.Token != a.lease.Token || !lease.Held || lease.TTLMillis != 60000 {
		t.Errorf("renewal after expiry gave %+v, %v; want token %d held for 60 s", lease, err, a.lease.Token)
	}
}

// Case 11: sessions in other time zones, and a database whose default isolation isn't ours, give the same answers.
func TestCase11ZonesAndIsolation(t *testing.T) {
	t.Parallel()
	for _, setting := range []string{
		"TimeZone=America/New_York", "TimeZone=Pacific/Kiritimati", "DateStyle=German", "IntervalStyle=sql_standard",
		"default_transaction_isolation=serializable", "default_transaction_isolation=repeatable\\\\ read",
	} {
		t.Run(setting, func(t *testing.T) {
			t.Parallel()
			plain, dsn := newStore(t)
			other := openStore(t, with(dsn, "options='-c "+setting+"'"))
			a := grant(t, other, "k", "A")
			if left := a.lease.ExpiresAt.Sub(a.lease.ServerTime.Time); left != time.Minute {
				t.Errorf("the lease lasts %v, want 1m", left)
			}
			seen, err := plain.Lease(context.Background(), "k")
			if err != nil || !seen.Held || !seen.ExpiresAt.Equal(a.lease.ExpiresAt.Time) {
				t.Errorf("another session sees %+v, %v; want the lease until %v", seen, err, a.lease.ExpiresAt)
			}
			if err := a.upload(other, "out"); err != nil {
				t.Fatal(err)
			}
			// A waiter's transaction starts before this publish, and must see it: that is READ COMMITTED.
			if _, err := a.publish(other); err != nil {
				t.Fatal(err)
			}
			b := grant(t, other, "k", "B")
			b.store = other
			b.ship()
			if _, err := a.publish(other); err != nil {
				t.Errorf("the replay of A's publish: %v", err)
			}
		})
	}
	for _, mode := range []string{"exec", "simple_protocol", "cache_describe", "describe_exec"} {
		t.Run("driver's mode "+mode, func(t *testing.T) {
			t.Parallel()
			_, dsn := newStore(t)
			store := openStore(t, with(dsn, "default_query_exec_mode="+mode))
			a := grant(t, store, "k", "A")
			a.ship()
			if _, err := a.publish(store); err != nil {
				t.Errorf("replay: %v", err)
			}
			if p, err := store.Pointer(context.Background(), "k"); err != nil || p.Token != 1 {
				t.Errorf("pointer %+v, %v", p, err)
			}
		})
	}
	t.Run("contention under a serializable default", func(t *testing.T) {
		t.Parallel()
		_, dsn := newStore(t)
		store := openStore(t, with(dsn, "options='-c default_transaction_isolation=serializable'"))
		var workers sync.WaitGroup
		for range 8 {
			workers.Go(func() {
				for range 20 {
					id := publish.NewLeaseID()
					_, err := store.Acquire(context.Background(), publish.AcquireRequest{Key: "k", Holder: "w", TTL: time.Minute, LeaseID: id})
					if err != nil && !errors.Is(err, publish.ErrLeaseHeld) {
						t.Errorf("acquire: %v", err)
					} else if err == nil {
						if err := store.Release(context.Background(), "k", id); err != nil {
							t.Errorf("release: %v", err)
						}
					}
				}
			})
		}
		workers.Wait()
	})
}

// with adds settings to an address in either of its forms.
func with(dsn, settings string) string {
	if strings.Contains(dsn, "://") {
		config, err := pgx.ParseConfig(dsn)
		if err != nil {
			panic(err)
		}
		dsn = fmt.Sprintf("host=%s port=%d user=%s password='%s' dbname=%s", config.Host, config.Port, config.User, config.Password, config.Database)
	}
	return dsn + " " + settings
}

// Case 12: all replicas are away for three TTLs while 50 workers hold leases. Afterwards each may renew or publish if nobody replaced
// it, and no token comes twice.
func TestCase12AllReplicasAway(t *testing.T) {
	t.Parallel()
	dsn := testenv.Postgres(t)
	before, err := pointer.Open(context.Background(), dsn, pointer.Options{MaxConns: 4})
	if err != nil {
		t.Fatal(err)
	}
	const ttl = 300 * time.Millisecond
	var workers []worker
	for n := range 50 {
		lease, err := before.Acquire(context.Background(), publish.AcquireRequest{
			Key: publish.Key(fmt.Sprintf("farm/%02d", n)), Holder: "w", TTL: ttl, LeaseID: publish.NewLeaseID(),
		})
		if err != nil {
			t.Fatal(err)
		}
		workers = append(workers, worker{t, before, lease})
		if err := workers[n].upload(before, "out"); err != nil {
			t.Fatal(err)
		}
	}
	before.Close()

	after := openStore(t, dsn)
	testenv.Eventually(t, 10*time.Second, func() error {
		lease, err := after.Lease(context.Background(), workers[49].lease.Key)
		if err == nil && lease.ServerTime.Sub(lease.ExpiresAt.Time) < 2*ttl {
			err = errNotYet
		}
		return err
	})
	for n, w := range workers {
		switch n % 3 {
		case 0:
			lease, err := after.Renew(context.Background(), w.lease.Key, w.lease.LeaseID, ttl)
			if err != nil || lease.Token != w.lease.Token {
				t.Errorf("%s: renew gave token %d, %v; want %d", w.lease.Key, lease.Token, err, w.lease.Token)
			}
		case 1:
			receipt, err := w.publish(after)
			if err != nil || !receipt.LeaseExpired {
				t.Errorf("%s: publish gave %+v, %v; want it accepted and marked late", w.lease.Key, receipt, err)
			}
		case 2:
			next := grant(t, after, w.lease.Key, "other")
			if next.lease.Token != w.lease.Token+1 {
				t.Errorf("%s: token %d after %d", w.lease.Key, next.lease.Token, w.lease.Token)
			}
			next.ship()
			if _, err := w.publish(after); !errors.Is(err, publish.ErrStaleToken) {
				t.Errorf("%s: publish of the replaced worker: %v, want stale-token", w.lease.Key, err)
			}
		}
	}
}

// Case 51: a counter at its end is an error, never a wrap, and changes nothing.
func TestCase51TokenExhausted(t *testing.T) {
	t.Parallel()
	store, dsn := newStore(t)
	last := grant(t, store, "k", "W")
	if err := store.Release(context.Background(), "k", last.lease.LeaseID); err != nil {
		t.Fatal(err)
	}
	exec1(t, dsn, `UPDATE pawl.keys SET counter = 9007199254740990`)
	if w := grant(t, store, "k", "W"); w.lease.Token != publish.MaxToken {
		t.Fatalf("token %d, want the last one", w.lease.Token)
	}
	exec1(t, dsn, `UPDATE pawl.keys SET lease_expires_at = clock_timestamp()`)
	for range 2 {
		_, err := store.Acquire(context.Background(), publish.AcquireRequest{Key: "k", Holder: "W", TTL: time.Minute, LeaseID: publish.NewLeaseID()})
		if !errors.Is(err, publish.ErrTokenExhausted) {
			t.Errorf("acquire at the end of the counter: %v, want token-exhausted", err)
		}
	}
}

// A key and its lease that are as old as the database are found by the same digest of the manifest as the Go definition.
func TestManifestDigestIsTheSameInSQL(t *testing.T) {
	t.Parallel()
	store, _ := newStore(t)
	w := grant(t, store, "set", "W")
	var files []publish.File
	for n, path := range []publish.Path{"a b.png", "a/1", "a.1", "z", "é", "🙂/x", "-/-", "100%", "q?x=1#y", `"quoted"`} {
		file := publish.File{Path: path, Size: int64(n) << 33, SHA256: publish.Digest{byte(n + 1)}, ContentType: "text/plain; charset=utf-8"}
		files = append(files, file)
		start, err := store.BeginUpload(context.Background(), publish.BeginUploadRequest{Grant: w.grant(), Path: path})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := store.CompleteUpload(context.Background(), start.Upload, file); err != nil {
			t.Fatal(err)
		}
	}
	receipt, err := w.publish(store)
	if err != nil {
		t.Fatal(err)
	}
	if want := publish.ManifestDigest(files); receipt.ManifestDigest != want {
		t.Errorf("Postgres says %s, Go says %s", receipt.ManifestDigest, want)
	}
}
