package web

import (
	"fmt"
	"net/http"

	"github.com/pawlhq/pawl/publish"
)

// credentials shows a page of the credentials that open nothing beyond what the caller is admin of.
func (h *Handler) credentials(c *call) error {
	query, err := c.query("after", "limit")
	if err != nil {
		return err
	}
	limit, err := limitOf(query)
	if err != nil {
		return err
	}
	var after publish.CredentialID
	if text := query.Get("after"); text != "" {
		if after, err = publish.ParseCredentialID(text); err != nil {
			return pointAt("after", err)
		}
	}
	page, err := h.service.Credentials(c.Request().Context(), after, limit, c.allowed(publish.VerbAdmin))
	if err != nil {
		return err
	}
	return respond(c, http.StatusOK, page)
}

// createCredential makes a credential, and answers with its text this once.
func (h *Handler) createCredential(c *call) error {
	req := publish.CreateCredentialRequest{Admin: c.allowed(publish.VerbAdmin)}
	var err error
	if req.By, req.RequestID, err = c.credentialOperator(); err != nil {
		return err
	}
	var scopes []string
	var lifetime string
	if err := readJSON(c, members{"name": &req.Name, "scopes": &scopes, "expires_in": &lifetime}); err != nil {
		return err
	}
	for i, text := range scopes {
		scope, err := publish.ParseScope(text)
		if err != nil {
			return pointAt(fmt.Sprintf("/scopes/%d", i), err)
		}
		req.Scopes = append(req.Scopes, scope)
	}
	if req.Lifetime, err = lifetimeOf(lifetime); err != nil {
		return err
	}
	made, err := h.service.CreateCredential(c.Request().Context(), req)
	return respondIssued(c, made, err)
}

// rotateCredential makes a credential in the place of another, and answers with its text this once.
func (h *Handler) rotateCredential(c *call) error {
	req := publish.RotateCredentialRequest{Overlap: publish.DefaultOverlap, Admin: c.allowed(publish.VerbAdmin)}
	var err error
	if req.By, req.RequestID, err = c.credentialOperator(); err != nil {
		return err
	}
	if req.ID, err = publish.ParseCredentialID(c.Param("id")); err != nil {
		return err
	}
	var lifetime string
	if err := readJSON(c, members{"expires_in": &lifetime, "overlap": &req.Overlap}); err != nil {
		return err
	}
	if req.Lifetime, err = lifetimeOf(lifetime); err != nil {
		return err
	}
	made, err := h.service.RotateCredential(c.Request().Context(), req)
	return respondIssued(c, made, err)
}

// revokeCredential ends a credential. Repeating it is no error.
func (h *Handler) revokeCredential(c *call) error {
	by, _, err := c.credentialOperator()
	if err != nil {
		return err
	}
	id, err := publish.ParseCredentialID(c.Param("id"))
	if err != nil {
		return err
	}
	revoked, err := h.service.RevokeCredential(c.Request().Context(), id, by, c.allowed(publish.VerbAdmin))
	if err != nil {
		return err
	}
	return respond(c, http.StatusOK, revoked)
}

// credentialOperator is operator for a change of credentials. Where nobody is asked for a credential, nobody makes one: it would open the server on
// the day on which it begins to ask.
func (c *call) credentialOperator() (publish.Operator, publish.LeaseID, error) {
	if !c.asked {
		return "", publish.LeaseID{}, &publish.Error{
			Code: publish.ErrForbidden,
			Detail: "this server asks nobody for a credential, so it can't tell who may make one: make the first one with `pawl credential create` on the database (PAWL_DATABASE_URL), " +
				"then start `pawl serve` with PAWL_AUTH=required",
		}
	}
	if _, err := c.query(); err != nil {
		return "", publish.LeaseID{}, err
	}
	return c.operator()
}

// lifetimeOf reads the member expires_in, which may be absent.
func lifetimeOf(text string) (publish.Lifetime, error) {
	if text == "" {
		return 0, nil
	}
	return publish.ParseLifetime("/expires_in", text)
}

func respondIssued(c *call, made publish.IssuedCredential, err error) error {
	if err != nil {
		return err
	}
	c.Response().Header().Set("Cache-Control", "no-store")
	return respond(c, http.StatusCreated, struct {
		publish.IssuedCredential
		Secret string `json:"secret"`
	}{made, made.Secret.Reveal()})
}
