package migrations_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawlhq/pawl/internal/testenv"
	"github.com/pawlhq/pawl/migrations"
)

// While a dump reads the tables, nothing is changed, so nobody stands in the queue behind a change that waits for the dump. What takes too long is named; without
// anything to change nothing is waited for; and a migration goes on by itself when the dump has ended.
func TestUpWaitsForDumps(t *testing.T) {
	t.Parallel()
	ctx, dsn, conn := connect(t)
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	config, err := pgx.ParseConfig(dsn)
	if err != nil {
		t.Fatal(err)
	}
	config.RuntimeParams["application_name"] = "dump-of-mine"
	dump, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		t.Fatal(err)
	}
	defer dump.Close(context.WithoutCancel(ctx)) //nolint:errcheck // The test is over.
	run(t, dump, []string{"BEGIN", "SELECT count(*) FROM pawl.receipts"})
	if err := migrations.UpWithin(ctx, dsn, 0); err != nil {
		t.Errorf("with nothing to do: %v", err)
	}
	run(t, conn, []string{"DELETE FROM pawl.goose_db_version WHERE version_id >= 27"})
	pid := dump.PgConn().PID()
	if err := migrations.UpWithin(ctx, dsn, 0); !errors.Is(err, migrations.ErrBusy) || !strings.Contains(err.Error(), fmt.Sprintf("process %d of Postgres (dump-of-mine)", pid)) {
		t.Errorf("beside a dump: %v", err)
	}

	migrated := make(chan error, 1)
	go func() { migrated <- migrations.Up(ctx, dsn) }()
	// It has the lock of migrations, and waits. Everybody else reads and writes meanwhile.
	testenv.Eventually(t, time.Minute, func() error {
		var busy bool
		if err := conn.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND database = (SELECT oid FROM pg_database WHERE datname = current_database()))").Scan(&busy); err != nil || !busy {
			return fmt.Errorf("it hasn't begun: %w", err)
		}
		return nil
	})
	for range 20 {
		run(t, conn, []string{"SET lock_timeout = '10s'", "SELECT count(*) FROM pawl.receipts", "UPDATE pawl.keys SET name = name"})
		time.Sleep(20 * time.Millisecond) // Longer than it takes to see that the dump is a long one.
	}
	select {
	case err := <-migrated:
		t.Fatalf("it hasn't waited: %v", err)
	default:
	}
	run(t, dump, []string{"COMMIT"})
	if err := <-migrated; err != nil {
		t.Fatal(err)
	}
	if err := migrations.Check(ctx, dsn); err != nil {
		t.Error(err)
	}
}
