package web

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"unicode"

	"github.com/labstack/echo/v4"

	"github.com/pawlhq/pawl/publish"
)

// SignInIssuer is an issuer other than Pawl by which people sign in. Its methods may be called from many goroutines at once; their errors are *publish.Error, whose
// Detail may be shown to who signs in.
type SignInIssuer interface {
	// Issuer is its URL, which no other one has. Label stands on its button.
	Issuer() string
	Label() string
	// AuthorizationURL is where a person goes to sign in. The error is of kind unavailable.
	AuthorizationURL(ctx context.Context, flow SignInFlow) (string, error)
	// Redeem finds out who has signed in, by the code that the issuer's answer has brought. issuer is what the answer names as such, "" for nothing. The error is of
	// kind unauthorized where that proves nothing, forbidden for a person who may do nothing here, unavailable where the issuer can't be asked; RetryAfterMillis tells that
	// the code wasn't shown to it, and when another call may do so.
	Redeem(ctx context.Context, flow SignInFlow, code, issuer string) (publish.Caller, error)
}

// SignInFlow is one attempt of a person to sign in by an issuer. State, Nonce and Verifier are random, and as OpenID Connect and PKCE use them.
type SignInFlow struct{ RedirectURI, State, Nonce, Verifier string }

// SignInCallback is where issuers send people back to, below the base path.
const SignInCallback = "/sign-in/callback"

// ParseOrigin reads the origin at which browsers reach the pages, such as https://pawl.example, for Options.Origin; "" is for none.
func ParseOrigin(text string) (string, error) {
	if text == "" {
		return "", nil
	}
	scheme, host, err := splitOrigin(text, "https://pawl.example")
	switch {
	case err != nil:
		return "", err
	case scheme != "https" && !isLoopback(host):
		return "", fmt.Errorf("%q must begin with https://: browsers stay signed in by nothing else; http:// is for this machine alone", text)
	}
	return strings.ToLower(text), nil
}

// setSignIns takes over by whom people sign in.
func (h *Handler) setSignIns(opts Options) error {
	origin, err := ParseOrigin(opts.Origin)
	switch {
	case err != nil:
		return fmt.Errorf("origin: %w", err)
	case origin == "" && len(opts.SignInIssuers) > 0:
		return errors.New("origin: there is none, and people who sign in by an issuer are sent back to it")
	}
	h.origin, h.signInIssuers = origin, opts.SignInIssuers
	return nil
}

// signInIssuer is the issuer of a URL, nil if there is none.
func (h *Handler) signInIssuer(address string) SignInIssuer {
	for _, each := range h.signInIssuers {
		if each.Issuer() == address {
			return each
		}
	}
	return nil
}

// flowOf is an attempt as the issuer sees it. Where people are sent back to is a setting: a request's Host is what its sender likes.
func (h *Handler) flowOf(flow keptFlow) SignInFlow {
	return SignInFlow{RedirectURI: h.origin + h.links.base + SignInCallback, State: flow.State, Nonce: flow.Nonce, Verifier: flow.Verifier}
}

// leavePage takes people to an issuer.
type leavePage struct {
	frame
	Label, To string
}

// beginSignIn sends people to an issuer. It does so by a page and not by a redirection: browsers take one that follows a form for a part of it, so that the
// Content-Security-Policy would have to list the issuer's origin, and all that this leads to in turn.
func (h *Handler) beginSignIn(c *call) error {
	if _, err := c.query(); err != nil {
		return err
	}
	if h.authenticate == nil {
		return errNobodySignsIn
	}
	form, err := readForm(c, []string{"issuer", "next"})
	if err != nil {
		return err
	}
	issuer := h.signInIssuer(form.Get("issuer"))
	if issuer == nil {
		return publish.InvalidField(publish.ErrInvalidRequest, "/issuer", "is none by which people sign in here; begin at "+h.links.signIn(""))
	}
	flow := newFlow(issuer.Issuer(), form.Get("next"), h.now())
	to, err := issuer.AuthorizationURL(c.Request().Context(), h.flowOf(flow))
	if err != nil {
		return h.refuseSignIn(c, flow, err)
	}
	if err := h.keepFlow(c, flow); err != nil {
		return err
	}
	page := leavePage{frame: h.frame(c, "Sign in"), Label: issuer.Label(), To: to}
	page.noStore = true
	c.Response().Header().Set("Refresh", "0;url="+to)
	return render(c, "leave", page)
}

