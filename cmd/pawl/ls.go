package main

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/pawlhq/pawl/publish"
)

func (a *app) lsCommand() *cobra.Command {
	var delimiter string
	cmd := &cobra.Command{
		Use:   "ls [PREFIX]",
		Short: "List the current versions of the keys that start with a prefix",
		Long: "List the current versions of all keys that start with PREFIX, in byte order. With --delimiter / the keys behind the\n" +
			"next slash show as one sub-prefix. --json prints one object a line (JSON Lines, no list around them): a pointer, or\n" +
			"{\"prefix\": …}.",
		Args: cobra.MaximumNArgs(1),
		RunE: a.verb(func(ctx context.Context, args []string) error {
			prefix := ""
			if len(args) == 1 {
				prefix = a.nfc("prefix", args[0])
			}
			if _, err := publish.ParsePrefix(prefix); err != nil {
				return usageError{err}
			}
			if delimiter != "" && delimiter != "/" {
				return usageError{fmt.Errorf(`--delimiter %q: must be "/"`, delimiter)}
			}
			return a.ls(ctx, publish.ListRequest{Prefix: prefix, Delimiter: delimiter, Limit: publish.MaxPageSize})
		}),
	}
	cmd.Flags().StringVar(&delimiter, "delimiter", "", `"/" shows one level: keys and sub-prefixes`)
	return cmd
}

func (a *app) ls(ctx context.Context, req publish.ListRequest) error {
	c, err := a.newClient(quickRetry)
	if err != nil {
		return err
	}
	defer c.Close()
	for page, err := range c.ListAll(ctx, req) {
		if err != nil {
			return err
		}
		if err := a.printPage(page); err != nil {
			return err
		}
	}
	return nil
}

func (a *app) printPage(page publish.ListPage) error {
	if a.json {
		for _, pointer := range page.Keys {
			if err := a.printJSON(pointer); err != nil {
				return err
			}
		}
		for _, prefix := range page.Prefixes {
			if err := a.printJSON(map[string]string{"prefix": prefix}); err != nil {
				return err
			}
		}
		return nil
	}
	a.table(func(w io.Writer) {
		for _, prefix := range page.Prefixes {
			row(w, "%s\t\t\t\t", prefix)
		}
		for _, p := range page.Keys {
			row(w, "%s\t%s\t%d\t%s\t%s", p.Key, p.Version(), p.Bytes, stamp(&p.PublishedAt), p.Publisher)
		}
	})
	return nil
}
