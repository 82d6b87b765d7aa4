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
	if p := history.Pinned; p != nil {
		row(w, "pinned by %s since %s: %s", p.By, stamp(&p.At), p.Reason)
	}
	row(w, "TOKEN\tWHAT\tWHEN\tWHO\t")
	for _, g := range history.Generations {
		note := cmp.Or(g.Reason, string(g.State))
		if g.Current {
			note += " (current)"
		}
		for _, r := range g.Rejections {
			printRejection(w, r)
		}
		for _, r := range g.Receipts {
			row(w, "%d\tpublished %s\t%s\t%s\t%s", r.Token, r.Version(), stamp(&r.PublishedAt), whoIs(r.Publisher, r.Actor), extent(r))
		}
		if b := g.Broken; b != nil {
			row(w, "%d\tlease broken\t%s\t%s\t%s", g.Token, stamp(&b.At), b.By, b.Reason)
		}
		row(w, "%d\t%s\t%s\t%s\t%s", g.Token, grantedAs(g), stamp(&g.GrantedAt), whoIs(g.Holder, g.Actor), note)
	}
	for _, r := range history.Lost {
		printRejection(w, r)
	}
}

// whoIs names somebody as he calls himself and, where that is another name, by his credential.
func whoIs(name string, actor publish.Actor) string {
	if actor.Credential == "" || actor.Credential == name {
		return name
	}
	return name + " as " + actor.Credential
}

// grantedAs tells what a token was for.
func grantedAs(g publish.Generation) string {
	switch {
	case g.Kind == publish.KindRollback && g.Target != nil:
		return "rollback to " + g.Target.String()
	case g.Kind == publish.KindRetire:
		return "retired"
	}
	return "granted"
}

// printRejection shows who came back too late, when, and with which token.
func printRejection(w io.Writer, r publish.Rejection) {
	who := whoIs(cmp.Or(r.Holder, "(token of a lost history)"), r.Actor)
	times := ""
	if r.Repeat > 1 {
		times = fmt.Sprintf(", %d times", r.Repeat)
	}
	row(w, "%d\t%s rejected\t%s\t%s\t%s: token %d (%s) was ahead%s", r.Token, r.Operation, stamp(&r.LastAt), who, r.Code, aheadOf(r), r.SupersededBy, times)
}

// aheadOf is the token that has fenced a stale request.
func aheadOf(r publish.Rejection) publish.Token {
	if r.AcceptedToken > r.Token {
		return r.AcceptedToken
	}
	return r.GrantedToken
}
