package migrations_test

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/pawlhq/pawl/internal/testenv"
	"github.com/pawlhq/pawl/migrations"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// Case 45: eight replicas migrate an empty database at once, 50 times: no failure, one row a migration.
func TestCase45ReplicasMigrateAtOnce(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	dsn := testenv.Postgres(t)
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx) //nolint:errcheck // The test is over.
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
	ctx := context.Background()
	dsn := testenv.Postgres(t)
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx) //nolint:errcheck // The test is over.
	if _, err := conn.Exec(ctx, `INSERT INTO pawl.goose_db_version (version_id, is_applied) VALUES (99999, true)`); err != nil {
		t.Fatal(err)
	}
	if err := migrations.Check(ctx, dsn); !errors.Is(err, migrations.ErrNewer) {
		t.Errorf("checking a newer schema: %v, want ErrNewer", err)
	}
}
