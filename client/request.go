package client

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/pawlhq/pawl/publish"
)

const headerLease = "Pawl-Lease"

// call is one request with a JSON body, or none, and a JSON answer, or none.
type call struct {
	what    string // for messages, e.g. "publish"
	method  string
	url     string
	lease   publish.LeaseID
	header  http.Header
	body    any           // nil for none
	into    any           // nil for none
	wait    time.Duration // how long the server was asked to wait before it answers
	changes bool
	last    publish.Code // a refusal of this kind isn't repeated, "" for none
	// sent is told when each attempt is sent, before its first byte.
	sent func()
	// onAnswer sees the answer to a success before its body is read.
	onAnswer func(*http.Response)
}

// do carries a call out, with repetitions.
func (c *Client) do(ctx context.Context, call call) error {
	var body []byte
	if call.body != nil {
		var err error
		if body, err = json.Marshal(call.body); err != nil {
			return fmt.Errorf("%s: %w", call.what, err)
		}
	}
	return c.repeated(ctx, call.what, call.changes, func(ctx context.Context) error { return c.once(ctx, call, body) })
}

// once carries out one attempt of a call.
func (c *Client) once(ctx context.Context, call call, body []byte) error {
	ctx, cancel := context.WithTimeoutCause(ctx, c.timeout+call.wait, errTimeout)
	defer cancel()
	var reader io.Reader = http.NoBody
	if body != nil {
		reader = bytes.NewReader(body)
	}
	req, err := c.newRequest(ctx, call.method, call.url, reader, call.lease)
	if err != nil {
		return err
	}
	for name, values := range call.header {
		req.Header[name] = values
	}
	req.Header.Set("Accept", "application/json, application/problem+json")
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if call.sent != nil {
		call.sent()
	}
	resp, err := c.roundTrip(req)
	if err != nil {
		return err
	}
	defer closeBody(resp)
	if resp.StatusCode >= 300 && resp.StatusCode != http.StatusNotModified {
		answer := decodeError(resp)
		answer.last = call.last != "" && answer.refusal.Code == call.last
		return answer
	}
	if call.onAnswer != nil {
		call.onAnswer(resp)
	}
	return readJSON(resp, call.into)
}

var errTimeout = fmt.Errorf("no answer in time")

// newRequest makes a request with what every request carries.
func (c *Client) newRequest(ctx context.Context, method, url string, body io.Reader, lease publish.LeaseID) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, method, url, body)
	if err != nil {
		return nil, err
	}
	req.Header.Set("User-Agent", c.userAgent)
	if credential := c.credential.current(); credential != "" {
		req.Header.Set("Authorization", "Bearer "+credential)
	}
	if !lease.IsZero() {
		req.Header.Set(headerLease, lease.Hex())
	}
	return req, nil
}

// roundTrip sends a request to the server, and turns the failure to get an answer into a lostAnswer.
func (c *Client) roundTrip(req *http.Request) (*http.Response, error) { return send(c.http, req) }

func send(by *http.Client, req *http.Request) (*http.Response, error) {
	resp, err := by.Do(req)
	if err != nil {
		if cause := context.Cause(req.Context()); cause == errTimeout { //nolint:errorlint // It is compared as it was set.
			err = fmt.Errorf("%w: %w", errTimeout, err)
		}
		return nil, &lostAnswer{error: err, sent: !neverSent(err)}
	}
	return resp, nil
}

// maxAnswerBytes bounds the answer to a success, far above the largest page.
const maxAnswerBytes = 64 << 20

// readJSON reads the answer to a success. One that breaks off, or isn't what a Pawl server says, is as good as lost.
func readJSON(resp *http.Response, into any) error {
	if into == nil || resp.StatusCode == http.StatusNoContent || resp.StatusCode == http.StatusNotModified {
		return nil
	}
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxAnswerBytes)).Decode(into); err != nil {
		return &lostAnswer{error: fmt.Errorf("answer %s isn't readable: %w", resp.Status, err), sent: true}
	}
	return nil
}

// closeBody reads the little that is left of an answer, so that its connection can serve the next request.
func closeBody(resp *http.Response) {
	_, _ = io.CopyN(io.Discard, resp.Body, 64<<10) //nolint:errcheck // Nothing depends on it.
	_ = resp.Body.Close()                          //nolint:errcheck // Nothing was written.
}
