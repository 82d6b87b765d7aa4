package web

import (
	"errors"
	"net/http"
	"net/url"
	"time"

	"github.com/pawlhq/pawl/publish"
)

// credentialsPage is the list of credentials, and the forms that make and rotate them.
type credentialsPage struct {
	frame
	Rows   []credentialRow
	Next   string
	Action string
	// Asked is false where nobody is asked for a credential, and nobody makes one.
	Asked bool
	// Issued is the credential that was just made: its text is shown this once.
	Issued *publish.IssuedCredential
	// Revoked is the one that was just revoked, nil for none.
	Revoked *publish.Credential
	Request string
	Form    url.Values // what the form holds that was refused
	Problem string     // why it was
}

type credentialRow struct {
	publish.Credential
	// Rotate is where its form leads, Revoke is the page that asks before; "" for one that isn't active.
	Rotate, Revoke string
	Own            bool // the one that the caller shows
	Request        string
	Overlaps       []link // how long the old one may stay good
}

// Text is the text of the credential that was just made.
func (p credentialsPage) Text() string { return p.Issued.Secret.Reveal() }

var (
	createFields = []string{"request", "name", "scopes", "expires_in"}
	rotateFields = []string{"request", "expires_in", "overlap"}
	// offeredOverlaps are texts of time.ParseDuration, and what people call them.
	offeredOverlaps = []link{{"for 24 hours more", "24h"}, {"for 1 hour more", "1h"}, {"for 7 days more", "168h"}, {"no longer", "0s"}}
)

// credentialsPage shows the credentials that open nothing beyond what the caller is admin of.
func (h *Handler) credentialsPage(c *call) error {
	query, err := c.query("after", "revoked")
	if err != nil {
		return err
	}
	page := credentialsPage{}
	if text := query.Get("revoked"); text != "" {
		if page.Revoked, err = h.revokedCredential(c, text); err != nil {
			return err
		}
	}
	return h.showCredentials(c, http.StatusOK, query.Get("after"), page)
}

// createCredentialOnPage makes a credential, and shows its text this once.
func (h *Handler) createCredentialOnPage(c *call) error {
	return h.changeCredential(c, createFields, func(form url.Values, by publish.Operator, id publish.LeaseID) (*publish.IssuedCredential, error) {
		scopes, err := publish.ParseScopes(form.Get("scopes"))
		if err != nil {
			return nil, pointAt("/scopes", err)
		}
		lifetime, err := lifetimeOf(form.Get("expires_in"))
		if err != nil {
			return nil, err
		}
		made, err := h.service.CreateCredential(c.Request().Context(), publish.CreateCredentialRequest{
			Name: form.Get("name"), Scopes: scopes, Lifetime: lifetime, By: by, Admin: c.allowed(publish.VerbAdmin), RequestID: id,
		})
		return &made, err
	})
}

// rotateCredentialOnPage makes one in the place of another.
func (h *Handler) rotateCredentialOnPage(c *call) error {
	return h.changeCredential(c, rotateFields, func(form url.Values, by publish.Operator, request publish.LeaseID) (*publish.IssuedCredential, error) {
		id, err := publish.ParseCredentialID(c.Param("id"))
		if err != nil {
			return nil, err
		}
		lifetime, err := lifetimeOf(form.Get("expires_in"))
		if err != nil {
			return nil, err
		}
		overlap := publish.DefaultOverlap
		if text := form.Get("overlap"); text != "" {
			if overlap, err = time.ParseDuration(text); err != nil {
				return nil, publish.InvalidField(publish.ErrInvalidRequest, "/overlap", `must be a duration such as "24h"`)
			}
		}
		made, err := h.service.RotateCredential(c.Request().Context(), publish.RotateCredentialRequest{
			ID: id, Lifetime: lifetime, Overlap: overlap, By: by, Admin: c.allowed(publish.VerbAdmin), RequestID: request,
		})
		return &made, err
	})
}

// changeCredential does what a form asks for and shows the page again: with the text of what was made, or with what is wrong and all that was typed.
func (h *Handler) changeCredential(c *call, fields []string, change func(url.Values, publish.Operator, publish.LeaseID) (*publish.IssuedCredential, error)) error {
	by, request, err := c.credentialOperator()
	if err != nil {
		return err
	}
	form, err := readForm(c, fields)
	if err != nil {
		return err
	}
	if text := form.Get("request"); text != "" {
		if request, err = publish.ParseLeaseID(text); err != nil {
			return pointAt("/request", err)
		}
	}
	issued, err := change(form, by, request)
	var refusal *publish.Error
	switch {
	case errors.As(err, &refusal) && refusal.Code.Kind().Status < http.StatusInternalServerError && refusal.Code != publish.ErrNotFound:
		return h.showCredentials(c, refusal.Code.Kind().Status, "", credentialsPage{Form: form, Problem: saidField(refusal)})
	case err != nil:
		return err
	}
	return h.showCredentials(c, http.StatusCreated, "", credentialsPage{Issued: issued})
}

func (h *Handler) showCredentials(c *call, status int, text string, page credentialsPage) error {
	var after publish.CredentialID
	var err error
	if text != "" {
		if after, err = publish.ParseCredentialID(text); err != nil {
			return pointAt("after", err)
		}
	}
	list, err := h.service.Credentials(c.Request().Context(), after, 0, c.allowed(publish.VerbAdmin))
	if err != nil {
		return err
	}
	page.frame, page.Action, page.Asked, page.Request = h.frame(c, "Credentials"), h.links.credentials(""), c.asked, publish.NewLeaseID().Hex()
	page.noStore = true
	for _, made := range list.Credentials {
		row := credentialRow{Credential: made, Own: made.ID == c.caller.Credential, Request: publish.NewLeaseID().Hex(), Overlaps: offeredOverlaps}
		if row.Good() && c.asked {
			row.Revoke = h.links.revoke(made.ID)
			if made.ReplacedBy == "" {
				row.Rotate = page.Action + "/" + string(made.ID) + "/rotate"
			}
		}
		page.Rows = append(page.Rows, row)
	}
	if list.Next != "" {
		page.Next = h.links.credentials(list.Next)
	}
	return renderAs(c, status, "credentials", page)
}

// credentials is the address of the page of credentials behind one; "" is the first.
func (l links) credentials(after publish.CredentialID) string {
	if after == "" {
		return l.base + "/credentials"
	}
	return l.base + "/credentials?after=" + string(after)
}