// endSignIn takes an issuer's answer, and begins a session as signIn does. Nothing of the answer is believed unless this browser has begun the attempt that it is
// about: otherwise a stranger could sign others in as himself.
func (h *Handler) endSignIn(c *call) error {
	r := c.Request()
	query := r.URL.Query() // Issuers add parameters as they like (RFC 6749, section 4.1.2).
	flow, ok := keptFlow{}, false
	if r.Method == http.MethodGet { // HEAD must not spend the code.
		flow, ok = h.findFlow(c, only(query, "state"))
	}
	issuer := h.signInIssuer(flow.Issuer)
	if !ok || issuer == nil {
		problem := "This answer belongs to no sign-in that is under way in this browser. It was answered already, has taken longer than 10 minutes, or was begun elsewhere. Begin anew"
		if h.origin != "" {
			problem += ", at " + h.origin + h.links.signIn("")
		}
		return h.showSignIn(c, http.StatusBadRequest, signInPage{Problem: problem + "."})
	}
	if code := query.Get("error"); code != "" {
		return h.refusedByIssuer(c, flow, issuer, code, query.Get("error_description"))
	}
	code := only(query, "code")
	if code == "" {
		return h.refusedByIssuer(c, flow, issuer, "no code", "")
	}
	// Answers that belong to no attempt aren't counted: pages of other sites could make anybody's browser send some.
	attempt, wait := h.signIns.begin(r.Context(), h.callerOf(r), h.now)
	if wait > 0 {
		return h.tooManySignIns(c, flow.Next, wait)
	}
	defer attempt.end()
	caller, err := issuer.Redeem(r.Context(), h.flowOf(flow), code, query.Get("iss"))
	if err == nil || refusalOf(err).RetryAfterMillis == 0 { // else the code is unspent, and the same answer may come again
		h.dropFlow(c, flow.State[:flowTagLetters])
	}
	if errors.Is(err, publish.ErrUnauthorized) {
		attempt.fail()
	}
	if err != nil {
		return h.refuseSignIn(c, flow, err)
	}
	c.Set(loggedCredential, string(caller.Credential))
	id, err := h.service.SignIn(r.Context(), publish.SignInRequest{
		Caller: caller, ByIssuer: true, Lifetime: h.sessionLifetime, Idle: h.sessionIdle, Replaces: h.sessionOf(r),
	})
	if err != nil {
		return err
	}
	h.log.InfoContext(r.Context(), "signed_in", "name", caller.Name, "credential", string(caller.Credential), "issuer", flow.Issuer)
	h.setSession(c, id)
	return c.Redirect(http.StatusSeeOther, h.links.base+localPlace(flow.Next))
}

// only is the value of a parameter that stands once, "" for all others.
func only(query url.Values, name string) string {
	if len(query[name]) != 1 {
		return ""
	}
	return query[name][0]
}

// refuseSignIn shows the form again, with what an attempt by an issuer came to. The log learns why.
func (h *Handler) refuseSignIn(c *call, flow keptFlow, err error) error {
	refusal := refusalOf(err)
	problem, header := refusal.Detail+".", c.Response().Header()
	switch refusal.Code {
	case publish.ErrUnauthorized:
		// A challenge that makes no browser ask for a password.
		header.Set(echo.HeaderWWWAuthenticate, bearerChallenge)
		problem += " Begin anew; if that doesn't help, tell who runs this server."
	case publish.ErrUnavailable:
		setRetryAfter(header, refusal)
		problem += " Try again in a moment, or sign in with a credential."
		if refusal.RetryAfterMillis > 0 {
			problem = refusal.Detail + ". Reload this page in a moment, or sign in with a credential."
		}
	case publish.ErrForbidden:
		err = publish.ErrForbidden // Who that is nobody is told but the person.
	default:
		return err
	}
	h.logSignIn(c, flow, err)
	return h.showSignIn(c, refusal.Code.Kind().Status, signInPage{Next: flow.Next, Problem: problem})
}

func (h *Handler) logSignIn(c *call, flow keptFlow, err error) {
	h.log.WarnContext(c.Request().Context(), "sign_in_failed", "issuer", flow.Issuer, "request_id", c.Response().Header().Get(echo.HeaderXRequestID), "error", err)
}

// refusedByIssuer shows what an issuer has said instead of who a person is (RFC 6749, section 4.1.2.1). Its words are a stranger's: text, and not much of it.
func (h *Handler) refusedByIssuer(c *call, flow keptFlow, issuer SignInIssuer, code, description string) error {
	status, cure := http.StatusBadGateway, "Tell who runs this server: the issuer doesn't know it, or by other settings."
	switch code {
	case "access_denied", "login_required", "interaction_required", "consent_required", "account_selection_required":
		status, cure = http.StatusForbidden, "Begin anew and agree there, or sign in with a credential."
	case "server_error", "temporarily_unavailable":
		status, cure = http.StatusServiceUnavailable, "Try again in a moment, or sign in with a credential."
		c.Response().Header().Set(echo.HeaderRetryAfter, "1")
	}
	h.dropFlow(c, flow.State[:flowTagLetters])
	said := foreignText(code)
	if description != "" {
		said += " (" + foreignText(description) + ")"
	}
	h.logSignIn(c, flow, fmt.Errorf("the issuer answers %s", said))
	return h.showSignIn(c, status, signInPage{Next: flow.Next, Problem: fmt.Sprintf("%s hasn't let you in: %s. %s", issuer.Label(), said, cure)})
}

// foreignText is a stranger's text for people: without what breaks or reorders lines, and not much of it.
func foreignText(text string) string {
	const most = 200
	runes := []rune(strings.ToValidUTF8(text, "?"))
	if len(runes) > most {
		runes = append(runes[:most], '…')
	}
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) || r == '\u2028' || r == '\u2029' {
			return '?'
		}
		return r
	}, string(runes))
}
