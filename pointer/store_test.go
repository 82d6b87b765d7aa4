package pointer_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawlhq/pawl/internal/testenv"
	"github.com/pawlhq/pawl/pointer"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// flushTimeout is how long Postgres may take to show its own statistics: a connection that does nothing tells what it has read after 10 seconds.
const flushTimeout = 60 * time.Second

// newStore gives a store on a database of the test's own.
func newStore(t *testing.T) (store *pointer.Store, dsn string) {
	t.Helper()
	dsn = testenv.Postgres(t)
	return openStore(t, dsn), dsn
}

func openStore(t *testing.T, dsn string) *pointer.Store {
	t.Helper()
	store, err := pointer.Open(context.Background(), dsn, pointer.Options{MaxConns: 8})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(store.Close)
	return store
}

// exec1 runs one statement on a connection of its own.
func exec1(t *testing.T, dsn, sql string, args ...any) {
	t.Helper()
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx) //nolint:errcheck // The statement's own error was checked.
	if _, err := conn.Exec(ctx, sql, args...); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}
