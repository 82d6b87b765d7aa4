package publish

import (
	"context"
	"errors"
	"time"
)

// EventsRequest asks for one page of events: those after a cursor, oldest first, or those before one, newest first. With neither, the
// page is empty and its Next is where events go on from now.
type EventsRequest struct {
	// Reach is as that of ListRequest; restored events are always included.
	Reach Reach
	// Prefix is a plain string prefix of keys, as in ListRequest; restored events are always included.
	Prefix string
	// After is where to go on; OldestEvent begins at the oldest event that is kept.
	After *EventCursor
	// Before is where to go back from; NewestEvent begins at the newest one.
	Before *EventCursor
	// Limit is the number of events, from 1 to MaxPageSize; 0 means DefaultPageSize.
	Limit int
}

// MaxEventsSearched bounds how many events one page looks at: where few have the prefix or are in the reach, a page is short and yet has a Next.
const MaxEventsSearched = 2000

// EventsPage is one page of events.
type EventsPage struct {
	Events []Event `json:"events"`
	// Next is where the next page begins. Oldest first there always is one, and a page that is empty with the Next that was asked for is the end
	// for now; newest first it is nil on the last page.
	Next *EventCursor `json:"next,omitempty"`
}

// NumberedEvents is what one call of NumberEvents has done.
type NumberedEvents struct {
	// Count is how many events were numbered.
	Count int `json:"count"`
	// More tells that more are waiting.
	More bool `json:"more"`
	// Busy tells that another process is numbering: it may have begun before the caller's own events were there.
	Busy bool `json:"busy"`
	// WaitedMillis is how long the oldest of them had waited.
	WaitedMillis int64 `json:"waited_ms"`
}

// EventStore is the part of PointerStore that tells what happened. An event is recorded in the transaction of its change, so there is one exactly when the
// change was committed. It can be read once it is numbered: numbers are given one after another, without gaps, in an order in which the
// events of one key are as they were committed, and what anybody reads is a prefix of all events.
type EventStore interface {
	// Events returns a page. An After that precedes what was trimmed is cursor-expired, with Oldest, and one that is ahead of all events with Newest.
	Events(ctx context.Context, req EventsRequest) (EventsPage, error)
	// NumberEvents numbers at most limit events that wait for it, and wakes those that listen. It may be called by any number of processes:
	// one at a time does it, the others return Busy at once. After the epoch was raised it puts a restored event first; it notices a restore as a grant does.
	NumberEvents(ctx context.Context, limit int) (NumberedEvents, error)
	// TrimEvents removes the oldest events that happened longer than keep ago, at most limit of them, and tells how many those were.
	TrimEvents(ctx context.Context, keep time.Duration, limit int) (int, error)
	// ListenEvents calls woken after events were numbered, by whatever process, until ctx ends or it can't: then with an error of kind
	// unavailable. It is no more than a hint, and may miss some. Where it can't be done at all the error is errors.ErrUnsupported.
	ListenEvents(ctx context.Context, woken func()) error
}

// Events returns one page of events.
func (s *Service) Events(ctx context.Context, req EventsRequest) (EventsPage, error) {
	if _, err := ParsePrefix(req.Prefix); err != nil {
		return EventsPage{}, err
	}
	if req.After != nil && req.Before != nil {
		return EventsPage{}, invalid("before", "can't stand together with after; send one of them")
	}
	limit, err := pageLimit(req.Limit)
	if err != nil {
		return EventsPage{}, err
	}
	req.Limit = limit
	page, err := s.readEvents(ctx, req)
	return page, s.refused(ctx, err)
}

// readEvents reads a page. A cursor that is ahead of all events is looked at again after a numbering: a restore that nobody had noticed looks the same, but
// with its epoch the cursor of a lost history is good.
func (s *Service) readEvents(ctx context.Context, req EventsRequest) (EventsPage, error) {
	page, err := s.Pointers.Events(ctx, req)
	if refusal, ok := errors.AsType[*Error](err); !ok || refusal.Newest == nil {
		return page, err
	}
	for {
		numbered, err := s.Pointers.NumberEvents(ctx, numberAtOnce)
		if err != nil {
			return EventsPage{}, err
		}
		if !numbered.Busy || !pause(ctx, numberPause) {
			return s.Pointers.Events(ctx, req)
		}
	}
}
