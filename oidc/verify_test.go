package oidc

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/google/go-cmp/cmp"

	"github.com/pawlhq/pawl/internal/testenv"
	"github.com/pawlhq/pawl/publish"
)

func TestAuthenticate(t *testing.T) {
	t.Parallel()
	r := newRig(t, rules)
	got := r.good(r.token(nil))
	want := publish.Caller{
		Name: "github acme/renders", Credential: credentialID(r.issuer.URL, "repo:acme/renders:ref:refs/heads/main"),
		Scopes: publish.Scopes{{Verb: publish.VerbPublish, Prefix: "renders/"}}, Expires: publish.Time{Time: r.clock.Now().Add(5 * time.Minute)},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if !strings.HasPrefix(string(got.Credential), "oidc-") || !got.Known() {
		t.Errorf("the caller's id is %q", got.Credential)
	}
	if again := r.good(r.token(map[string]any{"jti": "2"})); again.Credential != got.Credential {
		t.Errorf("another token of the subject has the id %q, not %q", again.Credential, got.Credential)
	}
	if other := r.good(r.token(map[string]any{"sub": "other"})); other.Credential == got.Credential {
		t.Error("another subject has the same id")
	}
	r.requests(2) // The discovery document and the keys.
}

func TestClaimsThatEveryTokenNeeds(t *testing.T) {
	t.Parallel()
	r := newRig(t, rules)
	now := r.clock.Now().Unix()
	const audience, expired, early, endless, nobody = "another audience", "has expired", "not valid yet", "no end", "of nobody"
	for name, test := range map[string]struct {
		changed map[string]any
		reason  string // "" for a good token
	}{
		"audience among others":   {map[string]any{"aud": []string{"other", "pawl"}}, ""},
		"audience in a list":      {map[string]any{"aud": []string{"pawl"}}, ""},
		"other audience":          {map[string]any{"aud": "pawl2"}, audience},
		"other audience's prefix": {map[string]any{"aud": "paw"}, audience},
		"audience in other case":  {map[string]any{"aud": "PAWL"}, audience},
		"other audiences":         {map[string]any{"aud": []string{"other", "pawls"}}, audience},
		"no audience":             {map[string]any{"aud": nil}, audience},
		"empty audience":          {map[string]any{"aud": ""}, audience},
		"empty list":              {map[string]any{"aud": []string{}}, audience},
		"audience misspelt":       {map[string]any{"aud": nil, "AUD": "pawl"}, audience},
		"number as audience":      {map[string]any{"aud": 7}, "malformed"},
		"object as audience":      {map[string]any{"aud": map[string]any{"pawl": "pawl"}}, "malformed"},
		"list in the list":        {map[string]any{"aud": []any{[]string{"pawl"}}}, "malformed"},
		"ends now":                {map[string]any{"exp": now}, ""},
		"ended within the skew":   {map[string]any{"exp": now - 59}, ""},
		"ended before the skew":   {map[string]any{"exp": now - 60}, expired},
		"ended in 1970":           {map[string]any{"exp": 0}, expired},
		"fraction of a second":    {map[string]any{"exp": float64(now) + 0.5}, ""},
		"no end":                  {map[string]any{"exp": nil}, endless},
		"end misspelt":            {map[string]any{"exp": nil, "Exp": now + 300}, endless},
		"end as text":             {map[string]any{"exp": "1900000000"}, endless},
		"end beyond all numbers":  {map[string]any{"exp": json.RawMessage("1e300")}, endless},
		"end before all times":    {map[string]any{"exp": -5}, endless},
		"end as list":             {map[string]any{"exp": []int64{now + 300}}, "malformed"},
		"begins within the skew":  {map[string]any{"nbf": now + 60}, ""},
		"begins after the skew":   {map[string]any{"nbf": now + 61}, early},
		"begins at no time":       {map[string]any{"nbf": "tomorrow"}, "malformed"},
		"no beginning":            {map[string]any{"nbf": nil}, ""},
		"no subject":              {map[string]any{"sub": nil}, nobody},
		"empty subject":           {map[string]any{"sub": ""}, nobody},
		"number as subject":       {map[string]any{"sub": 7}, "malformed"},
	} {
		t.Run(name, func(t *testing.T) {
			token := r.token(test.changed)
			r := &rig{T: t, issuer: r.issuer, verifier: r.verifier, clock: r.clock}
			if test.reason == "" {
				r.good(token)
				return
			}
			r.refused(token, publish.ErrUnauthorized, test.reason)
		})
	}
}

// What is remembered of a token ends with it.
func TestRememberedTokenExpires(t *testing.T) {
	t.Parallel()
	r := newRig(t, rules)
	token := r.token(map[string]any{"exp": r.clock.Now().Unix() + 60})
	r.good(token)
	r.clock.pass(2*time.Minute - time.Second)
	r.good(token)
	r.clock.pass(time.Second)
	r.refused(token, publish.ErrUnauthorized, "has expired")
}

func TestIssuerIsCompared(t *testing.T) {
	t.Parallel()
	r := newRig(t, rules)
	const reason = "doesn't trust"
	for _, issuer := range []any{r.issuer.URL + "/", strings.ToUpper(r.issuer.URL), "https://evil.example", "", json.RawMessage("null"), 7, []string{r.issuer.URL}} {
		r.refused(r.token(map[string]any{"iss": issuer}), publish.ErrUnauthorized, reason)
	}
	r.requests(0)

	// Another issuer's token that names this one.
	other := testenv.NewIssuer(t)
	r.refused(other.Token(t, r.claims(map[string]any{"iss": r.issuer.URL})), publish.ErrUnauthorized, "signature")
}

// encode makes one part of a token.
func encode(text string) string { return base64.RawURLEncoding.EncodeToString([]byte(text)) }

func TestForgedTokens(t *testing.T) {
	t.Parallel()
	r := newRig(t, rules)
	good := r.token(nil)
	r.good(good)
	before := r.issuer.Requests()
	header, rest, _ := strings.Cut(good, ".")
	payload, signature, _ := strings.Cut(rest, ".")
	claims, err := json.Marshal(map[string]any{"iss": r.issuer.URL, "sub": "evil", "aud": "pawl", "exp": r.clock.Now().Unix() + 300, "repository": "acme/renders"})
	if err != nil {
		t.Fatal(err)
	}
	evil := encode(string(claims))
	own, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	ownKey := jose.JSONWebKey{Key: own, KeyID: "key-1", Algorithm: "ES256"}
	ownJWK, err := ownKey.Public().MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	embedded := `{"alg":"ES256","kid":"key-1","jwk":` + string(ownJWK) + `}`
	const algorithm, form, members = "algorithm", "three parts", "twice"
	for name, test := range map[string]struct{ token, reason string }{
		"other key of the same name":  {testenv.SignToken(t, ownKey, claims), "signature"},
		"other claims":                {header + "." + evil + "." + signature, "signature"},
		"other header":                {encode(`{"alg":"ES256","kid":"key-1","x":1}`) + "." + payload + "." + signature, "signature"},
		"other algorithm":             {encode(`{"alg":"ES384","kid":"key-1"}`) + "." + payload + "." + signature, "signature"},
		"RS256 with a key of ES256":   {encode(`{"alg":"RS256","kid":"key-1"}`) + "." + payload + "." + signature, "signature"},
		"zero signature":              {header + "." + evil + "." + encode(string(make([]byte, 64))), "signature"},
		"key in the header":           {signBy(t, own, embedded, evil), "signature"},
		"none":                        {encode(`{"alg":"none"}`) + "." + evil + ".", form},
		"none with a signature":       {encode(`{"alg":"none","kid":"key-1"}`) + "." + evil + "." + signature, algorithm},
		"None":                        {encode(`{"alg":"None"}`) + "." + evil + "." + signature, algorithm},
		"no algorithm":                {encode(`{"kid":"key-1"}`) + "." + evil + "." + signature, algorithm},
		"algorithm in a list":         {encode(`{"alg":["ES256"],"kid":"key-1"}`) + "." + payload + "." + signature, algorithm},
		"no signature":                {header + "." + payload + ".", form},
		"two parts":                   {header + "." + payload, form},
		"five parts":                  {good + ".a.b", form},
		"line end in it":              {header + ".\n" + payload + "." + signature, form},
		"padding":                     {header + "." + payload + "." + signature + "==", form},
		"JSON serialisation":          {`{"protected":"` + header + `","payload":"` + payload + `","signature":"` + signature + `"}`, form},
		"two algorithms":              {encode(`{"alg":"none","alg":"ES256","kid":"key-1"}`) + "." + payload + "." + signature, members},
		"two issuers":                 {header + "." + encode(`{"iss":"a","iss":"`+r.issuer.URL+`"}`) + "." + signature, members},
		"header is a list":            {encode(`["alg"]`) + "." + payload + "." + signature, members},
		"name of the key is a number": {encode(`{"alg":"ES256","kid":7}`) + "." + payload + "." + signature, members},
		"critical extension":          {signBy(t, own, `{"alg":"ES256","kid":"key-1","crit":["b64"],"b64":false}`, evil), "signature"},
		"deep":                        {header + "." + encode(strings.Repeat(`{"a":`, 2000)+"1"+strings.Repeat("}", 2000)) + "." + signature, members},
		"huge":                        {header + "." + strings.Repeat("A", MaxTokenBytes) + "." + signature, "longer than 16 KiB"},
		"nothing":                     {"", form},
		"a secret of another kind":    {"hunter2-hunter2-hunter2", form},
	} {
		t.Run(name, func(t *testing.T) {
			(&rig{T: t, issuer: r.issuer, verifier: r.verifier, clock: r.clock}).refused(test.token, publish.ErrUnauthorized, test.reason)
		})
	}
	r.requests(before) // None of them made the server ask.
}

// signBy signs any header and payload by ES256.
func signBy(t *testing.T, key *ecdsa.PrivateKey, header, payload string) string {
	t.Helper()
	input := encode(header) + "." + payload
	sum := sha256.Sum256([]byte(input))
	r, s, err := ecdsa.Sign(rand.Reader, key, sum[:])
	if err != nil {
		t.Fatal(err)
	}
	var raw [64]byte
	r.FillBytes(raw[:32])
	s.FillBytes(raw[32:])
	return input + "." + base64.RawURLEncoding.EncodeToString(raw[:])
}

// The key that everybody can fetch must not serve as the secret of an algorithm with one key.
func TestPublicKeyIsNoSecret(t *testing.T) {
	t.Parallel()
	r := newRig(t, rules)
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	// It says of no algorithm that it is its own.
	r.issuer.SetKeys(jose.JSONWebKey{Key: key, KeyID: "rsa"})
	der, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		t.Fatal(err)
	}
	claims, err := json.Marshal(r.claims(map[string]any{"iss": r.issuer.URL}))
	if err != nil {
		t.Fatal(err)
	}
	r.good(testenv.SignToken(t, jose.JSONWebKey{Key: key, KeyID: "rsa", Algorithm: "RS256"}, claims))
	for _, secret := range [][]byte{der, pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}), key.N.Bytes(), {}} {
		input := encode(`{"alg":"HS256","kid":"rsa"}`) + "." + encode(string(claims))
		mac := hmac.New(sha256.New, secret)
		mac.Write([]byte(input))
		r.refused(input+"."+encode(string(mac.Sum(nil))), publish.ErrUnauthorized, "algorithm")
	}
}

