// Package migrations holds the numbered SQL that makes Pawl's schema, and applies it.
//
// The schema is called pawl. The rules of the fence stand in its functions: see 00003 to 00005.
package migrations

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"log"
	"maps"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/database"
)

//go:embed *.sql
var files embed.FS

// table is where goose records what was applied.
const table = "pawl.goose_db_version"

// lockKey is the advisory lock that replicas which migrate at once queue on: "pawl" in ASCII.
const lockKey = 0x7061776c

// ErrOutdated reports a schema that is older than this binary.
var ErrOutdated = errors.New("the database's schema is older than this program; run: pawl migrate")

// ErrNewer reports a schema that a newer binary has made.
var ErrNewer = errors.New("the database's schema is newer than this program; install that version")

// Up brings the schema of the database at dsn to this binary's version, creating it in an empty database. Any
// number of replicas may call it at once: one migrates, the others wait and find nothing to do. It is ErrOwner where there is
// something to do and dsn's role lacks the rights to, and ErrBusy if there is something to do and others' transactions, such as that of a dump, have been at
// work on the tables for a minute.
func Up(ctx context.Context, dsn string) error { return up(ctx, dsn, longestWait) }

func up(ctx context.Context, dsn string, patience time.Duration) error {
	return locked(ctx, dsn, func(provider *goose.Provider, db *sql.DB) error {
		pending, err := provider.HasPending(ctx)
		if err != nil || !pending {
			return err
		}
		if err := awaitLongTransactions(ctx, db, patience); err != nil {
			return err
		}
		_, err = provider.Up(ctx)
		return err
	})
}

// Check returns nil when the schema of the database at dsn is this binary's, ErrOutdated or ErrNewer when it isn't.
func Check(ctx context.Context, dsn string) error {
	config, err := parse(dsn)
	if err != nil {
		return err
	}
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return fmt.Errorf("connecting to Postgres: %w", err)
	}
	defer conn.Close(context.WithoutCancel(ctx)) //nolint:errcheck // Nothing was written.
	var applied int64
	err = conn.QueryRow(ctx, "SELECT CASE WHEN to_regclass('"+table+"') IS NULL THEN 0 ELSE 1 END").Scan(&applied)
	if err == nil && applied == 1 {
		err = conn.QueryRow(ctx, "SELECT coalesce(max(version_id), 0) FROM "+table+" WHERE is_applied").Scan(&applied)
	}
	if err != nil {
		return fmt.Errorf("reading the schema's version: %w", err)
	}
	newest, err := newestVersion()
	switch {
	case err != nil:
		return err
	case applied < newest:
		return ErrOutdated
	case applied > newest:
		return ErrNewer
	}
	return nil
}

// parse reads an address. What it says about the server's pool means nothing here, and Postgres would refuse it.
func parse(dsn string) (*pgx.ConnConfig, error) {
	config, err := pgx.ParseConfig(dsn)
	if err != nil {
		return nil, fmt.Errorf("reading the database's address: %w", err)
	}
	maps.DeleteFunc(config.RuntimeParams, func(name, _ string) bool { return strings.HasPrefix(name, "pool_") })
	return config, nil
}

// locked runs do while it holds the advisory lock. The lock belongs to a transaction that stays open on a connection
// of its own, so it also works through a pooler that shares sessions between transactions.
func locked(ctx context.Context, dsn string, do func(*goose.Provider, *sql.DB) error) (err error) {
	config, err := parse(dsn)
	if err != nil {
		return err
	}
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return fmt.Errorf("connecting to Postgres: %w", err)
	}
	defer conn.Close(context.WithoutCancel(ctx)) //nolint:errcheck // Closing only ends the lock.
	defer func() { err = orOwner(ctx, conn, err) }()
	if _, err := conn.Exec(ctx, "CREATE SCHEMA IF NOT EXISTS pawl"); err != nil && !schemaExists(ctx, conn) {
		return fmt.Errorf("creating the schema pawl: %w", err)
	}
	tx, err := takeLock(ctx, conn)
	if err != nil {
		return fmt.Errorf("locking migrations: %w", err)
	}
	defer tx.Rollback(context.WithoutCancel(ctx)) //nolint:errcheck // The transaction only holds the lock.

	db := stdlib.OpenDB(*config)
	defer db.Close() //nolint:errcheck // Every statement's own error was checked.
	store, err := database.NewStore(database.DialectPostgres, table)
	if err != nil {
		return fmt.Errorf("opening the table of migrations: %w", err)
	}
	provider, err := goose.NewProvider("", db, files, goose.WithStore(store), goose.WithLogger(log.New(discard{}, "", 0)))
	if err != nil {
		return fmt.Errorf("reading the migrations: %w", err)
	}
	if err := do(provider, db); err != nil {
		return fmt.Errorf("migrating: %w", err)
	}
	return nil
}

// lockPause is how long to wait before the lock is tried again.
const lockPause = 20 * time.Millisecond

// takeLock begins transactions until one of them has the lock, and returns that one. Building an index beside running writes waits for the
// end of every transaction that has a snapshot just then: so one that waits for the lock, or tries for it again and again,
// would be waited for by the very one that it waits for. The simple protocol keeps no snapshot after a statement.
func takeLock(ctx context.Context, conn *pgx.Conn) (pgx.Tx, error) {
	for {
		tx, err := conn.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.ReadCommitted})
		if err != nil {
			return nil, err
		}
		var taken bool
		err = tx.QueryRow(ctx, "SELECT pg_try_advisory_xact_lock($1)", pgx.QueryExecModeSimpleProtocol, lockKey).Scan(&taken)
		if err == nil && taken {
			return tx, nil
		}
		if err := errors.Join(err, tx.Rollback(context.WithoutCancel(ctx))); err != nil {
			return nil, err
		}
		select {
		case <-time.After(lockPause):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// schemaExists tells whether another replica has made the schema at the same moment: IF NOT EXISTS can fail then.
func schemaExists(ctx context.Context, conn *pgx.Conn) bool {
	var exists bool
	err := conn.QueryRow(ctx, "SELECT to_regnamespace('pawl') IS NOT NULL").Scan(&exists)
	return err == nil && exists
}

func newestVersion() (int64, error) {
	entries, err := files.ReadDir(".")
	if err != nil {
		return 0, fmt.Errorf("reading the migrations: %w", err)
	}
	var newest int64
	for _, entry := range entries {
		version, err := goose.NumericComponent(entry.Name())
		if err != nil {
			return 0, fmt.Errorf("reading the migrations: %w", err)
		}
		newest = max(newest, version)
	}
	return newest, nil
}

// discard swallows goose's own log lines.
type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }
