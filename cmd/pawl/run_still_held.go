package main

import (
	"context"
	"time"

	"github.com/pawlhq/pawl/client"
)

// renewalPatience is how long a renewal before a publish may take. A server that takes longer may still fence the publish itself.
const renewalPatience = 2 * time.Second

// stillHeld looks at the lease before something is uploaded or published. A process that was suspended, by Ctrl-Z or with its
// machine, may have slept past its lease: then the server is asked first. The fence alone would let it publish until the next holder has.
func (w worker) stillHeld(ctx context.Context) error {
	if w.isLost() {
		return w.fenced(ctx)
	}
	lease := w.keeper.Lease()
	if lease.Remaining() > 0 {
		return nil
	}
	renewing, cancel := context.WithTimeout(ctx, renewalPatience)
	defer cancel()
	_, err := w.client.Renew(renewing, lease.Key, lease.LeaseID, 0)
	switch {
	case client.GrantIsOver(err):
		return w.fencedBy(ctx, err)
	case ctx.Err() != nil:
		return context.Cause(ctx)
	}
	return nil // It is ours again, or nobody knows: then the fence decides.
}
