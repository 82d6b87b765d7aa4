package web

import (
	"net/http"
	"net/netip"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/pawlhq/pawl/publish"
)

// SetStreamWriteTimeout sets how long a client of an event stream may take nothing. It is for a handler that serves nobody yet.
func (h *Handler) SetStreamWriteTimeout(d time.Duration) { h.streamWrite = d }

// SetNow sets the clock by which sign-ins are counted. It is for a handler that serves nobody yet.
func (h *Handler) SetNow(now func() time.Time) { h.now = now }

// SignInsKnown is how many clients are remembered for the sign-ins that they have under way.
func (h *Handler) SignInsKnown() int {
	h.signIns.mu.Lock()
	defer h.signIns.mu.Unlock()
	return len(h.signIns.queues)
}

// HoldComparisons takes the place of a line diff that is being made, until release.
func (h *Handler) HoldComparisons() (release func()) {
	h.comparing <- struct{}{}
	return func() { <-h.comparing }
}

// ClientAddress is clientAddress of a handler with these trusted proxies.
func ClientAddress(proxies []netip.Prefix, r *http.Request) netip.Addr {
	return (&Handler{proxies: proxies}).clientAddress(r)
}

// MaxCallers is maxCallers.
const MaxCallers = maxCallers

// RateLimit is rateLimit.
type RateLimit struct{ *rateLimit }

// NewRateLimit is newRateLimit.
func NewRateLimit(perSecond float64, burst int) RateLimit {
	return RateLimit{newRateLimit(perSecond, burst)}
}

// Take is take.
func (l RateLimit) Take(caller string, now time.Time) (taken bool, left int64, in time.Duration) {
	return l.take(caller, now)
}

// Known is how many callers are remembered.
func (l RateLimit) Known() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return max(l.recent.Len(), len(l.callers))
}

// CallerOf is callerOf of a handler with these trusted proxies.
func CallerOf(proxies []netip.Prefix, r *http.Request) string {
	return (&Handler{proxies: proxies}).callerOf(r)
}

// Attachment is attachment.
func Attachment(name string) string { return attachment(name) }

// Builds reports whether a Handler can be made with a route of that pattern which needs nothing, a verb on its key, a verb anywhere, or doesn't say.
func Builds(pattern, what string) (built bool) {
	defer func() { _ = recover() }()
	handle := func(*Handler, *call) error { return nil }
	need := map[string]need{"nothing": open(), "key": needs(publish.VerbRead), "anywhere": anywhere(publish.VerbRead)}[what]
	(&Handler{echo: echo.New()}).register([]route{{http.MethodGet, pattern, need, handle}})
	return true
}

// RouteActions lists what requests to all routes are called in the audit.
func RouteActions() []string {
	var names []string
	for _, r := range routes() {
		names = append(names, r.action())
	}
	return names
}
