package publish

import (
	"context"
	"errors"
	"strings"
	"time"
)

// MaxEventsWait bounds WaitEvents.
const MaxEventsWait = MaxPointerWait

// FollowEvents sends the events with the prefix and in the reach of a request that follow its After, in order and each once, until ctx ends, send fails, or they
// can't be read. After nil begins now; Before and Limit are of no use. send is told where to go on, too, which may be behind the last event that it was sent; it is
// called without events at the beginning, and whenever it was not called for idle. Its first call comes when the cursor was found to be good. It may keep what it gets, and must not change it.
//
// No connection to the database is held meanwhile. A caller that is slow, or far behind, reads from the store page by page, and few do so at once, so
// that many who come back together leave the database to workers.
func (s *Service) FollowEvents(ctx context.Context, req EventsRequest, idle time.Duration, send func(events []Event, at EventCursor) error) error {
	start, err := s.Events(ctx, EventsRequest{Reach: req.Reach, Prefix: req.Prefix, After: req.After, Limit: 1})
	if err != nil {
		return err
	}
	f := follower{service: s, reach: req.Reach, prefix: req.Prefix, idle: idle, send: send, at: *start.Next}
	if req.After != nil {
		f.at = *req.After
	}
	if err := send(nil, f.at); err != nil {
		return err
	}
	for {
		if err := f.follow(ctx); !errors.Is(err, errBehind) {
			return err
		}
	}
}

// errBehind tells that a follower was too slow for the hub.
var errBehind = errors.New("events came faster than they were taken")

// follower is one caller of FollowEvents.
type follower struct {
	service *Service
	reach   Reach
	prefix  string
	idle    time.Duration
	send    func([]Event, EventCursor) error
	at      EventCursor // up to where everything was sent
}

// follow catches up with the hub, and then takes what it hands out.
func (f *follower) follow(ctx context.Context) error {
	reader, err := f.service.hub.join(ctx, f.service.Pointers)
	if err != nil {
		return err
	}
	defer f.service.hub.leave(reader)
	if f.at.Compare(reader.from) > 0 { // The hub may be behind for a moment. Where the feed is, the cursor is no good any more.
		if err := f.catchUp(ctx, f.at, f.lookNear); err != nil {
			return err
		}
	}
	for look := f.lookNear; f.at.Compare(reader.from) < 0; look = f.lookFar {
		if err := f.catchUp(ctx, reader.from, look); err != nil {
			return err
		}
	}
	timer := time.NewTimer(f.idle)
	defer timer.Stop()
	for {
		var events []Event
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case batch, open := <-reader.batches:
			if !open {
				return errBehind
			}
			if events = f.choose(batch); len(events) == 0 {
				continue
			}
		case <-timer.C:
		}
		if err := f.send(events, f.at); err != nil {
			return err
		}
		timer.Reset(f.idle)
	}
}

// catchUp reads a page from the store. Where there is none any more, what precedes the hub's place was trimmed.
func (f *follower) catchUp(ctx context.Context, to EventCursor, look func(context.Context) (EventsPage, error)) error {
	page, err := look(ctx)
	if err != nil {
		return err
	}
	if f.at == *page.Next {
		f.at = to
		return nil
	}
	f.at = *page.Next
	if len(page.Events) == 0 {
		return nil
	}
	return f.send(page.Events, f.at)
}

// nearEvents is how far behind a follower may be that reads from the store at once.
const nearEvents = 100

// lookNear reads a small page. Most who come back have missed a few events; they don't wait for those who have missed many.
func (f *follower) lookNear(ctx context.Context) (EventsPage, error) {
	return f.service.Events(ctx, EventsRequest{Reach: f.reach, Prefix: f.prefix, After: &f.at, Limit: nearEvents})
}

// lookFar reads a whole page, when it is this follower's turn.
func (f *follower) lookFar(ctx context.Context) (EventsPage, error) {
	select {
	case f.service.catchingUp() <- struct{}{}:
	case <-ctx.Done():
		return EventsPage{}, context.Cause(ctx)
	}
	defer func() { <-f.service.catchingUp() }()
	return f.service.Events(ctx, EventsRequest{Reach: f.reach, Prefix: f.prefix, After: &f.at, Limit: MaxPageSize})
}

// choose gives the events of a batch that are new here, and for this reader.
func (f *follower) choose(batch []Event) (events []Event) {
	for _, e := range batch {
		if e.Cursor.Compare(f.at) <= 0 {
			continue // A page of the store had it already.
		}
		f.at = e.Cursor
		if e.Key == "" || strings.HasPrefix(string(e.Key), f.prefix) && f.reach.Has(e.Key) {
			events = append(events, e)
		}
	}
	return events
}

// catchUpAtOnce bounds how many followers that are far behind read from the store at once.
const catchUpAtOnce = 2

func (s *Service) catchingUp() chan struct{} {
	s.catchUpOnce.Do(func() { s.catchUp = make(chan struct{}, catchUpAtOnce) })
	return s.catchUp
}

// errEnough ends a follower that has what it wants.
var errEnough = errors.New("enough")

// WaitEvents returns a page of events after a cursor as soon as there is one that isn't empty, or an empty one when wait is over or ctx ends. An After of nil waits for
// what follows now. With a Before there is nothing to wait for.
func (s *Service) WaitEvents(ctx context.Context, req EventsRequest, wait time.Duration) (EventsPage, error) {
	if wait < 0 || wait > MaxEventsWait {
		return EventsPage{}, invalid("wait", "must be from 0s to %s", MaxEventsWait)
	}
	if wait > 0 && req.Before != nil {
		return EventsPage{}, invalid("wait", "can't stand together with before: what precedes an event is there already; leave one of them out")
	}
	page, err := s.Events(ctx, req)
	if err != nil || wait == 0 || len(page.Events) > 0 {
		return page, err
	}
	limit, err := pageLimit(req.Limit)
	if err != nil {
		return page, err
	}
	begun := false
	err = s.FollowEvents(ctx, EventsRequest{Reach: req.Reach, Prefix: req.Prefix, After: page.Next}, wait, func(events []Event, at EventCursor) error {
		if !begun {
			begun = true
			return nil
		}
		page.Events, page.Next = events, &at
		if len(events) > limit {
			page.Events, page.Next = events[:limit], &events[limit-1].Cursor
		}
		return errEnough
	})
	if errors.Is(err, errEnough) || ctx.Err() != nil {
		return page, nil
	}
	return page, err
}
