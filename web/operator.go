package web

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/pawlhq/pawl/publish"
)

// headerIdempotency names a request of which a repeat is to be a replay.
const headerIdempotency = "Idempotency-Key"

// target is the version that a rollback names: a token, or a version as text.
type target publish.Version

// UnmarshalJSON reads 17, "17" or "17.1".
func (t *target) UnmarshalJSON(data []byte) error {
	wrong := publish.InvalidField(publish.ErrInvalidRequest, "/to", `must be a token, such as 17, or a version, such as "17.1"`)
	var text string
	if json.Unmarshal(data, &text) != nil {
		text = string(data)
	}
	if token, err := publish.ParseToken(text); err == nil {
		*t = target{Token: token}
		return nil
	}
	version, err := publish.ParseVersion(text)
	if err != nil || data[0] != '"' {
		return wrong
	}
	*t = target(version)
	return nil
}

// rollback publishes an earlier version's files again.
func (h *Handler) rollback(c *call) error {
	if _, err := c.query(); err != nil {
		return err
	}
	req := publish.RollbackRequest{Key: c.key}
	var err error
	if req.By, req.RequestID, err = c.operator(); err != nil {
		return err
	}
	var to target
	var lease brokenLease
	var current, pinnedAt *string
	err = readJSON(c, members{"to": &to, "reason": &req.Reason, "break_lease": &lease, "pin": &req.Pin, "current": &current, "pinned_at": &pinnedAt})
	if err != nil {
		return err
	}
	req.BreakLease, req.Lease = lease.ends, lease.token
	if req.Current, err = versionOf("/current", current); err != nil {
		return err
	}
	if req.PinnedAt, err = pinOf("/pinned_at", pinnedAt); err != nil {
		return err
	}
	if req.To = publish.Version(to); to.Token == 0 {
		return publish.InvalidField(publish.ErrInvalidRequest, "/to", `is missing; name a token, such as 17, or a version, such as "17.1"`)
	}
	receipt, err := h.service.Rollback(c.Request().Context(), req)
	if err != nil {
		return err
	}
	h.addReceiptURL(&receipt)
	return respond(c, http.StatusOK, receipt)
}

// retire takes the key's pointer away.
func (h *Handler) retire(c *call) error {
	query, err := c.query("break_lease", "reason", "current")
	if err != nil {
		return err
	}
	req := publish.RetireRequest{Key: c.key, Reason: query.Get("reason")}
	if req.By, req.RequestID, err = c.operator(); err != nil {
		return err
	}
	if query.Has("break_lease") {
		var lease brokenLease
		if err = lease.UnmarshalJSON([]byte(query.Get("break_lease"))); err != nil {
			return pointAt("break_lease", err)
		}
		req.BreakLease, req.Lease = lease.ends, lease.token
	}
	if query.Has("current") {
		current := query.Get("current")
		if req.Current, err = versionOf("current", &current); err != nil {
			return err
		}
	}
	retired, err := h.service.Retire(c.Request().Context(), req)
	if err != nil {
		return err
	}
	return respond(c, http.StatusOK, retired)
}

// pin keeps the key's pointer where it is.
func (h *Handler) pin(c *call) error {
	if _, err := c.query(); err != nil {
		return err
	}
	req := publish.PinRequest{Key: c.key}
	var err error
	if req.By, _, err = c.operator(); err != nil {
		return err
	}
	var current, pinnedAt *string
	if err := readJSON(c, members{"reason": &req.Reason, "current": &current, "pinned_at": &pinnedAt}); err != nil {
		return err
	}
	if req.Current, err = versionOf("/current", current); err != nil {
		return err
	}
	if req.PinnedAt, err = pinOf("/pinned_at", pinnedAt); err != nil {
		return err
	}
	pinned, err := h.service.Pin(c.Request().Context(), req)
	if err != nil {
		return err
	}
	return respond(c, http.StatusOK, pinned)
}

// none is what a caller says who has seen no current version, or no pin.
const none = "none"

// versionOf reads the version that the caller takes for the current one; nil when the request doesn't say, the zero Version for none.
func versionOf(pointer string, text *string) (*publish.Version, error) {
	switch {
	case text == nil:
		return nil, nil
	case *text == none:
		return &publish.Version{}, nil
	}
	version, err := publish.ParseVersion(*text)
	if err != nil {
		return nil, pointAt(pointer, err)
	}
	return &version, nil
}

