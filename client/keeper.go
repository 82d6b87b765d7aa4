package client

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/pawlhq/pawl/publish"
)

// ErrLeaseExpired is the cause of a Keeper's context when no renewal succeeded for a whole TTL. Another holder may
// have been granted the key since; whether a publish is still good is for the server to say.
var ErrLeaseExpired = errors.New("lease expired by the own clock: no renewal was answered in time")

// maxLook is how long a Keeper goes without a look at its clock.
const maxLook = time.Second

// Keeper renews a lease in the background, at a third of its TTL.
//
// It counts the remaining time from the moment that the last good renewal was sent, on a clock that goes on while the machine is
// suspended: on Linux the boot-time clock, elsewhere the greater progress of the monotonic and the wall clock. Timers stand still meanwhile. So it
// looks at its clock at least every second, or tenth of the TTL, and whenever Context is asked for: a machine that wakes up finds the
// context ended within that time. A process that is stopped looks at no clock at all, so a lease that looks good here may be
// lost. Only the fence, at the publish, decides.
type Keeper struct {
	client *Client
	ctx    context.Context
	fail   context.CancelCauseFunc
	stop   context.CancelFunc
	lost   chan struct{}
	both   sync.WaitGroup // run and watch
	hold   *holding

	mu      sync.Mutex
	lease   Lease
	refused error
	pending pendingRenewal
}

// pendingRenewal is one that waits for its answer.
type pendingRenewal struct {
	since  moment
	limit  time.Duration
	cancel context.CancelFunc // nil for none
}

// KeepLease starts to renew a lease until Stop. The Keeper's Context is a child of ctx.
func (c *Client) KeepLease(ctx context.Context, lease Lease) *Keeper {
	if lease.sent.clock == nil {
		lease.sent = moment{clock: c.clock, at: c.clock() - lease.age()}
	}
	k := &Keeper{client: c, lease: lease, lost: make(chan struct{}), hold: newHolding()}
	k.ctx, k.fail = context.WithCancelCause(ctx)
	var renewing context.Context
	renewing, k.stop = context.WithCancel(context.WithoutCancel(ctx))
	k.both.Go(func() { k.run(renewing) })
	k.both.Go(func() { k.watch(renewing) })
	return k
}

// Context ends when the lease is lost or has expired by the own clock; context.Cause tells which (an error of kind
// lease-lost or generation-collected, or ErrLeaseExpired). Work that wants no more than one holder at a time runs under it.
func (k *Keeper) Context() context.Context {
	k.look()
	return k.ctx
}

// Lost is closed when the server says that the lease was superseded or released, or that its generation was given up. Mere expiry doesn't close it: an
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
	k.both.Wait()
	k.fail(context.Canceled)
}

// run renews until the lease is lost or Stop.
func (k *Keeper) run(ctx context.Context) {
	defer k.stop() // Nothing is left to watch.
	for failures := 0; ; {
		if !k.next(ctx, failures) {
			return
		}
		k.look() // Before a renewal makes an expiry unseen.
		switch err := k.ask(ctx); {
		case err == nil:
			failures = 0
		case GrantIsOver(err):
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

// GrantIsOver reports whether err, which a renewal has returned, is the server's word that nothing comes of its grant any more: the lease is lost,
// its generation was given up, or the server doesn't know the key. A not-found that isn't about the key, as of a proxy or a wrong address, is no such word.
func GrantIsOver(err error) bool {
	return errors.Is(err, publish.ErrLeaseLost) || errors.Is(err, publish.ErrGenerationCollected) || namesKey(err)
}

// pause waits for the next renewal: until a third of the TTL after the last good one was sent, or for a shorter time after a failure.
// It reports whether ctx let it.
func (k *Keeper) pause(ctx context.Context, failures int) bool {
	lease := k.Lease()
	from, wait := lease.sent, lease.TTL()/3
	if failures > 0 {
		from, wait = lease.sent.clock.now(), min(lease.TTL()/10, 100*time.Millisecond<<min(failures-1, 6))
	}
	for {
		left := wait - from.age()
		if left <= 0 {
			return ctx.Err() == nil
		}
		if !sleep(ctx, min(left, lookEvery(lease))) {
			return false
		}
	}
}

// renew sends one renewal. It takes at most a third of the TTL, so that a silent server leaves time for others.
func (k *Keeper) renew(ctx context.Context) error {
	lease := k.Lease()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	k.setPending(pendingRenewal{since: lease.sent.clock.now(), limit: renewalLimit(lease), cancel: cancel})
	defer k.setPending(pendingRenewal{})
	renewed, err := k.client.renewOnce(ctx, lease)
	if err != nil {
		return err
	}
	k.mu.Lock()
	k.lease = renewed
	k.mu.Unlock()
	return nil
}

func (k *Keeper) setPending(p pendingRenewal) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.pending = p
}

// watch looks at the clock again and again.
func (k *Keeper) watch(ctx context.Context) {
	for {
		left := k.look()
		wait := lookEvery(k.Lease())
		if left > 0 {
			wait = min(wait, left)
		}
		if !sleep(ctx, wait) {
			return
		}
	}
}

// lookEvery is how long the clock is left alone: timers don't count the time of a suspension.
func lookEvery(lease Lease) time.Duration {
	return min(maxLook, max(lease.TTL()/10, 10*time.Millisecond))
}

// look ends the context of a lease that has run out, and a renewal that has waited for its answer for too long. It returns how long
// both have left; after an expiry, how long the renewal has, if any.
func (k *Keeper) look() (left time.Duration) {
	k.mu.Lock()
	lease, pending := k.lease, k.pending
	k.mu.Unlock()
	if left = lease.Remaining(); left <= 0 {
		k.fail(ErrLeaseExpired)
	}
	if pending.cancel != nil {
		waits := pending.limit - pending.since.age()
		if waits <= 0 {
			pending.cancel()
		} else if left <= 0 || waits < left {
			left = waits
		}
	}
	return left
}
