package web

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/pawlhq/pawl/publish"
)

// The cookie that carries the id of a session. Browsers take one with the prefix __Host- only over TLS and from this very host, so no neighbour, and nobody on the
// way, can plant one (RFC 6265bis, section 4.1.3).
const (
	sessionCookie = "__Host-pawl"
	// loopbackCookie is for this machine without TLS, where not all browsers take the other one.
	loopbackCookie = "pawl"
)

// identifiedKey is where identify leaves the call, for what every page says of who looks at it.
const identifiedKey = "pawl.identified"

// sessionCookieFor gives the cookie of a request's transport, without a value.
func (h *Handler) sessionCookieFor(r *http.Request) *http.Cookie {
	cookie := &http.Cookie{Name: sessionCookie, Path: "/", HttpOnly: true, Secure: true, SameSite: http.SameSiteLaxMode}
	if onThisMachine(r) {
		cookie.Name, cookie.Secure = loopbackCookie, false
	}
	return cookie
}

// onThisMachine reports whether a request comes from a browser on this machine, without TLS and without a proxy between.
func onThisMachine(r *http.Request) bool {
	for _, header := range []string{headerForwardedFor, headerForwardedProto, "X-Forwarded-Host", "Forwarded", "Via"} {
		if len(r.Header.Values(header)) > 0 {
			return false
		}
	}
	host, ok := hostName(r.Host)
	return r.TLS == nil && ok && isLoopback(host) && parseAddress(r.RemoteAddr).IsLoopback()
}

// sessionOf reads the session that a request shows, zero for none. Of two nobody knows which one is the browser's own.
func (h *Handler) sessionOf(r *http.Request) publish.SessionID {
	cookies := r.CookiesNamed(h.sessionCookieFor(r).Name)
	if len(cookies) != 1 {
		return publish.SessionID{}
	}
	return publish.ParseSessionID(cookies[0].Value)
}

// setSession gives the browser a session. The cookie goes with the browser, at the latest; the session ends by itself.
func (h *Handler) setSession(c echo.Context, id publish.SessionID) {
	cookie := h.sessionCookieFor(c.Request())
	cookie.Value = id.Reveal()
	c.SetCookie(cookie)
}

// dropSession takes it away again.
func (h *Handler) dropSession(c echo.Context) {
	cookie := h.sessionCookieFor(c.Request())
	cookie.MaxAge = -1
	c.SetCookie(cookie)
}

// identifyBySession finds out who makes a request that shows a session. One that has ended is as good as none: who reads what is public isn't kept from it.
func (h *Handler) identifyBySession(c *call) error {
	id := h.sessionOf(c.Request())
	if id.IsZero() {
		return nil
	}
	caller, err := h.service.Session(c.Request().Context(), id)
	switch {
	case errors.Is(err, publish.ErrUnauthorized):
		return nil
	case err != nil:
		return err
	}
	c.is(caller)
	c.session = id
	c.proof = proof{ask: func(ctx context.Context) (publish.Caller, error) { return h.service.SessionStill(ctx, id) }}
	c.Set(loggedCredential, string(caller.Credential))
	return nil
}

// leadsToSignIn reports whether a request that is refused for want of a credential is one of people, who can sign in: they have followed a link, or sent a form.
func (h *Handler) leadsToSignIn(r *http.Request) bool {
	return h.authenticate != nil && h.wantsPage(r) && r.Header.Get("Sec-Fetch-Mode") == "navigate" && r.Header.Get(echo.HeaderAuthorization) == ""
}

// placeOf is where a request has led, as a place for people to come back to; that of a form is its page.
func placeOf(r *http.Request) string {
	place := wirePath(r.URL)
	switch {
	case reads(r) && r.URL.RawQuery != "":
		place += "?" + r.URL.RawQuery
	case !reads(r) && strings.HasPrefix(place, "/credentials/"):
		place = "/credentials"
	case !reads(r) && place == "/sign-out-everywhere":
		place = "/"
	}
	return localPlace(place)
}

// maxPlaceBytes bounds a place to come back to.
const maxPlaceBytes = 4 << 10

// dotsAndSlashes are spelled in a path as browsers, or proxies, understand them.
var dotsAndSlashes = strings.NewReplacer("%2e", ".", "%2E", ".", "%2f", "/", "%2F", "/")

// localPlace is a place on this server to come back to, and "/" instead of anything that a browser could take for an address elsewhere. It is without
// the base path.
func localPlace(text string) string {
	if len(text) > maxPlaceBytes || !strings.HasPrefix(text, "/") || strings.HasPrefix(text, "//") {
		return "/"
	}
	for i := range len(text) {
		// Browsers take a backslash for a slash, and drop tabs and line ends before they look.
		if c := text[i]; c <= ' ' || c >= 0x7f || c == '\\' {
			return "/"
		}
	}
	path, _, _ := strings.Cut(text, "?")
	path, _, _ = strings.Cut(path, "#")
	for segment := range strings.SplitSeq(dotsAndSlashes.Replace(path), "/") {
		if segment == "." || segment == ".." { // They lead out of the base path.
			return "/"
		}
	}
	return text
}
