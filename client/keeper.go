package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/pawlhq/pawl/publish"
)

// ErrLeaseExpired is the cause of a Keeper's context when no renewal succeeded for a whole TTL. Another holder may
// have been granted the key since; whether a publish is still good is for the server to say.
var ErrLeaseExpired = errors.New("lease expired by the own clock: no renewal was answered in time")

// Keeper renews a lease in the background, at a third of its TTL.
//
// It counts the remaining time on the process's monotonic clock, from the moment that the last good renewal was
// sent. That clock stands still while a machine sleeps, and a paused process looks at no clock at all: so a lease
// that looks good here may be lost. Only the fence, at the publish, decides.
type Keeper struct {
	client *Client
	ctx    context.Context
	fail   context.CancelCauseFunc
	stop   context.CancelFunc
	expiry *time.Timer // ends ctx when the lease runs out by the own clock
	lost   chan struct{}
	done   chan struct{}

	mu      sync.Mutex
	lease   Lease
	refused error
}

// KeepLease starts to renew a lease until Stop. The Keeper's Context is a child of ctx.
func (c *Client) KeepLease(ctx context.Context, lease Lease) *Keeper {
	k := &Keeper{client: c, lease: lease, lost: make(chan struct{}), done: make(chan struct{})}
	k.ctx, k.fail = context.WithCancelCause(ctx)
	k.expiry = time.AfterFunc(lease.Remaining(), func() { k.fail(ErrLeaseExpired) })
	var renewing context.Context
	renewing, k.stop = context.WithCancel(context.WithoutCancel(ctx))
	go k.run(renewing)
	return k
}

// Context ends when the lease is lost or has expired by the own clock; context.Cause tells which (an error of kind
// lease-lost, or ErrLeaseExpired). Work that wants no more than one holder at a time runs under it.
func (k *Keeper) Context() context.Context { return k.ctx }

// Lost is closed when the server says that the lease was superseded or released. Mere expiry doesn't close it: an
// expired lease that nobody replaced is renewed as soon as the server is back.
func (k *Keeper) Lost() <-chan struct{} { return k.lost }

// Err is the server's refusal once Lost is closed, else nil.
func (k *Keeper) Err() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.refused
}

// Lease is the lease as of its last renewal.
func (k *Keeper) Lease() Lease {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.lease
}

// Stop ends the renewing and returns when it has ended. The lease stays; it can be stopped again.
func (k *Keeper) Stop() {
	k.stop()
	<-k.done
	k.expiry.Stop()
	k.fail(context.Canceled)
}

func (k *Keeper) run(ctx context.Context) {
	defer close(k.done)
	for failures := 0; ; {
		if !sleep(ctx, k.untilNext(failures)) {
			return
		}
		switch err := k.renew(ctx); {
		case err == nil:
			failures = 0
		case errors.Is(err, publish.ErrLeaseLost), errors.Is(err, publish.ErrNotFound):
			k.mu.Lock()
			k.refused = err
			k.mu.Unlock()
			k.fail(err)
			close(k.lost)
			return
		case ctx.Err() != nil:
			return
		default:
			failures++
			k.client.log.WarnContext(ctx, "renewal_failed", "key", k.Lease().Key, "token", k.Lease().Token,
				"remaining_ms", k.Lease().Remaining().Milliseconds(), "error", err)
		}
	}
}

// untilNext is the pause before the next renewal: a third of the TTL after the last good one was sent, or a
// shorter one after a failure.
func (k *Keeper) untilNext(failures int) time.Duration {
	lease := k.Lease()
	if failures > 0 {
		return min(lease.TTL()/10, 100*time.Millisecond<<min(failures-1, 6))
	}
	return max(lease.TTL()/3-time.Since(lease.Sent), 0)
}

// renew sends one renewal. It takes at most a third of the TTL, so that a silent server leaves time for others.
func (k *Keeper) renew(ctx context.Context) error {
	lease := k.Lease()
	ctx, cancel := context.WithTimeout(ctx, max(lease.TTL()/3, 250*time.Millisecond))
	defer cancel()
	var renewed Lease
	call := k.client.renewal(lease.Key, lease.LeaseID, 0, &renewed)
	body, err := json.Marshal(call.body)
	if err != nil {
		return err
	}
	err = k.client.once(ctx, call, body)
	var answer *answerError
	switch {
	case errors.As(err, &answer) && !answer.foreign:
		return answer.refusal
	case err != nil:
		return fmt.Errorf("renew: %w", err)
	}
	renewed.LeaseID = lease.LeaseID
	k.mu.Lock()
	k.lease = renewed
	k.mu.Unlock()
	k.expiry.Reset(renewed.Remaining())
	return nil
}
