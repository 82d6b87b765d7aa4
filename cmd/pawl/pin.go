package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/pawlhq/pawl/client"
	"github.com/pawlhq/pawl/publish"
)

func (a *app) pinCommand() *cobra.Command {
	var flags operatorFlags
	var current string
	cmd := &cobra.Command{
		Use:   "pin KEY",
		Short: "Keep a key at its current version: publishes are refused until pawl unpin",
		Long: "Keep a key at its current version: publishes are refused until pawl unpin. A pin takes no token and ends no lease: who works on the\n" +
			"key may go on, and publish once the pin is gone.",
		Example: "  pawl pin shots/010/comp --reason 'client review until Friday'",
		Args:    cobra.ExactArgs(1),
		RunE: a.verb(func(ctx context.Context, args []string) error {
			req := publish.PinRequest{By: flags.operator(a)}
			var err error
			if req.Reason, err = flags.why(); err != nil {
				return err
			}
			if current != "" {
				version, err := publish.ParseVersion(current)
				if err != nil {
					return usageError{fmt.Errorf("--current: %w", err)}
				}
				req.Current = &version
			}
			return a.onKey(args[0], func(c *client.Client, key publish.Key) error {
				req.Key = key
				pinned, err := c.Pin(ctx, req)
				if err != nil {
					return err
				}
				if a.json {
					return a.printJSON(pinned)
				}
				a.printf("pinned %s to version %s\n", key, pinned.Current)
				return a.unwritten()
			})
		}),
	}
	flags.register(cmd, "why, for those whose publish is refused")
	cmd.Flags().StringVar(&current, "current", "", "the version to keep, such as 17.1: refused if another one is current by now")
	return cmd
}

func (a *app) unpinCommand() *cobra.Command {
	var flags operatorFlags
	cmd := &cobra.Command{
		Use:   "unpin KEY",
		Short: "Let a pinned key move again",
		Args:  cobra.ExactArgs(1),
		RunE: a.verb(func(ctx context.Context, args []string) error {
			return a.onKey(args[0], func(c *client.Client, key publish.Key) error {
				if err := c.Unpin(ctx, publish.UnpinRequest{Key: key, By: flags.operator(a)}); err != nil {
					return err
				}
				if a.json {
					return a.printJSON(map[string]any{"key": key, "pinned": false})
				}
				a.printf("unpinned %s\n", key)
				return a.unwritten()
			})
		}),
	}
	flags.register(cmd, "")
	return cmd
}
