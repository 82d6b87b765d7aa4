package oidc

import (
	"cmp"
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	goidc "github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"github.com/pawlhq/pawl/publish"
)

// maxCode bounds a code, in bytes. Those of the known issuers have at most about 2 KiB.
const maxCode = 8 << 10

// errorCode is the form of all registered errors of OAuth.
var errorCode = regexp.MustCompile(`^[a-z_]{1,40}$`)

// SignIn lets people sign in by an issuer: by its authorization code flow (OpenID Connect Core, section 3.1), with PKCE (RFC 7636). Its methods may be called from
// many goroutines at once.
type SignIn struct {
	issuer *Issuer
	config SignInConfig
	secret string // "" of a public client
	client *http.Client
	pause  pause // of the token endpoint
}

// Flow is one attempt of a person to sign in: what the server and the browser keep of it until the issuer's answer comes.
type Flow struct {
	// RedirectURI is where the issuer sends the person back to. The issuer has it in a list.
	RedirectURI string
	// State binds the answer to the browser, Nonce the ID token to the attempt, Verifier the code to who began. Each is random; Verifier has 43 to 128 letters and
	// digits (RFC 7636, section 4.1).
	State, Nonce, Verifier string
}

func newSignIn(issuer *Issuer, config SignInConfig) (*SignIn, error) {
	s := &SignIn{issuer: issuer, config: config, pause: pause{now: issuer.now}}
	// A token endpoint that leads elsewhere would lead code and secret there.
	client := *issuer.client
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	s.client = &client
	if config.ClientSecretFile == "" {
		return s, nil
	}
	text, err := os.ReadFile(config.ClientSecretFile)
	if err != nil {
		return nil, fmt.Errorf("%w; name a file that can be read", err)
	}
	if s.secret = strings.TrimSpace(string(text)); s.secret == "" {
		return nil, fmt.Errorf("%s is empty; write the client's secret into it, or leave it out for a public client", config.ClientSecretFile)
	}
	return s, nil
}

// SignIns gives the issuers by which people sign in, in the order of the configuration.
func (v *Verifier) SignIns() []*SignIn { return slices.Clone(v.signIns) }

// Secrets are the texts that must not show in a log.
func (v *Verifier) Secrets() (secrets []string) {
	for _, each := range v.signIns {
		if each.secret != "" {
			secrets = append(secrets, each.secret)
		}
	}
	return secrets
}

// Issuer is the issuer's URL.
func (s *SignIn) Issuer() string { return s.issuer.config.Issuer }

// Label is what stands on the button.
func (s *SignIn) Label() string { return s.config.Label }

// AuthorizationURL gives the address at the issuer to which a person goes to sign in. The error is an *publish.Error of kind unavailable.
func (s *SignIn) AuthorizationURL(ctx context.Context, flow Flow) (string, error) {
	told, err := s.metadata(ctx)
	if err != nil {
		return "", err
	}
	return s.oauth(told, flow).AuthCodeURL(flow.State, goidc.Nonce(flow.Nonce), oauth2.S256ChallengeOption(flow.Verifier)), nil
}

