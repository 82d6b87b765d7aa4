package client_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawlhq/pawl/client"
	"github.com/pawlhq/pawl/publish"
	"github.com/pawlhq/pawl/publish/publishtest"
	"github.com/pawlhq/pawl/web"
)

// A watcher whose answers break off now and then, before or after the server has sent them, gets every event once and in order, and begins where it is told to.
func TestWatch(t *testing.T) {
	t.Parallel()
	pointers, log := publishtest.NewPointers(), slog.New(slog.DiscardHandler)
	service := &publish.Service{Pointers: pointers, Blobs: publishtest.NewBlobs(), Log: log}
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	var running sync.WaitGroup
	running.Go(func() { service.RunEvents(ctx, publish.EventsOptions{Poll: 5 * time.Millisecond}) })
	t.Cleanup(running.Wait)
	t.Cleanup(cancel)
	handler, err := web.New(service, web.Options{Log: log})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	var requests atomic.Int64
	transport := client.NewTransport()
	t.Cleanup(transport.CloseIdleConnections)
	broken := roundTripper(func(req *http.Request) (*http.Response, error) {
		n := requests.Add(1)
		if n%3 == 1 {
			return nil, errCutOff
		}
		resp, err := transport.RoundTrip(req)
		if err == nil && n%3 == 2 {
			_ = resp.Body.Close()
			return nil, errCutOff
		}
		return resp, err
	})
	c := connect(t, server.URL, client.Options{Transport: broken, RetryPause: time.Millisecond})
	straight := connect(t, server.URL, client.Options{})

	const n = 30
	ship(t, straight, "before", "w", "x")
	first, last := publish.EventCursor{}, publish.EventCursor{}
	seen := 0
	watched := make(chan struct{})
	running.Go(func() {
		defer close(watched)
		for page, err := range c.Watch(ctx, "watched/", &publish.OldestEvent) {
			if err != nil {
				t.Error(err)
				return
			}
			for _, e := range page.Events {
				if e.Cursor.Compare(last) <= 0 || e.Key != publish.Key(fmt.Sprintf("watched/%d", seen)) {
					t.Errorf("%+v follows %s", e, last)
				}
				if last, seen = e.Cursor, seen+1; seen == 1 {
					first = e.Cursor
				}
			}
			if seen == n {
				return
			}
		}
	})
	for i := range n {
		ship(t, straight, publish.Key(fmt.Sprintf("watched/%d", i)), "w", "x")
		ship(t, straight, publish.Key(fmt.Sprintf("other/%d", i)), "w", "x")
	}
	<-watched
	if seen != n || last.N-first.N != 2*(n-1) {
		t.Errorf("%d events from %s to %s", seen, first, last)
	}

	if _, err := pointers.TrimEvents(ctx, -time.Hour, 10); err != nil {
		t.Fatal(err)
	}
	for _, err := range straight.Watch(ctx, "", &publish.EventCursor{N: 1}) {
		refusal, ok := errors.AsType[*publish.Error](err)
		if !errors.Is(err, publish.ErrCursorExpired) || !ok || refusal.Oldest == nil || refusal.Oldest.N != 10 {
			t.Errorf("after a trimmed cursor: %v", err)
		}
	}
	for _, err := range straight.Watch(ctx, "", &publish.EventCursor{N: 999}) {
		refusal, ok := errors.AsType[*publish.Error](err)
		if !errors.Is(err, publish.ErrCursorExpired) || !ok || refusal.Newest == nil || refusal.Newest.N != 2*n+1 {
			t.Errorf("after a cursor that is ahead: %v", err)
		}
	}
	for page, err := range straight.Watch(ctx, "", nil) {
		if err != nil || len(page.Events) != 0 || page.Next.N != 2*n+1 {
			t.Errorf("from now on: %+v, %v", page, err)
		}
		break
	}
	newest, err := straight.Events(ctx, publish.EventsRequest{Before: &publish.NewestEvent, Prefix: "watched/", Limit: 1})
	if err != nil || len(newest.Events) != 1 || newest.Events[0].Cursor != last || newest.Next == nil {
		t.Errorf("the newest: %+v, %v", newest, err)
	}
}
