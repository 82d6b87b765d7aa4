package migrations_test

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/database"

	"github.com/pawlhq/pawl/internal/testenv"
	"github.com/pawlhq/pawl/migrations"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// connect gives a database of the test's own, with all migrations, and a connection to it.
func connect(t *testing.T) (ctx context.Context, dsn string, conn *pgx.Conn) {
	t.Helper()
	ctx, dsn = context.Background(), testenv.Postgres(t)
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(ctx) }) //nolint:errcheck // The test is over.
	return ctx, dsn, conn
}

// run executes statements, one after another.
func run(t *testing.T, conn *pgx.Conn, statements []string) {
	t.Helper()
	for _, sql := range statements {
		if _, err := conn.Exec(context.Background(), sql); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
}

// down undoes the migrations above a version.
func down(ctx context.Context, dsn string, version int64) error {
	config, err := pgx.ParseConfig(dsn)
	if err != nil {
		return err
	}
	db := stdlib.OpenDB(*config)
	defer db.Close() //nolint:errcheck // The statements' own errors are checked.
	table, err := database.NewStore(database.DialectPostgres, "pawl.goose_db_version")
	if err != nil {
		return err
	}
	provider, err := goose.NewProvider("", db, migrations.Files, goose.WithStore(table))
	if err != nil {
		return err
	}
	_, err = provider.DownTo(ctx, version)
	return err
}

// Case 45: eight replicas migrate an empty database at once, 50 times: no failure, one row a migration.
func TestCase45ReplicasMigrateAtOnce(t *testing.T) {
	t.Parallel()
	ctx, dsn, conn := connect(t)
	for range 50 {
		if _, err := conn.Exec(ctx, `DROP SCHEMA pawl CASCADE`); err != nil {
			t.Fatal(err)
		}
		if err := migrations.Check(ctx, dsn); !errors.Is(err, migrations.ErrOutdated) {
			t.Fatalf("checking an empty database: %v, want ErrOutdated", err)
		}
		var replicas sync.WaitGroup
		for range 8 {
			replicas.Go(func() {
				if err := migrations.Up(ctx, dsn); err != nil {
					t.Error(err)
				}
			})
		}
		replicas.Wait()
		var rows, versions int
		const count = `SELECT count(*), count(DISTINCT version_id) FROM pawl.goose_db_version`
		if err := conn.QueryRow(ctx, count).Scan(&rows, &versions); err != nil || rows != versions || rows < 2 {
			t.Fatalf("%d rows for %d migrations, %v", rows, versions, err)
		}
		if err := migrations.Check(ctx, dsn); err != nil {
			t.Fatal(err)
		}
	}
}

// A schema from the future is refused: an older binary doesn't know its rules.
func TestNewerSchemaIsRefused(t *testing.T) {
	t.Parallel()
	ctx, dsn, conn := connect(t)
	if _, err := conn.Exec(ctx, `INSERT INTO pawl.goose_db_version (version_id, is_applied) VALUES (99999, true)`); err != nil {
		t.Fatal(err)
	}
	if err := migrations.Check(ctx, dsn); !errors.Is(err, migrations.ErrNewer) {
		t.Errorf("checking a newer schema: %v, want ErrNewer", err)
	}
}
