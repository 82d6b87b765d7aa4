package main

import (
	"context"
	"iter"
	"sync"
)

// inParallel calls do for every item, for up to workers of them at once. The first error ends the context of the calls that run,
// and is returned when all have ended. When ctx ends, its cause is returned.
func inParallel[T any](ctx context.Context, workers int, items iter.Seq[T], do func(context.Context, T) error) error {
	running, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	next := make(chan T)
	var group sync.WaitGroup
	for range workers {
		group.Go(func() {
			for item := range next {
				if err := do(running, item); err != nil {
					cancel(err) // The first one counts.
				}
			}
		})
	}
	for item := range items {
		if running.Err() != nil {
			break
		}
		select {
		case next <- item:
			continue
		case <-running.Done():
		}
		break
	}
	close(next)
	group.Wait()
	if running.Err() == nil {
		return nil
	}
	return context.Cause(running)
}
