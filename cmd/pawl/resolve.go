package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pawlhq/pawl/client"
	"github.com/pawlhq/pawl/publish"
)

func (a *app) resolveCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "resolve KEY...",
		Short: "Show the versions and permanent addresses of many keys at one point in time",
		Long: fmt.Sprintf("Show the current version of each key and the permanent address of its primary file, all at one point in time: what was\n"+
			"published together shows together. At most %d keys. --json prints one object a line. A key without a current version shows as\n"+
			"\"none\", and the exit code is then 82.", publish.MaxResolveKeys),
		Args: cobra.RangeArgs(1, publish.MaxResolveKeys),
		RunE: a.verb(func(ctx context.Context, args []string) error {
			var keys []publish.Key
			for _, arg := range args {
				key, err := a.key(arg)
				if err != nil {
					return err
				}
				keys = append(keys, key)
			}
			c, err := a.newClient(quickRetry)
			if err != nil {
				return err
			}
			defer c.Close()
			resolved, err := c.Resolve(ctx, keys)
			if err != nil {
				return err
			}
			return a.printResolved(c, resolved)
		}),
	}
}

func (a *app) printResolved(c *client.Client, resolved []publish.Resolved) error {
	var missing []string
	for i, r := range resolved {
		if !r.Found {
			missing = append(missing, string(r.Key))
		} else if r.Primary != "" {
			// The server's address is for its own host; this one is whole.
			url := c.FileURL(r.Key, r.Token, r.Primary)
			if !r.Final {
				url = c.FileAtURL(r.Key, r.Version(), r.Primary)
			}
			resolved[i].URL = &url
		}
	}
	if err := a.printEntries(resolved); err != nil {
		return err
	}
	if missing != nil {
		return refusedError{errors.New("without a current version: " + strings.Join(missing, ", "))}
	}
	return nil
}

func (a *app) printEntries(resolved []publish.Resolved) error {
	if a.json {
		for _, r := range resolved {
			if err := a.printJSON(r); err != nil {
				return err
			}
		}
		return nil
	}
	a.table(func(w io.Writer) {
		for _, r := range resolved {
			version, url := "none", "-"
			if r.Found {
				version = r.Version().String()
			}
			if r.URL != nil {
				url = *r.URL
			}
			row(w, "%s\t%s\t%s", r.Key, version, url)
		}
	})
	return nil
}
