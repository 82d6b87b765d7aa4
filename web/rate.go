package web

import (
	"container/list"
	"fmt"
	"math"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/labstack/echo/v4"
	"golang.org/x/time/rate"

	"github.com/pawlhq/pawl/publish"
)

// The header fields of draft-ietf-httpapi-ratelimit-headers-10.
const (
	headerRateLimit       = "RateLimit"
	headerRateLimitPolicy = "RateLimit-Policy"
)

// maxCallers bounds how many callers are remembered at once, and with it the memory that strangers can fill: about 20 MiB.
const maxCallers = 1 << 16

// markedAtOnce is how many uploads that are turned away may have the database at a time.
const markedAtOnce = 4

// turnedAwayKey is where limitRate leaves the refusal of an upload, which is to be marked before it is answered.
const turnedAwayKey = "pawl.turned-away"

// callerOf names who a request counts against where a limit is one of each caller: the client's address. The addresses of one IPv6
// network of 64 bits are one caller, since whoever has one of them has them all.
func (h *Handler) callerOf(r *http.Request) string {
	address := h.clientAddress(r)
	if network, err := address.Prefix(64); err == nil && address.Is6() {
		return network.String()
	}
	return address.String()
}

// rateLimit gives each caller a bucket of burst requests that refills at a rate. It may be used from many goroutines at once, and
// has none of its own.
type rateLimit struct {
	limit  rate.Limit
	burst  int
	policy string // for headerRateLimitPolicy

	mu      sync.Mutex
	callers map[string]*list.Element
	recent  list.List // of *bucket, whose caller came last at the front
}

type bucket struct {
	caller  string
	limiter *rate.Limiter
}

// newRateLimit is nil for a limit of 0, which is none.
func newRateLimit(perSecond float64, burst int) *rateLimit {
	if perSecond <= 0 {
		return nil
	}
	if burst < 1 {
		burst = max(1, int(2*perSecond))
	}
	// The bucket is, in the draft's words, a quota of burst requests in the time that refills it.
	window := max(1, int64(math.Ceil(float64(burst)/perSecond)))
	return &rateLimit{
		limit: rate.Limit(perSecond), burst: burst, callers: map[string]*list.Element{},
		policy: fmt.Sprintf(`"default";q=%d;w=%d`, burst, window),
	}
}

// bucketOf finds the bucket of a caller, or makes a full one. When there are too many, the one that was used least lately goes. It is the likeliest
// to be full again, and then its going changes nothing.
func (l *rateLimit) bucketOf(caller string) *rate.Limiter {
	l.mu.Lock()
	defer l.mu.Unlock()
	if at, known := l.callers[caller]; known {
		l.recent.MoveToFront(at)
		return at.Value.(*bucket).limiter //nolint:errcheck // The list has no other values.
	}
	if last := l.recent.Back(); last != nil && l.recent.Len() >= maxCallers {
		delete(l.callers, l.recent.Remove(last).(*bucket).caller) //nolint:errcheck // See above.
	}
	made := &bucket{caller: caller, limiter: rate.NewLimiter(l.limit, l.burst)}
	l.callers[caller] = l.recent.PushFront(made)
	return made.limiter
}

// take takes one request out of a caller's bucket, if there is one. left is how many are in it afterwards. in is how long it takes until there
// is one again, or, for a request that was taken, until the bucket is full.
func (l *rateLimit) take(caller string, now time.Time) (taken bool, left int64, in time.Duration) {
	limiter := l.bucketOf(caller)
	taken = limiter.AllowN(now, 1)
	tokens := math.Max(0, limiter.TokensAt(now))
	want := float64(l.burst)
	if !taken {
		want = 1
	}
	return taken, int64(tokens), time.Duration(math.Max(0, want-tokens) / float64(l.limit) * float64(time.Second))
}

// wholeSeconds rounds up.
func wholeSeconds(d time.Duration) int64 { return int64((d + time.Second - 1) / time.Second) }

// limitRate refuses the requests of a caller that sends too many. What tells whether the server lives, and what every page loads, is free.
func (h *Handler) limitRate(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		if h.rate == nil {
			return next(c)
		}
		switch c.Path() {
		case "/livez", "/readyz", "/metrics", "/static/:file":
			return next(c)
		}
		taken, left, in := h.rate.take(h.callerOf(c.Request()), h.now())
		header := c.Response().Header()
		header.Set(headerRateLimitPolicy, h.rate.policy)
		if taken {
			header.Set(headerRateLimit, fmt.Sprintf(`"default";r=%d;t=%d`, left, wholeSeconds(in)))
			return next(c)
		}
		pause := max(1, wholeSeconds(in))
		header.Set(headerRateLimit, fmt.Sprintf(`"default";r=0;t=%d`, pause))
		h.metrics.rateLimited.Inc()
		refusal := &publish.Error{
			Code: publish.ErrRateLimited, RetryAfterMillis: pause * 1000,
			Detail: fmt.Sprintf("more requests than %d at once and %g a second come from you; send this one again after Retry-After", h.rate.burst, float64(h.rate.limit)),
		}
		if r := c.Request(); r.Method == http.MethodPut && strings.HasPrefix(wirePath(r.URL), keysRoot+"/") {
			c.Set(turnedAwayKey, refusal) // It may be an upload.
			return next(c)
		}
		return refusal
	}
}

// uploadTail is that of the route of uploads.
const uploadTail = "generations/{token}/files/{path}"

// turnedAway is the refusal of a request that limitRate has let pass to its route, nil for all others.
func (h *Handler) turnedAway(c *call, tail string) error {
	refusal, turned := c.Get(turnedAwayKey).(error)
	switch {
	case !turned:
		return nil
	case tail == uploadTail:
		return h.turnAway(c, refusal)
	}
	return refusal
}

// turnAway refuses an upload that is one too many, when it is known what it is. Many uploaders don't look at answers, so its path is marked
// as failed like that of every refused upload. Few are marked at a time: what is too much
// for the server must not all reach the database.
func (h *Handler) turnAway(c *call, why error) error {
	grant, err := c.fileGrant()
	if err != nil {
		return why
	}
	ctx := c.Request().Context()
	select {
	case h.marking <- struct{}{}:
		defer func() { <-h.marking }()
	case <-ctx.Done():
		return why
	}
	return h.service.RefuseUpload(ctx, grant, c.path, why)
}
