package migrations_test

import (
	"testing"

	"github.com/pawlhq/pawl/migrations"
)

// What open generations held before there were sums is summed up, and no other files: those that are replaced, carried over or sealed.
func TestLimitsOfAnOldDatabase(t *testing.T) {
	t.Parallel()
	ctx, dsn, conn := connect(t)
	if err := down(ctx, dsn, 21); err != nil {
		t.Fatal(err)
	}
	run(t, conn, []string{
		`SELECT pawl.acquire(name, sha256('A'), 'A', 60000, '{}') FROM unnest('{open,sealed}'::text[]) name`,
		`SELECT pawl.begin_upload(name, 1, sha256('A'), path, decode(md5(name || path || n), 'hex'), NULL, false)
			FROM unnest('{open,sealed}'::text[]) name, unnest('{a,b}'::text[]) path, generate_series(1, 2) n`,
		`SELECT pawl.complete_upload(k.name, 1, sha256('A'), f.path, f.upload_no, 3, sha256('abc'), 'text/plain')
			FROM pawl.files f JOIN pawl.keys k ON k.id = f.key_id ORDER BY upload_no`,
		`SELECT pawl.publish('sealed', 1, sha256('A'), true, 'a', NULL, '{}', NULL, true, NULL, NULL, false, NULL, false)`,
	})
	if err := migrations.Up(ctx, dsn); err != nil {
		t.Fatal(err)
	}
	var generations, files, bytes int64
	sums := func() {
		t.Helper()
		const sums = `SELECT count(DISTINCT key_id), sum(files)::bigint, sum(bytes)::bigint FROM pawl.generation_sums`
		if err := conn.QueryRow(ctx, sums).Scan(&generations, &files, &bytes); err != nil {
			t.Fatal(err)
		}
	}
	if sums(); generations != 1 || files != 2 || bytes != 6 {
		t.Errorf("%d generations have %d files of %d bytes, want 1, 2 and 6", generations, files, bytes)
	}
	run(t, conn, []string{`SELECT pawl.delete_file('open', 1, sha256('A'), 'a')`})
	if sums(); files != 1 || bytes != 3 {
		t.Errorf("after a deletion there are %d files of %d bytes, want 1 and 3", files, bytes)
	}
	run(t, conn, []string{`DELETE FROM pawl.goose_db_version WHERE version_id >= 22`}) // As if it had broken off at its end.
	if err := migrations.Up(ctx, dsn); err != nil {
		t.Fatal(err)
	}
	if sums(); files != 1 || bytes != 3 {
		t.Errorf("after the migration was repeated there are %d files of %d bytes, want 1 and 3", files, bytes)
	}
}
