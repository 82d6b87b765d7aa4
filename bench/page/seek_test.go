package page

import (
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawlhq/pawl/internal/testenv"
	"github.com/pawlhq/pawl/publish"
)

// No read behind a page scans a table, or sorts what a prefix holds: of all that Postgres reads for them, each has its bounded part.
func TestPageSeeks(t *testing.T) {
	t.Parallel()
	const keys = 20_000
	dsn := testenv.Postgres(t)
	fill(t, dsn, keys)
	ctx := t.Context()
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx) //nolint:errcheck // The test is over.
	before := count(t, conn)
	service, done := serve(t, dsn)
	calls := reads(keys)
	for _, call := range calls {
		if _, err := call.do(ctx, service); err != nil {
			t.Errorf("%s: %v", call.name, err)
		}
	}
	done()
	after := count(t, conn)
	scanned, sought := after.scanned-before.scanned, (after.sought-before.sought)/int64(len(calls))
	t.Logf("%d reads: %d rows scanned, %d entries of indexes sought by each", len(calls), scanned, sought)
	// Each page looks at a key in several tables, after it has counted whether the prefix has few.
	if scanned > 0 || sought == 0 || sought > 8*publish.BrowseBound {
		t.Errorf("%d rows scanned, %d entries of indexes sought by each of %d reads", scanned, sought, len(calls))
	}
}

// counts is what Postgres has read: rows of tables without an index, and entries of indexes.
type counts struct{ scanned, sought int64 }

// count waits until all other connections are closed: what one has read is counted then at the latest.
func count(t *testing.T, conn *pgx.Conn) (c counts) {
	t.Helper()
	testenv.Eventually(t, 30*time.Second, func() error {
		var open int
		if err := conn.QueryRow(t.Context(), `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()`).Scan(&open); err != nil {
			return err
		}
		if open > 0 {
			return fmt.Errorf("%d connections are open", open)
		}
		return conn.QueryRow(t.Context(), `SELECT (SELECT sum(seq_tup_read)::bigint FROM pg_stat_user_tables WHERE relname = ANY ($1)),
			(SELECT sum(idx_tup_read)::bigint FROM pg_stat_user_indexes WHERE relname = ANY ($1))`,
			[]string{"keys", "generations", "receipts", "rejections", "rejected_keys", "files", "events", "policies", "audit"}).Scan(&c.scanned, &c.sought)
	})
	return c
}
