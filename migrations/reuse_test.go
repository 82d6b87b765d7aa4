package migrations_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/pawlhq/pawl/migrations"
)

// Going back behind migration 00008 gives the functions of before, and is refused once files were carried over: what is
// older couldn't read them.
func TestReuseGoesDown(t *testing.T) {
	t.Parallel()
	ctx, dsn, conn := connect(t)
	const ship = `SELECT pawl.acquire('k', sha256('PATH'), 'W', 60000, '{}');
		SELECT pawl.begin_upload('k', TOKEN, sha256('PATH'), 'PATH', decode(md5('PATH'), 'hex'), NULL, false);
		SELECT pawl.complete_upload('k', TOKEN, sha256('PATH'), 'PATH', (SELECT max(upload_no) FROM pawl.files), 3, sha256('abc'), 'text/plain');
		SELECT pawl.publish('k', TOKEN, sha256('PATH'), true, NULL, NULL, '{}', NULL, true, NULL, NULL, false, NULL, false REUSE)`
	publish := func(token, path, reuse string) {
		t.Helper()
		sql := strings.NewReplacer("TOKEN", token, "PATH", path, "REUSE", reuse).Replace(ship)
		var answer string
		for statement := range strings.SplitSeq(sql, ";") {
			if err := conn.QueryRow(ctx, statement).Scan(&answer); err != nil {
				t.Fatalf("%s: %v", statement, err)
			}
		}
		if !strings.Contains(answer, `"receipt"`) {
			t.Fatalf("publish under %s: %s", token, answer)
		}
	}
	if err := down(ctx, dsn, 7); err != nil {
		t.Fatal(err)
	}
	publish("1", "f", "")
	if err := migrations.Up(ctx, dsn); err != nil {
		t.Fatal(err)
	}
	publish("2", "g", "") // As a server that was started before the migration calls it.
	publish("3", "h", ", 2, false")
	err := down(ctx, dsn, 7)
	var refused interface{ SQLState() string }
	if !errors.As(err, &refused) || !strings.Contains(err.Error(), "carried over") {
		t.Errorf("going down with files that were carried over: %v", err)
	}
	if err := migrations.Up(ctx, dsn); err != nil {
		t.Fatal(err)
	}
}
