package pointer

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawlhq/pawl/internal/testenv"
)

// Asking how many direct uploads a caller has open reads no more than the limit, whatever has ended and whatever others have open, while the statistics say that
// nothing is pending.
func TestDirectLimitSeeks(t *testing.T) {
	t.Parallel()
	conn, err := pgx.Connect(t.Context(), testenv.Postgres(t))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context()) //nolint:errcheck // The test is over.
	for _, sql := range []string{
		`ALTER TABLE pawl.files SET (autovacuum_enabled = off)`,
		`SELECT pawl.acquire('k', sha256('A'), 'A', 60000, '{}')`,
		`ALTER TABLE pawl.files DISABLE TRIGGER files_direct_caller`,
		`INSERT INTO pawl.files (key_id, token, path, upload_id, state, size, part_size, caller, ended_at, failure)
			SELECT 1, 1, 'failed ' || n, decode(md5(n::text), 'hex'), 'failed', 1, 0, CASE WHEN n % 2 = 0 THEN 'a' ELSE 'b' END, now(), 'x' FROM generate_series(1, 20000) n`,
		`ANALYZE pawl.files`,
		`INSERT INTO pawl.files (key_id, token, path, upload_id, state, size, part_size, caller)
			SELECT 1, 1, n::text, decode(md5('x' || n), 'hex'), 'pending', 1, 0, CASE WHEN n % 20 = 0 THEN 'a' WHEN n % 2 = 0 THEN 'b' END FROM generate_series(1, 4000) n`,
	} {
		if _, err := conn.Exec(t.Context(), sql); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
	for range 7 { // The plan for any arguments comes after some calls.
		for _, test := range []struct {
			caller string
			limit  int64
			open   int64
			most   int64 // rows or entries of indexes
		}{{"a", 50, 50, 60}, {"a", 1000, 200, 210}, {"b", 1, 1, 10}, {"nobody", 1000, 0, 10}} {
			before := fileReads(t, conn)
			var open int64
			if err := conn.QueryRow(t.Context(), `SELECT pawl.open_direct($1, $2)`, test.caller, test.limit).Scan(&open); err != nil {
				t.Fatal(err)
			}
			if read := fileReads(t, conn) - before; open != test.open || read > test.most || read < open {
				t.Errorf("%+v: %d are open, and %d rows or entries were read", test, open, read)
			}
		}
	}
}

// fileReads counts what scans of the table of files and of its indexes have returned.
func fileReads(t *testing.T, conn *pgx.Conn) (reads int64) {
	t.Helper()
	const count = `SELECT sum(idx_tup_read)::bigint + (SELECT seq_tup_read FROM pg_stat_user_tables WHERE relname = 'files')
		FROM pg_stat_user_indexes WHERE relname = 'files'`
	testenv.Eventually(t, time.Minute, func() error {
		if _, err := conn.Exec(t.Context(), `SELECT pg_stat_force_next_flush()`); err != nil {
			return err
		}
		return conn.QueryRow(t.Context(), count).Scan(&reads)
	})
	return reads
}
