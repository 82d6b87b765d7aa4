package pointer

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawlhq/pawl/internal/testenv"
	"github.com/pawlhq/pawl/publish"
)

// Asking how many leases a caller holds reads no more than the limit, whatever has run out and whatever others hold, while the statistics know nothing of it.
func TestLeaseLimitSeeks(t *testing.T) {
	t.Parallel()
	conn, err := pgx.Connect(t.Context(), testenv.Postgres(t))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context()) //nolint:errcheck // The test is over.
	const fill = `INSERT INTO pawl.caller_leases (key_id, token, caller, expires_at)
		SELECT n, 1, CASE WHEN n % 2 = 0 THEN 'a' ELSE 'b' END, now() + CASE WHEN n % 100 < 2 THEN interval '1 day' ELSE interval '-1 day' END
		FROM generate_series(1, 20000) n`
	if _, err := conn.Exec(t.Context(), fill); err != nil {
		t.Fatal(err)
	}
	countsWithin(t, conn, "open_leases", "caller_leases")
}

// countsWithin checks what a function that counts for a caller up to a limit says and reads, where a has 200 of them open and b at least one.
func countsWithin(t *testing.T, conn *pgx.Conn, function, table string) {
	t.Helper()
	for range 7 { // The plan for any arguments comes after some calls.
		for _, test := range []struct {
			caller string
			limit  int64
			open   int64
			most   int64 // rows or entries of indexes
		}{{"a", 50, 50, 60}, {"a", 1000, 200, 210}, {"b", 1, 1, 10}, {"nobody", 1000, 0, 10}} {
			before := testenv.TableReads(t, conn, table)
			var open int64
			if err := conn.QueryRow(t.Context(), `SELECT pawl.`+function+`($1, $2)`, test.caller, test.limit).Scan(&open); err != nil {
				t.Fatal(err)
			}
			if read := testenv.TableReads(t, conn, table) - before; open != test.open || read > test.most || read < open {
				t.Errorf("%+v: %d are open, and %d rows or entries were read", test, open, read)
			}
		}
	}
}

// Grants, renewals and releases of other keys wait for nobody, also for the same caller: a transaction that stays open holds its own key alone.
func TestLeaseLimitBlocksNoOtherKey(t *testing.T) {
	t.Parallel()
	ctx, dsn := t.Context(), testenv.Postgres(t)
	store, err := Open(ctx, dsn, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	get := func(key publish.Key) (publish.Lease, error) {
		ctx := publish.WithCaller(ctx, publish.Caller{Credential: "a"})
		return store.Acquire(ctx, publish.AcquireRequest{Key: key, Holder: "W", TTL: time.Hour, LeaseID: publish.NewLeaseID(), MaxLeases: 3})
	}
	first, err := get("first")
	if err != nil {
		t.Fatal(err)
	}
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.WithoutCancel(ctx)) //nolint:errcheck // The test is over.
	held, err := conn.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // The second time it replays the grant, and writes the same row again.
		if _, err := held.Exec(ctx, acquireSQL, "held", make([]byte, 32), "W", 3600_000, "{}", "a", int64(3)); err != nil {
			t.Fatal(err)
		}
	}
	second, err := get("second")
	if err != nil {
		t.Fatalf("beside a grant that isn't committed: %v", err)
	}
	if _, err := store.Renew(ctx, first.Key, first.LeaseID, 0); err != nil {
		t.Error(err)
	}
	if err := store.Release(ctx, second.Key, second.LeaseID); err != nil {
		t.Error(err)
	}
	if _, err := get("second"); err != nil {
		t.Error(err)
	}
	if err := held.Commit(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := get("third"); err == nil {
		t.Error("a fourth lease was granted")
	}
}
