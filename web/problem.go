package web

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/pawlhq/pawl/publish"
)

// problem is a problem document of RFC 9457. The facts of the refusal stand beside its own members.
type problem struct {
	Type   string `json:"type"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	*publish.Error
	Retryable bool   `json:"retryable"`
	RequestID string `json:"request_id"`
}

// writeError is the one place that answers with an error. The user sees a message, the log the cause.
func (h *Handler) writeError(err error, c echo.Context) {
	refusal, id := h.failed(err, c)
	kind := refusal.Code.Kind()
	header := c.Response().Header()
	if kind.Status == http.StatusInternalServerError {
		refusal = &publish.Error{Code: refusal.Code, Detail: "the server failed; its log has the cause under this request_id"}
	}
	if kind.Status == http.StatusUnauthorized && header.Get(echo.HeaderWWWAuthenticate) == "" {
		header.Set(echo.HeaderWWWAuthenticate, challenge)
	}
	if kind.Status == http.StatusMethodNotAllowed {
		if allow, ok := c.Get(echo.ContextKeyHeaderAllow).(string); ok {
			header.Set(echo.HeaderAllow, allow)
			refusal = &publish.Error{Code: refusal.Code, Detail: "this route has the methods " + allow}
		}
	}
	refusal = notCovered(c, refusal)
	setRetryAfter(header, refusal)
	header.Set(echo.HeaderCacheControl, "no-store")
	header.Set(echo.HeaderContentSecurityPolicy, apiPolicy)
	if kind.Status == http.StatusUnauthorized && h.leadsToSignIn(c.Request()) {
		header.Del(echo.HeaderWWWAuthenticate)
		header.Set(echo.HeaderLocation, h.links.signIn(placeOf(c.Request())))
		c.Response().WriteHeader(http.StatusSeeOther)
		return
	}
	if h.wantsPage(c.Request()) {
		h.writeErrorPage(c, refusal, id)
		return
	}
	answer := problem{
		Type: h.links.problem(refusal.Code), Title: kind.Title, Status: kind.Status, Error: refusal,
		Retryable: kind.Retryable, RequestID: id,
	}
	if err := respondAs(c, kind.Status, "application/problem+json", answer); err != nil {
		h.log.DebugContext(c.Request().Context(), "answer_not_delivered", "request_id", id, "error", err)
	}
}

// failed logs an error, and returns what there is to tell of it, with the id of its request. Where an answer has begun, nothing can be told any more.
func (h *Handler) failed(err error, c echo.Context) (refusal *publish.Error, id string) {
	refusal = refusalOf(err)
	id = c.Response().Header().Get(echo.HeaderXRequestID)
	h.logFailure(c, refusal.Code.Kind().Status, id, err)
	if c.Response().Committed {
		// The answer has a status and a length that are wrong now: only a broken connection can say so.
		panic(http.ErrAbortHandler)
	}
	return refusal, id
}

// setRetryAfter says when to come again, for the errors that pass.
func setRetryAfter(header http.Header, refusal *publish.Error) {
	switch refusal.Code.Kind().Status {
	case http.StatusLocked, http.StatusServiceUnavailable, http.StatusTooManyRequests:
		wait := time.Duration(refusal.RetryAfterMillis) * time.Millisecond
		header.Set(echo.HeaderRetryAfter, strconv.FormatInt(max(1, wholeSeconds(wait)), 10))
	}
}

// writeErrorPage tells people what writeError tells programs.
func (h *Handler) writeErrorPage(c echo.Context, refusal *publish.Error, id string) {
	kind := refusal.Code.Kind()
	page := errorPage{
		frame: h.frame(c, kind.Title), Kind: kind, Problem: h.links.problem(refusal.Code), Detail: refusal.Detail, Explanation: kind.Explanation, Fields: refusal.Fields, RequestID: id,
	}
	if refusal.Code == publish.ErrForbidden && refusal.Detail != "" { // That says which of its causes it is.
		page.Explanation = ""
		if refusal.Scope != "" {
			page.Explanation = "Who is an admin of these keys can give it to you."
		}
	}
	if err := renderAs(c, kind.Status, "error", page); err != nil {
		h.log.ErrorContext(c.Request().Context(), "error_page_failed", "request_id", id, "error", err)
	}
}

// logFailure logs the cause of what isn't the client's doing.
func (h *Handler) logFailure(c echo.Context, status int, id string, err error) {
	ctx := c.Request().Context()
	switch {
	case status == http.StatusServiceUnavailable && ctx.Err() != nil:
		// The client left; nothing failed.
	case status == http.StatusServiceUnavailable:
		h.log.WarnContext(ctx, "request_unavailable", "route", c.Path(), "request_id", id, "error", err)
	case status >= http.StatusInternalServerError:
		h.log.ErrorContext(ctx, "request_failed", "route", c.Path(), "request_id", id, "error", err)
	}
}

// refusalOf finds the kind and the facts of an error.
func refusalOf(err error) *publish.Error {
	var refusal *publish.Error
	var code publish.Code
	var routing *echo.HTTPError
	switch {
	case errors.As(err, &refusal):
		return refusal
	case errors.As(err, &code):
		return &publish.Error{Code: code}
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return &publish.Error{Code: publish.ErrUnavailable, Detail: "the request was ended before its answer; repeat it"}
	case errors.As(err, &routing):
		return refusalOfEcho(routing)
	default:
		return &publish.Error{Code: publish.ErrInternal}
	}
}

// refusalOfEcho translates the errors of echo's own, which come from its routing alone.
func refusalOfEcho(err *echo.HTTPError) *publish.Error {
	switch err.Code {
	case http.StatusNotFound:
		return &publish.Error{Code: publish.ErrNotFound, Detail: "there is no such route"}
	case http.StatusMethodNotAllowed:
		return &publish.Error{Code: publish.ErrMethodNotAllowed, Detail: "the route has other methods; see Allow"}
	case http.StatusRequestEntityTooLarge:
		return &publish.Error{Code: publish.ErrTooLarge}
	}
	if err.Code < http.StatusInternalServerError {
		return &publish.Error{Code: publish.ErrInvalidRequest}
	}
	return &publish.Error{Code: publish.ErrInternal}
}
