package migrations_test

import (
	"testing"

	"github.com/pawlhq/pawl/migrations"
)

// Migration 00028 goes down and up again, and leaves servers of before the function that they call.
func TestAuditSearchGoesDownAndUp(t *testing.T) {
	t.Parallel()
	ctx, dsn, conn := connect(t)
	const before = `SELECT pawl.audit_page('{""}', '{null}', true, '{policy}', 9, 9, 9)`
	const chosen = `SELECT pawl.audit_page('{""}', '{null}', true, '{policy}', 'k', false, 9, 9, 9)`
	run(t, conn, []string{before, chosen})
	if err := down(ctx, dsn, 27); err != nil {
		t.Fatal(err)
	}
	run(t, conn, []string{before})
	if _, err := conn.Exec(ctx, chosen); err == nil {
		t.Error("the schema of before has the new function")
	}
	if err := migrations.Up(ctx, dsn); err != nil {
		t.Fatal(err)
	}
	run(t, conn, []string{before, chosen})
}
