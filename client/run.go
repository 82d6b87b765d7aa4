package client

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"github.com/pawlhq/pawl/publish"
)

// DefaultTTL is how long the lease of Run lasts without a renewal, unless it is told otherwise.
const DefaultTTL = 30 * time.Second

// running is what Run knows of a lease that work was given.
type running struct {
	ctx       context.Context // Run's own
	keeper    *Keeper
	published atomic.Bool // a final publish was accepted
}

// Run does work under the lease of a key: it acquires the key, renews the lease while work runs, and releases it when work returns, however
// that ends. The request for the lease has this machine and process as its holder, DefaultTTL, and doesn't wait for another holder (the
// error is lease-held then); change changes it.
//
// The context of work ends when the lease is lost (its cause is of kind publish.ErrLeaseLost, or publish.ErrGenerationCollected) or has run out by the own clock
// (ErrLeaseExpired), and with ctx. Run never leaves work behind: it returns when work has.
//
// Run doesn't publish by itself: work does, by lease.Publish, when its output is complete. Only work knows when that is, what the set
// must hold and what its receipt is good for; and a nil error alone must not make half an output current.
//
// Run returns the error of work. If the lease was lost or expired while work ran, and no final publish of it was accepted, what ended the lease is
// joined to that, also when work returned nil: then errors.Is(err, publish.ErrLeaseLost) or errors.Is(err, ErrLeaseExpired), and nobody takes work
// that was overtaken for a success. A worker that was paused and publishes too late gets publish.ErrStaleToken from its lease.Publish: an expected
// outcome, to be dropped and not repeated.
func (c *Client) Run(ctx context.Context, key publish.Key, work func(ctx context.Context, lease *Lease) error, change ...func(*publish.AcquireRequest)) error {
	req := publish.AcquireRequest{Key: key, Holder: defaultHolder(), TTL: DefaultTTL}
	for _, set := range change {
		set(&req)
	}
	lease, err := c.Acquire(ctx, req)
	if err != nil {
		return err
	}
	keeper := c.KeepLease(ctx, lease)
	lease.run = &running{ctx: ctx, keeper: keeper}
	defer c.giveBack(ctx, keeper) // Also when work panics.
	err = work(keeper.Context(), &lease)
	return lease.run.outcome(err)
}

// outcome joins the loss of the lease to the error of work.
func (r *running) outcome(err error) error {
	loss := context.Cause(r.keeper.Context()) // That looks at the clock: work may have slept through the end of its lease.
	switch {
	case loss == nil, !isLoss(loss):
		return err // The lease is good, or ctx has ended.
	case r.published.Load():
		return err
	}
	if refusal := r.keeper.Err(); refusal != nil && errors.Is(loss, ErrLeaseExpired) {
		loss = fmt.Errorf("%w: %w", loss, refusal) // It had expired first.
	}
	switch {
	case err == nil:
		return fmt.Errorf("the lease ended before a final publish: %w", loss)
	case errors.Is(err, loss):
		return err
	}
	return errors.Join(err, loss)
}

func isLoss(err error) bool {
	return errors.Is(err, ErrLeaseExpired) || GrantIsOver(err)
}

// giveBack ends the renewing, and releases the lease unless it is lost. Failing that, it expires.
func (c *Client) giveBack(ctx context.Context, keeper *Keeper) {
	keeper.Stop()
	if keeper.Err() != nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), abandonTimeout)
	defer cancel()
	lease := keeper.Lease()
	if err := c.Release(ctx, lease.Key, lease.LeaseID); err != nil {
		c.log.WarnContext(ctx, "lease_not_released", "key", lease.Key, "token", lease.Token, "error", err)
	}
}

// defaultHolder says which process has the lease.
func defaultHolder() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return fmt.Sprintf("%s:%d", host, os.Getpid())
}
