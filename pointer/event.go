package pointer

import (
	"context"
	"time"

	"github.com/pawlhq/pawl/publish"
)

// Rows are looked at in the order of the index, and no more of them than one page may: where all are wanted, that is the page itself.
const (
	feedSQL = `'newest', f.epoch || '-' || f.n, 'oldest', f.trimmed_epoch || '-' || f.trimmed_n`

	eventsAfterSQL = `
WITH looked AS MATERIALIZED (SELECT * FROM pawl.events WHERE (epoch, n) > ($1, $2) ORDER BY epoch, n LIMIT $6),
	chosen AS MATERIALIZED (SELECT * FROM looked WHERE key IS NULL OR pawl.in_ranges(key, $3, $4) ORDER BY epoch, n LIMIT $5)
SELECT jsonb_build_object(` + feedSQL + `,
	'events', (SELECT jsonb_agg(pawl.event_json(c::pawl.events) ORDER BY epoch, n) FROM chosen c),
	'last', (SELECT epoch || '-' || n FROM looked ORDER BY epoch DESC, n DESC LIMIT 1), 'looked', (SELECT count(*) FROM looked))
FROM pawl.event_feed f`

	eventsBeforeSQL = `
WITH looked AS MATERIALIZED (SELECT * FROM pawl.events WHERE (epoch, n) < ($1, $2) ORDER BY epoch DESC, n DESC LIMIT $6),
	chosen AS MATERIALIZED (SELECT * FROM looked WHERE key IS NULL OR pawl.in_ranges(key, $3, $4) ORDER BY epoch DESC, n DESC LIMIT $5)
SELECT jsonb_build_object(` + feedSQL + `,
	'events', (SELECT jsonb_agg(pawl.event_json(c::pawl.events) ORDER BY epoch DESC, n DESC) FROM chosen c),
	'last', (SELECT epoch || '-' || n FROM looked ORDER BY epoch, n LIMIT 1), 'looked', (SELECT count(*) FROM looked))
FROM pawl.event_feed f`
)

// foundEvents is what the statements above answer.
type foundEvents struct {
	Events []publish.Event     `json:"events"`
	Newest publish.EventCursor `json:"newest"`
	// Oldest is the newest event that was trimmed: the first cursor that misses nothing.
	Oldest publish.EventCursor `json:"oldest"`
	// Last is the one farthest from the cursor that was looked at, nil when there was none.
	Last   *publish.EventCursor `json:"last"`
	Looked int                  `json:"looked"`
}

// Events returns a page of events.
func (s *Store) Events(ctx context.Context, req publish.EventsRequest) (publish.EventsPage, error) {
	sql, from := eventsAfterSQL, publish.NewestEvent
	switch {
	case req.After != nil:
		from = *req.After
	case req.Before != nil:
		sql, from = eventsBeforeSQL, *req.Before
	}
	search := req.Limit
	if req.Prefix != "" || !req.Reach.All() {
		search = publish.MaxEventsSearched
	}
	lower, upper := ranges(req.Reach, req.Prefix)
	var found foundEvents
	if _, err := s.read(ctx, &found, sql, from.Epoch, from.N, lower, upper, req.Limit, search); err != nil {
		return publish.EventsPage{}, err
	}
	page := publish.EventsPage{Events: found.Events}
	full := len(found.Events) == req.Limit
	switch {
	case req.Before != nil:
		if full {
			page.Next = &page.Events[len(page.Events)-1].Cursor
		} else if found.Looked == search {
			page.Next = found.Last
		}
	case req.After == nil:
		page.Next = &found.Newest
	case *req.After != publish.OldestEvent && req.After.Compare(found.Oldest) < 0:
		return publish.EventsPage{}, &publish.Error{Code: publish.ErrCursorExpired, Oldest: &found.Oldest}
	case req.After.Compare(found.Newest) > 0:
		return publish.EventsPage{}, &publish.Error{Code: publish.ErrCursorExpired, Newest: &found.Newest}
	case full:
		page.Next = &page.Events[len(page.Events)-1].Cursor
	case found.Last != nil:
		page.Next = found.Last
	default:
		page.Next = req.After
	}
	return page, nil
}

const numberEventsSQL = `SELECT pawl.number_events($1)`

// NumberEvents numbers events that wait for it.
func (s *Store) NumberEvents(ctx context.Context, limit int) (publish.NumberedEvents, error) {
	answer, err := s.change(ctx, numberEventsSQL, limit)
	return answer.Numbered, err
}

const trimEventsSQL = `SELECT pawl.trim_events($1, $2)`

// TrimEvents removes old events.
func (s *Store) TrimEvents(ctx context.Context, keep time.Duration, limit int) (int, error) {
	answer, err := s.change(ctx, trimEventsSQL, keep.Milliseconds(), limit)
	return answer.Trimmed, err
}
