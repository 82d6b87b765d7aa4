package main

import (
	"context"
	"fmt"
	"time"
)

// overheldError is a lease that was held for as long as --max-hold allows.
type overheldError struct{ limit time.Duration }

func (overheldError) exitCode() int { return exitOverheld }
func (e overheldError) Error() string {
	return fmt.Sprintf("the lease was held for %s, which is all that --max-hold allows; nothing is published", e.limit)
}

// limitHold ends the renewing for good when --max-hold has passed, and the command. Another worker can have the key then, whatever
// this one does.
func (w worker) limitHold(ctx context.Context) {
	limit := time.NewTimer(w.flags.maxHold)
	defer limit.Stop()
	select {
	case <-ctx.Done():
		return
	case <-limit.C:
	}
	w.keeper.Hold()
	close(w.hold.over)
	w.app.notice("the lease of token %d was held for %s (--max-hold); ending the work", w.lease.Token, w.flags.maxHold)
	w.hold.tell(ctx, orderEnd)
}

// untilOver makes a context that ends when --max-hold passes or the lease is known to be lost, until done is called.
func (w worker) untilOver(ctx context.Context) (_ context.Context, done func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := beside(ctx, func(ctx context.Context) {
		select {
		case <-w.hold.over:
			cancel(overheldError{w.flags.maxHold})
		case <-w.keeper.Lost():
			cancel(w.keeper.Err())
		case <-ctx.Done():
		}
	})
	return ctx, func() {
		stop()
		cancel(nil)
	}
}
