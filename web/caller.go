package web

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/pawlhq/pawl/publish"
)

// Authenticate finds out whose a credential is. Its error is an *publish.Error of kind unauthorized for one that is unknown, revoked or expired; any other
// means that nobody knows. It is called for each request, and again while one lasts, from many goroutines at once.
type Authenticate func(context.Context, publish.Secret) (publish.Caller, error)

const (
	// credentialUser is the user name under which Basic authentication carries a credential, for browsers and for programs that know nothing else.
	credentialUser = "pawl"
	// bearerChallenge asks for a credential.
	bearerChallenge = `Bearer realm="pawl"`
	// loggedCredential is where identify leaves the id of a credential for the request's log line. It is no secret.
	loggedCredential = "pawl.credential"
)

// anybody is the caller where nobody is asked for a credential.
var anybody = publish.Caller{Scopes: publish.Scopes{{Verb: publish.VerbAdmin}}}

// identify finds out who makes a request, before anything else of it is looked at. What is sent and no good is refused, whatever the route needs; who sends
// nothing goes on as a public reader, if there is something to read for such.
func (h *Handler) identify(c *call) error {
	if h.authenticate == nil {
		c.is(anybody)
		return nil
	}
	c.asked, c.public = true, h.public
	c.Set(identifiedKey, c)
	shown, lease, fault := h.shown(c.Request())
	switch {
	case fault != "":
		return c.unauthorized(fault)
	case shown.ask != nil:
		return c.identifyBy(shown)
	case lease && c.aboutFiles():
		c.byLease = true
		return nil
	}
	if len(c.Request().Header.Values(echo.HeaderAuthorization)) == 0 {
		if err := h.identifyBySession(c); err != nil {
			return err
		}
	}
	if !c.caller.Known() && h.public.Empty() {
		return c.unauthorized("")
	}
	return nil
}

// is notes who makes the request, also for the calls to the service.
func (c *call) is(caller publish.Caller) {
	c.caller = caller
	c.SetRequest(c.Request().WithContext(publish.WithCaller(c.Request().Context(), caller)))
}

func (c *call) identifyBy(shown proof) error {
	caller, err := shown.ask(c.Request().Context())
	switch {
	case errors.Is(err, publish.ErrUnauthorized):
		return c.unauthorized(shown.fault(err))
	case err != nil:
		return err
	case !caller.Known():
		return fmt.Errorf("a credential was accepted that has no id: %w", publish.ErrInternal)
	}
	c.is(caller)
	c.proof = shown
	c.Set(loggedCredential, string(caller.Credential))
	return nil
}

// shown reads what a request has in Authorization: a credential or token, or a lease id (which fileLeaseID reads), or nothing. fault says what is wrong with it, and
// never repeats it.
func (h *Handler) shown(r *http.Request) (shown proof, lease bool, fault string) {
	values := r.Header.Values(echo.HeaderAuthorization)
	switch {
	case len(values) == 0:
		return shown, false, ""
	case len(values) > 1:
		return shown, false, "Authorization stands twice; send it once"
	}
	scheme, text, _ := strings.Cut(strings.TrimSpace(values[0]), " ")
	text = strings.TrimSpace(text)
	if strings.EqualFold(scheme, "Basic") {
		user, password, ok := r.BasicAuth()
		switch {
		case ok && user == leaseUser:
			return shown, true, ""
		case !ok || user != credentialUser:
			return shown, false, "by Basic authentication a credential is the password of the user " + credentialUser
		}
		text = password
	} else if !strings.EqualFold(scheme, "Bearer") {
		return shown, false, "Authorization must be Bearer and a credential, or Basic with the user " + credentialUser + " and the credential as password"
	}
	shown, err := h.proofOf(text)
	if err != nil {
		return shown, false, err.Error()
	}
	return shown, false, ""
}

