package pointer_test

import (
	"context"
	"testing"
	"time"

	"github.com/pawlhq/pawl/pointer"
	"github.com/pawlhq/pawl/publish"
)

// The calls of the schema's functions, as the store makes them.
const (
	acquireCall  = `SELECT pawl.acquire($1, sha256(convert_to($2::text, 'UTF8')), $2::text, 60000, '{}')`
	renewCall    = `SELECT pawl.renew($1, sha256(convert_to($2::text, 'UTF8')), NULL)`
	releaseCall  = `SELECT pawl.release($1, sha256(convert_to($2::text, 'UTF8')))`
	beginCall    = `SELECT pawl.begin_upload($1, $3, sha256(convert_to($2::text, 'UTF8')), $4, decode(md5(random()::text), 'hex'), NULL, false)`
	completeCall = `SELECT pawl.complete_upload($1, $3, sha256(convert_to($2::text, 'UTF8')), $4, $5, 3, sha256('abc'), 'text/plain')`
	deleteCall   = `SELECT pawl.delete_file($1, $3, sha256(convert_to($2::text, 'UTF8')), $4)`
	publishCall  = `SELECT pawl.publish($1, $3, sha256(convert_to($2::text, 'UTF8')), true, NULL, NULL, '{}', NULL, false, NULL, NULL, false, NULL, false, NULL, false)`
	expireCall   = `UPDATE pawl.keys SET lease_expires_at = clock_timestamp() - interval '1 second' WHERE name = $1`
)

const raceKey = "shots/010/comp"

// race prepares a key of which A holds token 1 with the complete file "a", its lease run out, and gives two sessions.
func race(t *testing.T) (first, second *session, store *pointer.Store) {
	t.Helper()
	store, dsn := newStore(t)
	first, second = open(t, dsn), open(t, dsn)
	first.call(acquireCall, raceKey, "A")
	first.put("A", 1, "a")
	first.exec(expireCall, raceKey)
	first.commit()
	first.begin()
	return first, second, store
}

// put uploads a file whole.
func (s *session) put(lease string, token int64, path string) {
	s.t.Helper()
	begun := s.call(beginCall, raceKey, lease, token, path)
	if done := s.call(completeCall, raceKey, lease, token, path, begun.Number); done.code() != "" {
		s.t.Fatalf("completing %s: %v", path, done.Refused)
	}
}

func wantCode(t *testing.T, what string, a answer, want publish.Code) {
	t.Helper()
	if a.code() != want {
		t.Errorf("%s: got %q (%+v), want %q", what, a.code(), a.Refused, want)
	}
}

// A publish and a grant that meet: whoever locks the key first is first, in both fence modes.
func TestPublishAgainstAcquire(t *testing.T) {
	t.Parallel()
	for _, mode := range []publish.FenceMode{publish.FenceAccepted, publish.FenceGranted} {
		t.Run(string(mode)+"/publish first", func(t *testing.T) {
			t.Parallel()
			a, b, store := race(t)
			setMode(t, store, mode)
			wantCode(t, "publish by A", a.call(publishCall, raceKey, "A", 1), "")
			granted := b.behind(a, acquireCall, raceKey, "B")
			wantCode(t, "acquire by B", granted, "")
			if granted.Lease.Token != 2 || granted.Lease.Current == nil || granted.Lease.Current.Token != 1 {
				t.Errorf("B got %+v, want token 2 on top of version 1.1", granted.Lease)
			}
		})
		t.Run(string(mode)+"/acquire first", func(t *testing.T) {
			t.Parallel()
			a, b, store := race(t)
			setMode(t, store, mode)
			wantCode(t, "acquire by B", b.call(acquireCall, raceKey, "B"), "")
			published := a.behind(b, publishCall, raceKey, "A", 1)
			if mode == publish.FenceGranted {
				// The clever single statement published here: it saw the policy and the grants as they were before it waited.
				wantCode(t, "publish by A", published, publish.ErrStaleToken)
				return
			}
			wantCode(t, "publish by A", published, "")
			if r := published.Receipt; r.SupersededBy != 2 || !r.LeaseExpired {
				t.Errorf("A's receipt %+v doesn't say that it is superseded by 2 and late", r)
			}
		})
	}
}

