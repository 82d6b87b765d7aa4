package pointer_test

import (
	"context"
	"errors"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawlhq/pawl/internal/testenv"
	"github.com/pawlhq/pawl/pointer"
	"github.com/pawlhq/pawl/publish"
)

// worker is one grant with what it takes to publish.
type worker struct {
	t     *testing.T
	store publish.PointerStore
	lease publish.Lease
}

func grant(t *testing.T, store publish.PointerStore, key publish.Key, holder string) worker {
	t.Helper()
	lease, err := store.Acquire(context.Background(), publish.AcquireRequest{
		Key: key, Holder: holder, TTL: time.Minute, LeaseID: publish.NewLeaseID(),
	})
	if err != nil {
		t.Fatal(err)
	}
	return worker{t, store, lease}
}

func (w worker) grant() publish.Grant {
	return publish.Grant{Key: w.lease.Key, Token: w.lease.Token, LeaseID: w.lease.LeaseID}
}

func (w worker) upload(store publish.PointerStore, path publish.Path) error {
	start, err := store.BeginUpload(context.Background(), publish.BeginUploadRequest{Grant: w.grant(), Path: path})
	if err != nil {
		return err
	}
	_, err = store.CompleteUpload(context.Background(), start.Upload,
		publish.File{Path: path, Size: 3, SHA256: publish.Digest{1}, ContentType: "text/plain"})
	return err
}

func (w worker) publish(store publish.PointerStore) (publish.Receipt, error) {
	return store.Publish(context.Background(), publish.PublishRequest{Grant: w.grant(), Final: true, Release: true})
}

// ship uploads and publishes.
func (w worker) ship() {
	w.t.Helper()
	if err := w.upload(w.store, "out"); err != nil {
		w.t.Fatal(err)
	}
	if _, err := w.publish(w.store); err != nil {
		w.t.Fatal(err)
	}
}

// checkLost checks what must hold on a database that has lost the grants of some workers: they are stale, every key's next token is
// above theirs, and the epoch was raised once.
func checkLost(t *testing.T, store *pointer.Store, lost ...worker) {
	t.Helper()
	for _, w := range lost {
		key := w.lease.Key
		// Before anybody has noticed: a grant of the lost history is stale, not unknown.
		for range 2 {
			err := w.upload(store, "late")
			if !errors.Is(err, publish.ErrStaleToken) && !errors.Is(err, publish.ErrNotFound) {
				t.Errorf("%s: upload under the lost token %d: %v, want stale-token, or not-found for a lost key", key, w.lease.Token, err)
			}
			// From here on after a grant of the new history.
			next := grant(t, store, key, "next")
			if next.lease.Token <= w.lease.Token {
				t.Errorf("%s: token %d after %d of the lost history", key, next.lease.Token, w.lease.Token)
			}
			next.ship()
			if _, err := w.publish(store); !errors.Is(err, publish.ErrStaleToken) {
				t.Errorf("%s: publish under the lost token %d: %v, want stale-token", key, w.lease.Token, err)
			}
		}
		history, err := store.History(context.Background(), key, 0, 10)
		if err != nil || len(history.Lost) == 0 {
			t.Errorf("%s: the lost worker's rejection isn't in the history: %+v, %v", key, history.Lost, err)
		}
	}
}

