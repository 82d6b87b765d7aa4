package client

import (
	"context"
	"iter"
	"net/http"
	"net/url"
	"time"

	"github.com/pawlhq/pawl/publish"
)

// Events returns one page of events: those after a cursor, oldest first, or those before one, newest first. With neither, the page is empty and its Next is where
// events go on from now.
func (c *Client) Events(ctx context.Context, req publish.EventsRequest) (publish.EventsPage, error) {
	return c.waitEvents(ctx, req, 0)
}

func (c *Client) waitEvents(ctx context.Context, req publish.EventsRequest, wait time.Duration) (publish.EventsPage, error) {
	query := url.Values{}
	if req.Prefix != "" {
		query.Set("prefix", req.Prefix)
	}
	if req.After != nil {
		query.Set("after", req.After.String())
	}
	if req.Before != nil {
		query.Set("before", req.Before.String())
	}
	if wait > 0 {
		query.Set("wait", wait.String())
	}
	setLimit(query, req.Limit)
	var page publish.EventsPage
	err := c.do(ctx, call{what: "events", method: http.MethodGet, url: c.base + "/v1/events?" + query.Encode(), into: &page, wait: wait})
	return page, err
}

// Watch yields pages of events with a prefix as they happen, until ctx ends, the loop is left, or an error that it yields last: one that waiting doesn't cure, or a server
// that can't be reached for as long as Options.RetryFor says. after nil begins now. The first page comes at once, also without events, and each later one has some, unless
// its Next has moved. Whoever keeps the Next of the last page goes on from there, and misses nothing.
//
// A cursor behind what the server keeps is cursor-expired, with Oldest, and one that is ahead of all events with Newest. Events may be told again after a restore, which begins with a restored event.
func (c *Client) Watch(ctx context.Context, prefix string, after *publish.EventCursor) iter.Seq2[publish.EventsPage, error] {
	return func(yield func(publish.EventsPage, error) bool) {
		req := publish.EventsRequest{Prefix: prefix, After: after, Limit: publish.MaxPageSize}
		wait := time.Duration(0) // The first answer tells where it begins, so that nothing is lost when the next one breaks off.
		for early := 0; ; {
			asked := time.Now()
			page, err := c.waitEvents(ctx, req, wait)
			if err == nil && page.Next == nil {
				err = &publish.Error{Code: publish.ErrInternal, Detail: "the server's page of events doesn't say where to go on"}
			}
			if err != nil {
				yield(publish.EventsPage{}, err)
				return
			}
			moved := req.After == nil || *page.Next != *req.After
			if (moved || wait == 0) && !yield(page, nil) {
				return
			}
			req.After = page.Next
			// An empty answer before its time, as of a server that is about to stop, mustn't make this a busy loop.
			if moved || time.Since(asked)+c.retry.pause >= wait {
				early = 0
			} else if early++; !sleep(ctx, c.drawPause(early)) {
				yield(publish.EventsPage{}, context.Cause(ctx))
				return
			}
			wait = publish.MaxEventsWait / 2
		}
	}
}
