package fence_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawlhq/pawl/fence"
	"github.com/pawlhq/pawl/internal/testenv"
	"github.com/pawlhq/pawl/publish"
)

// form is one way to fence a write of a resource.
type form struct {
	name   string
	check  checkFunc
	strict bool
}

func forms() []form {
	column := func(compare string) checkFunc {
		return func(ctx context.Context, tx pgx.Tx, resource string, token publish.Token) error {
			return fence.Update(ctx, tx, token, `INSERT INTO totals AS t (name, fence) VALUES ($2, $1)
				ON CONFLICT (name) DO UPDATE SET fence = $1 WHERE t.fence `+compare+` $1`, resource)
		}
	}
	return []form{
		{"check", fence.Check, false},
		{"once", fence.CheckOnce, true},
		{"column", column("<="), false},
		{"column once", column("<"), true},
	}
}

const makeTotals = `CREATE TABLE totals (name text PRIMARY KEY, fence bigint NOT NULL DEFAULT 0)`

// Two sessions, by every form, at every isolation level, in every order: the second one waits for the first, and is decided by how that
// one ended.
func TestTwoSessions(t *testing.T) {
	t.Parallel()
	db := fenced(t)
	run(t, db, makeTotals)
	for _, f := range forms() {
		for _, level := range []pgx.TxIsoLevel{pgx.ReadCommitted, pgx.RepeatableRead, pgx.Serializable} {
			for _, tokens := range [][2]publish.Token{{6, 5}, {5, 6}, {5, 5}} {
				for _, commit := range []bool{true, false} {
					for _, known := range []bool{true, false} {
						name := fmt.Sprintf("%s, %s, %d then %d, commit %t, known %t", f.name, level, tokens[0], tokens[1], commit, known)
						t.Run(name, func(t *testing.T) {
							t.Parallel()
							if known {
								check(t, db, f, name, 1)
							}
							twoSessions(t, db, f, level, name, tokens, commit)
						})
					}
				}
			}
		}
	}
}

func twoSessions(t *testing.T, db *pgxpool.Pool, f form, level pgx.TxIsoLevel, resource string, tokens [2]publish.Token, commit bool) {
	t.Helper()
	first, second := begin(t, db, level), begin(t, db, level)
	if err := f.check(t.Context(), first, resource, tokens[0]); err != nil {
		t.Fatal(err)
	}
	answer := make(chan error, 1)
	pid := second.Conn().PgConn().PID()
	go func() { answer <- f.check(t.Context(), second, resource, tokens[1]) }()
	awaitLock(t, db, pid)
	end := first.Commit
	if !commit {
		end = first.Rollback
	}
	if err := end(t.Context()); err != nil {
		t.Fatal(err)
	}
	err := <-answer

	passes := !commit || tokens[1] > tokens[0] || tokens[1] == tokens[0] && !f.strict
	var refused *pgconn.PgError
	if commit && level != pgx.ReadCommitted {
		// The row has changed since the snapshot: the transaction must be repeated to learn more.
		if !errors.As(err, &refused) || refused.Code != "40001" || errors.Is(err, fence.ErrStale) {
			t.Fatalf("got %v, want a serialization failure", err)
		}
		_ = second.Rollback(t.Context())
		second = begin(t, db, level)
		err = f.check(t.Context(), second, resource, tokens[1])
	}
	if passes {
		if err = errors.Join(err, second.Commit(t.Context())); err != nil {
			t.Fatal(err)
		}
		return
	}
	var stale *fence.StaleError
	if !errors.As(err, &stale) || stale.Token != tokens[1] || stale.Fence != 0 && stale.Fence != tokens[0] {
		t.Fatalf("got %v, want a stale token", err)
	}
	if err := second.Commit(t.Context()); !errors.Is(err, pgx.ErrTxCommitRollback) && !errors.Is(err, pgx.ErrTxClosed) {
		t.Fatalf("the refused transaction can be committed: %v", err)
	}
}

// check runs one transaction that must pass.
func check(t *testing.T, db *pgxpool.Pool, f form, resource string, token publish.Token) {
	t.Helper()
	err := pgx.BeginFunc(t.Context(), db, func(tx pgx.Tx) error { return f.check(t.Context(), tx, resource, token) })
	if err != nil {
		t.Fatal(err)
	}
}

// awaitLock waits until a session waits for another's lock.
func awaitLock(t *testing.T, db *pgxpool.Pool, pid uint32) {
	t.Helper()
	testenv.Eventually(t, patience, func() error {
		if !query[bool](t, db, `SELECT cardinality(pg_blocking_pids($1)) > 0`, int32(pid)) { //nolint:gosec // Process ids are small.
			return errors.New("the second session waits for nothing")
		}
		return nil
	})
}

// A check that must not wait for ever: lock_timeout and idle_in_transaction_session_timeout, as the package's documentation says.
func TestStoppedHolderOfTheLock(t *testing.T) {
	t.Parallel()
	db := fenced(t)
	stopped := begin(t, db, pgx.ReadCommitted)
	if err := fence.Check(t.Context(), stopped, "r", 5); err != nil {
		t.Fatal(err)
	}
	impatient := begin(t, db, pgx.ReadCommitted)
	if _, err := impatient.Exec(t.Context(), `SET LOCAL lock_timeout = '20ms'`); err != nil {
		t.Fatal(err)
	}
	var refused *pgconn.PgError
	if err := fence.Check(t.Context(), impatient, "r", 6); !errors.As(err, &refused) || refused.Code != "55P03" || errors.Is(err, fence.ErrStale) {
		t.Fatalf("got %v, want lock_not_available", err)
	}
	if _, err := stopped.Exec(t.Context(), `SET LOCAL idle_in_transaction_session_timeout = '50ms'`); err != nil {
		t.Fatal(err)
	}
	patient := begin(t, db, pgx.ReadCommitted)
	if err := fence.Check(t.Context(), patient, "r", 6); err != nil {
		t.Fatal(err)
	}
	if err := patient.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := stopped.Commit(t.Context()); err == nil {
		t.Error("the stopped session has committed")
	}
}
