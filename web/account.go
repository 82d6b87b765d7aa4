package web

import (
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"regexp"
	"runtime/debug"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/pawlhq/pawl/publish"
)

// loggedKey is where dispatch leaves the key of a request for its log line.
const loggedKey = "pawl.key"

// apiPolicy is the Content-Security-Policy of answers that aren't pages: nothing in them may load or run.
const apiPolicy = "default-src 'none'; frame-ancestors 'none'"

// statusClientGone stands in log and metrics for a request whose client left before its answer. It is nginx's number; nobody receives it.
const statusClientGone = 499

// saneRequestID is what is taken over of a client's own X-Request-Id, so that it can't forge log lines.
var saneRequestID = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)

// accountFor frames every request: its id, the headers that every answer has, one log line and one measurement. The line
// never has headers or query, which may hold secrets.
func (h *Handler) accountFor(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		r, start := c.Request(), h.now()
		id := r.Header.Get(echo.HeaderXRequestID)
		if !saneRequestID.MatchString(id) {
			id = rand.Text()
		}
		header := c.Response().Header()
		header.Set(echo.HeaderXRequestID, id)
		header.Set(echo.HeaderXContentTypeOptions, "nosniff")
		header.Set("Referrer-Policy", "no-referrer")
		header.Set(headerResourcePolicy, string(EmbedSameOrigin))
		if h.overTLS(r) {
			header.Set("Strict-Transport-Security", "max-age=31536000")
		}
		header.Set(echo.HeaderContentSecurityPolicy, apiPolicy)
		header.Set(echo.HeaderCacheControl, "no-store")
		h.metrics.inFlight.Inc()
		defer h.metrics.inFlight.Dec()
		defer h.conclude(c, id, start)
		if err := next(c); err != nil {
			c.Error(err)
		}
		return nil
	}
}

// conclude writes the line and the measurement, also of a request whose connection is being aborted.
func (h *Handler) conclude(c echo.Context, id string, start time.Time) {
	r, took, status := c.Request(), h.now().Sub(start), c.Response().Status
	if r.Context().Err() != nil && status == http.StatusServiceUnavailable {
		status = statusClientGone
	}
	route := c.Path()
	if route == "" || route == keysRoot+"/*" || route == keyPages+"/*" {
		route = "none"
	}
	h.metrics.request(route, r.Method, status, took)
	level := slog.LevelInfo
	if route == "/livez" || route == "/readyz" || route == "/metrics" {
		level = slog.LevelDebug
	}
	key, _ := c.Get(loggedKey).(string)               //nolint:errcheck // Routes without a key leave none.
	credential, _ := c.Get(loggedCredential).(string) //nolint:errcheck // Requests without a credential leave none.
	h.log.Log(r.Context(), level, "request", "method", r.Method, "route", route, "key", key, "credential", credential, "status", status,
		"ms", took.Milliseconds(), "bytes", c.Response().Size, "client", h.clientAddress(r).String(), "request_id", id)
}

// recoverPanics turns a panic into an error with its stack as cause. Breaking a connection off is not a handler's business but
// that of writeError, which is called outside.
func (h *Handler) recoverPanics(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) (err error) {
		defer func() {
			if fault := recover(); fault != nil {
				err = errors.Join(publish.ErrInternal, fmt.Errorf("panic: %v\n%s", fault, debug.Stack()))
			}
		}()
		return next(c)
	}
}
