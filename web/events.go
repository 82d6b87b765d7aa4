package web

import (
	"context"
	"net/http"
	"net/url"
	"time"

	"github.com/pawlhq/pawl/publish"
)

// newestFirst is the value of before that begins at the newest event.
const newestFirst = "newest"

// events shows a page of events.
func (h *Handler) events(c *call) error {
	if wantsEventStream(c.Request()) {
		return h.streamEvents(c)
	}
	query, err := c.query("prefix", "after", "before", "limit", "wait", "format")
	if err != nil {
		return err
	}
	req, err := eventsRequest(query)
	if err != nil {
		return err
	}
	req.Reach = c.reach()
	wait, err := waitOf(query)
	if err != nil {
		return err
	}
	asCSV, err := c.wantsCSV(query.Get("format"))
	if err != nil {
		return err
	}
	if asCSV {
		if wait > 0 {
			return publish.InvalidField(publish.ErrInvalidRequest, "wait", "is for JSON; leave it out, or ask for JSON")
		}
		return h.exportEvents(c, query, req)
	}
	page, err := h.waitEvents(c.Request().Context(), req, wait)
	if err != nil {
		return err
	}
	page.Events = notNil(page.Events)
	h.addEventURLs(page.Events)
	return respond(c, http.StatusOK, page)
}

// exportEvents streams events as CSV. Without a cursor they begin at the newest one, as the other lists do: a table of none would be of no use.
func (h *Handler) exportEvents(c *call, query url.Values, req publish.EventsRequest) error {
	if req.After == nil && req.Before == nil {
		req.Before = &publish.NewestEvent
	}
	return export(c, query, "events", publish.EventTable(), &req.Limit, func() ([]publish.Event, string, error) {
		page, err := h.service.Events(c.Request().Context(), req)
		if err != nil {
			return nil, "", err
		}
		h.addEventURLs(page.Events)
		if page.Next == nil || req.After != nil && *page.Next == *req.After {
			return page.Events, "", nil
		}
		if req.After != nil {
			req.After = page.Next
		} else {
			req.Before = page.Next
		}
		return page.Events, page.Next.String(), nil
	})
}

// waitEvents waits for a page that isn't empty. A request that waits counts as a stream; when the server is about to stop it is answered with what there is.
func (h *Handler) waitEvents(ctx context.Context, req publish.EventsRequest, wait time.Duration) (publish.EventsPage, error) {
	if wait == 0 {
		return h.service.Events(ctx, req)
	}
	ctx, end, err := h.openStream(ctx)
	if err != nil {
		return publish.EventsPage{}, err
	}
	defer end()
	page, err := h.service.WaitEvents(ctx, req, wait)
	if over := ended(ctx); over != nil {
		return publish.EventsPage{}, over
	}
	return page, err
}

// eventsRequest reads what pages and streams of events have in common, and a page alone.
func eventsRequest(query url.Values) (req publish.EventsRequest, err error) {
	if req.Prefix, err = parsePrefix("prefix", query.Get("prefix")); err != nil {
		return req, err
	}
	if req.After, err = cursorOf("after", query.Get("after")); err != nil {
		return req, err
	}
	if query.Get("before") == newestFirst {
		req.Before = &publish.NewestEvent
	} else if req.Before, err = cursorOf("before", query.Get("before")); err != nil {
		return req, err
	}
	req.Limit, err = limitOf(query)
	return req, err
}

// cursorOf reads a cursor; nil where there is none.
func cursorOf(name, text string) (*publish.EventCursor, error) {
	if text == "" {
		return nil, nil
	}
	cursor, err := publish.ParseEventCursor(text)
	if err != nil {
		return nil, pointAt(name, err)
	}
	return &cursor, nil
}

// addEventURLs gives events of publishes the permanent addresses of their primary files.
func (h *Handler) addEventURLs(events []publish.Event) {
	for i := range events {
		h.addEventURL(&events[i])
	}
}

// addEventURL gives the event of a publish the permanent address of its primary file.
func (h *Handler) addEventURL(e *publish.Event) {
	version := e.Version()
	if e.Final {
		version.Revision = 0 // A sealed generation never changes.
	}
	if e.ManifestDigest != nil {
		e.URL = h.links.fileAt(e.Key, version, e.Primary)
	}
}
