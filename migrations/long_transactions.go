package migrations

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// ErrBusy reports that the schema wasn't changed, since other transactions have the tables for too long.
var ErrBusy = errors.New("the schema was left as it is, since long transactions are at work on its tables")

// How long transactions may be at work on the tables, and how long to wait for the end of those that take longer.
const (
	longTransaction = 200 * time.Millisecond
	longestWait     = time.Minute
)

// awaitLongTransactions waits for the end of transactions such as that of a dump, before anything is changed. A change of a table would wait for them too, but
// with everybody else behind it: whoever only wants to read the table stands in the queue for its lock. It is ErrBusy if they take too long, and names them.
func awaitLongTransactions(ctx context.Context, db *sql.DB, patience time.Duration) error {
	for begun := time.Now(); ; {
		before, err := atWork(ctx, db)
		if err != nil || len(before) == 0 {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(longTransaction):
		}
		after, err := atWork(ctx, db)
		if err != nil {
			return err
		}
		long := slices.DeleteFunc(after, func(t transaction) bool { return !slices.Contains(before, t) })
		if len(long) == 0 {
			return nil
		}
		if time.Since(begun) > patience {
			return tooLong(long)
		}
	}
}

func tooLong(long []transaction) error {
	var names []string
	for _, t := range long {
		names = append(names, fmt.Sprintf("process %d of Postgres (%s)", t.pid, t.application))
	}
	return fmt.Errorf("%w: %s; try again when they have ended, or end them with pg_terminate_backend", ErrBusy, strings.Join(names, ", "))
}

// transaction is one of somebody's.
type transaction struct {
	pid         int32
	virtual     string // its number
	application string
}

// atWork gives the transactions that have locks on the schema's tables. Those of vacuum make way by themselves.
func atWork(ctx context.Context, db *sql.DB) (all []transaction, err error) {
	const atWorkSQL = `
SELECT DISTINCT l.pid, l.virtualtransaction, coalesce(nullif(a.application_name, ''), 'unnamed')
FROM pg_locks l
JOIN pg_class c ON c.oid = l.relation AND c.relkind = 'r' AND c.relnamespace = 'pawl'::regnamespace
LEFT JOIN pg_stat_activity a ON a.pid = l.pid
WHERE l.granted AND l.mode <> 'ShareUpdateExclusiveLock' AND l.pid <> pg_backend_pid()
    AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())`
	rows, err := db.QueryContext(ctx, atWorkSQL)
	if err != nil {
		return nil, fmt.Errorf("looking for long transactions: %w", err)
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var t transaction
		if err := rows.Scan(&t.pid, &t.virtual, &t.application); err != nil {
			return nil, fmt.Errorf("looking for long transactions: %w", err)
		}
		all = append(all, t)
	}
	return all, rows.Err()
}