// Redeem gives the issuer the code that its answer has brought, and learns from it who signs in. from is what the answer names as its issuer, "" for nothing
// (RFC 9207): a code of another one must not be shown to this one.
//
// The error is an *publish.Error: unauthorized for a code that isn't good, or where the issuer's word proves nothing; forbidden for a person whom no rule lets in,
// with a Detail that says who that is and is for nobody else; unavailable where the issuer can't be asked, or refuses this server, with RetryAfterMillis where the code
// wasn't shown to it and is still good for another call. Cause is for the log, and no part of the error holds a code or a token.
func (s *SignIn) Redeem(ctx context.Context, flow Flow, code, from string) (publish.Caller, error) {
	told, err := s.metadata(ctx)
	if err != nil {
		return publish.Caller{}, s.unshown(err, firstPause)
	}
	if from == "" && told.NamesItself || from != "" && from != s.Issuer() {
		return publish.Caller{}, s.unproven(errors.New("the answer came from another issuer than the person was sent to"))
	}
	answer, err := s.exchange(ctx, told, flow, code)
	if err != nil {
		return publish.Caller{}, err
	}
	token, _ := answer.Extra("id_token").(string) //nolint:errcheck // None is no good either.
	if len(token) > MaxTokenBytes {
		return publish.Caller{}, &publish.Error{Code: publish.ErrUnauthorized, Detail: fmt.Sprintf(
			"the ID token that came from %s is longer than %d KiB, so it isn't read: the issuer must put less into it, such as only the groups that Pawl's rules name",
			s.Label(), MaxTokenBytes>>10), Cause: fmt.Errorf("the ID token has %d bytes", len(token))}
	}
	claims, err := s.issuer.Verify(ctx, token, s.config.ClientID)
	if errors.Is(err, publish.ErrUnauthorized) {
		return publish.Caller{}, s.unproven(err)
	}
	if err != nil {
		return publish.Caller{}, err
	}
	if err := s.check(claims.tree, flow.Nonce); err != nil {
		return publish.Caller{}, s.unproven(err)
	}
	name, scopes, ok := apply(s.config.Rules, claims)
	if !ok {
		return publish.Caller{}, &publish.Error{Code: publish.ErrForbidden, Detail: fmt.Sprintf(
			"%s says that you are %s, and nothing here is open to you. If it should be, show this to who runs this server: none of the rules under sign_in in PAWL_OIDC fits",
			s.Label(), whoIs(claims))}
	}
	return s.issuer.caller(claims, name, scopes), nil
}

// exchange shows a code to the token endpoint, unless that is ill.
func (s *SignIn) exchange(ctx context.Context, told metadata, flow Flow, code string) (*oauth2.Token, error) {
	if len(code) > maxCode || strings.ContainsFunc(code, func(r rune) bool { return r < ' ' || r > '~' }) {
		return nil, s.unproven(errors.New("the code is longer than 8 KiB, or has characters that no code has (RFC 6749, appendix A.11)"))
	}
	seen, wait := s.pause.begin()
	if wait > 0 {
		return nil, s.unshown(s.unavailable(fmt.Errorf("token endpoint: it has failed and isn't asked again for %s", wait)), wait)
	}
	// It goes on when the person has left, for as long as the client lets it: who leaves at once would else neither be counted, nor wait for his turn.
	ctx = goidc.ClientContext(context.WithoutCancel(ctx), s.client)
	answer, err := s.oauth(told, flow).Exchange(ctx, code, oauth2.VerifierOption(flow.Verifier))
	if err != nil {
		err = s.refused(err)
	}
	if errors.Is(err, publish.ErrUnavailable) {
		s.pause.failed(seen)
	} else {
		s.pause.answered()
	}
	return answer, err
}

// check looks at what an ID token must claim besides what any token must (OpenID Connect Core, section 3.1.3.7).
func (s *SignIn) check(tree object, nonce string) error {
	audiences, isList := tree["aud"].([]any)
	switch _, hasParty := tree["azp"]; {
	case nonce == "" || subtle.ConstantTimeCompare([]byte(tree.text("nonce")), []byte(nonce)) != 1:
		return errors.New("the ID token is of another attempt to sign in: its nonce differs")
	case (hasParty || isList && len(audiences) > 1) && tree.text("azp") != s.config.ClientID:
		return errors.New("the ID token was made for another client: its claim azp doesn't name this one")
	}
	return nil
}

// metadata is what the issuer says of how people sign in by it.
type metadata struct {
	endpoint oauth2.Endpoint
	// NamesItself promises that each answer says which issuer it is of (RFC 9207, section 3).
	NamesItself bool     `json:"authorization_response_iss_parameter_supported"`
	AuthMethods []string `json:"token_endpoint_auth_methods_supported"`
}

