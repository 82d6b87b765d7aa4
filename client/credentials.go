package client

import (
	"context"
	"fmt"
	"net/http"
	"net/url"

	"github.com/pawlhq/pawl/publish"
)

// CreateCredential makes a credential; what the request says of By and Admin is left out, since the server knows the caller by its own credential. It
// draws the RequestID unless req has one, so that a request whose answer was lost is repeated without a second credential.
func (c *Client) CreateCredential(ctx context.Context, req publish.CreateCredentialRequest) (publish.IssuedCredential, error) {
	body := struct {
		Name      string         `json:"name"`
		Scopes    publish.Scopes `json:"scopes"`
		ExpiresIn string         `json:"expires_in,omitempty"`
	}{req.Name, req.Scopes, req.Lifetime.String()}
	return c.issue(ctx, call{
		what: "create credential", method: http.MethodPost, url: c.credentialsURL(""), header: operator("", req.RequestID), body: body, changes: true,
	})
}

// RotateCredential makes a credential in the place of another, which ends after the Overlap. By, Admin and RequestID are as those of CreateCredential.
func (c *Client) RotateCredential(ctx context.Context, req publish.RotateCredentialRequest) (publish.IssuedCredential, error) {
	body := struct {
		ExpiresIn string `json:"expires_in,omitempty"`
		Overlap   string `json:"overlap"`
	}{req.Lifetime.String(), req.Overlap.String()}
	return c.issue(ctx, call{
		what: "rotate credential", method: http.MethodPost, url: c.credentialsURL(req.ID) + "/rotate", header: operator("", req.RequestID),
		body: body, changes: true,
	})
}

// issue carries out a call that is answered with the text of a credential.
func (c *Client) issue(ctx context.Context, call call) (publish.IssuedCredential, error) {
	var made struct {
		publish.Credential
		Secret string `json:"secret"`
	}
	call.into = &made
	if err := c.do(ctx, call); err != nil {
		return publish.IssuedCredential{}, err
	}
	secret, err := publish.ParseSecret(made.Secret)
	if err != nil {
		return publish.IssuedCredential{}, fmt.Errorf("%s: the server's answer holds no credential: %w", call.what, err)
	}
	return publish.IssuedCredential{Credential: made.Credential, Secret: secret}, nil
}

// RevokeCredential ends a credential for good, within 5 s at all servers. Repeating it is no error.
func (c *Client) RevokeCredential(ctx context.Context, id publish.CredentialID) (publish.Credential, error) {
	var revoked publish.Credential
	err := c.do(ctx, call{what: "revoke credential", method: http.MethodDelete, url: c.credentialsURL(id), into: &revoked, changes: true})
	return revoked, err
}

// Credentials returns one page of credentials by their names: those that follow after, "" being from the first on.
func (c *Client) Credentials(ctx context.Context, after publish.CredentialID, limit int) (publish.CredentialPage, error) {
	query := url.Values{}
	if after != "" {
		query.Set("after", string(after))
	}
	setLimit(query, limit)
	var page publish.CredentialPage
	err := c.do(ctx, call{what: "credentials", method: http.MethodGet, url: c.credentialsURL("") + "?" + query.Encode(), into: &page})
	return page, err
}

func (c *Client) credentialsURL(id publish.CredentialID) string {
	if id == "" {
		return c.base + "/v1/credentials"
	}
	return c.base + "/v1/credentials/" + url.PathEscape(string(id))
}
