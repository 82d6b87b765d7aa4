package migrations_test

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/database"

	"github.com/pawlhq/pawl/internal/testenv"
	"github.com/pawlhq/pawl/migrations"
)

// Going back behind migration 00008 gives the functions of before, and is refused once files were carried over: what is
// older couldn't read them.
func TestReuseGoesDown(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	dsn := testenv.Postgres(t)
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx) //nolint:errcheck // The test is over.
	down := func() error {
		db := stdlib.OpenDB(*conn.Config())
		defer db.Close() //nolint:errcheck // The statements' own errors are checked.
		table, err := database.NewStore(database.DialectPostgres, "pawl.goose_db_version")
		if err != nil {
			return err
		}
		provider, err := goose.NewProvider("", db, os.DirFS("."), goose.WithStore(table))
		if err != nil {
			return err
		}
		_, err = provider.DownTo(ctx, 7)
		return err
	}
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
	if err := down(); err != nil {
		t.Fatal(err)
	}
	publish("1", "f", "")
	if err := migrations.Up(ctx, dsn); err != nil {
		t.Fatal(err)
	}
	publish("2", "g", "") // As a server that was started before the migration calls it.
	publish("3", "h", ", 2, false")
	err = down()
	var refused interface{ SQLState() string }
	if !errors.As(err, &refused) || !strings.Contains(err.Error(), "carried over") {
		t.Errorf("going down with files that were carried over: %v", err)
	}
	if err := migrations.Up(ctx, dsn); err != nil {
		t.Fatal(err)
	}
}
