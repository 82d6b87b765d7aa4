package main

import (
	"context"
	"time"
)

// pauseWhileAway stops the command when the lease has run out by the own clock because no renewal was answered, and lets it go on
// when one is. A lease that turns out to be lost is supervise's business.
func (w worker) pauseWhileAway(ctx context.Context) {
	defer w.hold.paused.Store(false)
	for {
		renewed := w.keeper.Renewed() // before the look at what remains, so that no renewal is missed
		if left := w.keeper.Lease().Remaining(); left > 0 || w.hold.silent.Load() {
			select {
			case <-ctx.Done():
				return
			case <-w.keeper.Lost():
				return
			case <-renewed:
			case <-time.After(min(max(left, 10*time.Millisecond), time.Second)):
			}
			continue
		}
		w.hold.paused.Store(true)
		w.app.notice("the server doesn't answer, and the lease of token %d has run out; the command is paused until a renewal is answered (--when-away)", w.lease.Token)
		w.hold.tell(ctx, orderPause)
		select {
		case <-ctx.Done():
			return
		case <-w.keeper.Lost():
			return
		case <-renewed:
		}
		w.hold.paused.Store(false)
		w.app.notice("the lease of token %d is renewed; the command goes on", w.lease.Token)
		w.hold.tell(ctx, orderGoOn)
	}
}
