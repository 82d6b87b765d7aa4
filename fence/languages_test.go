package fence_test

import (
	"context"
	"database/sql"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	_ "github.com/jackc/pgx/v5/stdlib" // the driver of database/sql

	"github.com/pawlhq/pawl/fence"
	"github.com/pawlhq/pawl/publish"
)

// Users of database/sql call the SQL function, as the package's documentation says.
func TestDatabaseSQL(t *testing.T) {
	t.Parallel()
	pool := fenced(t)
	db, err := sql.Open("pgx", pool.Config().ConnString())
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	check := func(token int64) error {
		tx, err := db.BeginTx(t.Context(), nil)
		if err != nil {
			return err
		}
		defer tx.Rollback()
		if _, err := tx.ExecContext(t.Context(), `SELECT pawl_fence($1, $2)`, "r", token); err != nil {
			return err
		}
		return tx.Commit()
	}
	if err := check(18); err != nil {
		t.Fatal(err)
	}
	var refused *pgconn.PgError
	if err := check(17); !errors.As(err, &refused) || refused.Code != fence.SQLState {
		t.Errorf("got %v", err)
	}
}

// A savepoint that swallows the refusal takes it back: what the documentation warns of. Without one nothing does.
func TestSavepointSwallows(t *testing.T) {
	t.Parallel()
	db := fenced(t)
	run(t, db, `SELECT pawl_fence('r', 18)`)
	outer := begin(t, db, pgx.ReadCommitted)
	err := pgx.BeginFunc(t.Context(), outer, func(tx pgx.Tx) error { return fence.Check(t.Context(), tx, "r", 17) })
	if !errors.Is(err, fence.ErrStale) {
		t.Fatal(err)
	}
	if err := outer.Commit(t.Context()); err != nil {
		t.Errorf("the outer transaction: %v", err)
	}
}

// CheckOnce tells what became of a commit whose answer was lost.
func TestCheckOnceAfterLostCommit(t *testing.T) {
	t.Parallel()
	db := fenced(t)
	book := func(tx pgx.Tx) error { return fence.CheckOnce(t.Context(), tx, "r", 17) }
	if err := pgx.BeginFunc(t.Context(), db, book); err != nil {
		t.Fatal(err)
	}
	var stale *fence.StaleError
	if err := pgx.BeginFunc(t.Context(), db, book); !errors.As(err, &stale) || !stale.Repeated() {
		t.Errorf("got %v, want a repetition", err)
	}
}

// Behind a pooler that knows no prepared statements, pgx sends the same by other protocols.
func TestProtocols(t *testing.T) {
	t.Parallel()
	db := fenced(t)
	run(t, db, makeTotals)
	for _, mode := range []pgx.QueryExecMode{pgx.QueryExecModeDescribeExec, pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol} {
		config := db.Config().ConnConfig
		config.DefaultQueryExecMode = mode
		conn, err := pgx.ConnectConfig(t.Context(), config)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close(context.WithoutCancel(t.Context()))
		if err := fence.Install(t.Context(), conn); err != nil {
			t.Errorf("%s: %v", mode, err)
		}
		for _, f := range forms() {
			resource := f.name + mode.String()
			for _, c := range []struct {
				token publish.Token
				is    error
			}{{18, nil}, {17, fence.ErrStale}, {publish.MaxToken, nil}, {publish.MaxToken + 1, publish.ErrInvalidToken}, {-1, publish.ErrInvalidToken}} {
				err := pgx.BeginFunc(t.Context(), conn, func(tx pgx.Tx) error { return f.check(t.Context(), tx, resource, c.token) })
				if !errors.Is(err, c.is) {
					t.Errorf("%s, %s, token %d: %v", mode, f.name, c.token, err)
				}
			}
		}
	}
}
