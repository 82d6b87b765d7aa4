package web_test

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/pawlhq/pawl/publish"
	"github.com/pawlhq/pawl/web"
)

// runEvents runs the event feed of the rig's service until the test ends.
func (r *rig) runEvents() {
	r.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.service.RunEvents(ctx, publish.EventsOptions{Poll: 20 * time.Millisecond})
	}()
	r.t.Cleanup(func() { cancel(); <-done })
}

// stream is an open event stream.
type stream struct {
	t     *testing.T
	resp  *http.Response
	lines *bufio.Scanner
	end   context.CancelFunc
}

// open opens a stream. headers are names and values in turn.
func (r *rig) open(target string, headers ...string) *stream {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), time.Minute)
	req, err := http.NewRequestWithContext(ctx, "GET", r.server.URL+target, nil)
	if err != nil {
		r.t.Fatal(err)
	}
	req.Header.Set("Accept", "text/event-stream")
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := r.client.Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { cancel(); _ = resp.Body.Close() })
	return &stream{t: r.t, resp: resp, lines: bufio.NewScanner(resp.Body), end: cancel}
}

// block returns the lines up to the next empty one; nil at the end of the stream.
func (s *stream) block() (lines []string) {
	for s.lines.Scan() && s.lines.Text() != "" {
		lines = append(lines, s.lines.Text())
	}
	return lines
}

// events returns the ids of the next n events, heartbeats passed over.
func (s *stream) events(n int) (ids []string) {
	s.t.Helper()
	for len(ids) < n {
		lines := s.block()
		switch {
		case lines == nil:
			s.t.Fatalf("the stream ended after %q: %v", ids, s.lines.Err())
		case len(lines) == 3 && strings.HasPrefix(lines[1], "event: ") && strings.HasPrefix(lines[2], `data: {"cursor":"`):
			ids = append(ids, strings.TrimPrefix(lines[0], "id: "))
		case !strings.HasPrefix(lines[0], ":") && !strings.HasPrefix(lines[0], "retry:"):
			s.t.Fatalf("neither an event nor a heartbeat: %q", lines)
		}
	}
	return ids
}

