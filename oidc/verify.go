package oidc

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"time"

	goidc "github.com/coreos/go-oidc/v3/oidc"
	"github.com/go-jose/go-jose/v4"

	"github.com/pawlhq/pawl/publish"
)

// Skew is by how much the clocks of an issuer and of this server may differ.
const Skew = time.Minute

// Verifier finds out whose tokens are. Its methods may be called from many goroutines at once.
type Verifier struct {
	issuers map[string]*Issuer
	signIns []*SignIn
	now     func() time.Time
	cache   cache
}

// New makes a verifier. It reads the files that the configuration names, and asks no issuer anything: that is done when the first token comes.
func New(config Config) (*Verifier, error) { return newVerifier(config, time.Now) }

func newVerifier(config Config, now func() time.Time) (*Verifier, error) {
	v := &Verifier{issuers: make(map[string]*Issuer), now: now}
	for i, each := range config.Issuers {
		client, err := newClient(each)
		if err != nil {
			return nil, fmt.Errorf("/issuers/%d/ca_file: %w", i, err)
		}
		issuer := &Issuer{config: each, client: client, now: now}
		issuer.keys = &keys{issuer: each.Issuer, now: now, fetch: func(ctx context.Context) (*published, error) {
			return fetch(ctx, client, each.Issuer)
		}}
		v.issuers[each.Issuer] = issuer
		if each.SignIn == nil {
			continue
		}
		signIn, err := newSignIn(issuer, *each.SignIn)
		if err != nil {
			return nil, fmt.Errorf("/issuers/%d/sign_in/client_secret_file: %w", i, err)
		}
		v.signIns = append(v.signIns, signIn)
	}
	return v, nil
}

// Authenticate says who shows a token: it is verified, unless that was done within the last five minutes, and mapped by the rules of its issuer. The error is an
// *publish.Error: unauthorized for a token that isn't good, with a Detail that holds nothing of it, forbidden for a good one that no rule maps, unavailable if it
// takes keys of an issuer that can't be reached.
//
// The caller's Credential is "oidc-" and a hash of issuer and subject: the same for all tokens of a subject. No such credential is in the database.
func (v *Verifier) Authenticate(ctx context.Context, token string) (publish.Caller, error) {
	if len(token) > MaxTokenBytes {
		return publish.Caller{}, unauthorized(errTokenSize.Error())
	}
	hash := tokenHash(sha256.Sum256([]byte(token)))
	if caller, ok := v.cache.get(hash, v.now()); ok {
		return caller, nil
	}
	seen, err := look(token)
	if err != nil {
		return publish.Caller{}, unauthorized(err.Error())
	}
	issuer := v.Issuer(seen.issuer)
	if issuer == nil || issuer.config.Audience == "" {
		return publish.Caller{}, unauthorized("the token is of an issuer that this server doesn't trust")
	}
	claims, err := issuer.Verify(ctx, token, issuer.config.Audience)
	if err != nil {
		return publish.Caller{}, err
	}
	caller, err := issuer.Caller(claims)
	if err != nil {
		return publish.Caller{}, err
	}
	until := v.now().Add(rememberFor)
	if end := claims.expires.Add(Skew); end.Before(until) {
		until = end
	}
	v.cache.put(hash, caller, until)
	return caller, nil
}

// Issuer gives one of the configured issuers by its URL, nil if there is no such.
func (v *Verifier) Issuer(url string) *Issuer { return v.issuers[url] }

// Issuer is one issuer: its keys, and the rules for its tokens. Its methods may be called from many goroutines at once.
type Issuer struct {
	config IssuerConfig
	client *http.Client
	keys   *keys
	now    func() time.Time
}

// Client is the client for requests to the issuer, which trusts the authorities that the configuration says.
func (i *Issuer) Client() *http.Client { return i.client }

// Provider gives what the issuer says of itself, such as its endpoints for signing in. It is at most a quarter of an hour old, unless the issuer can't be reached.
// The error is an *publish.Error of kind unavailable.
func (i *Issuer) Provider(ctx context.Context) (*goidc.Provider, error) {
	got, err := i.keys.provider(ctx)
	if err != nil {
		return nil, err
	}
	return got.provider, nil
}

