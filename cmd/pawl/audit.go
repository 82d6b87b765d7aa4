package main

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/pawlhq/pawl/client"
	"github.com/pawlhq/pawl/publish"
)

// auditCommand shows who changed what.
func (a *app) auditCommand() *cobra.Command {
	var limit int
	cmd := &cobra.Command{
		Use:   "audit",
		Short: "Show who rolled back, pinned, retired, broke leases, and changed policies and credentials, newest first",
		Args:  cobra.NoArgs,
		RunE: a.verb(func(ctx context.Context, _ []string) error {
			if limit < 1 || limit > publish.MaxPageSize {
				return usageError{fmt.Errorf("--limit %d: must be from 1 to %d", limit, publish.MaxPageSize)}
			}
			c, err := a.newClient(quickRetry)
			if err != nil {
				return err
			}
			defer c.Close()
			return a.printAudit(ctx, c, limit)
		}),
	}
	cmd.Flags().IntVar(&limit, "limit", publish.DefaultPageSize, "how many entries to show")
	return cmd
}

func (a *app) printAudit(ctx context.Context, c *client.Client, limit int) error {
	var page publish.AuditPage
	// To who may see little of the audit its pages are short.
	for more := true; more; more = page.Next != 0 && len(page.Entries) < limit {
		next, err := c.Audit(ctx, page.Next, limit-len(page.Entries))
		if err != nil {
			return err
		}
		next.Entries = append(page.Entries, next.Entries...)
		page = next
	}
	if a.json {
		return a.printJSON(page)
	}
	a.table(func(w io.Writer) {
		row(w, "WHEN\tWHO\tWHAT\tOF\tBEFORE\tAFTER")
		for _, e := range page.Entries {
			row(w, "%s\t%s\t%s\t%q\t%s\t%s", stamp(&e.At), e.By, e.Action, e.Subject, orDash(e.Before), orDash(e.After))
		}
	})
	return nil
}

func orDash(text []byte) string {
	if len(text) == 0 {
		return "-"
	}
	return string(text)
}
