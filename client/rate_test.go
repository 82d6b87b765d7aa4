package client_test

import (
	"net/http"
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
