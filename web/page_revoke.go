package web

import (
	"net/http"

	"github.com/pawlhq/pawl/publish"
)

// revokePage asks before a credential is revoked, which nothing undoes.
type revokePage struct {
	frame
	publish.Credential
	Action, Back string
	// Own tells that it is the credential that the caller shows.
	Own bool
	// Signed tells that the caller has signed in, so that a session ends with it.
	Signed bool
}

// revokePage shows what ends with a credential, and the button that ends it.
func (h *Handler) revokePage(c *call) error {
	if _, _, err := c.credentialOperator(); err != nil {
		return err
	}
	id, err := publish.ParseCredentialID(c.Param("id"))
	if err != nil {
		return err
	}
	credential, err := h.service.Credential(c.Request().Context(), id, c.allowed(publish.VerbAdmin))
	if err != nil {
		return err
	}
	return render(c, "revoke", revokePage{
		frame: h.frame(c, "Revoke "+credential.Name), Credential: credential, Action: h.links.revoke(id), Back: h.links.credentials(""),
		Own: id == c.caller.Credential, Signed: !c.session.IsZero(),
	})
}

// revokeCredentialOnPage ends one, and says so: on the list, or, to who has ended the one that he shows, on the page on which people sign in.
func (h *Handler) revokeCredentialOnPage(c *call) error {
	by, _, err := c.credentialOperator()
	if err != nil {
		return err
	}
	id, err := publish.ParseCredentialID(c.Param("id"))
	if err != nil {
		return err
	}
	if _, err := readForm(c, nil); err != nil {
		return err
	}
	revoked, err := h.service.RevokeCredential(c.Request().Context(), id, by, c.allowed(publish.VerbAdmin))
	switch {
	case err != nil:
		return err
	case id != c.caller.Credential:
		return c.Redirect(http.StatusSeeOther, h.links.credentials("")+"?revoked="+string(id))
	}
	if !c.session.IsZero() {
		h.dropSession(c)
	}
	c.caller, c.session = publish.Caller{}, publish.SessionID{}
	return h.showSignIn(c, http.StatusOK, signInPage{
		Next: "/credentials", Notice: "You have revoked " + revoked.Name + ", your own credential, and are signed out. Sign in with another one.",
	})
}

// revokedCredential finds the credential that an address calls revoked, nil if it isn't: a link could say anything.
func (h *Handler) revokedCredential(c *call, text string) (*publish.Credential, error) {
	id, err := publish.ParseCredentialID(text)
	if err != nil {
		return nil, pointAt("revoked", err)
	}
	credential, err := h.service.Credential(c.Request().Context(), id, c.allowed(publish.VerbAdmin))
	if err != nil || credential.State != publish.CredentialRevoked {
		return nil, err
	}
	return &credential, nil
}

// revoke is the address of the page that asks before a credential is revoked.
func (l links) revoke(id publish.CredentialID) string {
	return l.credentials("") + "/" + string(id) + "/revoke"
}
