package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/pawlhq/pawl/client"
	"github.com/pawlhq/pawl/publish"
)

func (a *app) retireCommand() *cobra.Command {
	var flags operatorFlags
	var breakLease bool
	cmd := &cobra.Command{
		Use:   "retire KEY",
		Short: "Take a key's current version away; its history, files and counter stay",
		Long: "Take a key's current version away. Readers are told that the key is retired; the addresses of what it published go on working,\n" +
			"until retention gives them up. Publishing again revives the key, under a greater token. A key that is retired already stays as it is.",
		Example: "  pawl retire shots/010/comp --reason 'the shot was cut'",
		Args:    cobra.ExactArgs(1),
		RunE: a.verb(func(ctx context.Context, args []string) error {
			return a.onKey(args[0], func(c *client.Client, key publish.Key) error {
				retired, err := c.Retire(ctx, publish.RetireRequest{Key: key, Reason: flags.reason, By: flags.operator(a), BreakLease: breakLease})
				if err != nil {
					return err
				}
				if a.json {
					return a.printJSON(retired)
				}
				what := "retired"
				if retired.Replayed {
					what = "retired before"
				}
				a.printf("%s %s under token %d\n", what, key, retired.Token)
				return a.unwritten()
			})
		}),
	}
	flags.register(cmd, "why, for those who look at the key later")
	breakLeaseFlag(cmd, &breakLease)
	return cmd
}
