package web

import (
	"github.com/labstack/echo/v4"

	"github.com/pawlhq/pawl/publish"
)

// account is what the head of every page says of who looks at it.
type account struct {
	// Name is "" for who has shown no credential.
	Name string
	// SignIn is set for who hasn't, SignOut and SignOutEverywhere for who has signed in.
	SignIn, SignOut, SignOutEverywhere string
}

// account is nil where nobody is asked for a credential, and where a page is for everybody.
func (h *Handler) account(c *call) *account {
	switch {
	case c == nil || !c.asked:
		return nil
	case !c.caller.Known():
		return &account{SignIn: h.links.signIn(placeOf(c.Request()))}
	case c.session.IsZero(): // The browser sends a credential, which nobody but it can forget.
		return &account{Name: c.caller.Name}
	}
	return &account{Name: c.caller.Name, SignOut: h.links.base + "/sign-out", SignOutEverywhere: h.links.base + "/sign-out-everywhere"}
}

// identified is the call of a request that was identified, nil for others.
func identified(c echo.Context) *call {
	this, _ := c.Get(identifiedKey).(*call) //nolint:errcheck // Nobody identified is nil.
	return this
}

// navigation is the links to the pages that who looks may see.
func (h *Handler) navigation(c *call, title string) []navLink {
	may := func(verb publish.Verb) bool {
		return h.authenticate == nil || c != nil && c.caller.Known() && !c.allowed(verb).Empty()
	}
	to := []link{
		{"Keys", h.links.browse("", "")},
		{"Activity", h.links.feed("/activity", nil)},
		{"Rejections", h.links.feed("/rejections", nil)},
		{"Leases", h.links.feed("/leases", nil)},
	}
	if may(publish.VerbRead) {
		to = append(to, link{"Policies", h.links.policies("")})
	}
	if may(publish.VerbAdmin) {
		to = append(to, link{"Audit", h.links.feed("/audit", nil)})
	}
	if may(publish.VerbAdmin) && h.authenticate != nil {
		to = append(to, link{"Credentials", h.links.credentials("")})
	}
	if may(publish.VerbPublish) {
		to = append(to, link{"Upload", h.links.uploadPage("")})
	}
	var nav []navLink
	for _, to := range to {
		nav = append(nav, navLink{link: to, Here: to.Text == title})
	}
	return nav
}
