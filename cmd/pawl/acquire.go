package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/pawlhq/pawl/client"
	"github.com/pawlhq/pawl/publish"
)

// quickRetry is how long the verbs that people wait for go on when the server can't be reached.
const quickRetry = client.DefaultRetryFor - client.DefaultRetryFor/3

func (a *app) acquireCommand() *cobra.Command {
	var flags leaseFlags
	var leaseID string
	cmd := &cobra.Command{
		Use:   "acquire KEY",
		Short: "Take the lease of a key: prints token, lease_id and expiry",
		Long: "Take the lease of a key. Prints the token, the lease_id and when the lease expires by the server's clock. The lease_id\n" +
			"is a secret: keep it in PAWL_LEASE_ID, or keep all of it with --json in a file for --lease-file.",
		Example: "  (umask 077; pawl acquire thumbs/image-52 --ttl 1m --json > lease.json)",
		Args:    cobra.ExactArgs(1),
		RunE: a.verb(func(ctx context.Context, args []string) error {
			key, err := a.key(args[0])
			if err != nil {
				return err
			}
			req, err := a.acquireRequest(key, flags)
			if err != nil {
				return err
			}
			if leaseID != "" {
				if req.LeaseID, err = publish.ParseLeaseID(leaseID); err != nil {
					return usageError{err}
				}
			}
			c, err := a.newClient(quickRetry)
			if err != nil {
				return err
			}
			defer c.Close()
			lease, err := c.Acquire(ctx, req)
			if err != nil && leaseID == "" {
				return orSignal(ctx, err)
			}
			if err != nil {
				return err
			}
			a.noticeTokens(lease)
			err = a.printLease(lease)
			if err != nil && leaseID == "" {
				return a.takeBack(ctx, c, lease, err)
			}
			return err
		}),
	}
	flags.register(cmd.Flags())
	cmd.Flags().StringVar(&leaseID, "lease-id", "", "lease_id of your own choice: 32 random hex digits, new for each attempt; others on this machine can read it there")
	return cmd
}

func (a *app) printLease(lease client.Lease) error {
	if a.json {
		return a.printJSON(lease.Lease)
	}
	a.printf("%d %s %s\n", lease.Token, lease.LeaseID.Hex(), stamp(lease.ExpiresAt))
	return a.unwritten()
}

// noticeTokens warns of a key whose tokens run out.
func (a *app) noticeTokens(lease client.Lease) {
	if lease.TokensLeft > 0 {
		a.notice("%s has %d of its tokens left, of %d; publish under another key before they are used up", lease.Key, lease.TokensLeft, publish.MaxToken)
	}
}

// takeBack releases a lease whose id couldn't be printed: nobody else knows it, so nobody could use or release it.
func (a *app) takeBack(ctx context.Context, c *client.Client, lease client.Lease, unwritten error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseTimeout)
	defer cancel()
	if err := c.Release(ctx, lease.Key, lease.LeaseID); err != nil {
		return ioError{fmt.Errorf("%w; the lease of token %d could not be given back either, and expires at %s: %w",
			unwritten, lease.Token, stamp(lease.ExpiresAt), err)}
	}
	return ioError{fmt.Errorf("%w; the lease of token %d was given back", unwritten, lease.Token)}
}