func TestAlgorithms(t *testing.T) {
	t.Parallel()
	r := newRig(t, rules)
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	short, err := rsa.GenerateKey(rand.Reader, 1024)
	if err != nil {
		t.Fatal(err)
	}
	_, edKey, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	own := func(key any, id, algorithm string) jose.JSONWebKey {
		return jose.JSONWebKey{Key: key, KeyID: id, Algorithm: algorithm, Use: "sig"}
	}
	forEncryption := own(rsaKey, "encryption", "RS256")
	forEncryption.Use = "enc"
	keys := []jose.JSONWebKey{own(rsaKey, "a", "RS256"), own(rsaKey, "b", "PS512"), own(edKey, "c", "EdDSA"), own(short, "short", "RS256"), forEncryption}
	r.issuer.SetKeys(keys...)
	claims, err := json.Marshal(r.claims(map[string]any{"iss": r.issuer.URL}))
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range keys[:3] {
		r.good(testenv.SignToken(t, key, claims))
		key.KeyID = "" // Then each key is tried.
		r.good(testenv.SignToken(t, key, claims))
	}
	for _, key := range append(keys[3:], own(rsaKey, "a", "PS256"), own(rsaKey, "c", "RS256")) {
		r.refused(testenv.SignToken(t, key, claims), publish.ErrUnauthorized, "signature")
	}
}

func TestNoRuleMapsTheToken(t *testing.T) {
	t.Parallel()
	r := newRig(t, rules)
	for _, repository := range []any{"acme/renders2", "ACME/renders", "acme/render", nil, 7, true, map[string]any{"acme/renders": 1}, []any{[]string{"acme/renders"}}} {
		r.refused(r.token(map[string]any{"repository": repository}), publish.ErrForbidden, "no rule maps this token")
	}
}