func epochs(t *testing.T, dsn string) (count int64) {
	t.Helper()
	conn, err := pgx.Connect(context.Background(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background()) //nolint:errcheck // Nothing was written.
	if err := conn.QueryRow(context.Background(), `SELECT count(*) FROM pawl.epochs`).Scan(&count); err != nil {
		t.Fatal(err)
	}
	return count
}

// Case 17, restore: yesterday's dump in the same server, over the same database. Nobody helps: the next grant of every key notices.
func TestCase17DumpRestoredIntoSameServer(t *testing.T) {
	t.Parallel()
	store, dsn := newStore(t)
	known, idle := publish.Key("thumbs/known"), publish.Key("thumbs/idle")
	grant(t, store, known, "W41").ship()
	grant(t, store, idle, "W1").ship()
	dump := command(t, nil, "pg_dump", "-Fc", "-d", dsn)

	lost := []worker{grant(t, store, known, "W2")}
	lost[0].ship()
	lost = append(lost, grant(t, store, known, "W3"), grant(t, store, "thumbs/made-after-the-dump", "W1"))

	command(t, dump, "pg_restore", "--clean", "--if-exists", "-d", dsn)
	restored := openStore(t, dsn)
	checkLost(t, restored, lost...)
	if next := grant(t, restored, idle, "W2"); next.lease.Token <= 1_000_000_000 {
		t.Errorf("the idle key's next token %d isn't in the new epoch", next.lease.Token)
	}
	if n := epochs(t, dsn); n != 2 {
		t.Errorf("%d epochs, want the first and one raised", n)
	}
}

// Other ways in which a copy of older data comes back.
func TestRestoredTablesRaiseTheEpoch(t *testing.T) {
	t.Parallel()
	t.Run("rows reloaded into the same tables", func(t *testing.T) {
		t.Parallel()
		store, dsn := newStore(t)
		grant(t, store, "k", "W1").ship()
		dump := command(t, nil, "pg_dump", "--data-only", "--disable-triggers", "-n", "pawl", "-d", dsn)
		lost := grant(t, store, "k", "W2")
		command(t, []byte(`TRUNCATE pawl.keys, pawl.generations, pawl.files, pawl.receipts, pawl.rejections, pawl.effects,
			pawl.effect_tokens, pawl.installation, pawl.epochs, pawl.policies, pawl.events, pawl.unnumbered_events, pawl.event_feed, pawl.goose_db_version,
			pawl.generation_sums, pawl.caller_leases, pawl.credentials, pawl.sessions, pawl.secrets`),
			"psql", "-v", "ON_ERROR_STOP=1", "-q", "-d", dsn)
		command(t, dump, "psql", "-v", "ON_ERROR_STOP=1", "-q", "-d", dsn)
		checkLost(t, store, lost)
	})
	t.Run("copied database", func(t *testing.T) {
		t.Parallel()
		store, dsn := newStore(t)
		grant(t, store, "k", "W1").ship()
		dump := command(t, nil, "pg_dump", "-Fc", "-d", dsn)
		lost := grant(t, store, "k", "W2")
		other := testenv.Postgres(t)
		command(t, dump, "pg_restore", "--clean", "--if-exists", "-d", other)
		checkLost(t, openStore(t, other), lost)
	})
}

// Case 17, failover: a standby is promoted without the last grants of the primary.
func TestCase17PromotedStandby(t *testing.T) {
	t.Parallel()
	primary := testenv.PrivatePostgres(t)
	store := openStore(t, primary.DSN())
	grant(t, store, "shots/010", "W1").ship()
	standby := primary.Standby(t)
	standby.CatchUp(t)

	// Never grants on a standby.
	onStandby := openStore(t, standby.DSN())
	_, err := onStandby.Acquire(context.Background(), publish.AcquireRequest{Key: "shots/010", Holder: "W", TTL: time.Minute, LeaseID: publish.NewLeaseID()})
	if !errors.Is(err, publish.ErrUnavailable) {
		t.Errorf("acquire on a standby: %v, want unavailable", err)
	}
	if err := onStandby.Check(context.Background()); !errors.Is(err, publish.ErrUnavailable) {
		t.Errorf("check on a standby: %v, want unavailable", err)
	}

	standby.Disconnect(t)
	var lost []worker
	for range 3 {
		lost = append(lost, grant(t, store, "shots/010", "lost"))
		lost[len(lost)-1].ship()
	}
	primary.Kill(t)
	standby.Promote(t)
	checkLost(t, onStandby, lost...)
	if n := epochs(t, standby.DSN()); n != 2 {
		t.Errorf("%d epochs, want the first and one raised", n)
	}
}

// A lost history of more than 10^9 grants in one epoch is leapt over as well: what counts is the distance from the key's own counter.
func TestEpochLeapsFromTheCounter(t *testing.T) {
	t.Parallel()
	store, dsn := newStore(t)
	grant(t, store, "busy", "W1").ship()
	exec1(t, dsn, `UPDATE pawl.keys SET counter = 5000000000000000`)
	exec1(t, dsn, `UPDATE pawl.epochs SET lineage = 'another'`)
	if w := grant(t, store, "busy", "W2"); w.lease.Token != 5_000_001_000_000_001 {
		t.Errorf("next token %d, want 5000001000000001", w.lease.Token)
	}
	if w := grant(t, store, "new", "W2"); w.lease.Token%1_000_000_000 != 1 || w.lease.Token < 1_000_000_001 {
		t.Errorf("first token of a new key %d, want the first of an epoch", w.lease.Token)
	}
}

// The epoch doesn't rest on restored data alone: a dump that is restored a second time, after its first restore has granted tokens in an
// epoch of its own, comes to a higher epoch, since slots of time have passed.
func TestEpochFollowsTheClock(t *testing.T) {
	t.Parallel()
	store, dsn := newStore(t)
	slot := publish.Token(time.Since(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)) / (5 * time.Minute))
	exec1(t, dsn, `UPDATE pawl.epochs SET lineage = 'another'`)
	if w := grant(t, store, "k", "W"); w.lease.Token <= slot*1_000_000_000 {
		t.Errorf("token %d isn't in the epoch of this slot of time, %d", w.lease.Token, slot)
	}
}

