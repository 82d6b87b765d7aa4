package main

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/pawlhq/pawl/client"
	"github.com/pawlhq/pawl/publish"
)

func (a *app) historyCommand() *cobra.Command {
	var limit int
	cmd := &cobra.Command{
		Use:   "history KEY",
		Short: "Show a key's generations, newest first: what was published, and who came back too late",
		Args:  cobra.ExactArgs(1),
		RunE: a.verb(func(ctx context.Context, args []string) error {
			key, err := a.key(args[0])
			if err != nil {
				return err
			}
			if limit < 0 {
				return usageError{fmt.Errorf("--limit %d: must not be negative", limit)}
			}
			c, err := a.newClient(quickRetry)
			if err != nil {
				return err
			}
			defer c.Close()
			history, err := wholeHistory(ctx, c, key, limit)
			if err != nil {
				return err
			}
			if a.json {
				return a.printJSON(history)
			}
			a.table(func(w io.Writer) { printHistory(w, history) })
			return nil
		}),
	}
	cmd.Flags().IntVar(&limit, "limit", 100, "how many generations to show; 0: all")
	return cmd
}

// wholeHistory puts pages together until there are limit generations; 0 means all.
func wholeHistory(ctx context.Context, c *client.Client, key publish.Key, limit int) (publish.HistoryPage, error) {
	var all publish.HistoryPage
	for before := publish.Token(0); ; {
		size := publish.MaxPageSize
		if limit > 0 {
			size = min(size, limit-len(all.Generations))
		}
		page, err := c.History(ctx, key, before, size)
		if err != nil {
			return all, err
		}
		page.Generations = append(all.Generations, page.Generations...)
		page.Lost = append(all.Lost, page.Lost...)
		all, before = page, page.Next
		if before == 0 || limit > 0 && len(all.Generations) >= limit {
			return all, nil
		}
	}
}

func printHistory(w io.Writer, history publish.HistoryPage) {
	row(w, "TOKEN\tWHAT\tWHEN\tWHO\t")
	for _, g := range history.Generations {
		mark := ""
		if g.Current {
			mark = "current"
		}
		for _, r := range g.Rejections {
			printRejection(w, r)
		}
		for _, r := range g.Receipts {
			row(w, "%d\tpublished %s\t%s\t%s\t%s", r.Token, r.Version(), stamp(&r.PublishedAt), r.Publisher, extent(r))
		}
		row(w, "%d\tgranted\t%s\t%s\t%s %s", g.Token, stamp(&g.GrantedAt), g.Holder, g.State, mark)
	}
	for _, r := range history.Lost {
		printRejection(w, r)
	}
}

// printRejection shows who came back too late, when, and with which token.
func printRejection(w io.Writer, r publish.Rejection) {
	who := r.Holder
	if who == "" {
		who = "(token of a lost history)"
	}
	times := ""
	if r.Repeat > 1 {
		times = fmt.Sprintf(", %d times", r.Repeat)
	}
	newer := r.AcceptedToken
	if newer <= r.Token {
		newer = r.GrantedToken
	}
	row(w, "%d\t%s rejected\t%s\t%s\t%s: token %d (%s) was ahead%s", r.Token, r.Operation, stamp(&r.LastAt), who, r.Code, newer, r.SupersededBy, times)
}
