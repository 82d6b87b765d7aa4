package web

import (
	"net/url"

	"github.com/pawlhq/pawl/publish"
)

// activityPageSize is how many events a page of activity tells.
const activityPageSize = 50

// activityPage is what happened lately.
type activityPage struct {
	feedPage
	Told []toldOf
	// Searched says that the page ended before it was full, because few events are below its prefix.
	Searched bool
}

// toldOf is a moment with the key that it is about, which is empty for one that is about all.
type toldOf struct {
	told
	keyRow
}

// activityPage tells what happened below a prefix, newest first.
func (h *Handler) activityPage(c *call) error {
	query, err := c.query("prefix", "before")
	if err != nil {
		return err
	}
	feed, err := h.feed(c, "Activity", "activity", "before", query)
	if err != nil {
		return err
	}
	req := publish.EventsRequest{Reach: c.reach(), Prefix: feed.Prefix, Before: &publish.NewestEvent, Limit: activityPageSize}
	if query.Get("before") != "" {
		if req.Before, err = cursorOf("before", query.Get("before")); err != nil {
			return err
		}
	}
	if feed.Live, err = h.live(c, live{Prefix: feed.Prefix}); err != nil {
		return err
	}
	events, err := h.service.Events(c.Request().Context(), req)
	if err != nil {
		return err
	}
	page := activityPage{feedPage: feed, Searched: events.Next != nil && len(events.Events) < activityPageSize}
	for _, e := range events.Events {
		m := ofEvent(e)
		row := toldOf{told: told{moment: m}, keyRow: h.links.keyRow(e.Key)}
		if e.Key != "" {
			row.Links = append([]link{{"history", row.History}}, h.links.ofMoment(e.Key, m)...)
		}
		page.Told = append(page.Told, row)
	}
	if events.Next != nil {
		page.Next = h.links.feed("/activity", with(query, "before", events.Next.String()))
	}
	page.Exports = h.links.exports("/v1/events", with(url.Values{"before": {newestFirst}}, "prefix", feed.Prefix))
	return render(c, "activity", page)
}
