//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawlhq/pawl/client"
	"github.com/pawlhq/pawl/fence"
	"github.com/pawlhq/pawl/publish"
)

const (
	month    = "2026-10"
	key      = publish.Key("billing/" + month)
	computed = "has added up"
)

// work rebuilds the summary of the month once, under the lease of its key. It waits for the end of gate before it writes.
func work(ctx context.Context, name string, gate io.Reader, unfenced bool) (err error) {
	pawl, err := client.New(os.Getenv("PAWL_URL"), client.Options{})
	if err != nil {
		return fmt.Errorf("PAWL_URL: %w", err)
	}
	defer pawl.Close()
	db := database{url: os.Getenv("DATABASE_URL"), schema: os.Getenv("BILLING_SCHEMA")}
	conn, err := db.connect(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close(ctx)) }()

	lease, err := pawl.Acquire(ctx, publish.AcquireRequest{Key: key, Holder: name, TTL: 2 * time.Second, Wait: time.Minute})
	if err != nil {
		return err
	}
	fmt.Printf("%s has the lease of %s: token %d\n", name, lease.Key, lease.Token)
	keeper := pawl.KeepLease(ctx, lease)
	defer keeper.Stop()

	err = pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		// The keeper's context ends long work soon after the lease is lost. It doesn't make the write safe: the process may be stopped
		// after the last look at it.
		var invoices, cents int64
		err := tx.QueryRow(keeper.Context(), `SELECT count(*), sum(cents) FROM invoices WHERE month = $1`, month).Scan(&invoices, &cents)
		if err != nil {
			return err
		}
		fmt.Printf("%s "+computed+" %d invoices: %s\n", name, invoices, money(cents))
		if _, err := io.Copy(io.Discard, gate); err != nil {
			return err
		}
		if !unfenced {
			if err := fence.Check(ctx, tx, string(lease.Key), lease.Token); err != nil {
				return err
			}
		}
		_, err = tx.Exec(ctx, `
			INSERT INTO billing_summary (month, invoices, cents, worker) VALUES ($1, $2, $3, $4)
			ON CONFLICT (month) DO UPDATE SET invoices = $2, cents = $3, worker = $4`, month, invoices, cents, name)
		return err
	})
	if err != nil {
		return err
	}
	fmt.Printf("%s has written the summary\n", name)
	return pawl.Release(ctx, lease.Key, lease.LeaseID)
}

func money(cents int64) string { return fmt.Sprintf("%d.%02d", cents/100, cents%100) }
