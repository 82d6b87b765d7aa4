package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/pawlhq/pawl/client"
	"github.com/pawlhq/pawl/publish"
)

func (a *app) rollbackCommand() *cobra.Command {
	var flags operatorFlags
	var to string
	var breakLease, pin bool
	cmd := &cobra.Command{
		Use:   "rollback KEY --to VERSION",
		Short: "Publish the files of an earlier version again, under a new token",
		Long: "Publish the files of an earlier version again, under a new token. No bytes are copied. pawl history shows what there is to go\n" +
			"back to. Whoever works on the key meanwhile is fenced; with --pin the next one can't overwrite the version either.",
		Example: "  pawl rollback shots/010/comp --to 17 --reason 'the new one flickers' --pin",
		Args:    cobra.ExactArgs(1),
		RunE: a.verb(func(ctx context.Context, args []string) error {
			version, err := parseTarget(to)
			if err != nil {
				return err
			}
			reason, err := flags.why()
			if err != nil {
				return err
			}
			return a.onKey(args[0], func(c *client.Client, key publish.Key) error {
				receipt, err := c.Rollback(ctx, publish.RollbackRequest{
					Key: key, To: version, Reason: reason, By: flags.operator(a), BreakLease: breakLease, Pin: pin,
				})
				if err != nil {
					return err
				}
				url := ""
				if receipt.Primary != "" {
					url = c.FileURL(receipt.Key, receipt.Token, receipt.Primary)
				}
				return a.printReceipt(receipt, url)
			})
		}),
	}
	cmd.Flags().StringVar(&to, "to", "", "the version to bring back: a token, such as 17, or a version, such as 17.1")
	flags.register(cmd, "why, for those who look at the key later")
	breakLeaseFlag(cmd, &breakLease)
	cmd.Flags().BoolVar(&pin, "pin", false, "also pin the key to it; a pin that is there moves along")
	return cmd
}

// parseTarget reads what --to names: a token or a version.
func parseTarget(text string) (publish.Version, error) {
	if token, err := publish.ParseToken(text); err == nil {
		return publish.Version{Token: token}, nil
	}
	version, err := publish.ParseVersion(text)
	if err != nil {
		return version, usageError{fmt.Errorf(`--to %q: must be a token, such as 17, or a version, such as 17.1`, text)}
	}
	return version, nil
}
