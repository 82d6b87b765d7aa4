package testenv

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// TableReads counts the rows and entries that scans of some tables, and of all their indexes, have returned so far in the database of a connection. What that
// connection has just read is in it.
func TableReads(t *testing.T, conn *pgx.Conn, tables ...string) (reads int64) {
	t.Helper()
	const count = `SELECT sum(idx_tup_read)::bigint + (SELECT sum(seq_tup_read)::bigint FROM pg_stat_user_tables WHERE relname = ANY ($1))
		FROM pg_stat_user_indexes WHERE relname = ANY ($1)`
	Eventually(t, time.Minute, func() error {
		if _, err := conn.Exec(context.Background(), `SELECT pg_stat_force_next_flush()`); err != nil {
			return err
		}
		return conn.QueryRow(context.Background(), count, tables).Scan(&reads)
	})
	return reads
}
