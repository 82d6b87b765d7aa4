package publishtest

import (
	"context"
	"strings"
	"time"

	"github.com/pawlhq/pawl/publish"
)

// eventRows are events, first those without a number.
type eventRows struct {
	unnumbered, numbered []publish.Event
	newest, trimmed      publish.EventCursor
	listeners            map[*func()]bool
}

// tell records an event in the transaction that calls it.
func (p *Pointers) tell(e publish.Event) { p.events.unnumbered = append(p.events.unnumbered, e) }

// Tell records n events as if so many changes had been made.
func (p *Pointers) Tell(n int, e publish.Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	e.At = at(p.now())
	for range n {
		p.tell(e)
	}
}

func (p *Pointers) tellPublished(r publish.Receipt, primary *publish.File) {
	e := publish.Event{
		Kind: publish.EventPublished, Key: r.Key, Token: r.Token, Revision: r.Revision, At: r.PublishedAt, By: r.Publisher,
		Reason: r.Reason, Previous: clone(r.Previous), RollbackTo: clone(r.RollbackTo), ManifestDigest: new(r.ManifestDigest),
		Final: r.Final, Primary: r.Primary, Files: r.Files, Bytes: r.Bytes, LeaseExpired: r.LeaseExpired,
	}
	if primary != nil {
		e.ContentType = primary.ContentType
	}
	if r.RollbackTo != nil {
		e.Kind = publish.EventRolledBack
	}
	p.tell(e)
}

// tellTakenOver tells of the newest grant's lease if it ended without being given back. g is the one that follows.
func (p *Pointers) tellTakenOver(k *keyRow, g *generation) {
	if len(k.generations) == 0 || k.newest().ended == nil {
		return
	}
	before := k.newest()
	p.tell(publish.Event{
		Kind: publish.EventTakenOver, Key: k.key, Token: g.token, At: at(g.granted), By: g.holder,
		From: &publish.EndedLease{Token: before.token, Holder: before.holder, EndedAt: clone(before.ended)},
	})
}

func (p *Pointers) tellPin(k *keyRow, kind publish.EventKind, now time.Time, by publish.Operator, reason string) {
	e := publish.Event{Kind: kind, Key: k.key, At: at(now), By: string(by), Reason: reason}
	if k.current != nil {
		e.Token, e.Revision = k.current.Token, k.current.Revision
	}
	p.tell(e)
}

// tellRejected tells of a record that is new, unless it is of tokens that anybody can make up and there are many.
func (p *Pointers) tellRejected(k *keyRow, g *generation, r *publish.Rejection) {
	if r.Repeat > 1 || g == nil && k.lostOverflows {
		return
	}
	p.tell(publish.Event{
		Kind: publish.EventRejected, Key: k.key, Token: r.Token, At: r.FirstAt, By: r.Holder, Operation: r.Operation, Path: r.Path,
		AcceptedToken: r.AcceptedToken, GrantedToken: r.GrantedToken, SupersededBy: r.SupersededBy, SupersededAt: clone(r.SupersededAt),
		OverrunMillis: r.OverrunMillis,
	})
}

// Events returns a page of events; see publish.EventStore.
func (p *Pointers) Events(ctx context.Context, req publish.EventsRequest) (publish.EventsPage, error) {
	return transact(ctx, p, "Events", "", func(time.Time) (publish.EventsPage, error) {
		rows := &p.events
		var found publish.EventsPage
		switch {
		case req.Before != nil:
			for i := len(rows.numbered) - 1; i >= 0; i-- {
				if e := rows.numbered[i]; e.Cursor.Compare(*req.Before) < 0 && shows(req, e) {
					found.Events = append(found.Events, e)
				}
			}
			var more bool
			if found.Events, more = page(found.Events, req.Limit); more {
				found.Next = &found.Events[req.Limit-1].Cursor
			}
			return found, nil
		case req.After == nil:
			found.Next = new(rows.newest)
			return found, nil
		case *req.After != publish.OldestEvent && req.After.Compare(rows.trimmed) < 0:
			return found, &publish.Error{Code: publish.ErrCursorExpired, Oldest: new(rows.trimmed)}
		case req.After.Compare(rows.newest) > 0:
			return found, &publish.Error{Code: publish.ErrCursorExpired, Newest: new(rows.newest)}
		}
		found.Next = clone(req.After)
		for _, e := range rows.numbered {
			if e.Cursor.Compare(*req.After) <= 0 {
				continue
			}
			if len(found.Events) == req.Limit {
				break
			}
			found.Next = new(e.Cursor)
			if shows(req, e) {
				found.Events = append(found.Events, e)
			}
		}
		return found, nil
	})
}

// shows reports whether a page has an event.
func shows(req publish.EventsRequest, e publish.Event) bool {
	return e.Key == "" || req.Reach.Has(e.Key) && strings.HasPrefix(string(e.Key), req.Prefix)
}

// NumberEvents numbers events; see publish.EventStore.
func (p *Pointers) NumberEvents(ctx context.Context, limit int) (publish.NumberedEvents, error) {
	var wake []func()
	numbered, err := transact(ctx, p, "NumberEvents", "", func(now time.Time) (publish.NumberedEvents, error) {
		rows := &p.events
		due := rows.unnumbered[:min(limit, len(rows.unnumbered))]
		result := publish.NumberedEvents{Count: len(due), More: len(due) == limit}
		rows.unnumbered = rows.unnumbered[len(due):]
		if rows.newest.Epoch < p.epoch {
			rows.newest.Epoch = p.epoch
			due = append([]publish.Event{{Kind: publish.EventRestored, At: at(now), Reason: "the test says so"}}, due...)
			result.Count++
		}
		for _, e := range due {
			rows.newest.N++
			e.Cursor = rows.newest
			rows.numbered = append(rows.numbered, e)
		}
		if len(due) > 0 {
			for woken := range rows.listeners {
				wake = append(wake, *woken)
			}
		}
		return result, nil
	})
	for _, woken := range wake {
		woken()
	}
	return numbered, err
}

// TrimEvents removes old events; see publish.EventStore.
func (p *Pointers) TrimEvents(ctx context.Context, keep time.Duration, limit int) (int, error) {
	return transact(ctx, p, "TrimEvents", "", func(now time.Time) (int, error) {
		rows, n := &p.events, 0
		for n < min(limit, len(rows.numbered)) && rows.numbered[n].At.Before(now.Add(-keep)) {
			rows.trimmed = rows.numbered[n].Cursor
			n++
		}
		rows.numbered = rows.numbered[n:]
		return n, nil
	})
}

// ListenEvents calls woken after events were numbered; see publish.EventStore.
func (p *Pointers) ListenEvents(ctx context.Context, woken func()) error {
	_, err := transact(ctx, p, "ListenEvents", "", func(time.Time) (struct{}, error) {
		if p.events.listeners == nil {
			p.events.listeners = map[*func()]bool{}
		}
		p.events.listeners[&woken] = true
		return struct{}{}, nil
	})
	if err != nil {
		return err
	}
	woken() // What was numbered before it listened.
	<-ctx.Done()
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.events.listeners, &woken)
	return ctx.Err()
}
