package web

import (
	"strings"

	"github.com/pawlhq/pawl/publish"
)

// allEvents are the kinds of events that pages tell of.
var allEvents = []publish.EventKind{
	publish.EventPublished, publish.EventRolledBack, publish.EventRetired, publish.EventRejected, publish.EventTakenOver,
	publish.EventPinned, publish.EventUnpinned, publish.EventLeaseBroken, publish.EventRestored,
}

// live is how a page learns what happens while it is open: from the stream of events, behind the cursor at which it was made.
type live struct {
	// Prefix and Text choose the keys whose events count; Key is the only one, for a page about it.
	Prefix, Text string
	Key          publish.Key
	// Type is that of the files that the page shows, or its first half; "" for all. Events of another type don't count.
	Type string
	// Change is what the page says instead of a number where an event doesn't tell whether its key is on the page; "" where it does.
	Change string
	// Kinds are those that change what the page shows; none means all.
	Kinds  []publish.EventKind
	Stream string
	Cursor publish.EventCursor
	Script string
}

// KindList is the kinds as one text.
func (l live) KindList() string {
	var b strings.Builder
	for i, kind := range l.Kinds {
		if i > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(string(kind))
	}
	return b.String()
}

// live gives a page its stream. It is called before anything that the page shows is read: so what happens meanwhile may be on the page and in the
// stream, but never in neither.
func (h *Handler) live(c *call, l live) (*live, error) {
	now, err := h.service.Events(c.Request().Context(), publish.EventsRequest{Reach: c.reach()})
	if err != nil {
		return nil, err
	}
	if now.Next != nil {
		l.Cursor = *now.Next
	}
	if l.Key != "" {
		l.Prefix = string(l.Key)
	}
	if l.Kinds == nil {
		l.Kinds = allEvents
	}
	l.Text, l.Type, l.Script = strings.ToLower(l.Text), strings.ToLower(l.Type), h.links.static("live.js")
	l.Stream = h.links.feed("/v1/events", with(nil, "prefix", l.Prefix))
	return &l, nil
}
