package migrations_test

import (
	"testing"

	"github.com/pawlhq/pawl/migrations"
)

// Migration 00013 goes down and up again on a key that was rolled back, pinned and retired, and can be repeated after a break in its middle.
func TestRollbackGoesDownAndUp(t *testing.T) {
	t.Parallel()
	ctx, dsn, conn := connect(t)
	run := func(statements ...string) { t.Helper(); run(t, conn, statements) }
	run(`SELECT pawl.acquire('k', sha256('A'), 'A', 60000, '{}')`,
		`SELECT pawl.begin_upload('k', 1, sha256('A'), 'f', decode(md5('f'), 'hex'), NULL, false)`,
		`SELECT pawl.complete_upload('k', 1, sha256('A'), 'f', (SELECT max(upload_no) FROM pawl.files), 3, sha256('abc'), 'text/plain')`,
		`SELECT pawl.publish('k', 1, sha256('A'), true, NULL, NULL, '{}', NULL, true, NULL, NULL, false, NULL, false)`,
		`SELECT pawl.rollback('k', sha256('R'), 1, NULL, 'r', 'ops', false, false)`,
		`SELECT pawl.retire('k', sha256('S'), 'r', 'ops', false)`)
	if err := down(ctx, dsn, 12); err != nil {
		t.Fatal(err)
	}
	// A key without a pointer goes on in the older schema, too, above all that was granted.
	run(`SELECT pawl.acquire('k', sha256('B'), 'B', 60000, '{}')`,
		`SELECT pawl.begin_upload('k', 4, sha256('B'), 'f', decode(md5('g'), 'hex'), NULL, false)`,
		`SELECT pawl.complete_upload('k', 4, sha256('B'), 'f', (SELECT max(upload_no) FROM pawl.files), 3, sha256('abc'), 'text/plain')`,
		`SELECT pawl.publish('k', 4, sha256('B'), true, NULL, NULL, '{}', NULL, true, NULL, NULL, false, NULL, false)`,
		// As a crash would leave it between two statements.
		`ALTER TABLE pawl.generations ADD COLUMN kind text`,
		`CREATE TABLE pawl.pins (key_id bigint PRIMARY KEY, reason text NOT NULL, pinned_by text NOT NULL, pinned_at timestamptz NOT NULL)`)
	if err := migrations.Up(ctx, dsn); err != nil {
		t.Fatal(err)
	}
	var current int64
	if err := conn.QueryRow(ctx, `SELECT (pawl.rollback('k', sha256('T'), 1, NULL, 'r', 'ops', false, true)->'receipt'->>'token')::bigint`).Scan(&current); err != nil || current != 5 {
		t.Errorf("a rollback afterwards got token %d, %v; want 5", current, err)
	}
}
