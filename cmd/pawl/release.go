package main

import (
	"context"

	"github.com/spf13/cobra"
)

func (a *app) releaseCommand() *cobra.Command {
	var flags grantFlags
	cmd := &cobra.Command{
		Use:   "release KEY",
		Short: "Give a lease back; the token stays used",
		Args:  cobra.ExactArgs(1),
		RunE: a.verb(func(ctx context.Context, args []string) error {
			key, id, err := a.keyAndLease(args[0], flags)
			if err != nil {
				return err
			}
			c, err := a.newClient(quickRetry)
			if err != nil {
				return err
			}
			defer c.Close()
			if err := c.Release(ctx, key, id); err != nil {
				return err
			}
			if a.json {
				return a.printJSON(map[string]any{"key": key, "released": true})
			}
			a.printf("released %s\n", key)
			return nil
		}),
	}
	flags.register(cmd.Flags(), false)
	return cmd
}
