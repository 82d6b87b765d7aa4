package pointer

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pawlhq/pawl/publish"
)

// listenSQL stands apart from what asks for the process: through a pooler they may meet different ones.
const (
	listenSQL        = `LISTEN pawl_events`
	listenProcessSQL = `SELECT pg_backend_pid()`
)

// ListenEvents listens on a connection of its own, beside the pool. Through a pooler that shares sessions notifications would reach others, or nobody;
// as it can't be told from one that doesn't share them, no pooler is listened through: it shows as a process that isn't the one which Postgres named.
func (s *Store) ListenEvents(ctx context.Context, woken func()) error {
	pool := s.pool.Config()
	config := pool.ConnConfig.Copy()
	if pool.BeforeConnect != nil {
		if err := pool.BeforeConnect(ctx, config); err != nil {
			return publish.Unavailable("Postgres", err)
		}
	}
	config.OnNotification = func(*pgconn.PgConn, *pgconn.Notification) { woken() }
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return publish.Unavailable("Postgres", err)
	}
	defer conn.Close(context.WithoutCancel(ctx)) //nolint:errcheck // It has only listened.
	var process uint32
	if err := conn.QueryRow(ctx, listenProcessSQL, pgx.QueryExecModeSimpleProtocol).Scan(&process); err != nil {
		return translate(err, false)
	}
	if process != conn.PgConn().PID() {
		return fmt.Errorf("listening through a pooler: %w", errors.ErrUnsupported)
	}
	if _, err := conn.Exec(ctx, listenSQL, pgx.QueryExecModeSimpleProtocol); err != nil {
		return translate(err, false)
	}
	woken() // What was numbered before it listened.
	for {
		if err := conn.PgConn().WaitForNotification(ctx); err != nil {
			return translate(err, false)
		}
	}
}
