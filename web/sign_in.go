package web

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/pawlhq/pawl/publish"
)

// signInPage is where people show their credential.
type signInPage struct {
	frame
	Action string
	Next   string
	// Issuers are the buttons of who people can sign in by instead, which lead to Begin.
	Issuers []SignInIssuer
	Begin   string
	// Notice is what was done, Problem what went wrong; "" for nothing.
	Notice, Problem string
	// Asked is false where nobody is asked for a credential.
	Asked bool
	// Plain tells that the page came without TLS, as far as this server can tell: then browsers don't keep the cookie.
	Plain bool
}

var signInFields = []string{"credential", "next"}

// signInPage shows the form.
func (h *Handler) signInPage(c *call) error {
	query, err := c.query("next")
	if err != nil {
		return err
	}
	return h.showSignIn(c, http.StatusOK, signInPage{Next: query.Get("next")})
}

// showSignIn shows the form, with the place to come back to and what there is to say.
func (h *Handler) showSignIn(c *call, status int, page signInPage) error {
	page.frame, page.Action, page.Next, page.Asked = h.frame(c, "Sign in"), h.links.signIn(""), localPlace(page.Next), h.authenticate != nil
	page.Issuers, page.Begin = h.signInIssuers, h.links.base+"/sign-in/issuer"
	r := c.Request()
	page.Plain = !onThisMachine(r) && !h.overTLS(r) && r.Header.Get(headerForwardedProto) != "https"
	page.noStore = true
	return renderAs(c, status, "sign_in", page)
}

// signIn begins a session for who shows a good credential, under an id that is always new: whatever session the browser has shown ends. It leads back to where people
// came from.
func (h *Handler) signIn(c *call) error {
	if _, err := c.query(); err != nil {
		return err
	}
	if h.authenticate == nil {
		return errNobodySignsIn
	}
	form, err := readForm(c, signInFields)
	if err != nil {
		return err
	}
	attempt, wait := h.signIns.begin(c.Request().Context(), h.callerOf(c.Request()), h.now)
	if wait > 0 {
		return h.tooManySignIns(c, form.Get("next"), wait)
	}
	defer attempt.end()
	id, err := h.signInBy(c, form.Get("credential"))
	if errors.Is(err, publish.ErrUnauthorized) {
		attempt.fail()
	}
	if refusal := (*publish.Error)(nil); errors.As(err, &refusal) && refusal.Code == publish.ErrUnauthorized {
		// A challenge that makes no browser ask for a password.
		c.Response().Header().Set(echo.HeaderWWWAuthenticate, bearerChallenge)
		return h.showSignIn(c, http.StatusUnauthorized, signInPage{Next: form.Get("next"), Problem: refusal.Detail})
	}
	if err != nil {
		return err
	}
	h.setSession(c, id)
	return c.Redirect(http.StatusSeeOther, h.links.base+localPlace(form.Get("next")))
}

var errNobodySignsIn = &publish.Error{Code: publish.ErrForbidden, Detail: "this server asks nobody for a credential, so nobody signs in"}

// tooManySignIns shows the form again, and says when to send it.
func (h *Handler) tooManySignIns(c *call, next string, wait time.Duration) error {
	refusal := &publish.Error{Code: publish.ErrRateLimited, RetryAfterMillis: wait.Milliseconds()}
	setRetryAfter(c.Response().Header(), refusal)
	problem := fmt.Sprintf("Too many sign-ins from your address have failed, or are under way; try again in %d s.", max(1, wholeSeconds(wait)))
	return h.showSignIn(c, refusal.Code.Kind().Status, signInPage{Next: next, Problem: problem})
}

func (h *Handler) signInBy(c *call, text string) (publish.SessionID, error) {
	ctx := c.Request().Context()
	secret, err := publish.ParseSecret(strings.TrimSpace(text))
	if err != nil {
		return publish.SessionID{}, &publish.Error{Code: publish.ErrUnauthorized, Detail: err.Error()}
	}
	caller, err := h.authenticate(ctx, secret)
	if err == nil {
		c.Set(loggedCredential, string(caller.Credential))
		var id publish.SessionID
		if id, err = h.service.SignIn(ctx, publish.SignInRequest{
			Caller: caller, Lifetime: h.sessionLifetime, Idle: h.sessionIdle, Replaces: h.sessionOf(c.Request()),
		}); err == nil {
			return id, nil
		}
	}
	if errors.Is(err, publish.ErrUnauthorized) {
		err = &publish.Error{Code: publish.ErrUnauthorized, Detail: "this credential isn't good: it was never made, was revoked, or has expired"}
	}
	return publish.SessionID{}, err
}

// signOut ends the session of this browser, if it has one.
func (h *Handler) signOut(c *call) error {
	if _, err := c.query(); err != nil {
		return err
	}
	if err := h.service.SignOut(c.Request().Context(), h.sessionOf(c.Request())); err != nil {
		return err
	}
	return h.signedOut(c)
}

// signOutEverywhere ends all sessions of who makes the call.
func (h *Handler) signOutEverywhere(c *call) error {
	if _, err := c.query(); err != nil {
		return err
	}
	if c.caller.Known() {
		if err := h.service.SignOutEverywhere(c.Request().Context(), c.caller); err != nil {
			return err
		}
	}
	return h.signedOut(c)
}

func (h *Handler) signedOut(c *call) error {
	h.dropSession(c)
	return c.Redirect(http.StatusSeeOther, h.links.signIn(""))
}

// signIn is the address of the page on which people sign in, and come back to a place.
func (l links) signIn(next string) string {
	if next == "" || next == "/" {
		return l.base + "/sign-in"
	}
	return l.base + "/sign-in?next=" + url.QueryEscape(next)
}