// A stream has the head that proxies and browsers need, tells at once where it begins, and then every event.
func TestEventStream(t *testing.T) {
	t.Parallel()
	r := newRig(t, web.Options{EventHeartbeat: 50 * time.Millisecond})
	r.runEvents()
	r.published("before", "f", "x")
	await(t, func() bool {
		return len(r.call("GET", "/v1/events?after=0-0", "").eventsPage().Events) == 1
	})
	s := r.open("/v1/events?prefix=shots/")
	for name, want := range map[string]string{
		"Content-Type": "text/event-stream", "Cache-Control": "no-cache", "X-Accel-Buffering": "no", "Vary": "Accept", "X-Content-Type-Options": "nosniff",
	} {
		if got := s.resp.Header.Get(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	if got := s.block(); len(got) != 2 || got[0] != "retry: 2000" || got[1] != "id: 0-1" {
		t.Fatalf("the stream begins with %q", got)
	}
	if got := s.block(); len(got) != 2 || got[0] != ": heartbeat" || got[1] != "id: 0-1" {
		t.Errorf("a silent stream says %q", got)
	}
	r.published("other", "f", "x")
	r.published("shots/1", "f.txt", "x")
	if got := s.events(1); got[0] != "0-3" {
		t.Errorf("the event is %q", got)
	}
	r.published("other", "f", "x")
	await(t, func() bool { return strings.Join(s.block(), " ") == ": heartbeat id: 0-4" }) // Events that don't show move the cursor, too.

	// Who comes back goes on where it was; the header counts more than the address, which stays.
	for _, again := range []*stream{
		r.open("/v1/events?after=0-0", "Last-Event-ID", "0-2"), r.open("/v1/events?after=0-2"), r.open("/v1/events?after=0-2", "Accept", "text/html, text/event-stream;q=0.5"),
	} {
		if got := fmt.Sprint(again.events(2)); got != "[0-3 0-4]" {
			t.Errorf("after 0-2 came %s", got)
		}
	}
	head := r.call("HEAD", "/v1/events", "", "Accept", "text/event-stream").want(200)
	if head.header.Get("Content-Type") != "text/event-stream" {
		t.Errorf("HEAD: %v", head.header)
	}
	accept := []string{"Accept", "text/event-stream"}
	r.call("GET", "/v1/events?limit=2", "", accept...).wantProblem(publish.ErrInvalidRequest)
	r.call("GET", "/v1/events?before=newest", "", accept...).wantProblem(publish.ErrInvalidRequest)
	if members := r.call("GET", "/v1/events", "", append(accept, "Last-Event-ID", "x")...).wantProblem(publish.ErrInvalidRequest); !strings.Contains(jsonOf(members["errors"]), "Last-Event-ID") {
		t.Errorf("a wrong Last-Event-ID: %v", members)
	}
	if web.DefaultEventHeartbeat != 15*time.Second {
		t.Errorf("a stream is silent for %s by default", web.DefaultEventHeartbeat)
	}
}

// A cursor behind what was removed is refused before the stream begins, so that the status tells.
func TestEventStreamExpired(t *testing.T) {
	t.Parallel()
	r := newRig(t, web.Options{})
	r.published("a", "f", "x")
	r.published("b", "f", "x")
	r.number()
	if _, err := r.pointers.TrimEvents(t.Context(), -1, 2); err != nil {
		t.Fatal(err)
	}
	r.call("GET", "/v1/events", "", "Accept", "text/event-stream", "Last-Event-ID", "0-1").wantProblem(publish.ErrCursorExpired)
	members := r.call("GET", "/v1/events", "", "Accept", "text/event-stream", "Last-Event-ID", "0-3").wantProblem(publish.ErrCursorExpired)
	if members["newest"] != "0-2" {
		t.Errorf("ahead of all events: %v", members)
	}
}

// Streams and waiting requests are bounded together, end when the server is about to stop, and are counted while they are open.
func TestEventStreamsEnd(t *testing.T) {
	t.Parallel()
	r := newRig(t, web.Options{EventStreams: 2})
	r.runEvents()
	one := r.open("/v1/events")
	one.block()
	two := r.open("/v1/events")
	two.block()
	full := r.call("GET", "/v1/events", "", "Accept", "text/event-stream")
	if full.wantProblem(publish.ErrUnavailable); full.header.Get("Retry-After") != "5" || !strings.Contains(full.body, "PAWL_EVENTS_STREAMS") {
		t.Errorf("one stream too many: %v %s", full.header, full.body)
	}
	r.call("GET", "/v1/events?wait=1s", "").wantProblem(publish.ErrUnavailable)
	if metrics := r.call("GET", "/metrics", "").body; !strings.Contains(metrics, "pawl_event_streams 2\n") {
		t.Error("the metrics don't count two streams")
	}
	two.end()
	await(t, func() bool { return strings.Contains(r.call("GET", "/metrics", "").body, "pawl_event_streams 1\n") })
	waiting := make(chan answer)
	go func() { waiting <- r.call("GET", "/v1/events?wait=30s", "") }()
	await(t, func() bool { return strings.Contains(r.call("GET", "/metrics", "").body, "pawl_event_streams 2\n") })

	began := time.Now()
	r.handler.Drain()
	if got := one.block(); got != nil || one.lines.Err() != nil {
		t.Errorf("the stream went on with %q, %v", got, one.lines.Err())
	}
	if page := (<-waiting).eventsPage(); len(page.Events) != 0 || page.Next == nil {
		t.Errorf("the waiting request got %+v", page)
	}
	if took := time.Since(began); took > 10*time.Second { // The waiting request would have stayed for 30 s.
		t.Errorf("the end took %s", took)
	}
	r.call("GET", "/v1/events", "", "Accept", "text/event-stream").wantProblem(publish.ErrUnavailable)
}

// A waiting request is answered by the first event that has its prefix.
func TestWaitForEvents(t *testing.T) {
	t.Parallel()
	r := newRig(t, web.Options{})
	r.runEvents()
	waiting := make(chan answer)
	go func() { waiting <- r.call("GET", "/v1/events?wait=30s&prefix=shots/&after=0-0", "") }()
	await(t, func() bool { return strings.Contains(r.call("GET", "/metrics", "").body, "pawl_event_streams 1\n") })
	r.published("other", "f", "x")
	r.published("shots/1", "f", "x")
	if page := (<-waiting).eventsPage(); len(page.Events) != 1 || page.Events[0].Key != "shots/1" || page.Next.String() != "0-2" {
		t.Errorf("got %+v", page)
	}
	began := time.Now()
	if page := r.call("GET", "/v1/events?wait=50ms&after=0-2", "").eventsPage(); len(page.Events) != 0 || page.Next.String() != "0-2" || time.Since(began) < 50*time.Millisecond {
		t.Errorf("nothing more: %+v", page)
	}
	r.call("GET", "/v1/events?wait=56s", "").wantProblem(publish.ErrInvalidRequest)
}

// A client that takes nothing is let go, others aren't held up by it, and when it comes back nothing is lost.
func TestEventStreamSlowReader(t *testing.T) {
	t.Parallel()
	r := newRig(t, web.Options{EventHeartbeat: time.Hour})
	r.handler.SetStreamWriteTimeout(3 * time.Second) // The other one must keep up on a busy machine.
	r.runEvents()
	conn := r.dial()
	if _, err := fmt.Fprintf(conn, "GET /v1/events?after=0-0 HTTP/1.1\r\nHost: pawl\r\nAccept: text/event-stream\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	quick := r.open("/v1/events?after=0-0")
	streams := func(n int) func() bool {
		return func() bool {
			return strings.Contains(r.call("GET", "/metrics", "").body, fmt.Sprintf("pawl_event_streams %d\n", n))
		}
	}
	await(t, streams(2))
	// The system's buffers hold some megabytes, so these are large.
	const n = 20_000
	r.pointers.Tell(n, publish.Event{Kind: publish.EventPublished, Key: publish.Key(strings.Repeat("long/", 79) + "key"), By: strings.Repeat("w", 400)})
	ids := quick.events(n)
	for i, id := range ids {
		if id != fmt.Sprintf("0-%d", i+1) {
			t.Fatalf("event %d has the id %s", i+1, id)
		}
	}
	await(t, streams(1))
	last := ""
	for slow := bufio.NewScanner(conn); slow.Scan(); {
		if id, found := strings.CutPrefix(slow.Text(), "id: "); found {
			last = id
		}
	}
	// It may have broken off within the id of an event, so it goes back a little.
	var got int
	if _, err := fmt.Sscanf(last, "0-%d", &got); err != nil || got < 10 || got >= n {
		t.Fatalf("the slow reader had come to %q of %d", last, n)
	}
	from := got / 10
	again := r.open("/v1/events", "Last-Event-ID", fmt.Sprintf("0-%d", from))
	for i, id := range again.events(n - from) {
		if id != fmt.Sprintf("0-%d", from+i+1) {
			t.Fatalf("event %d has the id %s", from+i+1, id)
		}
	}
}
