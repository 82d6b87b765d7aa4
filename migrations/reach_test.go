package migrations_test

import (
	"testing"

	"github.com/pawlhq/pawl/migrations"
)

// Servers of before list while they are restarted, with the functions that take a prefix; and migration 00021 goes down and up again.
func TestReachKeepsServersOfBeforeListing(t *testing.T) {
	t.Parallel()
	ctx, dsn, conn := connect(t)
	of := []string{
		`SELECT count(*) FROM pawl.list_names('a/', true, '', 10)`,
		`SELECT pawl.holds_few('a/', 10)`,
		`SELECT pawl.browse('a/', '', '', false, false, NULL, 'age', NULL, 10, 100)`,
		`SELECT pawl.rejections_page('a/', NULL, 10, 100)`,
		`SELECT pawl.leases_page('a/', false, NULL, 10, 100)`,
	}
	run(t, conn, of)
	if err := down(ctx, dsn, 20); err != nil {
		t.Fatal(err)
	}
	run(t, conn, of)
	if err := migrations.Up(ctx, dsn); err != nil {
		t.Fatal(err)
	}
	run(t, conn, append(of, `SELECT pawl.list_names('{a/}', '{a0}', 'a/', true, '', 10)`))
}
