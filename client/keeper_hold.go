package client

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/pawlhq/pawl/publish"
)

// holding is whether a Keeper renews, and who waits for its next renewal.
type holding struct {
	mu      sync.Mutex
	holds   int           // how many want no renewal
	changed chan struct{} // closed when holds becomes or leaves 0
	renewed chan struct{} // closed by the next good renewal
}

func newHolding() *holding {
	return &holding{changed: make(chan struct{}), renewed: make(chan struct{})}
}

// Hold stops the renewing, though not what a Keeper says of the lease: it goes on to look whether another holder has taken the key,
// and closes Lost then. A renewal that is under way may still be answered. The returned function lets the renewing go on, at once; it
// may be called again, without effect. When several hold, it goes on once all of them let it.
func (k *Keeper) Hold() (goOn func()) {
	k.hold.add(1)
	return sync.OnceFunc(func() { k.hold.add(-1) })
}

// Renewed returns a channel that is closed by the next good renewal. Who wants to miss none asks for the next channel before
// looking at the Lease.
func (k *Keeper) Renewed() <-chan struct{} {
	k.hold.mu.Lock()
	defer k.hold.mu.Unlock()
	return k.hold.renewed
}

func (h *holding) add(n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	before := h.holds
	h.holds += n
	if (before == 0) != (h.holds == 0) {
		close(h.changed)
		h.changed = make(chan struct{})
	}
}

// tell closes the channel of a renewal.
func (h *holding) tell() {
	h.mu.Lock()
	defer h.mu.Unlock()
	close(h.renewed)
	h.renewed = make(chan struct{})
}

func (h *holding) state() (held bool, changed <-chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.holds > 0, h.changed
}

// next waits until it is time to ask the server again, and reports false when ctx ends before. The first question after a hold is
// asked at once.
func (k *Keeper) next(ctx context.Context, failures int) bool {
	held, changed := k.hold.state()
	if !held || failures > 0 {
		return k.pause(ctx, failures)
	}
	timer := time.NewTimer(k.Lease().TTL() / 3)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
	case <-changed:
	}
	return true
}

// ask renews the lease, or only looks at it while the renewing is held.
func (k *Keeper) ask(ctx context.Context) error {
	if held, _ := k.hold.state(); held {
		return k.inquire(ctx)
	}
	err := k.renew(ctx)
	if err == nil {
		k.hold.tell()
	}
	return err
}

// inquire asks who has the key, which extends no lease. It returns the same lease-lost as a renewal would.
func (k *Keeper) inquire(ctx context.Context) error {
	lease := k.Lease()
	ctx, cancel := context.WithTimeout(ctx, renewalLimit(lease))
	defer cancel()
	now, err := k.client.Lease(ctx, lease.Key)
	switch {
	case err != nil:
		return fmt.Errorf("look at the lease: %w", err)
	case now.Token == lease.Token && now.ExpiresAt != nil:
		return nil
	}
	return &publish.Error{
		Code: publish.ErrLeaseLost, Key: lease.Key, Token: lease.Token, GrantedToken: now.Token, Holder: now.Holder,
		Detail: "the lease was released, or another holder was granted the key",
	}
}
