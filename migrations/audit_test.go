package migrations_test

import (
	"testing"

	"github.com/pawlhq/pawl/migrations"
)

// The schema before the audit's new members has the entries of changes alone, and can be brought up again.
func TestAuditDownAndUp(t *testing.T) {
	t.Parallel()
	ctx, dsn, conn := connect(t)
	entries := func(want int) {
		t.Helper()
		var got int
		if err := conn.QueryRow(ctx, `SELECT count(*) FROM pawl.audit`).Scan(&got); err != nil || got != want {
			t.Fatalf("%d entries, want %d, %v", got, want, err)
		}
	}
	run(t, conn, []string{
		`SELECT set_config('pawl.client_address', '10.0.0.7', false)`, `SELECT pawl.note('mia', 'policy', 'k', NULL, '{}')`, `SELECT pawl.audit_refusal('ci', 'pin', 'k', 'forbidden')`,
	})
	entries(2)
	if err := down(ctx, dsn, 22); err != nil {
		t.Fatal(err)
	}
	entries(1)
	run(t, conn, []string{`SELECT pawl.note('mia', 'unpin', 'k', '{}', NULL)`})
	if err := migrations.Up(ctx, dsn); err != nil {
		t.Fatal(err)
	}
	run(t, conn, []string{`SELECT pawl.note('mia', 'unpin', 'k', '{}', NULL)`})
	entries(3)
}
