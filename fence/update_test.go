package fence_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pawlhq/pawl/fence"
	"github.com/pawlhq/pawl/publish"
)

// A row with its own fence: newer tokens write it, older ones and a second write under the same one don't.
func TestUpdate(t *testing.T) {
	t.Parallel()
	db := database(t)
	run(t, db, `CREATE TABLE invoices (id text PRIMARY KEY, total int NOT NULL DEFAULT 0, fence bigint NOT NULL DEFAULT 0)`)
	run(t, db, `INSERT INTO invoices VALUES ('a'), ('b')`)
	write := func(token publish.Token, id string, total int) error {
		return pgx.BeginFunc(t.Context(), db, func(tx pgx.Tx) error {
			return fence.Update(t.Context(), tx, token, `UPDATE invoices SET total = $3, fence = $1 WHERE id = $2 AND fence < $1`, id, total)
		})
	}
	for _, c := range []struct {
		token publish.Token
		id    string
		stale bool
	}{{5, "a", false}, {7, "a", false}, {6, "a", true}, {7, "a", true}, {1, "b", false}, {9, "missing", true}} {
		err := write(c.token, c.id, int(c.token)*100)
		if !c.stale {
			if err != nil {
				t.Fatal(err)
			}
			continue
		}
		wantStale(t, err, &fence.StaleError{Token: c.token})
		if !strings.Contains(err.Error(), "or it doesn't exist") {
			t.Errorf("got %v", err)
		}
	}
	if got := query[string](t, db, `SELECT string_agg(id || total, ' ' ORDER BY id) FROM invoices`); got != "a700 b100" {
		t.Errorf("got %s", got)
	}
}

// What Update refuses rolls the transaction back, with what was written before.
func TestUpdateRollsBack(t *testing.T) {
	t.Parallel()
	db := database(t)
	run(t, db, `CREATE TABLE invoices (id text PRIMARY KEY, fence bigint NOT NULL DEFAULT 0)`)
	run(t, db, `INSERT INTO invoices VALUES ('a', 7), ('b', 7)`)
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	for name, c := range map[string]struct {
		ctx   context.Context
		token publish.Token
		sql   string
		args  []any
		is    func(error) bool
	}{
		"stale": {
			t.Context(), 6, `UPDATE invoices SET fence = $1 WHERE id = 'a' AND fence < $1`, nil,
			func(err error) bool { return errors.Is(err, fence.ErrStale) },
		},
		"several rows": {
			t.Context(), 8, `UPDATE invoices SET fence = $1 WHERE fence < $1`, nil,
			func(err error) bool {
				return !errors.Is(err, fence.ErrStale) && strings.Contains(err.Error(), "3 rows")
			},
		},
		"wrong token": {
			t.Context(), 0, `UPDATE invoices SET fence = $1 WHERE id = 'a' AND fence < $1`, nil,
			func(err error) bool { return errors.Is(err, publish.ErrInvalidToken) },
		},
		"forgotten token": {
			t.Context(), 8, `UPDATE invoices SET id = 'c' WHERE id = 'a'`, nil,
			func(err error) bool { return !errors.Is(err, fence.ErrStale) },
		},
		"forgotten token, with arguments": {
			t.Context(), 8, `UPDATE invoices SET id = $2 WHERE id = 'a'`,
			[]any{"c"},
			func(err error) bool { return hasCode(err, "42P18") }, // indeterminate_datatype of $1
		},
		"of Postgres": {
			t.Context(), 8, `UPDATE invoices SET fence = $1, id = NULL WHERE id = 'a' AND fence < $1`, nil,
			func(err error) bool { return hasCode(err, "23502") },
		},
		"not sent": {
			gone, 8, `UPDATE invoices SET fence = $1 WHERE id = 'a' AND fence < $1`, nil,
			func(err error) bool { return errors.Is(err, context.Canceled) },
		},
	} {
		tx := begin(t, db, pgx.ReadCommitted)
		if _, err := tx.Exec(t.Context(), `INSERT INTO invoices VALUES ('before')`); err != nil {
			t.Fatal(err)
		}
		if err := fence.Update(c.ctx, tx, c.token, c.sql, c.args...); err == nil || !c.is(err) {
			t.Errorf("%s: got %v", name, err)
		}
		if err := tx.Commit(t.Context()); err == nil {
			t.Errorf("%s: the transaction can be committed", name)
		}
	}
	if got := query[string](t, db, `SELECT string_agg(id || fence, ' ' ORDER BY id) FROM invoices`); got != "a7 b7" {
		t.Errorf("got %s", got)
	}
}

func hasCode(err error, code string) bool {
	var refused *pgconn.PgError
	return errors.As(err, &refused) && refused.Code == code
}