func (s *SignIn) metadata(ctx context.Context) (told metadata, err error) {
	provider, err := s.issuer.Provider(ctx)
	if err != nil {
		return told, err
	}
	told.endpoint = provider.Endpoint()
	err = provider.Claims(&told)
	if err == nil && (told.endpoint.AuthURL == "" || told.endpoint.TokenURL == "") {
		err = errors.New("its discovery document names no authorization_endpoint or no token_endpoint")
	}
	if err == nil {
		err = s.guard(told.endpoint.AuthURL)
	}
	if err != nil {
		return told, s.unavailable(err)
	}
	return told, nil
}

// guard refuses an address to send people to that others could read or answer for.
func (s *SignIn) guard(address string) error {
	to, err := url.Parse(address)
	if err != nil {
		return err
	}
	own, err := url.Parse(s.Issuer())
	if err == nil && (to.Host == "" || !guarded(to, plain(own))) {
		err = errUnguarded
	}
	return err
}

func (s *SignIn) oauth(told metadata, flow Flow) *oauth2.Config {
	// Not the library's way of finding out by trying: a code that was shown once may be spent.
	told.endpoint.AuthStyle = oauth2.AuthStyleInParams
	if methods := told.AuthMethods; s.secret != "" && (len(methods) == 0 || slices.Contains(methods, "client_secret_basic")) {
		told.endpoint.AuthStyle = oauth2.AuthStyleInHeader
	}
	return &oauth2.Config{
		ClientID: s.config.ClientID, ClientSecret: s.secret, Endpoint: told.endpoint, RedirectURL: flow.RedirectURI, Scopes: strings.Fields(s.config.Scope),
	}
}

// refused says why no token came for a code. The library's errors may hold all of an answer.
func (s *SignIn) refused(err error) error {
	var answer *oauth2.RetrieveError
	if !errors.As(err, &answer) {
		return s.unavailable(fmt.Errorf("token endpoint: %w", shortened{err}))
	}
	said := cmp.Or(answer.ErrorCode, "none")
	if !errorCode.MatchString(said) {
		said = "(no error code)" // It may be the request, with code and verifier.
	}
	cause := fmt.Errorf("token endpoint: the answer is %d with the error %q", answer.Response.StatusCode, said)
	switch status := answer.Response.StatusCode; {
	case answer.ErrorCode == "invalid_grant": // RFC 6749, section 5.2
		return &publish.Error{Code: publish.ErrUnauthorized, Detail: s.Label() + " doesn't take this sign-in any more: it was used already, or took too long", Cause: cause}
	case answer.ErrorCode == "invalid_client", answer.ErrorCode == "unauthorized_client":
	case status == http.StatusBadRequest, status == http.StatusForbidden:
		// It is about what was shown, which a stranger can have made up: that mustn't keep others from signing in.
		return s.unproven(cause)
	}
	return s.unavailable(cause)
}

func (s *SignIn) unproven(cause error) error {
	return &publish.Error{Code: publish.ErrUnauthorized, Detail: "what came from " + s.Label() + " doesn't prove who you are", Cause: cause}
}

func (s *SignIn) unavailable(cause error) error {
	return &publish.Error{Code: publish.ErrUnavailable, Detail: s.Label() + " can't be asked who you are just now", Cause: cause}
}

// unshown says of an error that the code wasn't shown to the issuer, and when it may be.
func (s *SignIn) unshown(err error, wait time.Duration) error {
	var refusal *publish.Error
	if !errors.As(err, &refusal) {
		return err
	}
	again := *refusal
	again.RetryAfterMillis = max(1, wait.Milliseconds())
	return &again
}

// whoIs says who somebody is in the words of the issuer.
func whoIs(claims Claims) string {
	for _, claim := range []string{"email", "preferred_username", "name"} {
		if text := claims.tree.text(claim); text != "" {
			return fmt.Sprintf("%s (sub %s)", cleanName(text), cleanName(claims.subject))
		}
	}
	return "sub " + cleanName(claims.subject)
}
