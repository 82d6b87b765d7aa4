package migrations_test

import (
	"testing"

	"github.com/pawlhq/pawl/migrations"
)

// Migration 00026 is repeated after it broke off at its end, and goes down and up again, beside leases that run. What was granted without it counts for nobody.
func TestLeaseLimitGoesDownAndUp(t *testing.T) {
	t.Parallel()
	ctx, dsn, conn := connect(t)
	count := func(want int64) {
		t.Helper()
		var open int64
		if err := conn.QueryRow(ctx, `SELECT pawl.open_leases('a', 10)`).Scan(&open); err != nil || open != want {
			t.Fatalf("%d leases are open, %v; want %d", open, err, want)
		}
	}
	const grant = `SELECT pawl.with_caller(pawl.acquire(name, sha256('A'), 'A', 60000, '{}'), name, 'a') FROM unnest('{k,l}'::text[]) name`
	run(t, conn, []string{grant})
	count(2)
	run(t, conn, []string{`DELETE FROM pawl.goose_db_version WHERE version_id >= 26`})
	if err := migrations.Up(ctx, dsn); err != nil {
		t.Fatal(err)
	}
	count(2)
	if err := down(ctx, dsn, 25); err != nil {
		t.Fatal(err)
	}
	run(t, conn, []string{`SELECT pawl.release('l', sha256('A'))`})
	if err := migrations.Up(ctx, dsn); err != nil {
		t.Fatal(err)
	}
	count(0)
	run(t, conn, []string{`SELECT pawl.with_renewal(pawl.renew('k', sha256('A'), NULL), 'k')`})
	count(0)
	run(t, conn, []string{grant}) // A repeat of k, and refused for l, whose lease was given back.
	count(1)
	run(t, conn, []string{`SELECT pawl.release('k', sha256('A'))`})
	count(0)
}
