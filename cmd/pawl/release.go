package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/pawlhq/pawl/client"
	"github.com/pawlhq/pawl/publish"
)

func (a *app) releaseCommand() *cobra.Command {
	var flags grantFlags
	cmd := &cobra.Command{
		Use:   "release KEY",
		Short: "Give a lease back; the token stays used",
		Args:  cobra.ExactArgs(1),
		RunE: a.verb(func(ctx context.Context, args []string) error {
			return a.onLease(args[0], flags, func(c *client.Client, key publish.Key, id publish.LeaseID) error {
				if err := c.Release(ctx, key, id); err != nil {
					return err
				}
				if a.json {
					return a.printJSON(map[string]any{"key": key, "released": true})
				}
				a.printf("released %s\n", key)
				return nil
			})
		}),
	}
	flags.register(cmd.Flags(), false)
	return cmd
}
