package migrations_test

import (
	"testing"

	"github.com/pawlhq/pawl/migrations"
)

// Migration 00031 goes down and up again. With it a worker whose credential was revoked doesn't keep an operator from a key; without it he does.
func TestRevokedWorkerGoesDownAndUp(t *testing.T) {
	t.Parallel()
	ctx, dsn, conn := connect(t)
	run(t, conn, []string{
		`INSERT INTO pawl.credentials (id, hash, name, scopes, created_at, created_by, revoked_at, revoked_by, request_sha256, holds_name) VALUES ('0123456789abcdef', sha256('s'), 'n', '{publish}', now(), 't', now(), 't', sha256('r'), false)`,
		`BEGIN`, `SELECT set_config('pawl.caller', '0123456789abcdef', true)`, `SELECT pawl.acquire('k', sha256('A'), 'A', 60000, '{}')`, `COMMIT`,
	})
	// The row that take_over locks and changes is rolled back, so that each answer is about the same lease.
	held := func(want bool) {
		t.Helper()
		tx, err := conn.Begin(ctx)
		if err != nil {
			t.Fatal(err)
		}
		defer tx.Rollback(ctx) //nolint:errcheck // Nothing is kept of it.
		var refused bool
		const take = `SELECT (pawl.take_over(k, k.epoch, clock_timestamp(), sha256('R'), 'mia', false, 'retire', 'r', NULL, NULL)).refusal IS NOT NULL FROM pawl.keys k`
		if err := tx.QueryRow(ctx, take).Scan(&refused); err != nil || refused != want {
			t.Errorf("held is %t, %v; want %t", refused, err, want)
		}
	}
	held(false)
	if err := down(ctx, dsn, 30); err != nil {
		t.Fatal(err)
	}
	held(true)
	if err := migrations.Up(ctx, dsn); err != nil {
		t.Fatal(err)
	}
	held(false)
}