// Verify checks that a token is the issuer's, is for an audience, is good now, and has a subject. The errors are those of Verifier.Authenticate.
func (i *Issuer) Verify(ctx context.Context, token, audience string) (Claims, error) {
	seen, err := look(token)
	if err != nil {
		return Claims{}, unauthorized(err.Error())
	}
	candidates, err := i.keys.find(ctx, seen.keyID)
	if err != nil {
		return Claims{}, err
	}
	payload := &signedPayload{keys: candidates, algorithm: seen.algorithm}
	verifier := goidc.NewVerifier(i.config.Issuer, payload, &goidc.Config{
		SupportedSigningAlgs: []string{string(seen.algorithm)},
		// Both are looked at below: whoever holds what the issuer has signed may know what is wrong with it. And five minutes are much for a skew.
		SkipClientIDCheck: true, SkipExpiryCheck: true,
	})
	if _, err := verifier.Verify(ctx, token); err != nil {
		// The library's errors may repeat parts of the token.
		return Claims{}, unauthorized("the token's signature is not by a key of its issuer, or its claims are malformed")
	}
	tree, err := parseObject(payload.text)
	if err != nil {
		return Claims{}, unauthorized(errTokenHeader.Error())
	}
	return i.check(tree, audience)
}

// check looks at what any token must claim. It reads the names of claims as they are written, which the library doesn't.
func (i *Issuer) check(tree object, audience string) (Claims, error) {
	now := i.now()
	end, hasEnd := numericDate(tree["exp"])
	start, hasStart := numericDate(tree["nbf"])
	claims := Claims{tree: tree, subject: tree.text("sub"), expires: end}
	switch {
	case !isFor(tree["aud"], audience):
		return Claims{}, unauthorized(fmt.Sprintf("the token is for another audience; ask its issuer for one with the audience %q", audience))
	case !hasEnd:
		return Claims{}, unauthorized("the token has no end: its claim exp is missing, or no time")
	case !now.Before(end.Add(Skew)):
		return Claims{}, unauthorized("the token has expired; ask its issuer for a new one")
	case tree["nbf"] != nil && !hasStart || now.Add(Skew).Before(start):
		return Claims{}, unauthorized("the token is not valid yet; if it was just made, the clocks of its issuer and of this server differ")
	case claims.subject == "":
		return Claims{}, unauthorized("the token says of nobody that it is theirs: its claim sub is missing, or no text")
	}
	return claims, nil
}

// isFor reports whether a claim aud holds an audience. It may hold others too: they are whom its owner may show the token as well.
func isFor(claim any, audience string) bool {
	list, isList := claim.([]any)
	return audience != "" && (claim == any(audience) || isList && slices.Contains(list, any(audience)))
}

// numericDate reads a time (RFC 7519, section 2): seconds since 1970, perhaps with a fraction.
func numericDate(claim any) (time.Time, bool) {
	number, isNumber := claim.(json.Number)
	seconds, err := number.Float64()
	if !isNumber || err != nil || seconds < 0 || seconds > 1<<38 {
		return time.Time{}, false
	}
	whole, part := math.Modf(seconds)
	return time.Unix(int64(whole), int64(part*1e9)), true
}

// Caller maps the claims of a verified token to a name and scopes. The error is an *publish.Error of kind forbidden if no rule fits.
func (i *Issuer) Caller(claims Claims) (publish.Caller, error) {
	name, scopes, ok := apply(i.config.Rules, claims)
	if !ok {
		return publish.Caller{}, &publish.Error{Code: publish.ErrForbidden, Detail: "no rule maps this token: it is good, but none of the rules for its issuer in PAWL_OIDC fits its claims"}
	}
	return i.caller(claims, name, scopes), nil
}

func (i *Issuer) caller(claims Claims, name string, scopes publish.Scopes) publish.Caller {
	return publish.Caller{Name: name, Scopes: scopes, Credential: credentialID(i.config.Issuer, claims.subject), Expires: publish.Time{Time: claims.expires}}
}

// credentialID is the same for all tokens of a subject of an issuer.
func credentialID(issuer, subject string) publish.CredentialID {
	sum := sha256.Sum256([]byte(issuer + "\x00" + subject))
	return publish.CredentialID("oidc-" + hex.EncodeToString(sum[:16]))
}

func unauthorized(detail string) error {
	return &publish.Error{Code: publish.ErrUnauthorized, Detail: detail}
}

// signedPayload checks a signature with some keys. It serves one token.
type signedPayload struct {
	keys      []jose.JSONWebKey
	algorithm jose.SignatureAlgorithm
	text      []byte
}

var errSignature = errors.New("no key has made this signature")

// VerifySignature returns the payload of a token that one of the keys has signed.
func (s *signedPayload) VerifySignature(_ context.Context, token string) ([]byte, error) {
	signed, err := jose.ParseSignedCompact(token, []jose.SignatureAlgorithm{s.algorithm})
	if err != nil {
		return nil, err
	}
	for _, key := range s.keys {
		if key.Algorithm != "" && key.Algorithm != string(s.algorithm) {
			continue
		}
		if text, err := signed.Verify(key.Key); err == nil {
			s.text = text
			return text, nil
		}
	}
	return nil, errSignature
}