// Two publishes of different generations: the newer one wins in either order.
func TestPublishAgainstPublish(t *testing.T) {
	t.Parallel()
	t.Run("newer first", func(t *testing.T) {
		t.Parallel()
		a, b, _ := race(t)
		b.call(acquireCall, raceKey, "B")
		b.put("B", 2, "b")
		b.commit()
		b.begin()
		wantCode(t, "publish by B", b.call(publishCall, raceKey, "B", 2), "")
		stale := a.behind(b, publishCall, raceKey, "A", 1)
		wantCode(t, "publish by A", stale, publish.ErrStaleToken)
		if e := stale.Refused; e.Token != 1 || e.AcceptedToken != 2 || e.Holder != "B" {
			t.Errorf("the refusal %+v doesn't name tokens 1 and 2 and holder B", e)
		}
	})
	t.Run("older first", func(t *testing.T) {
		t.Parallel()
		a, b, _ := race(t)
		b.call(acquireCall, raceKey, "B")
		b.put("B", 2, "b")
		b.commit()
		b.begin()
		wantCode(t, "publish by A", a.call(publishCall, raceKey, "A", 1), "")
		wantCode(t, "publish by B", b.behind(a, publishCall, raceKey, "B", 2), "")
	})
}

// A condemned generation never becomes current, and a current one is not condemned, in either order.
func TestPublishAgainstCondemn(t *testing.T) {
	t.Parallel()
	const lockKey = `SELECT to_jsonb(k) FROM pawl.keys k WHERE name = $1 FOR NO KEY UPDATE`
	const condemn = `UPDATE pawl.generations SET state = 'condemned' WHERE token = 1 AND state = 'open'`
	t.Run("condemn first", func(t *testing.T) {
		t.Parallel()
		a, collector, _ := race(t)
		collector.call(lockKey, raceKey)
		collector.exec(condemn)
		wantCode(t, "publish by A", a.behind(collector, publishCall, raceKey, "A", 1), publish.ErrGenerationCollected)
	})
	t.Run("publish first", func(t *testing.T) {
		t.Parallel()
		a, collector, _ := race(t)
		wantCode(t, "publish by A", a.call(publishCall, raceKey, "A", 1), "")
		collector.behind(a, lockKey, raceKey)
		collector.begin()
		if n := collector.exec(condemn); n != 0 {
			t.Errorf("condemned %d published generations", n)
		}
	})
}

// Registering a file against the final publish: the file is in the sealed set, or refused.
func TestRegisterAgainstFinalPublish(t *testing.T) {
	t.Parallel()
	t.Run("register first", func(t *testing.T) {
		t.Parallel()
		a, uploader, _ := race(t)
		begun := uploader.call(beginCall, raceKey, "A", 1, "b")
		uploader.commit()
		uploader.begin()
		wantCode(t, "register", uploader.call(completeCall, raceKey, "A", 1, "b", begun.Number), "")
		published := a.behind(uploader, publishCall, raceKey, "A", 1)
		wantCode(t, "publish", published, "")
		if published.Receipt.Files != 2 {
			t.Errorf("the sealed set has %d files, want 2", published.Receipt.Files)
		}
	})
	t.Run("publish first, its path pending", func(t *testing.T) {
		t.Parallel()
		a, uploader, _ := race(t)
		begun := uploader.call(beginCall, raceKey, "A", 1, "b")
		uploader.commit()
		uploader.begin()
		wantCode(t, "publish", a.call(publishCall, raceKey, "A", 1), publish.ErrGenerationIncomplete)
		wantCode(t, "register", uploader.behind(a, completeCall, raceKey, "A", 1, "b", begun.Number), "")
	})
	t.Run("publish first, upload begins", func(t *testing.T) {
		t.Parallel()
		a, uploader, _ := race(t)
		wantCode(t, "publish", a.call(publishCall, raceKey, "A", 1), "")
		wantCode(t, "begin", uploader.behind(a, beginCall, raceKey, "A", 1, "b"), publish.ErrGenerationSealed)
	})
	t.Run("publish first, an overtaken upload ends", func(t *testing.T) {
		t.Parallel()
		a, uploader, _ := race(t)
		early := uploader.call(beginCall, raceKey, "A", 1, "a")
		uploader.put("A", 1, "a")
		uploader.commit()
		uploader.begin()
		wantCode(t, "publish", a.call(publishCall, raceKey, "A", 1), "")
		// The clever single statement registered this one into the sealed set.
		wantCode(t, "register", uploader.behind(a, completeCall, raceKey, "A", 1, "a", early.Number), publish.ErrGenerationSealed)
	})
}