// pinOf reads the time of the pin that the caller has seen; nil when the request doesn't say, the zero Time for none.
func pinOf(pointer string, text *string) (*publish.Time, error) {
	switch {
	case text == nil:
		return nil, nil
	case *text == none:
		return &publish.Time{}, nil
	}
	at, err := time.Parse(time.RFC3339, *text)
	if err != nil || at.IsZero() {
		return nil, publish.InvalidField(publish.ErrInvalidRequest, pointer, `must be the member at of the pin, such as "2026-01-31T12:00:00.000Z", or "none"`)
	}
	return &publish.Time{Time: at}, nil
}

// brokenLease is the lease that an operator agrees to end: true for any, or that of one grant.
type brokenLease struct {
	ends  bool
	token publish.Token
}

// UnmarshalJSON reads true, false or the token of a grant, such as 41.
func (l *brokenLease) UnmarshalJSON(data []byte) error {
	switch string(data) {
	case "true", "false":
		*l = brokenLease{ends: string(data) == "true"}
		return nil
	}
	token, err := publish.ParseToken(string(data))
	if err != nil {
		return publish.InvalidField(publish.ErrInvalidRequest, "/break_lease", "must be true, false, or the token of the grant whose lease may be ended")
	}
	*l = brokenLease{ends: true, token: token}
	return nil
}

// unpin lets the key's pointer move again. Repeating it is no error.
func (h *Handler) unpin(c *call) error {
	query, err := c.query("pinned_at")
	if err != nil {
		return err
	}
	req := publish.UnpinRequest{Key: c.key}
	if req.By, _, err = c.operator(); err != nil {
		return err
	}
	if query.Has("pinned_at") {
		at := query.Get("pinned_at")
		if req.PinnedAt, err = pinOf("pinned_at", &at); err != nil {
			return err
		}
	}
	if err := h.service.Unpin(c.Request().Context(), req); err != nil {
		return err
	}
	return c.NoContent(http.StatusNoContent)
}

// operator reads who asks, unless that is known by a credential, and the name of the request, zero when it has none. A worker's lease has no say here: these calls take a token of their own,
// or none, so whoever sends one believes to be fenced and isn't.
func (c *call) operator() (publish.Operator, publish.LeaseID, error) {
	header := c.Request().Header
	if len(header.Values(headerLease)) > 0 {
		return "", publish.LeaseID{}, publish.InvalidField(publish.ErrInvalidRequest, headerLease, "has no meaning on this route, which doesn't ask for a lease; leave it out")
	}
	by := publish.Operator("unknown")
	switch values := header.Values(publish.HeaderBy); {
	case len(values) > 1:
		return "", publish.LeaseID{}, publish.InvalidField(publish.ErrInvalidRequest, publish.HeaderBy, "stands twice; send it once")
	case len(values) == 1:
		by = publish.Operator(values[0])
		if err := c.mayBe(values[0], publish.HeaderBy); err != nil {
			return "", publish.LeaseID{}, err
		}
	}
	if c.caller.Known() {
		by = publish.Operator(c.caller.Name)
	}
	var id publish.LeaseID
	switch values := header.Values(headerIdempotency); {
	case len(values) > 1:
		return "", id, publish.InvalidField(publish.ErrInvalidRequest, headerIdempotency, "stands twice; send it once")
	case len(values) == 1:
		var err error
		if id, err = publish.ParseLeaseID(values[0]); err != nil {
			return "", id, pointAt(headerIdempotency, err)
		}
	}
	return by, id, nil
}

// mayBe refuses a caller who is known by a credential and claims to be somebody else, in a header or a field.
func (c *call) mayBe(name, pointer string) error {
	if !c.caller.Known() || name == c.caller.Name {
		return nil
	}
	return publish.InvalidField(publish.ErrInvalidRequest, pointer, "isn't "+strconv.QuoteToASCII(shorten(c.caller.Name))+", the name of the credential that was sent; leave it out: the credential says who asks")
}

// formOperator is who sends a form of the page: the credential's name, or else what stands in its field "by".
func (c *call) formOperator(form url.Values) (publish.Operator, error) {
	by := form.Get("by")
	switch {
	case c.caller.Known() && by == "":
		return publish.Operator(c.caller.Name), nil
	case by == "":
		return pageOperator, nil
	}
	return publish.Operator(by), c.mayBe(by, "/by")
}
