package fence_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawlhq/pawl/fence"
	"github.com/pawlhq/pawl/internal/testenv"
	"github.com/pawlhq/pawl/publish"
)

// patience bounds every wait for something that should happen soon.
const patience = 90 * time.Second

// checkFunc is Check or one that does the like.
type checkFunc = func(ctx context.Context, tx pgx.Tx, resource string, token publish.Token) error

func TestMain(m *testing.M) { testenv.Main(m) }

// database gives a pool on a fresh database, without a fence.
func database(t *testing.T) *pgxpool.Pool {
	t.Helper()
	return pool(t, testenv.Postgres(t))
}

func pool(t *testing.T, dsn string) *pgxpool.Pool {
	t.Helper()
	config, err := pgxpool.ParseConfig(dsn)
	if err != nil {
		t.Fatal(err)
	}
	config.MaxConns = 24
	db, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	return db
}

// fenced gives a pool on a fresh database with a fence.
func fenced(t *testing.T) *pgxpool.Pool {
	t.Helper()
	db := database(t)
	if err := fence.Install(t.Context(), db); err != nil {
		t.Fatal(err)
	}
	return db
}

func begin(t *testing.T, db *pgxpool.Pool, level pgx.TxIsoLevel) pgx.Tx {
	t.Helper()
	tx, err := db.BeginTx(t.Context(), pgx.TxOptions{IsoLevel: level})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) })
	return tx
}

func run(t *testing.T, db interface {
	Begin(ctx context.Context) (pgx.Tx, error)
}, sql string, args ...any,
) {
	t.Helper()
	err := pgx.BeginFunc(t.Context(), db, func(tx pgx.Tx) error {
		_, err := tx.Exec(t.Context(), sql, args...)
		return err
	})
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

// query reads one value.
func query[T any](t *testing.T, db *pgxpool.Pool, sql string, args ...any) T {
	t.Helper()
	var value T
	if err := db.QueryRow(t.Context(), sql, args...).Scan(&value); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return value
}
