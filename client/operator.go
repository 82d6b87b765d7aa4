package client

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"

	"github.com/pawlhq/pawl/publish"
)

const headerIdempotency = "Idempotency-Key"

// Rollback publishes an earlier version's files again. It draws the RequestID unless req has one, so that a request whose answer was lost is
// repeated without a second rollback.
func (c *Client) Rollback(ctx context.Context, req publish.RollbackRequest) (publish.Receipt, error) {
	body := struct {
		To         any    `json:"to"`
		Reason     string `json:"reason"`
		BreakLease any    `json:"break_lease,omitempty"`
		Pin        bool   `json:"pin,omitempty"`
		Current    string `json:"current,omitempty"`
		PinnedAt   string `json:"pinned_at,omitempty"`
	}{To: req.To.Token, Reason: req.Reason, Pin: req.Pin, Current: seenVersion(req.Current), PinnedAt: seenPin(req.PinnedAt)}
	if req.BreakLease {
		body.BreakLease = json.RawMessage(brokenLease(req.Lease))
	}
	if req.To.Revision != 0 {
		body.To = req.To.String()
	}
	var receipt publish.Receipt
	err := c.do(ctx, call{
		what: "rollback", method: http.MethodPost, url: c.keyURL(req.Key, "rollback", nil), header: operator(req.By, req.RequestID),
		body: body, into: &receipt, changes: true,
	})
	return receipt, err
}

// Retire takes a key's pointer away. Its RequestID is as that of Rollback.
func (c *Client) Retire(ctx context.Context, req publish.RetireRequest) (publish.Retirement, error) {
	query := url.Values{}
	if req.Reason != "" {
		query.Set("reason", req.Reason)
	}
	if req.BreakLease {
		query.Set("break_lease", brokenLease(req.Lease))
	}
	if req.Current != nil {
		query.Set("current", seenVersion(req.Current))
	}
	var retired publish.Retirement
	err := c.do(ctx, call{
		what: "retire", method: http.MethodDelete, url: c.keyURL(req.Key, "", query), header: operator(req.By, req.RequestID),
		into: &retired, changes: true,
	})
	return retired, err
}

// Pin keeps a key's pointer where it is. Repeating it changes nothing.
func (c *Client) Pin(ctx context.Context, req publish.PinRequest) (publish.PinnedKey, error) {
	body := struct {
		Reason   string `json:"reason"`
		Current  string `json:"current,omitempty"`
		PinnedAt string `json:"pinned_at,omitempty"`
	}{Reason: req.Reason, Current: seenVersion(req.Current), PinnedAt: seenPin(req.PinnedAt)}
	var pinned publish.PinnedKey
	err := c.do(ctx, call{
		what: "pin", method: http.MethodPut, url: c.keyURL(req.Key, "pin", nil), header: actor(req.By), body: body, into: &pinned, changes: true,
	})
	return pinned, err
}

// Unpin lets a key's pointer move again. Unpinning a key that isn't pinned is no error.
func (c *Client) Unpin(ctx context.Context, req publish.UnpinRequest) error {
	query := url.Values{}
	if req.PinnedAt != nil {
		query.Set("pinned_at", seenPin(req.PinnedAt))
	}
	return c.do(ctx, call{what: "unpin", method: http.MethodDelete, url: c.keyURL(req.Key, "pin", query), header: actor(req.By), changes: true})
}

// seenVersion writes the version that a request compares: "none" is the zero one, "" compares nothing.
func seenVersion(version *publish.Version) string {
	switch {
	case version == nil:
		return ""
	case *version == (publish.Version{}):
		return "none"
	}
	return version.String()
}

// seenPin writes the time of the pin that a request compares, likewise.
func seenPin(at *publish.Time) string {
	switch {
	case at == nil:
		return ""
	case at.IsZero():
		return "none"
	}
	return at.Text()
}

// brokenLease writes whose lease may be ended: that of one grant, or of any.
func brokenLease(token publish.Token) string {
	if token == 0 {
		return "true"
	}
	return strconv.FormatInt(int64(token), 10)
}

// BreakLease ends the lease of one grant without its holder, so that others needn't wait for its end. Repeating it changes nothing.
func (c *Client) BreakLease(ctx context.Context, req publish.BreakLeaseRequest) (publish.BrokenLease, error) {
	query := url.Values{"break": {"true"}, "token": {strconv.FormatInt(int64(req.Token), 10)}, "reason": {req.Reason}}
	var broken publish.BrokenLease
	err := c.do(ctx, call{
		what: "break-lease", method: http.MethodDelete, url: c.keyURL(req.Key, "lease", query), header: actor(req.By), into: &broken, changes: true,
	})
	return broken, err
}

// operator says who asks, and names the request.
func operator(by publish.Operator, id publish.LeaseID) http.Header {
	header := actor(by)
	if id.IsZero() {
		id = publish.NewLeaseID()
	}
	header.Set(headerIdempotency, id.Hex())
	return header
}

// actor says who asks.
func actor(by publish.Operator) http.Header {
	header := http.Header{}
	if by != "" {
		header.Set(publish.HeaderBy, string(by))
	}
	return header
}
