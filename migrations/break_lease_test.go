package migrations_test

import (
	"strings"
	"testing"

	"github.com/pawlhq/pawl/migrations"
)

// Migration 00018 goes down and up again on a key whose lease was broken: it stays broken, only who did it is forgotten.
func TestBreakLeaseGoesDownAndUp(t *testing.T) {
	t.Parallel()
	ctx, dsn, conn := connect(t)
	call := func(sql, want string) {
		t.Helper()
		var answer string
		if err := conn.QueryRow(ctx, sql).Scan(&answer); err != nil || !strings.Contains(answer, want) {
			t.Fatalf("%s: %s, %v; want %s", sql, answer, err, want)
		}
	}
	const renew = `SELECT pawl.renew('k', sha256('A'), NULL)`
	call(`SELECT pawl.acquire('k', sha256('A'), 'A', 60000, '{}')`, `"token": 1`)
	call(`SELECT pawl.break_lease('k', 1, 'node is gone', 'ops')`, `"by": "ops"`)
	call(renew, `"by": "ops"`)
	if err := down(ctx, dsn, 17); err != nil {
		t.Fatal(err)
	}
	call(renew, `"lease-lost"`)
	if err := migrations.Up(ctx, dsn); err != nil {
		t.Fatal(err)
	}
	call(renew, `"lease-lost"`)
	call(`SELECT pawl.break_lease('k', 1, 'again', 'ops')`, `"replayed": true`)
	call(`SELECT pawl.acquire('k', sha256('B'), 'B', 60000, '{}')`, `"token": 2`)
	call(`SELECT pawl.break_lease('k', 2, 'again', 'ops')`, `"by": "ops"`)
}
