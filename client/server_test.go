package client_test

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/pawlhq/pawl/client"
	"github.com/pawlhq/pawl/publish"
	"github.com/pawlhq/pawl/publish/publishtest"
	"github.com/pawlhq/pawl/web"
)

// newServer is a whole Pawl server in this process, whose stores are in memory. Close it.
func newServer() *httptest.Server {
	return serve(publishtest.NewPointers())
}

func serve(pointers publish.PointerStore) *httptest.Server { return serveAs(pointers, web.Options{}) }

func serveAs(pointers publish.PointerStore, opts web.Options) *httptest.Server {
	log := slog.New(slog.DiscardHandler)
	opts.Log = log
	handler, err := web.New(&publish.Service{Pointers: pointers, Blobs: publishtest.NewBlobs(), Log: log}, opts)
	if err != nil {
		panic(err)
	}
	return httptest.NewServer(handler)
}

// rig is such a server with a client whose renewals can be cut off.
type rig struct {
	*client.Client
	url    string
	cutOff atomic.Bool
}

func newRig(t *testing.T, opts client.Options) *rig {
	t.Helper()
	server := newServer()
	t.Cleanup(server.Close)
	r := &rig{url: server.URL}
	transport := client.NewTransport()
	opts.Transport = roundTripper(func(req *http.Request) (*http.Response, error) {
		if r.cutOff.Load() && req.Method == http.MethodPatch {
			return nil, errCutOff
		}
		return transport.RoundTrip(req)
	})
	t.Cleanup(transport.CloseIdleConnections)
	r.Client = connect(t, server.URL, opts)
	return r
}

// connect makes another client of a server, as another worker has one.
func connect(t *testing.T, url string, opts client.Options) *client.Client {
	t.Helper()
	c, err := client.New(url, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

type testError string

func (e testError) Error() string { return string(e) }

const errCutOff = testError("cut off by the test")

// ship acquires a key, publishes one file and releases the key.
func ship(t *testing.T, c *client.Client, key publish.Key, holder, body string) {
	t.Helper()
	lease, err := c.Acquire(t.Context(), publish.AcquireRequest{Key: key, Holder: holder, TTL: publish.MaxTTL, Wait: patience})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := lease.Upload(t.Context(), "out.txt", strings.NewReader(body)); err != nil {
		t.Fatal(err)
	}
	if _, err := lease.Publish(t.Context()); err != nil {
		t.Fatal(err)
	}
}
