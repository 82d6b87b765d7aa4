package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/pawlhq/pawl/blobstore"
	"github.com/pawlhq/pawl/oidc"
	"github.com/pawlhq/pawl/publish"
	"github.com/pawlhq/pawl/web"
)

// signInIssuer is an issuer by which people sign in, as the web server takes it.
type signInIssuer struct{ *oidc.SignIn }

// AuthorizationURL is where a person goes to sign in.
func (i signInIssuer) AuthorizationURL(ctx context.Context, flow web.SignInFlow) (string, error) {
	return i.SignIn.AuthorizationURL(ctx, oidc.Flow(flow))
}

// Redeem finds out who has signed in.
func (i signInIssuer) Redeem(ctx context.Context, flow web.SignInFlow, code, issuer string) (publish.Caller, error) {
	return i.SignIn.Redeem(ctx, oidc.Flow(flow), code, issuer)
}

// signIns are the issuers by which people sign in.
func (s authSettings) signIns() []*oidc.SignIn {
	if s.tokens == nil {
		return nil
	}
	return s.tokens.SignIns()
}

func (s authSettings) signInIssuers() (issuers []web.SignInIssuer) {
	for _, each := range s.signIns() {
		issuers = append(issuers, signInIssuer{each})
	}
	return issuers
}

// checkSignIns makes sure that issuers can send people back, and that what proves this server to them shows in no log.
func (s serverSettings) checkSignIns() error {
	if len(s.auth.signIns()) == 0 {
		return nil
	}
	if s.transport.origin == "" {
		return configError{errors.New("PAWL_ORIGIN is not set, but PAWL_OIDC has a sign_in, and people who sign in by an issuer are sent back to this server: " +
			"set it to where browsers reach the pages, e.g. https://pawl.example.com")}
	}
	s.store.keys.know(s.auth.tokens.Secrets()...)
	return nil
}

// originHosts is the host of the pages' origin, which leads here whether it is listed or not.
func (s serverSettings) originHosts() []string {
	u, err := url.Parse(s.transport.origin)
	if err != nil || s.transport.origin == "" {
		return nil
	}
	hosts, err := web.ParseHosts(u.Hostname())
	if err != nil {
		return nil
	}
	return hosts
}

// signInFindings say of each issuer by which people sign in whether it can be reached, and what it must know of this server.
func signInFindings(ctx context.Context, s serverSettings) (findings []blobstore.Finding) {
	back := s.transport.origin + strings.TrimRight(s.basePath, "/") + web.SignInCallback
	for _, each := range s.auth.signIns() {
		found := blobstore.Finding{Name: "sign-in by " + each.Label(), Level: blobstore.LevelOK, Seen: "the issuer answers; it must know the redirect URI " + back}
		if _, err := each.AuthorizationURL(ctx, oidc.Flow{RedirectURI: back}); err != nil {
			found.Level, found.Cure = blobstore.LevelWarn, "look at issuer and ca_file in PAWL_OIDC, and at the way to "+each.Issuer()
			found.Seen = fmt.Sprintf("people can't sign in by it just now: %v; it must know the redirect URI %s", err, back)
		}
		findings = append(findings, found)
	}
	return findings
}
