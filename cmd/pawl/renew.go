package main

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawlhq/pawl/client"
	"github.com/pawlhq/pawl/publish"
)

func (a *app) renewCommand() *cobra.Command {
	var flags grantFlags
	var ttl time.Duration
	cmd := &cobra.Command{
		Use:   "renew KEY",
		Short: "Extend a lease; also an expired one that nobody replaced",
		Args:  cobra.ExactArgs(1),
		RunE: a.verb(func(ctx context.Context, args []string) error {
			return a.onLease(args[0], flags, func(c *client.Client, key publish.Key, id publish.LeaseID) error {
				lease, err := c.Renew(ctx, key, id, ttl)
				if err != nil {
					return err
				}
				return a.printLease(lease)
			})
		}),
	}
	flags.register(cmd.Flags(), false)
	cmd.Flags().DurationVar(&ttl, "ttl", 0, "new time of the lease (default: the one that it has)")
	return cmd
}

// onLease calls do for a lease that is named without its token.
func (a *app) onLease(name string, flags grantFlags, do func(*client.Client, publish.Key, publish.LeaseID) error) error {
	key, id, err := a.keyAndLease(name, flags)
	if err != nil {
		return err
	}
	c, err := a.newClient(quickRetry)
	if err != nil {
		return err
	}
	defer c.Close()
	return do(c, key, id)
}

// keyAndLease reads what names a lease without its token.
func (a *app) keyAndLease(name string, flags grantFlags) (publish.Key, publish.LeaseID, error) {
	key, err := a.key(name)
	if err != nil {
		return "", publish.LeaseID{}, err
	}
	lease, err := a.lease(flags)
	if err == nil && lease.LeaseID.IsZero() {
		err = usageError{errors.New("name the lease: PAWL_LEASE_ID, or --lease-file with what `pawl acquire --json` printed")}
	}
	return key, lease.LeaseID, err
}
