package main

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/pawlhq/pawl/publish"
)

const (
	// settleIdle is how long a publish waits for uploads of which none ends. The server breaks off a body that brings no byte for
	// 30 seconds (web.DefaultBodyIdleTimeout), so what is pending for longer was left by a server that died.
	settleIdle = 35 * time.Second
	// settleGrace is how long after the command's end an upload may take to show at all.
	settleGrace = time.Second
	// settlePause is the pause between two questions.
	settlePause = 100 * time.Millisecond
)

// publishSettled publishes what the command has uploaded by itself, once it has arrived. ffmpeg, for one, waits for no answer: it
// exits with 0 while its last uploads are still being stored, and a publish at that moment is refused as incomplete. What has failed
// stays failed, and what nobody sends stays missing; so the wait ends when no upload is under way.
func (w worker) publishSettled(ctx context.Context, req publish.PublishRequest, uploadedItself bool) (publish.Receipt, error) {
	ended := time.Now()
	changed := ended
	var before []publish.Path
	told := false
	for {
		if w.hold.isOver() {
			return publish.Receipt{}, overheldError{w.flags.maxHold}
		}
		receipt, err := w.client.Publish(ctx, req)
		var refusal *publish.Error
		if !errors.As(err, &refusal) || refusal.Code != publish.ErrGenerationIncomplete {
			return receipt, err
		}
		now := time.Now()
		if !slices.Equal(before, refusal.Pending) {
			before, changed = refusal.Pending, now
		}
		mayCome := uploadedItself && len(refusal.Missing) > 0 && len(refusal.Failed) == 0 && now.Sub(ended) < settleGrace
		if len(refusal.Pending) == 0 && !mayCome || now.Sub(changed) > settleIdle {
			return receipt, err
		}
		if !told && len(refusal.Pending) > 0 {
			told = true
			w.app.notice("the command ended before its uploads; waiting for %d of them", len(refusal.Pending))
		}
		select {
		case <-time.After(settlePause):
		case <-w.keeper.Lost():
			return receipt, w.fenced(ctx)
		case <-ctx.Done():
			return receipt, context.Cause(ctx)
		}
	}
}
