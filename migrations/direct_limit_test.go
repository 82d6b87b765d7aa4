package migrations_test

import (
	"fmt"
	"testing"

	"github.com/pawlhq/pawl/migrations"
)

// Migration 00029 rewrites no table, is repeated after it broke off at its end, and goes down and up again, beside direct uploads that are open. What was begun
// without it counts for nobody, and ends as any.
func TestDirectLimitGoesDownAndUp(t *testing.T) {
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
		storage = `SELECT pg_relation_filenode('pawl.files')::text`
		open    = `SELECT pawl.open_direct('a', 10)::text`
		// As servers of the version before begin them.
		begin = `SELECT set_config('pawl.caller', 'a', true), pawl.begin_direct('k', 1, sha256('A'), '%[1]s', substr(sha256('%[1]s'), 1, 16), 1, sha256('x'), 't/t', NULL, 0)`
	)
	if err := down(ctx, dsn, 28); err != nil {
		t.Fatal(err)
	}
	var before string
	if err := conn.QueryRow(ctx, storage).Scan(&before); err != nil {
		t.Fatal(err)
	}
	run(t, conn, []string{
		`SELECT pawl.acquire('k', sha256('A'), 'A', 60000, '{}')`,
		fmt.Sprintf(begin, "f"),
		// As a crash would leave it between two statements.
		`ALTER TABLE pawl.files ADD COLUMN caller text`,
		`CREATE INDEX files_open_direct ON pawl.files (caller)`,
	})
	for range 2 {
		if err := migrations.Up(ctx, dsn); err != nil {
			t.Fatal(err)
		}
		ask(storage, before)
		ask(open, "0")
		run(t, conn, []string{`DELETE FROM pawl.goose_db_version WHERE version_id >= 29`})
	}
	if err := migrations.Up(ctx, dsn); err != nil {
		t.Fatal(err)
	}
	run(t, conn, []string{
		fmt.Sprintf(begin, "g"), fmt.Sprintf(begin, "h"), fmt.Sprintf(begin, "f"),
		`SELECT pawl.begin_upload('k', 1, sha256('A'), 'through', substr(sha256('t'), 1, 16), NULL, false)`,
	})
	ask(open, "2")
	ask(`SELECT string_agg(concat_ws(' ', path, caller), ', ' ORDER BY path) FROM pawl.files`, "f, g a, h a, through")
	if err := down(ctx, dsn, 28); err != nil {
		t.Fatal(err)
	}
	run(t, conn, []string{fmt.Sprintf(begin, "i")})
	if err := migrations.Up(ctx, dsn); err != nil {
		t.Fatal(err)
	}
	ask(open, "0")
}
