package client

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"time"

	"github.com/pawlhq/pawl/publish"
)

// Pointer returns what a key currently resolves to; not-found while it has no current version, retired when that was taken away. Primary is as the server says: who writes to a file
// of that name asks publish.ParsePath first.
func (c *Client) Pointer(ctx context.Context, key publish.Key) (publish.Pointer, error) {
	var pointer publish.Pointer
	err := c.do(ctx, call{what: "pointer", method: http.MethodGet, url: c.keyURL(key, "", nil), into: &pointer})
	return pointer, err
}

// WaitPointer returns the current pointer as soon as its version is another one than seen; seen nil waits for the next
// publish of a key that has none. It waits at most for wait, which may be longer than the server's publish.MaxPointerWait. changed is false when the
// version is still the one seen; without any version the error is not-found or retired, at once when the one seen was retired. A not-found that isn't about the key, as of a wrong
// address, ends the wait at once.
func (c *Client) WaitPointer(ctx context.Context, key publish.Key, seen *publish.Version, wait time.Duration) (pointer publish.Pointer, changed bool, err error) {
	deadline := time.Now().Add(wait)
	for early := 0; ; {
		left := max(time.Until(deadline), 0)
		part := min(left, publish.MaxPointerWait/2).Round(time.Millisecond)
		header := http.Header{}
		if seen != nil {
			header.Set("If-None-Match", etag(*seen))
		}
		same, asked := false, time.Now()
		err := c.do(ctx, call{
			what: "pointer", method: http.MethodGet, header: header, into: &pointer, wait: part,
			url:      c.keyURL(key, "", url.Values{"wait": {part.String()}}),
			onAnswer: func(resp *http.Response) { same = resp.StatusCode == http.StatusNotModified },
		})
		absent := namesKey(err) || seen == nil && errors.Is(err, publish.ErrRetired)
		// An answer before its time, as of a proxy that keeps answers, mustn't make this a busy loop.
		hasty := time.Since(asked)+c.retry.pause < part
		switch {
		case err != nil && !absent:
			return publish.Pointer{}, false, err
		case err == nil && !same:
			return pointer, true, nil
		case hasty:
			if !sleep(ctx, min(c.drawPause(early), time.Until(deadline))) {
				return publish.Pointer{}, false, context.Cause(ctx)
			}
			early++
		case left > part:
			early = 0
		case absent:
			return publish.Pointer{}, false, err
		default:
			pointer, err = c.Pointer(ctx, key)
			return pointer, err == nil && seen != nil && pointer.Version() != *seen, err
		}
	}
}

// namesKey reports whether err is a not-found that is about a key. One without is about the address: no route of the server has it, or
// it isn't the server's at all.
func namesKey(err error) bool {
	var refusal *publish.Error
	return errors.Is(err, publish.ErrNotFound) && errors.As(err, &refusal) && refusal.Key != ""
}
