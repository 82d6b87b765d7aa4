package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/pawlhq/pawl/client"
	"github.com/pawlhq/pawl/publish"
)

// feedPage is one page of a feed, and where the next one begins.
type feedPage[Row any] struct {
	rows []Row
	next string
}

// feedVerb is what the verbs of feeds have in common. read asks for a page of limit rows behind after; show prints rows to people.
func feedVerb[Row any](a *app, cmd *cobra.Command, table publish.Table[Row],
	read func(ctx context.Context, c *client.Client, prefix, after string, limit int) (feedPage[Row], error), show func(w io.Writer, rows []Row),
) *cobra.Command {
	var limit int
	var asCSV bool
	cmd.Args = cobra.MaximumNArgs(1)
	cmd.RunE = a.verb(func(ctx context.Context, args []string) error {
		if limit < 1 || limit > publish.MaxExportRows {
			return usageError{fmt.Errorf("--limit %d: must be from 1 to %d", limit, publish.MaxExportRows)}
		}
		if asCSV && a.json {
			return usageError{errors.New("--csv and --json exclude each other")}
		}
		prefix := ""
		if len(args) == 1 {
			prefix = a.nfc("prefix", args[0])
		}
		if _, err := publish.ParsePrefix(prefix); err != nil {
			return usageError{err}
		}
		c, err := a.newClient(quickRetry)
		if err != nil {
			return err
		}
		defer c.Close()
		rows := []Row{}
		for after := ""; ; {
			page, err := read(ctx, c, prefix, after, min(limit-len(rows), publish.MaxPageSize))
			if err != nil {
				return err
			}
			rows = append(rows, page.rows...)
			if after = page.next; after == "" || len(rows) >= limit {
				break
			}
		}
		switch {
		case asCSV:
			return publish.NewCSV(a.stdout, table).Write(rows)
		case a.json:
			for _, row := range rows {
				if err := a.printJSON(row); err != nil {
					return err
				}
			}
			return nil
		}
		a.table(func(w io.Writer) { show(w, rows) })
		return nil
	})
	cmd.Flags().IntVar(&limit, "limit", publish.DefaultPageSize, "how many rows to show")
	cmd.Flags().BoolVar(&asCSV, "csv", false, "print the result as CSV")
	return cmd
}

func (a *app) rejectionsCommand() *cobra.Command {
	return feedVerb(a, &cobra.Command{
		Use:   "rejections [PREFIX]",
		Short: "Show who came back too late, of all keys or those that start with a prefix, the latest first",
		Long: "Show the stale requests that were refused, of all keys or those that start with PREFIX, the one that came last first. Somebody who\n" +
			"goes on sending the same one is in a RETRY LOOP. --json prints one object a line.",
	}, publish.RejectionTable(), func(ctx context.Context, c *client.Client, prefix, after string, limit int) (feedPage[publish.KeyRejection], error) {
		page, err := c.Rejections(ctx, publish.RejectionsRequest{Prefix: prefix, After: after, Limit: limit})
		return feedPage[publish.KeyRejection]{rows: page.Rejections, next: page.Next}, err
	}, func(w io.Writer, rows []publish.KeyRejection) {
		row(w, "LAST\tKEY\tTOKEN\tWHAT\tWHO\tWHY\tTIMES\tLATE BY\t")
		for _, r := range rows {
			loop := ""
			if r.Looping {
				loop = "RETRY LOOP"
			}
			row(w, "%s\t%s\t%d\t%s\t%s\ttoken %d (%s) was ahead\t%d\t%s\t%s", stamp(&r.LastAt), r.Key, r.Token, r.Operation, whoIs(r.Holder, r.Actor),
				aheadOf(r.Rejection), r.SupersededBy, r.Repeat, milliseconds(r.OverrunMillis), loop)
		}
	})
}

func (a *app) leasesCommand() *cobra.Command {
	expired := false
	cmd := feedVerb(a, &cobra.Command{
		Use:   "leases [PREFIX]",
		Short: "Show who holds what, of all keys or those that start with a prefix, the newest grant first",
		Long:  "Show the leases that run, of all keys or those that start with PREFIX, the newest grant first. --json prints one object a line.",
	}, publish.LeaseTable(), func(ctx context.Context, c *client.Client, prefix, after string, limit int) (feedPage[publish.Holding], error) {
		page, err := c.Leases(ctx, publish.LeasesRequest{Prefix: prefix, Expired: expired, After: after, Limit: limit})
		return feedPage[publish.Holding]{rows: page.Leases, next: page.Next}, err
	}, func(w io.Writer, rows []publish.Holding) {
		row(w, "GRANTED\tKEY\tTOKEN\tWHO\tUNTIL\t")
		for _, h := range rows {
			state := ""
			if !h.Live {
				state = "ran out"
			}
			row(w, "%s\t%s\t%d\t%s\t%s\t%s", stamp(&h.GrantedAt), h.Key, h.Token, h.Holder, stamp(&h.ExpiresAt), state)
		}
	})
	cmd.Flags().BoolVar(&expired, "expired", false, "show also leases that ran out, and that nobody gave back or took over")
	return cmd
}
