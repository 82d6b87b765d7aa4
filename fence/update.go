package fence

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/pawlhq/pawl/publish"
)

// Update is the fence in a column of the row itself: it runs one INSERT, UPDATE or DELETE about one row, in which $1 is the token and
// $2 and so on are args, and whose own condition compares:
//
//	fence.Update(ctx, tx, token, `UPDATE invoices SET total = $3, fence = $1 WHERE id = $2 AND fence < $1`, id, total)
//
// With fence < $1 a token writes the row once, with fence <= $1 any number of times. The column is `fence bigint NOT NULL DEFAULT 0`.
// A statement without $1 is refused, so the token can't be forgotten; the comparison can.
//
// No row changed is a *StaleError, of kind ErrStale. By then nobody can tell a row that a newer token has written from one that isn't
// there. Where rows may be missing, let the statement make them, so that only a stale token is left to change nothing:
//
//	INSERT INTO totals AS t (month, total, fence) VALUES ($2, $3, $1)
//	ON CONFLICT (month) DO UPDATE SET total = excluded.total, fence = excluded.fence WHERE t.fence < excluded.fence
//
// More than one row changed is an error too: of several rows some could be stale, unseen. Use Check for them.
//
// After an error, whichever it is, nothing of tx is committed, as with Check.
func Update(ctx context.Context, tx pgx.Tx, token publish.Token, sql string, args ...any) error {
	return undo(ctx, tx, change(ctx, tx, token, sql, args))
}

func change(ctx context.Context, tx pgx.Tx, token publish.Token, sql string, args []any) error {
	if token < 1 || token > publish.MaxToken {
		return publish.InvalidField(publish.ErrInvalidToken, "token", "must be an integer from 1 to 9007199254740991, as it was granted")
	}
	tag, err := tx.Exec(ctx, sql, append([]any{int64(token)}, args...)...)
	if err != nil {
		return fmt.Errorf("writing the fenced row: %w", err)
	}
	switch rows := tag.RowsAffected(); rows {
	case 1:
		return nil
	case 0:
		return &StaleError{Token: token}
	default:
		return fmt.Errorf("writing the fenced row: %d rows were changed; a statement with a fence in the row must name one, by its primary key", rows)
	}
}
