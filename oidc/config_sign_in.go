package oidc

import (
	"net/url"
	"slices"
	"strings"
)

// defaultScope is what is asked of an issuer where the configuration says nothing: an ID token, and no more.
const defaultScope = "openid"

// SignInConfig is how people sign in by an issuer.
type SignInConfig struct {
	// ClientID is what the issuer knows this server by. An ID token must have it as its audience.
	ClientID string
	// ClientSecretFile is a file that holds what the server proves that by, on its only line; "" is for a public client, which has PKCE alone.
	ClientSecretFile string
	// Label stands on the button.
	Label string
	// Scope is which claims the issuer is asked for, as OAuth writes it: words split by spaces, openid among them. It is no scope of a rule.
	Scope string
	// Rules say what people may do. They are none for tokens of workloads, and those none for people.
	Rules []Rule
}

// signIn reads how people sign in by an issuer.
//
//	"sign_in": {
//	  "client_id": "pawl",
//	  "client_secret_file": "/etc/pawl/oidc-secret",
//	  "label": "Acme",
//	  "scope": "openid email",
//	  "rules": [{"claims": {"groups": "artists"}, "name": "acme {email}", "scopes": ["operate:renders/"]}]
//	}
func (r *reader) signIn(issuer IssuerConfig) *SignInConfig {
	signIn := &SignInConfig{ClientID: r.text("client_id"), Label: hostOf(issuer.Issuer), Scope: defaultScope, Rules: r.rules(issuer.Issuer, sharedByPeople)}
	if r.has("client_secret_file") {
		signIn.ClientSecretFile = r.text("client_secret_file")
	}
	if r.has("label") {
		signIn.Label = r.text("label")
	}
	if r.has("scope") {
		signIn.Scope = r.text("scope")
	}
	switch {
	case signIn.ClientID == issuer.Audience:
		r.fail("client_id", "is the audience of workloads too, so what people get to sign in with would open the API as a workload's token; choose another audience for those")
	case cleanName(signIn.Label) != signIn.Label:
		r.fail("label", "must have at most %d bytes, no space around it and no control character", MaxNameBytes)
	case !slices.Contains(strings.Fields(signIn.Scope), defaultScope):
		r.fail("scope", "lacks the word %s, without which issuers say nothing of who signs in; write it as in \"openid email\"", defaultScope)
	}
	r.end()
	return signIn
}

func hostOf(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return address // It is refused for that.
	}
	return u.Host
}

// sharedByPeople is, as shared, for issuers with which anybody in the world can have an account, the claims of which a rule for people must name one.
var sharedByPeople = map[string][]string{
	"https://accounts.google.com": {"sub", "email", "hd"},
	"https://gitlab.com":          {"sub", "email", "groups_direct"},
	"https://appleid.apple.com":   {"sub", "email"},
	// The tenant of everybody's private accounts.
	"https://login.microsoftonline.com/9188040d-6c67-4c5b-b112-36a304b66dad/v2.0": {"sub", "oid"},
}