// In mode granted a newer grant fences at once, also one that a restore has lost: a holder from before the dump neither renews nor publishes.
func TestRestoreFencesInModeGranted(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	store, dsn := newStore(t)
	if err := store.SetPolicy(ctx, publish.Policy{Prefix: "ledgers", FenceMode: publish.FenceGranted}, "test"); err != nil {
		t.Fatal(err)
	}
	a := grant(t, store, "ledgers/a", "A")
	if err := a.upload(store, "out"); err != nil {
		t.Fatal(err)
	}
	dump := command(t, nil, "pg_dump", "-Fc", "-d", dsn)
	if err := store.Release(ctx, "ledgers/a", a.lease.LeaseID); err != nil {
		t.Fatal(err)
	}
	b := grant(t, store, "ledgers/a", "B")
	b.ship()
	command(t, dump, "pg_restore", "--clean", "--if-exists", "-d", dsn)

	restored := openStore(t, dsn)
	if _, err := restored.Renew(ctx, "ledgers/a", a.lease.LeaseID, 0); !errors.Is(err, publish.ErrLeaseLost) {
		t.Errorf("renew by A: %v, want lease-lost", err)
	}
	if _, err := a.publish(restored); !errors.Is(err, publish.ErrStaleToken) {
		t.Errorf("publish by A: %v, want stale-token", err)
	}
	if err := a.upload(restored, "more"); !errors.Is(err, publish.ErrStaleToken) {
		t.Errorf("upload by A: %v, want stale-token", err)
	}
	exec1(t, dsn, `UPDATE pawl.keys SET lease_expires_at = clock_timestamp()`)
	if c := grant(t, restored, "ledgers/a", "C"); c.lease.Token <= b.lease.Token {
		t.Errorf("token %d after %d of the lost history", c.lease.Token, b.lease.Token)
	}
}

// Grants that notice the change at once raise the epoch once.
func TestEpochIsRaisedOnce(t *testing.T) {
	t.Parallel()
	store, dsn := newStore(t)
	exec1(t, dsn, `UPDATE pawl.epochs SET lineage = 'another'`)
	done := make(chan error)
	for n := range 16 {
		go func() {
			_, err := store.Acquire(context.Background(), publish.AcquireRequest{
				Key: publish.Key("k" + string(rune('a'+n))), Holder: "w", TTL: time.Minute, LeaseID: publish.NewLeaseID(),
			})
			done <- err
		}()
	}
	for range 16 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	if n := epochs(t, dsn); n != 2 {
		t.Errorf("%d epochs, want 2", n)
	}
}

// command runs a Postgres client program and returns its output.
func command(t *testing.T, stdin []byte, name string, args ...string) []byte {
	t.Helper()
	cmd := exec.Command(testenv.PostgresProgram(t, name), args...)
	var complaints strings.Builder
	cmd.Stdin, cmd.Stderr = strings.NewReader(string(stdin)), &complaints
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s", name, err, complaints.String())
	}
	return out
}
