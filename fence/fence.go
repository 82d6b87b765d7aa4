package fence

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pawlhq/pawl/publish"
)

// Schema names the schema that the fence is installed in. The zero value is the first schema in the search_path of the connection at
// hand that has a fence, and for Install, when none has, the first that exists; the functions of this package use that one.
type Schema string

// Check lets the writes of tx count only if no token of the resource above this one has passed: token >= fence. Any number of
// transactions of one generation may pass it. The resource is the key that the token was granted for, or is derived from it one to one;
// 1 to 400 bytes in NFC, compared byte by byte: use lease.Key, not a text of your own.
//
// It is one round trip. It waits for every other transaction that has checked the resource and hasn't ended, and makes later ones wait
// until tx has ended. Of a stale token the error is a *StaleError, of kind ErrStale. A token or resource that can't be one is
// publish.ErrInvalidToken or publish.ErrInvalidRequest. Any other error says nothing about the token; serialization failures (40001) and
// deadlocks (40P01) are for a repetition of the whole transaction, and can be told by their *pgconn.PgError.
//
// After an error, whichever it is, nothing of tx is committed: Commit returns pgx.ErrTxCommitRollback or pgx.ErrTxClosed.
func Check(ctx context.Context, tx pgx.Tx, resource string, token publish.Token) error {
	return Schema("").Check(ctx, tx, resource, token)
}

// CheckOnce is Check by the strict rule, token > fence: of all the transactions that check the resource under one token, one can
// commit. It fits writes that must not be repeated, such as a booking. When the answer to a Commit was lost, it also tells what became
// of it: the repetition passes if nothing was committed, else its StaleError has Repeated.
func CheckOnce(ctx context.Context, tx pgx.Tx, resource string, token publish.Token) error {
	return Schema("").CheckOnce(ctx, tx, resource, token)
}

// Check is the function Check for a fence in a schema that isn't the current one.
func (s Schema) Check(ctx context.Context, tx pgx.Tx, resource string, token publish.Token) error {
	return s.call(ctx, tx, "pawl_fence", resource, token)
}

// CheckOnce is the function CheckOnce for a fence in a schema that isn't the current one.
func (s Schema) CheckOnce(ctx context.Context, tx pgx.Tx, resource string, token publish.Token) error {
	return s.call(ctx, tx, "pawl_fence_once", resource, token)
}

// call asks the SQL function, where the rule stands. It takes a pgx.Tx, which neither a connection nor a pool is: outside of a
// transaction the lock would be gone before the first write.
func (s Schema) call(ctx context.Context, tx pgx.Tx, function, resource string, token publish.Token) error {
	name := pgx.Identifier{function}
	if s != "" {
		name = pgx.Identifier{string(s), function}
	}
	_, err := tx.Exec(ctx, `SELECT `+name.Sanitize()+`($1, $2)`, resource, int64(token))
	return translate(undo(ctx, tx, err))
}

// undo makes sure that a transaction with an error commits nothing, also when its caller overlooks the error. After an error of
// Postgres itself it can't anyway.
func undo(ctx context.Context, tx pgx.Tx, err error) error {
	var refused *pgconn.PgError
	if err == nil || errors.As(err, &refused) {
		return err
	}
	if rollback := tx.Rollback(ctx); rollback != nil && !errors.Is(rollback, pgx.ErrTxClosed) {
		return errors.Join(err, fmt.Errorf("rolling back: %w", rollback))
	}
	return err
}