// Deleting a file against the final publish: it is gone before, or stays for ever.
func TestDeleteAgainstPublish(t *testing.T) {
	t.Parallel()
	t.Run("delete first", func(t *testing.T) {
		t.Parallel()
		a, deleter, _ := race(t)
		wantCode(t, "delete", deleter.call(deleteCall, raceKey, "A", 1, "a"), "")
		wantCode(t, "publish", a.behind(deleter, publishCall, raceKey, "A", 1), publish.ErrGenerationIncomplete)
	})
	t.Run("publish first", func(t *testing.T) {
		t.Parallel()
		a, deleter, _ := race(t)
		wantCode(t, "publish", a.call(publishCall, raceKey, "A", 1), "")
		wantCode(t, "delete", deleter.behind(a, deleteCall, raceKey, "A", 1, "a"), publish.ErrGenerationSealed)
	})
}

// A release against a renewal of the same grant.
func TestReleaseAgainstRenew(t *testing.T) {
	t.Parallel()
	t.Run("release first", func(t *testing.T) {
		t.Parallel()
		a, renewer, _ := race(t)
		wantCode(t, "release", a.call(releaseCall, raceKey, "A"), "")
		wantCode(t, "renew", renewer.behind(a, renewCall, raceKey, "A"), publish.ErrLeaseLost)
	})
	t.Run("renew first", func(t *testing.T) {
		t.Parallel()
		a, renewer, store := race(t)
		wantCode(t, "renew", renewer.call(renewCall, raceKey, "A"), "")
		wantCode(t, "release", a.behind(renewer, releaseCall, raceKey, "A"), "")
		lease, err := store.Lease(context.Background(), raceKey)
		if err != nil || lease.Held {
			t.Errorf("after renew and release the lease is %+v, %v; want it released", lease, err)
		}
	})
}

// A grant and a renewal that waited for the row's lock have their whole TTL: the clock is read after the lock.
func TestWaitedGrantHasItsWholeTTL(t *testing.T) {
	t.Parallel()
	for _, call := range []string{acquireCall, renewCall} {
		t.Run(call[:20], func(t *testing.T) {
			t.Parallel()
			blocker, waiter, _ := race(t)
			blocker.exec(`UPDATE pawl.keys SET fence = fence WHERE name = $1`, raceKey)
			blocker.exec(`UPDATE pawl.keys SET lease_ttl_ms = 60000 WHERE name = $1`, raceKey)
			lease := "A"
			if call == acquireCall {
				lease = "B"
			}
			// The transaction of the waiter is old when it gets the lock.
			waiter.exec(`SELECT pg_sleep(0.3)`)
			var unlocked time.Time
			granted := waiter.behindAt(blocker, &unlocked, call, raceKey, lease)
			wantCode(t, "call", granted, "")
			if early := unlocked.Add(time.Minute).Sub(granted.Lease.ExpiresAt.Time); early > 0 {
				t.Errorf("the lease ends %v before a whole TTL after the lock was free", early)
			}
		})
	}
}

// Case 11: a transaction that began while A's lease ran, and waited for the row until it had run out, sees that it has.
func TestCase11ExpiryWhileWaiting(t *testing.T) {
	t.Parallel()
	blocker, waiter, _ := race(t)
	blocker.exec(`UPDATE pawl.keys SET lease_expires_at = clock_timestamp() + interval '300 ms' WHERE name = $1`, raceKey)
	waiter.exec(`SELECT now()`) // B's transaction begins before the expiry.
	blocker.beforeCommit = func() { blocker.exec(`SELECT pg_sleep(0.4)`) }
	granted := waiter.behind(blocker, acquireCall, raceKey, "B")
	wantCode(t, "acquire by B", granted, "")
}

// behindAt is behind, and tells the database's time just before the other session commits.
func (s *session) behindAt(other *session, at *time.Time, sql string, args ...any) answer {
	s.t.Helper()
	other.beforeCommit = func() {
		if err := other.tx.QueryRow(context.Background(), `SELECT clock_timestamp()`).Scan(at); err != nil {
			s.t.Fatal(err)
		}
	}
	return s.behind(other, sql, args...)
}

func setMode(t *testing.T, store *pointer.Store, mode publish.FenceMode) {
	t.Helper()
	if err := store.SetPolicy(context.Background(), publish.Policy{Prefix: "shots", FenceMode: mode}, "test"); err != nil {
		t.Fatal(err)
	}
}
