package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/pawlhq/pawl/client"
	"github.com/pawlhq/pawl/publish"
)

func (a *app) breakLeaseCommand() *cobra.Command {
	var flags operatorFlags
	var token string
	cmd := &cobra.Command{
		Use:   "break-lease KEY --token N",
		Short: "End the lease of somebody who won't give it back, so that others needn't wait for its end",
		Long: "End the lease of one grant now. Others can acquire the key at once, and who waits for it gets it; the holder hears at the next\n" +
			"renewal that the lease is lost, and pawl run ends its command then. Nobody is fenced by it: until somebody newer has published, what\n" +
			"the holder publishes is accepted. pawl stat shows the token; if another grant holds the key by now, its lease isn't touched.",
		Example: "  pawl break-lease shots/010/comp --token 41 --reason 'the node is gone'",
		Args:    cobra.ExactArgs(1),
		RunE: a.verb(func(ctx context.Context, args []string) error {
			req := publish.BreakLeaseRequest{By: flags.operator(a)}
			var err error
			if req.Token, err = publish.ParseToken(token); err != nil {
				return usageError{fmt.Errorf("--token %q: must be the token of the grant whose lease is to end, such as 41; pawl stat shows it", token)}
			}
			if req.Reason, err = flags.why(); err != nil {
				return err
			}
			return a.onKey(args[0], func(c *client.Client, key publish.Key) error {
				req.Key = key
				broken, err := c.BreakLease(ctx, req)
				if err != nil {
					return err
				}
				if a.json {
					return a.printJSON(broken)
				}
				what := "broke the lease"
				if broken.Replayed {
					what = "over before: the lease"
				}
				a.printf("%s of token %d (holder %s) on %s\n", what, broken.Token, broken.Holder, key)
				return a.unwritten()
			})
		}),
	}
	cmd.Flags().StringVar(&token, "token", "", "the token of the grant whose lease is to end")
	flags.register(cmd, "why, for the holder and for those who look at the key later")
	return cmd
}
