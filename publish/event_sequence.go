package publish

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"
)

// Defaults of EventsOptions.
const (
	DefaultEventsPoll = 500 * time.Millisecond
	DefaultEventsKeep = 720 * time.Hour
)

const (
	// numberAtOnce bounds one transaction of the sequencer, and trimAtOnce one of the trimming.
	numberAtOnce = 1000
	trimAtOnce   = 1000
	// numberPause lets events that come in quick succession share a transaction.
	numberPause = 10 * time.Millisecond
	// trimEvery is the time between two looks for old events, unless events are kept for less than that.
	trimEvery = time.Minute
	// listenPause is the time until listening is tried again.
	listenPause = 5 * time.Second
)

// EventsOptions say how a process takes part in the event feed.
type EventsOptions struct {
	// Poll is how often to look for events that nobody told of, as those of a replica that was killed right after its commit; 0 means DefaultEventsPoll.
	Poll time.Duration
	// Keep is how long events are kept; 0 means DefaultEventsKeep.
	Keep time.Duration
	// Numbered is told of each numbering, for metrics; nil tells nobody.
	Numbered func(NumberedEvents)
}

// RunEvents numbers events, trims old ones, and hands new ones to those that follow in this process, until ctx ends. Every server runs it, once.
func (s *Service) RunEvents(ctx context.Context, opts EventsOptions) {
	opts.Poll, opts.Keep = cmp.Or(opts.Poll, DefaultEventsPoll), cmp.Or(opts.Keep, DefaultEventsKeep)
	if opts.Numbered == nil {
		opts.Numbered = func(NumberedEvents) {}
	}
	var running sync.WaitGroup
	running.Go(func() { s.sequence(ctx, opts) })
	running.Go(func() { s.trim(ctx, opts.Keep) })
	running.Go(func() { s.listen(ctx) })
	running.Go(func() { s.hand(ctx, opts.Poll) })
	running.Wait()
}

// sequence numbers events when this process has made some, and at every poll. While it fails, that is logged once.
func (s *Service) sequence(ctx context.Context, opts EventsOptions) {
	failing := false
	for {
		numbered, err := s.Pointers.NumberEvents(ctx, numberAtOnce)
		if ctx.Err() != nil {
			return
		}
		if err != nil && !failing {
			s.log().WarnContext(ctx, "events_not_numbered", "error", err)
		}
		failing = err != nil
		opts.Numbered(numbered)
		if numbered.Count > 0 {
			s.hub.unread.raise()
		}
		if numbered.More {
			continue
		}
		if !pause(ctx, numberPause) {
			return
		}
		if numbered.Busy {
			continue // The other one may have begun before this process's own events were there.
		}
		select {
		case <-ctx.Done():
			return
		case <-s.unnumbered.raised():
		case <-time.After(opts.Poll):
		}
	}
}

// trim removes old events, some at a time.
func (s *Service) trim(ctx context.Context, keep time.Duration) {
	wait := min(trimEvery, keep)
	for pause(ctx, wait) {
		n, err := s.Pointers.TrimEvents(ctx, keep, trimAtOnce)
		if err != nil && ctx.Err() == nil {
			s.log().WarnContext(ctx, "events_not_trimmed", "error", err)
		}
		if wait = min(trimEvery, keep); n == trimAtOnce {
			wait = numberPause
		}
	}
}

// listen wakes the hub when another process has numbered events. Polling goes on beside it, so a wake that doesn't come costs time alone.
func (s *Service) listen(ctx context.Context) {
	failing := false
	for {
		err := s.Pointers.ListenEvents(ctx, s.hub.unread.raise)
		switch {
		case ctx.Err() != nil:
			return
		case errors.Is(err, errors.ErrUnsupported):
			s.log().InfoContext(ctx, "events_polled", "cause", err)
			return
		case !failing:
			s.log().WarnContext(ctx, "events_not_listened", "error", err)
		}
		failing = true
		if !pause(ctx, listenPause) {
			return
		}
	}
}

// pause waits, and reports whether ctx goes on.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// signal is raised by many and waited for by one, who sees it once, however often it was raised meanwhile.
type signal struct {
	once sync.Once
	c    chan struct{}
}

func (s *signal) raised() <-chan struct{} {
	s.once.Do(func() { s.c = make(chan struct{}, 1) })
	return s.c
}

func (s *signal) raise() {
	s.raised()
	select {
	case s.c <- struct{}{}:
	default:
	}
}
