package migrations_test

import (
	"testing"

	"github.com/pawlhq/pawl/migrations"
)

// Migration 00016 goes down and up again on a database in which things happened, and can be repeated after a break in its middle.
func TestEventsGoDownAndUp(t *testing.T) {
	t.Parallel()
	ctx, dsn, conn := connect(t)
	run := func(statements ...string) { t.Helper(); run(t, conn, statements) }
	takeOver := func(token, key string) []string {
		return []string{
			`SELECT pawl.acquire('` + key + `', sha256('` + token + `'), 'A', 60000, '{}')`,
			`UPDATE pawl.keys SET lease_expires_at = clock_timestamp() - interval '1 s'`,
			`SELECT pawl.acquire('` + key + `', sha256('` + token + `+'), 'B', 60000, '{}')`,
		}
	}
	events := func(want int) {
		t.Helper()
		run(`SELECT pawl.number_events(100)`)
		var n, gap int
		if err := conn.QueryRow(ctx, `SELECT count(*), max(n) - count(*) FROM pawl.events`).Scan(&n, &gap); err != nil || n != want || gap != 0 {
			t.Fatalf("%d events with %d gaps, %v; want %d without", n, gap, err, want)
		}
	}
	run(takeOver("1", "k")...)
	events(1)
	if err := down(ctx, dsn, 15); err != nil {
		t.Fatal(err)
	}
	run(takeOver("2", "l")...)
	if err := migrations.Up(ctx, dsn); err != nil {
		t.Fatal(err)
	}
	run(takeOver("3", "m")...)
	events(1)
	run(`DELETE FROM pawl.goose_db_version WHERE version_id >= 16`) // As if it had broken off at its end.
	if err := migrations.Up(ctx, dsn); err != nil {
		t.Fatal(err)
	}
	run(takeOver("4", "n")...)
	events(2)
}
