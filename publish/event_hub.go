package publish

import (
	"context"
	"errors"
	"sync"
	"time"
)

// readerBatches bounds what waits for one reader. Readers share the batches, so together they hold little more than one does.
const readerBatches = 16

// eventHub reads new events once for all that follow them in this process. It reads as long as somebody follows.
type eventHub struct {
	unread signal // raised when there may be new events

	mu      sync.Mutex
	at      EventCursor // up to where readers were told
	known   bool        // that at is where the feed was when the first reader came
	readers map[*eventReader]struct{}
}

// eventReader receives events from a cursor on.
type eventReader struct {
	from EventCursor
	// batches are in order and without gaps. It is closed when the reader takes them too slowly: then it goes back to the store.
	batches chan []Event
}

// join begins to receive what follows the reader's from.
func (h *eventHub) join(ctx context.Context, store EventStore) (*eventReader, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.known {
		h.mu.Unlock()
		page, err := store.Events(ctx, EventsRequest{Reach: Everything, Limit: 1})
		h.mu.Lock()
		if err != nil {
			return nil, err
		}
		if !h.known {
			h.at, h.known = *page.Next, true
			// What came between that read and now woke nobody, since nobody was there.
			h.unread.raise()
		}
	}
	r := &eventReader{from: h.at, batches: make(chan []Event, readerBatches)}
	if h.readers == nil {
		h.readers = map[*eventReader]struct{}{}
	}
	h.readers[r] = struct{}{}
	return r, nil
}

// leave ends it. The reader may have been let go already.
func (h *eventHub) leave(r *eventReader) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.readers, r)
}

// place is where to read on, unless nobody would hear of it.
func (h *eventHub) place() (at EventCursor, wanted bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.readers) == 0 {
		h.known = false
	}
	return h.at, h.known
}

// hand gives a batch that follows at to all readers. One that has no room is let go.
func (h *eventHub) hand(batch []Event, at EventCursor) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.at = at
	for r := range h.readers {
		select {
		case r.batches <- batch:
		default:
			h.letGo(r)
		}
	}
}

// letGoAll makes all readers go back to the store, each from its own cursor.
func (h *eventHub) letGoAll() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for r := range h.readers {
		h.letGo(r)
	}
	h.known = false
}

func (h *eventHub) letGo(r *eventReader) {
	close(r.batches)
	delete(h.readers, r)
}

// hand reads new events, once for all readers, when it is woken and at every poll. While that fails it is logged once, and streams stay open.
func (s *Service) hand(ctx context.Context, poll time.Duration) {
	failing := false
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.hub.unread.raised():
		case <-time.After(poll):
		}
		at, wanted := s.hub.place()
		if !wanted {
			continue
		}
		page, err := s.readEvents(ctx, EventsRequest{Reach: Everything, After: &at, Limit: MaxPageSize})
		switch {
		case errors.Is(err, ErrCursorExpired):
			s.hub.letGoAll()
		case err != nil && !failing && ctx.Err() == nil:
			s.log().WarnContext(ctx, "events_not_read", "error", err)
		case err == nil && len(page.Events) > 0:
			s.hub.hand(page.Events, *page.Next)
		}
		if failing = err != nil; len(page.Events) == MaxPageSize {
			s.hub.unread.raise()
		}
	}
}
