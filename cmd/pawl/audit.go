package main

import (
	"cmp"
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
	var export bool
	var only string
	cmd := &cobra.Command{
		Use:   "audit [PREFIX]",
		Short: "Show who rolled back, pinned, retired, broke leases, and changed policies and credentials, and who was refused it, newest first",
		Long: "Show who rolled back, pinned, retired, broke leases, and changed policies and credentials, and who was refused it, newest first:\n" +
			"all of it, or what is about a key, a policy's prefix or a credential's id that begins with PREFIX.\n\n" +
			"With --export all entries are printed, each as JSON on a line of its own (NDJSON). What a request doesn't bring is asked for again.",
		Args: cobra.MaximumNArgs(1),
		RunE: a.verb(func(ctx context.Context, args []string) error {
			req := publish.AuditRequest{Limit: publish.MaxPageSize}
			if len(args) == 1 {
				req.Prefix = a.nfc("prefix", args[0])
			}
			if _, err := publish.ParsePrefix(req.Prefix); err != nil {
				return usageError{err}
			}
			var err error
			if req.Only, err = publish.ParseAuditKind(only); err != nil {
				return usageError{fmt.Errorf("--only %q: must be %s or %s", only, publish.AuditChanges, publish.AuditRefusals)}
			}
			if limit < 1 || limit > publish.MaxPageSize {
				return usageError{fmt.Errorf("--limit %d: must be from 1 to %d", limit, publish.MaxPageSize)}
			}
			c, err := a.newClient(quickRetry)
			if err != nil {
				return err
			}
			defer c.Close()
			if export {
				return a.exportAudit(ctx, c, req)
			}
			return a.printAudit(ctx, c, req, limit)
		}),
	}
	cmd.Flags().IntVar(&limit, "limit", publish.DefaultPageSize, "how many entries to show")
	cmd.Flags().StringVar(&only, "only", "", "show what was changed, or what was refused, alone: changed or refused")
	cmd.Flags().BoolVar(&export, "export", false, "print all entries, one JSON object a line")
	return cmd
}

// exportAudit prints all entries, page after page: unlike one long answer, a page that breaks off is asked for again.
func (a *app) exportAudit(ctx context.Context, c *client.Client, req publish.AuditRequest) error {
	for {
		page, err := c.Audit(ctx, req)
		if err != nil {
			return err
		}
		if err := publish.WriteNDJSON(a.stdout, page.Entries); err != nil {
			return ioError{err}
		}
		if req.Before = page.Next; req.Before == 0 {
			return nil
		}
	}
}

func (a *app) printAudit(ctx context.Context, c *client.Client, req publish.AuditRequest, limit int) error {
	page := publish.AuditPage{Entries: []publish.AuditEntry{}}
	// Where few entries are such as are asked for, or may be seen, pages are short.
	for more := true; more; more = page.Next != 0 && len(page.Entries) < limit {
		req.Before, req.Limit = page.Next, limit-len(page.Entries)
		next, err := c.Audit(ctx, req)
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
		row(w, "WHEN\tWHO\tFROM\tWHAT\tOF\tTOKEN\tBEFORE\tAFTER")
		for _, e := range page.Entries {
			what, token := e.Action, "-"
			if e.Refused != "" {
				what += " (" + string(e.Refused) + ")"
			}
			if e.Token != 0 {
				token = fmt.Sprint(e.Token)
			}
			row(w, "%s\t%s\t%s\t%s\t%q\t%s\t%s\t%s", stamp(&e.At), e.By, cmp.Or(e.From, "-"), what, e.Subject, token, orDash(e.Before), orDash(e.After))
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
