//go:build unix

package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawlhq/pawl/fence"
	"github.com/pawlhq/pawl/internal/devpg"
)

// database is where the invoices are: a schema that is made for one run.
type database struct {
	url, schema string
}

// openDatabase takes the database at DATABASE_URL or else starts a private Postgres; end removes what the run has made.
func openDatabase(ctx context.Context) (db database, end func() error, err error) {
	db = database{url: os.Getenv("DATABASE_URL"), schema: "pawl_billing_" + strings.ToLower(rand.Text()[:8])}
	if db.url != "" {
		return db, func() error { return db.finally(ctx, db.drop) }, nil
	}
	dir, err := devpg.TempDir("billing-")
	if err != nil {
		return db, nil, err
	}
	server, err := devpg.Start(ctx, devpg.Options{Dir: dir})
	if err != nil {
		return db, nil, errors.Join(err, os.RemoveAll(dir))
	}
	db.url = server.DSN("postgres")
	return db, func() error { return errors.Join(db.finally(ctx, server.Stop), os.RemoveAll(dir)) }, nil
}

// finally tidies up, also when ctx has ended.
func (db database) finally(ctx context.Context, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 15*time.Second)
	defer cancel()
	return do(ctx)
}

// connect opens a connection whose tables are those of the run's schema.
func (db database) connect(ctx context.Context) (*pgx.Conn, error) {
	config, err := pgx.ParseConfig(db.url)
	if err != nil {
		return nil, fmt.Errorf("DATABASE_URL: %w", err)
	}
	config.RuntimeParams["search_path"] = db.schema
	return pgx.ConnectConfig(ctx, config)
}

// with opens a connection for one thing to do.
func (db database) with(ctx context.Context, do func(*pgx.Conn) error) error {
	conn, err := db.connect(ctx)
	if err != nil {
		return err
	}
	return errors.Join(do(conn), conn.Close(ctx))
}

// create makes the tables, two invoices, and the fence.
func (db database) create(ctx context.Context) error {
	return db.with(ctx, func(conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, `
			CREATE SCHEMA `+db.schema+`;
			CREATE TABLE invoices (month text NOT NULL, cents bigint NOT NULL);
			INSERT INTO invoices VALUES ('`+month+`', 10000), ('`+month+`', 20000);
			CREATE TABLE billing_summary (month text PRIMARY KEY, invoices bigint NOT NULL, cents bigint NOT NULL, worker text NOT NULL);`)
		if err != nil {
			return err
		}
		return fence.Install(ctx, conn)
	})
}

func (db database) drop(ctx context.Context) error {
	return db.with(ctx, func(conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, `DROP SCHEMA IF EXISTS `+db.schema+` CASCADE`)
		return err
	})
}

// bill adds an invoice.
func (db database) bill(ctx context.Context, cents int64) error {
	return db.with(ctx, func(conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, `INSERT INTO invoices VALUES ($1, $2)`, month, cents)
		return err
	})
}

// summary tells what readers see.
func (db database) summary(ctx context.Context) (text string, err error) {
	err = db.with(ctx, func(conn *pgx.Conn) error {
		var invoices, cents int64
		var worker string
		const read = `SELECT invoices, cents, worker FROM billing_summary WHERE month = $1`
		if err := conn.QueryRow(ctx, read, month).Scan(&invoices, &cents, &worker); err != nil {
			return err
		}
		text = fmt.Sprintf("%d invoices: %s, by %s", invoices, money(cents), worker)
		return nil
	})
	return text, err
}