// unauthorized asks for a credential, or for a better one. It is the same answer for one that is missing, unknown, revoked and expired; fault says what is
// wrong with the form of one.
func (c *call) unauthorized(fault string) error {
	header := c.Response().Header()
	api := strings.HasPrefix(c.Request().URL.Path, "/v1/")
	header.Del(echo.HeaderWWWAuthenticate)
	// A browser asks people for a password by this one. It is for who follows a link to a file; on pages people sign in, and scripts ask nobody.
	if mode := c.Request().Header.Get("Sec-Fetch-Mode"); (mode == "" || mode == "navigate") && (!api || c.aboutFiles() || c.under("show/")) {
		header.Add(echo.HeaderWWWAuthenticate, challenge)
	}
	if api {
		header.Add(echo.HeaderWWWAuthenticate, bearerChallenge)
	}
	detail := "this takes a credential that is good: send it as Authorization: Bearer pawl_c_…, or by Basic authentication as the password of the user " + credentialUser
	if c.aboutFiles() {
		detail += "; for the files of an open generation, the lease_id of its grant as the password of the user " + leaseUser + " will do"
	}
	if fault != "" {
		detail = fault
	}
	return &publish.Error{Code: publish.ErrUnauthorized, Detail: detail}
}

// aboutFiles reports whether a URL is that of a file of a generation. It looks at the URL as it was sent, since that is asked before names are checked.
func (c *call) aboutFiles() bool { return c.under("files/") }

// under reports whether a URL is one below a folder of a generation.
func (c *call) under(folder string) bool {
	_, tail, _ := strings.Cut(wirePath(c.Request().URL), "/-/")
	generations, tail, _ := strings.Cut(tail, "/")
	_, tail, _ = strings.Cut(tail, "/")
	return generations == "generations" && strings.HasPrefix(tail, folder)
}

// leaseOpens reports whether the lease id of a request opens the file that it is about. Reading ends when the generation is sealed or fenced. Changes go on
// to where they are refused, so that a late writer learns why and shows in the history; they change nothing. Both end when the credential is revoked that was
// granted it, also of a request that is under way.
func (h *Handler) leaseOpens(c *call) (bool, error) {
	id, err := fileLeaseID(c.Request())
	if refusalOf(err).Code == publish.ErrUnauthorized {
		return false, c.unauthorized("the password of the user " + leaseUser + " must be the 32 hex digits of a lease_id")
	}
	if err != nil {
		return false, err
	}
	grant := publish.Grant{Key: c.key, Token: c.token, LeaseID: id}
	shown := proof{ask: func(ctx context.Context) (publish.Caller, error) { return h.service.GrantedTo(ctx, grant) }}
	if c.reads() {
		var opening publish.Opening
		opening, err = h.service.Opens(c.Request().Context(), grant)
		c.opened = opening.Open
	} else {
		_, err = shown.ask(c.Request().Context())
		c.opened = err == nil
	}
	if c.opened {
		c.proof = shown
	}
	if errors.Is(err, publish.ErrUnauthorized) {
		err = nil // Its method may be allowed to everybody.
	}
	return c.opened, err
}

// reads reports whether a request changes nothing.
func (c *call) reads() bool { return reads(c.Request()) }

func reads(r *http.Request) bool { return r.Method == http.MethodGet || r.Method == http.MethodHead }

// keepPrivate keeps the answer about a key that not everybody may read from caches that several share: what is public there would be handed to
// who shows no credential. A browser in which somebody is signed in asks each time whether he still is: the next one at it is somebody else.
func (c *call) keepPrivate() {
	if c.key == "" || c.public.Has(c.key) {
		return
	}
	header := c.Response().Header()
	c.Response().Before(func() {
		if rest, public := strings.CutPrefix(header.Get(echo.HeaderCacheControl), "public, "); public {
			if !c.session.IsZero() {
				rest = "no-cache"
			}
			header.Set(echo.HeaderCacheControl, "private, "+rest)
		}
	})
}
