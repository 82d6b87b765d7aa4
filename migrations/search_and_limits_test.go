package migrations_test

import (
	"testing"

	"github.com/pawlhq/pawl/migrations"
)

// Migration 00028 goes down and up again, and leaves servers of before the function that they call. With it a longer prefix lifts no limit.
func TestSearchAndLimitsGoDownAndUp(t *testing.T) {
	t.Parallel()
	ctx, dsn, conn := connect(t)
	const before = `SELECT pawl.audit_page('{""}', '{null}', true, '{policy}', 9, 9, 9)`
	const chosen = `SELECT pawl.audit_page('{""}', '{null}', true, '{policy}', 'k', false, 9, 9, 9)`
	run(t, conn, []string{before, chosen, `INSERT INTO pawl.policies (prefix, fence_mode, max_ttl_ms) VALUES ('', 'accepted', 1000), ('k', 'granted', NULL), ('k/l', 'granted', 5000)`})
	limit := func(want string) {
		t.Helper()
		var got string
		const effective = `SELECT string_agg(coalesce((pawl.policy(key)).max_ttl_ms::text, '-'), ' ') || ' ' || jsonb_path_query_first(pawl.check_ttl('k/l', 5001), '$.**.limit')::text FROM unnest('{x,k,k/m,k/l,k/l/m}'::text[]) key`
		if err := conn.QueryRow(ctx, effective).Scan(&got); err != nil || got != want {
			t.Errorf("the limits are %s, %v; want %s", got, err, want)
		}
	}
	limit("1000 1000 1000 1000 1000 1000")
	if err := down(ctx, dsn, 27); err != nil {
		t.Fatal(err)
	}
	run(t, conn, []string{before})
	limit("1000 - - 5000 5000 5000")
	if _, err := conn.Exec(ctx, chosen); err == nil {
		t.Error("the schema of before has the new function")
	}
	if err := migrations.Up(ctx, dsn); err != nil {
		t.Fatal(err)
	}
	run(t, conn, []string{before, chosen})
	limit("1000 1000 1000 1000 1000 1000")
}
