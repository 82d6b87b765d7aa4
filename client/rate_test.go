package client_test

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawlhq/pawl/client"
	"github.com/pawlhq/pawl/publish"
	"github.com/pawlhq/pawl/publish/publishtest"
	"github.com/pawlhq/pawl/web"
)

// A client that sends more than the server takes from one is slowed down, and nothing fails.
func TestRateLimitSlowsDown(t *testing.T) {
	t.Parallel()
	server := serveAs(publishtest.NewPointers(), web.Options{Rate: 5, RateBurst: 1})
	t.Cleanup(server.Close)
	var refused, early atomic.Int64
	var until atomic.Int64
	transport := client.NewTransport()
	t.Cleanup(transport.CloseIdleConnections)
	c := connect(t, server.URL, client.Options{Transport: roundTripper(func(req *http.Request) (*http.Response, error) {
		if time.Now().UnixNano() < until.Load() {
			early.Add(1)
		}
		resp, err := transport.RoundTrip(req)
		if err == nil && resp.StatusCode == http.StatusTooManyRequests {
			refused.Add(1)
			until.Store(time.Now().Add(900 * time.Millisecond).UnixNano()) // Retry-After says 1 s; the clock of the answer is a little older.
		}
		return resp, err
	})})
	for _, key := range []publish.Key{"a", "b"} {
		ship(t, c, key, "W", "x")
	}
	if refused.Load() == 0 || early.Load() > 0 {
		t.Errorf("%d requests were refused, and %d were sent before Retry-After", refused.Load(), early.Load())
	}
}

// A body that can be sent only once waits for its turn like all others: the server has refused it unread.
func TestRateLimitOfAPipe(t *testing.T) {
	t.Parallel()
	server := serveAs(publishtest.NewPointers(), web.Options{Rate: 2, RateBurst: 1})
	t.Cleanup(server.Close)
	c := connect(t, server.URL, client.Options{})
	lease, err := c.Acquire(t.Context(), publish.AcquireRequest{Key: "k", Holder: "W", TTL: publish.MaxTTL})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Pointer(t.Context(), "k"); !errors.Is(err, publish.ErrNotFound) { // It takes what the bucket has.
		t.Fatal(err)
	}
	req := publish.UploadRequest{Grant: lease.Grant(), Path: "f", Size: -1, Body: io.MultiReader(strings.NewReader("once "), strings.NewReader("only"))}
	if receipt, err := c.UploadAndPublish(t.Context(), req); err != nil || receipt.Bytes != 9 {
		t.Errorf("%+v, %v", receipt, err)
	}
}

// Who wants no repetitions is told of the limit.
func TestRateLimitIsTold(t *testing.T) {
	t.Parallel()
	server := serveAs(publishtest.NewPointers(), web.Options{Rate: 0.001, RateBurst: 1})
	t.Cleanup(server.Close)
	c := connect(t, server.URL, client.Options{RetryFor: -1})
	for _, want := range []publish.Code{publish.ErrNotFound, publish.ErrRateLimited} {
		if _, err := c.Pointer(t.Context(), "k"); !errors.Is(err, want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}
