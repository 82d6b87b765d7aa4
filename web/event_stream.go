package web

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/pawlhq/pawl/publish"
)

// Defaults of Options for event streams.
const (
	DefaultEventHeartbeat = 15 * time.Second
	DefaultEventStreams   = 1000
)

const (
	// streamWriteTimeout is how long a client may take to make room for what is written to it.
	streamWriteTimeout = 10 * time.Second
	// streamRetry is what clients are told to wait for before they connect again.
	streamRetry = 2 * time.Second
	// streamsFullRetry is when to try again to open one stream too many.
	streamsFullRetry = 5 * time.Second

	mimeEventStream   = "text/event-stream"
	headerLastEventID = "Last-Event-ID"
)

// wantsEventStream reports whether a request accepts a stream of events by its name.
func wantsEventStream(r *http.Request) bool {
	for _, line := range r.Header.Values(echo.HeaderAccept) {
		for part := range strings.SplitSeq(line, ",") {
			if kind, params, err := mime.ParseMediaType(part); err == nil && kind == mimeEventStream && params["q"] != "0" {
				return true
			}
		}
	}
	return false
}

// streamEvents sends events as they come, as server-sent events (HTML Standard, 9.2). Each has its cursor as id, by which a client that connects again
// goes on. The stream ends when the client leaves or takes nothing for a while, and when the server is about to stop.
func (h *Handler) streamEvents(c *call) error {
	query, err := c.query("prefix", "after")
	if err != nil {
		return err
	}
	req, err := eventsRequest(query)
	if err != nil {
		return err
	}
	req.Reach = c.reach()
	if last := c.Request().Header.Get(headerLastEventID); last != "" {
		if req.After, err = cursorOf(headerLastEventID, last); err != nil {
			return err
		}
	}
	if c.Request().Method == http.MethodHead {
		s := h.newEventStream(c)
		s.begin()
		return nil
	}
	ctx, end, err := h.openStream(c.Request().Context())
	if err != nil {
		return err
	}
	defer end()
	s := h.newEventStream(c)
	err = h.service.FollowEvents(ctx, req, h.heartbeat, s.send)
	if s.begun && ctx.Err() != nil || s.broken {
		s.end()
		return nil
	}
	return err
}

// openStream counts a stream or a waiting request in, as long as there are not too many. ctx ends with the request, and when the server is about to stop.
func (h *Handler) openStream(parent context.Context) (ctx context.Context, end func(), err error) {
	refuse := func(detail string) error {
		return &publish.Error{Code: publish.ErrUnavailable, Detail: detail, RetryAfterMillis: streamsFullRetry.Milliseconds()}
	}
	if h.draining.Load() {
		return nil, nil, refuse("this server is about to stop; connect again, to another one or later")
	}
	if h.openStreams.Add(1) > int64(h.maxStreams) {
		h.openStreams.Add(-1)
		return nil, nil, refuse(fmt.Sprintf("%d event streams are open at this server, which is all that PAWL_EVENTS_STREAMS allows; try again later", h.maxStreams))
	}
	h.metrics.events.streams.Inc()
	ctx, cancel := context.WithCancel(parent)
	stop := context.AfterFunc(h.drained, cancel)
	return ctx, func() {
		stop()
		cancel()
		h.metrics.events.streams.Dec()
		h.openStreams.Add(-1)
	}, nil
}

// eventStream writes to one client.
type eventStream struct {
	handler       *Handler
	response      *echo.Response
	connection    *http.ResponseController
	begun, broken bool
}

func (h *Handler) newEventStream(c *call) *eventStream {
	return &eventStream{handler: h, response: c.Response(), connection: http.NewResponseController(c.Response().Writer)}
}

// begin writes the head of the answer. nginx passes it on piece by piece when it is told so here.
func (s *eventStream) begin() {
	header := s.response.Header()
	header.Set(echo.HeaderContentType, mimeEventStream)
	header.Set(echo.HeaderCacheControl, "no-cache")
	header.Set("X-Accel-Buffering", "no")
	header.Set(echo.HeaderVary, echo.HeaderAccept)
	s.response.WriteHeader(http.StatusOK)
	s.begun = true
}

// send writes events, or a heartbeat when there are none. That has the cursor too, so a client that waits for few events goes on from near the end when it
// comes back, and so does one that has seen none yet.
func (s *eventStream) send(events []publish.Event, at publish.EventCursor) error {
	var b bytes.Buffer
	switch {
	case !s.begun:
		s.begin()
		b.WriteString("retry: " + strconv.FormatInt(streamRetry.Milliseconds(), 10) + "\nid: " + at.String() + "\n\n")
	case len(events) == 0:
		b.WriteString(": heartbeat\nid: " + at.String() + "\n\n")
	}
	for _, e := range events {
		s.handler.addEventURL(&e)
		data, err := json.Marshal(e)
		if err != nil {
			return fmt.Errorf("encoding event %s: %w", e.Cursor, err)
		}
		fmt.Fprintf(&b, "id: %s\nevent: %s\ndata: %s\n\n", e.Cursor, e.Kind, data)
		if b.Len() >= 64<<10 {
			if err := s.write(&b); err != nil {
				return err
			}
		}
	}
	return s.write(&b)
}

// write passes a piece on at once. A client that takes nothing for a while is let go: it comes back to where it was.
func (s *eventStream) write(b *bytes.Buffer) error {
	err := s.connection.SetWriteDeadline(time.Now().Add(s.handler.streamWrite))
	if err == nil {
		_, err = b.WriteTo(s.response)
	}
	if err == nil {
		err = s.connection.Flush()
	}
	s.broken = s.broken || err != nil
	return err
}

// end leaves the connection as other requests want it.
func (s *eventStream) end() {
	_ = s.connection.SetWriteDeadline(time.Time{}) //nolint:errcheck // A connection that has no deadlines needs none taken away.
}
