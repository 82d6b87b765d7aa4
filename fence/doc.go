// Package fence fences rows of your own by the tokens that Pawl grants: a worker that was paused past its lease can't overwrite what its
// successor has written. The comparison is made by your Postgres, in your transaction; no server of Pawl is asked, and the database needn't
// be Pawl's.
//
//	err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
//		if err := fence.Check(ctx, tx, string(lease.Key), lease.Token); err != nil {
//			return err
//		}
//		_, err := tx.Exec(ctx, `INSERT INTO billing_summary …`)
//		return err
//	})
//	if errors.Is(err, fence.ErrStale) {
//		// Expected of a worker that came back late: drop this result.
//	}
//
// Install makes the table pawl_fences and the SQL functions, once for all connections whose search_path leads to them.
//
// # Which form
//
//   - Check (token >= fence): a generation writes several times, in several transactions, and writing again does no harm.
//   - CheckOnce (token > fence): a generation writes in one transaction, and writing again would, as in bookings.
//   - Update: the fence is a column of the row that is written. No second row is touched, but each statement must compare for itself,
//     and the fence is lost with its row. It fits one row a key that all writers reach by the same few statements.
//
// Don't mix them: a table that is fenced by Check has to be written with Check everywhere.
//
// # What to check, and when
//
// The resource is what nobody but the newest holder may write. It is the name of the Pawl key whose lease the writer has, or is derived
// from it one to one (key + "#summary", when one key needs two fences). Take lease.Key, or PAWL_KEY in a command of pawl run, rather than a
// text of your own: resources are compared byte by byte, so another spelling of the name, as in Unicode's form NFD, would be another
// resource. What isn't in NFC is refused, where the database's encoding is UTF8. Tokens of different keys can't be compared: two keys that
// write one resource would fence each other at random. Use only tokens that were granted; an invented great one shuts its resource to all
// others, until somebody lowers its row in pawl_fences by hand.
//
// The fence moves when a token is checked, not when it is granted. So:
//
//   - What is computed from other data, and replaces what was there: check right before the first write. The lock is short.
//   - What depends on the rows that it replaces (read, change, write): check first, then read. Otherwise an older holder
//     may write between the newer one's reading and its check, and that write is lost.
//
// A process that is stopped after its check holds the resource's lock until its connection ends, and its successor waits. Set
// idle_in_transaction_session_timeout on the connections of workers, which ends it; and lock_timeout, if the successor shall not wait.
// Several resources in one transaction are checked in sorted order, or two transactions may deadlock.
//
// # Isolation
//
// Under READ COMMITTED, the default of Postgres, a check that waited for another transaction is decided by what that one committed; if it
// was rolled back, by what was before. Under REPEATABLE READ and SERIALIZABLE such a check fails with a serialization failure (40001)
// when the other one has committed, whichever token is greater. That isn't ErrStale. Repeat the whole transaction; the repetition tells.
//
// # After a refusal
//
// The SQL functions raise an exception, so Postgres commits nothing of the transaction, in whatever language it is written; Update rolls
// it back. Only a savepoint takes that back: tx.Begin inside of a transaction, or a block with EXCEPTION in PL/pgSQL, that calls Check,
// swallows its error and lets the outer transaction go on, commits what was written outside. Who does that has decided against the fence.
// Check on the outermost transaction, and give its error on.
//
// # Other languages
//
// From anything that speaks SQL, in the transaction that writes; install by psql -f fence.sql:
//
//	SELECT pawl_fence('billing/2026-10', 17);       -- Check
//	SELECT pawl_fence_once('billing/2026-10', 17);  -- CheckOnce
//
// Let that be a statement of its own. Postgres runs only what a statement needs: in WITH f AS (SELECT pawl_fence(…)) INSERT … nobody reads f,
// so nothing is checked.
//
// A stale token has SQLSTATE PWF01 and a JSON object as its detail, {"resource": …, "token": 17, "fence": 18}. In Go's database/sql:
//
//	_, err := tx.ExecContext(ctx, `SELECT pawl_fence($1, $2)`, key, token)
//	var refused *pgconn.PgError
//	if errors.As(err, &refused) && refused.Code == fence.SQLState { … }
//
// In Python's psycopg the class of the exception is looked up by number too: except psycopg.Error as e: if e.sqlstate == "PWF01".
//
// # Restores
//
// When Pawl's own database is restored or a standby is promoted, its next tokens leap above all that the lost history can have granted, so the
// fences in your tables stay right. When your database is restored to an older state, its fences go back together with the rows that
// they guard, which is right too. Rows of pawl_fences stay for ever; without its row, a resource takes every token again.
package fence
