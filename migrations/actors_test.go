package migrations_test

import (
	"fmt"
	"testing"

	"github.com/pawlhq/pawl/migrations"
)

// Migration 00027 rewrites no table, is repeated after it broke off at its end, and goes down and up again. Rows of servers that don't say whom they work for,
// before it and after, know nobody.
func TestActorsDownAndUp(t *testing.T) {
	t.Parallel()
	ctx, dsn, conn := connect(t)
	ask := func(sql, want string) {
		t.Helper()
		var got string
		if err := conn.QueryRow(ctx, sql).Scan(&got); err != nil || got != want {
			t.Fatalf("%s: %s, %v; want %s", sql, got, err, want)
		}
	}
	const (
		actors = `SELECT coalesce(string_agg(concat_ws(' ', token, caller, actor, host(client)), ', ' ORDER BY token), '') FROM pawl.generations`
		// As servers of the version before ask for a key.
		grant   = `SELECT pawl.with_caller(pawl.acquire('k', sha256('%[1]s'), '%[1]s', 60000, '{}'), 'k', 'c'), pawl.release('k', sha256('%[1]s'))`
		storage = `SELECT string_agg(pg_relation_filenode(c.oid)::text, ',' ORDER BY relname) FROM pg_class c
			WHERE relnamespace = 'pawl'::regnamespace AND relname IN ('generations', 'receipts', 'rejections')`
	)
	if err := down(ctx, dsn, 26); err != nil {
		t.Fatal(err)
	}
	run(t, conn, []string{fmt.Sprintf(grant, "A")})
	var before string
	if err := conn.QueryRow(ctx, storage).Scan(&before); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := migrations.Up(ctx, dsn); err != nil {
			t.Fatal(err)
		}
		ask(storage, before)
		ask(actors, "1")
		run(t, conn, []string{`DELETE FROM pawl.goose_db_version WHERE version_id >= 27`})
	}
	if err := migrations.Up(ctx, dsn); err != nil {
		t.Fatal(err)
	}
	run(t, conn, []string{
		fmt.Sprintf(grant, "B"),
		`BEGIN`, `SELECT set_config('pawl.caller', 'c', true), set_config('pawl.caller_name', 'n', true), set_config('pawl.client_address', '10.0.0.7', true)`,
		fmt.Sprintf(grant, "C"), `COMMIT`,
		fmt.Sprintf(grant, "D"), // The settings were of that transaction alone.
	})
	ask(actors, "1, 2, 3 c n 10.0.0.7, 4")
	if err := down(ctx, dsn, 26); err != nil {
		t.Fatal(err)
	}
	run(t, conn, []string{fmt.Sprintf(grant, "E")})
	if err := migrations.Up(ctx, dsn); err != nil {
		t.Fatal(err)
	}
	ask(actors, "1, 2, 3, 4, 5")
}
