package pointer

import (
	"testing"

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
	countsWithin(t, conn, "open_direct", "files")
}
