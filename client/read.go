package client

import (
	"context"
	"net/http"
	"net/url"
	"time"

	"github.com/pawlhq/pawl/publish"
)

// Pointer returns what a key currently resolves to; not-found while it has no current version.
func (c *Client) Pointer(ctx context.Context, key publish.Key) (publish.Pointer, error) {
	var pointer publish.Pointer
	err := c.do(ctx, call{what: "pointer", method: http.MethodGet, url: c.keyURL(key, "", nil), into: &pointer})
	return pointer, err
}

// WaitPointer returns the current pointer as soon as its version is another one than seen; seen nil waits for the first
// publish. It waits at most for wait, which may be longer than the server's publish.MaxPointerWait. changed is false when the
// version is still the one seen; without any version the error is not-found.
func (c *Client) WaitPointer(ctx context.Context, key publish.Key, seen *publish.Version, wait time.Duration) (pointer publish.Pointer, changed bool, err error) {
	deadline := time.Now().Add(wait)
	for {
		left := max(time.Until(deadline), 0)
		part := min(left, publish.MaxPointerWait/2).Round(time.Millisecond)
		header := http.Header{}
		if seen != nil {
			header.Set("If-None-Match", etag(*seen))
		}
		same := false
		err := c.do(ctx, call{
			what: "pointer", method: http.MethodGet, header: header, into: &pointer, wait: part,
			url:      c.keyURL(key, "", url.Values{"wait": {part.String()}}),
			onAnswer: func(resp *http.Response) { same = resp.StatusCode == http.StatusNotModified },
		})
		absent := isNotFound(err)
		switch {
		case err != nil && !absent:
			return publish.Pointer{}, false, err
		case err == nil && !same:
			return pointer, true, nil
		case left <= part && absent:
			return publish.Pointer{}, false, err
		case left <= part:
			pointer, err = c.Pointer(ctx, key)
			return pointer, err == nil && seen != nil && pointer.Version() != *seen, err
		}
	}
}
