package oidc

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/pawlhq/pawl/internal/testenv"
	"github.com/pawlhq/pawl/publish"
)

const redirectURI = "https://pawl.example/sign-in/callback"

var flow = Flow{RedirectURI: redirectURI, State: "the-state", Nonce: "the-nonce", Verifier: strings.Repeat("the-verifier", 4)}

// signRig is an issuer and the side of it by which people sign in.
type signRig struct {
	*testing.T
	issuer   *testenv.Issuer
	verifier *Verifier
	signIn   *SignIn
}

// newSignRig starts an issuer that knows one client, with a secret or "" for a public one.
func newSignRig(t *testing.T, secret string) *signRig {
	t.Helper()
	issuer := testenv.NewIssuer(t)
	issuer.SetClient(testenv.IssuerClient{ID: "pawl-page", RedirectURI: redirectURI, Secret: secret})
	issuer.SetPerson(map[string]any{"email": "mia@acme.example", "groups": []string{"artists"}})
	part := map[string]any{
		"client_id": "pawl-page", "label": "Acme", "scope": "openid email",
		"rules": []any{map[string]any{"claims": map[string]any{"groups": "artists"}, "name": "acme {email}", "scopes": []string{"operate:renders/"}}},
	}
	if secret != "" {
		file := filepath.Join(t.TempDir(), "secret")
		if err := os.WriteFile(file, []byte(secret+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		part["client_secret_file"] = file
	}
	text, err := json.Marshal(map[string]any{"issuers": []any{map[string]any{"issuer": issuer.URL, "ca_file": issuer.CAFile, "sign_in": part}}})
	if err != nil {
		t.Fatal(err)
	}
	config, err := ParseConfig(text)
	if err != nil {
		t.Fatal(err)
	}
	verifier, err := New(config)
	if err != nil {
		t.Fatal(err)
	}
	return &signRig{t, issuer, verifier, verifier.SignIns()[0]}
}

// code is one that a person has agreed to.
func (r *signRig) code() (code, from string) {
	r.Helper()
	address, err := r.signIn.AuthorizationURL(r.Context(), flow)
	if err != nil {
		r.Fatal(err)
	}
	back, err := url.Parse(r.issuer.Agree(r, address))
	if err != nil || back.Query().Get("state") != flow.State {
		r.Fatalf("back to %v, %v", back, err)
	}
	return back.Query().Get("code"), back.Query().Get("iss")
}

// refused redeems a code and checks that it is refused; the log learns why, and neither it nor the person sees a code or a token.
func (r *signRig) refused(flow Flow, code, from string, want publish.Code, reason string) {
	r.Helper()
	caller, err := r.signIn.Redeem(r.Context(), flow, code, from)
	if !errors.Is(err, want) || caller.Known() {
		r.Fatalf("got %+v, %v; want %s", caller, err, want)
	}
	if !strings.Contains(err.Error(), reason) {
		r.Errorf("the error is %q; it must say %q", err, reason)
	}
	for _, secret := range []string{code, flow.Verifier, flow.Nonce, "eyJ"} {
		if secret != "" && strings.Contains(err.Error(), secret) {
			r.Errorf("%q holds a secret", err)
		}
	}
}

// answers makes the token endpoint answer with an ID token.
func (r *signRig) answers(idToken string) {
	r.issuer.Intercept(func(w http.ResponseWriter, req *http.Request) bool {
		if req.URL.Path != "/token" {
			return false
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, `{"access_token":"a","token_type":"Bearer","id_token":%q}`, idToken)
		return true
	})
}

// Public clients and those with a secret sign people in, and a code is good once.
func TestRedeem(t *testing.T) {
	t.Parallel()
	for _, secret := range []string{"", "s3cret-of-the-client"} {
		r := newSignRig(t, secret)
		code, from := r.code()
		caller, err := r.signIn.Redeem(t.Context(), flow, code, from)
		if err != nil {
			t.Fatal(err)
		}
		if caller.Name != "acme mia@acme.example" || len(caller.Scopes) != 1 || caller.Scopes[0].String() != "operate:renders/" || caller.Credential != credentialID(r.issuer.URL, "person-1") {
			t.Errorf("signed in is %+v", caller)
		}
		r.refused(flow, code, from, publish.ErrUnauthorized, "it was used already")
		if got := strings.Join(r.verifier.Secrets(), ","); got != secret {
			t.Errorf("the secrets are %q", got)
		}
	}
	r := newSignRig(t, "secret")
	r.issuer.SetClient(testenv.IssuerClient{ID: "pawl-page", RedirectURI: redirectURI, Secret: "another"})
	code, from := r.code()
	r.refused(flow, code, from, publish.ErrUnavailable, `401 with the error "invalid_client"`)
}

// Only who has begun has the verifier, and without it the code is worth nothing (PKCE): the issuer checks it.
func TestRedeemTakesTheVerifier(t *testing.T) {
	t.Parallel()
	r := newSignRig(t, "")
	for _, verifier := range []string{"", strings.Repeat("another", 7)} {
		stolen := flow
		stolen.Verifier = verifier
		code, from := r.code()
		r.refused(stolen, code, from, publish.ErrUnauthorized, "invalid_grant")
	}
}

// What an ID token claims is looked at, all of it.
func TestRedeemChecksTheToken(t *testing.T) {
	t.Parallel()
	r := newSignRig(t, "")
	now := time.Now().Unix()
	for name, test := range map[string]struct {
		person map[string]any
		code   publish.Code // "" where the token is good
		reason string
	}{
		"good":                     {},
		"several audiences":        {person: map[string]any{"aud": []string{"pawl-page", "other"}, "azp": "pawl-page"}},
		"another nonce":            {map[string]any{"nonce": "another"}, publish.ErrUnauthorized, "another attempt"},
		"no nonce":                 {map[string]any{"nonce": nil}, publish.ErrUnauthorized, "another attempt"},
		"another audience":         {map[string]any{"aud": "other"}, publish.ErrUnauthorized, "another audience"},
		"audiences without azp":    {map[string]any{"aud": []string{"pawl-page", "other"}}, publish.ErrUnauthorized, "azp"},
		"azp is another":           {map[string]any{"azp": "other"}, publish.ErrUnauthorized, "azp"},
		"azp is no text":           {map[string]any{"azp": 7}, publish.ErrUnauthorized, "azp"},
		"expired":                  {map[string]any{"exp": now - 61}, publish.ErrUnauthorized, "expired"},
		"without an end":           {map[string]any{"exp": nil}, publish.ErrUnauthorized, "no end"},
		"not yet":                  {map[string]any{"nbf": now + 600}, publish.ErrUnauthorized, "not valid yet"},
		"another issuer":           {map[string]any{"iss": "https://other.example"}, publish.ErrUnauthorized, "signature"},
		"nobody":                   {map[string]any{"sub": nil}, publish.ErrUnauthorized, "sub"},
		"no rule":                  {map[string]any{"groups": []string{"guests"}, "email": "eve\u202e@acme.example"}, publish.ErrForbidden, "Acme says that you are eve?@acme.example (sub person-1)"},
		"no rule and only a sub":   {map[string]any{"groups": nil, "email": nil}, publish.ErrForbidden, "Acme says that you are sub person-1"},
		"a token that is too long": {map[string]any{"filler": strings.Repeat("x", MaxTokenBytes)}, publish.ErrUnauthorized, "longer than 16 KiB, so it isn't read: the issuer must put less into it"},
	} {
		person := map[string]any{"email": "mia@acme.example", "groups": []string{"artists"}}
		for claim, value := range test.person {
			person[claim] = value
		}
		r.issuer.SetPerson(person)
		code, from := r.code()
		t.Log(name)
		if test.code != "" {
			r.refused(flow, code, from, test.code, test.reason)
			continue
		}
		if _, err := r.signIn.Redeem(t.Context(), flow, code, from); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A token that the issuer hasn't signed proves nothing, whoever handed it over: without a signature, with the public key as a secret, of another issuer.
func TestRedeemForgedTokens(t *testing.T) {
	t.Parallel()
	r, other := newSignRig(t, ""), testenv.NewIssuer(t)
	claims := map[string]any{
		"iss": r.issuer.URL, "aud": "pawl-page", "sub": "person-1", "exp": time.Now().Unix() + 300, "nonce": flow.Nonce, "groups": "artists",
	}
	payload, err := json.Marshal(claims)
	if err != nil {
		t.Fatal(err)
	}
	keys := r.published("/keys")
	part := base64.RawURLEncoding.EncodeToString
	forged := map[string]string{
		"none":           part([]byte(`{"alg":"none"}`)) + "." + part(payload) + "." + part([]byte("x")),
		"none, unsigned": part([]byte(`{"alg":"none"}`)) + "." + part(payload) + ".",
		"another issuer": other.Token(t, claims),
		"no token":       "",
		"a text":         "abc",
	}
	for name, key := range map[string][]byte{"document": keys, "coordinate": []byte(strings.Repeat("k", 32))} {
		forged["HS256 with the "+name] = testenv.SignToken(t, jose.JSONWebKey{Key: key, KeyID: "key-1", Algorithm: "HS256"}, payload)
	}
	for name, token := range forged {
		t.Log(name)
		r.answers("")
		code, from := "a-code", r.issuer.URL
		r.answers(token)
		r.refused(flow, code, from, publish.ErrUnauthorized, "doesn't prove who you are")
	}
	r.answers(r.issuer.Token(t, claims)) // What the others lack is the signature alone.
	if _, err := r.signIn.Redeem(t.Context(), flow, "a-code", r.issuer.URL); err != nil {
		t.Error(err)
	}
}

// published is what the issuer publishes at a path.
func (r *signRig) published(path string) []byte {
	r.Helper()
	resp, err := r.verifier.Issuer(r.issuer.URL).Client().Get(r.issuer.URL + path)
	if err != nil {
		r.Fatal(err)
	}
	defer resp.Body.Close() //nolint:errcheck // The test has read it.
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		r.Fatal(err)
	}
	return text
}

// An answer that names another issuer isn't shown to this one, nor is one that names none where the issuer has promised to (RFC 9207): no code goes to its token
// endpoint.
func TestRedeemMixedUp(t *testing.T) {
	t.Parallel()
	r := newSignRig(t, "")
	code, _ := r.code()
	before := r.issuer.Requests()
	r.refused(flow, code, "https://evil.example", publish.ErrUnauthorized, "another issuer")
	if got := r.issuer.Requests(); got != before {
		t.Errorf("the issuer had %d requests", got-before)
	}
	if _, err := r.signIn.Redeem(t.Context(), flow, code, ""); err != nil {
		t.Errorf("an issuer that promises nothing: %v", err)
	}
	strict := newSignRig(t, "")
	strict.issuer.SetDocument("authorization_response_iss_parameter_supported", true)
	code, from := strict.code()
	strict.refused(flow, code, "", publish.ErrUnauthorized, "another issuer")
	if _, err := strict.signIn.Redeem(t.Context(), flow, code, from); err != nil {
		t.Error(err)
	}
}

// Whatever its token endpoint does, an issuer neither holds the server up, nor fills it, nor leads code and secret elsewhere.
func TestRedeemFromABrokenIssuer(t *testing.T) {
	t.Parallel()
	const secret = "s3cret-of-the-client"
	released := make(chan struct{})
	for name, answer := range map[string]http.HandlerFunc{
		"an error": func(w http.ResponseWriter, r *http.Request) {
			http.Error(w, "broken: "+r.PostFormValue("code"), http.StatusInternalServerError)
		},
		"no JSON": func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "<html>") },
		"nothing": func(http.ResponseWriter, *http.Request) {},
		"too much": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write(slices.Repeat([]byte(" "), maxDocument+1))
		},
		"leads elsewhere": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
		},
		"not before later": func(_ http.ResponseWriter, r *http.Request) { <-released },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newSignRig(t, secret)
			code, from := r.code()
			r.issuer.Intercept(func(w http.ResponseWriter, req *http.Request) bool {
				if req.URL.Path == "/elsewhere" {
					t.Error("a code was led elsewhere")
				}
				if req.URL.Path != "/token" {
					return false
				}
				answer(w, req)
				return true
			})
			if name == "not before later" {
				r.signIn.client.Timeout = 50 * time.Millisecond
				t.Cleanup(func() { close(released) })
			}
			r.refused(flow, code, from, publish.ErrUnavailable, "can't be asked who you are")
		})
	}
}

// An issuer that repeats what was shown to it, wherever in its answer, brings none of that into the log or before a person.
func TestRedeemFromAnIssuerThatRepeats(t *testing.T) {
	t.Parallel()
	for _, answer := range []int{http.StatusBadRequest, http.StatusUnauthorized, http.StatusInternalServerError} {
		r := newSignRig(t, "s3cret-of-the-client")
		code, from := r.code()
		r.issuer.Intercept(func(w http.ResponseWriter, req *http.Request) bool {
			if req.URL.Path != "/token" {
				return false
			}
			text := req.PostFormValue("code") + " " + req.PostFormValue("code_verifier")
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(answer)
			_, _ = fmt.Fprintf(w, `{"error":%q,"error_description":%q,"error_uri":%q}`, text, text, text)
			return true
		})
		want := publish.ErrUnavailable
		if answer == http.StatusBadRequest {
			want = publish.ErrUnauthorized
		}
		r.refused(flow, code, from, want, "(no error code)")
	}
}

// Who can't be asked sends nobody anywhere, and neither does who would by a way that others can read.
func TestAuthorizationURL(t *testing.T) {
	t.Parallel()
	r := newSignRig(t, "")
	address, err := r.signIn.AuthorizationURL(t.Context(), flow)
	if err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"response_type": "code", "client_id": "pawl-page", "redirect_uri": redirectURI, "scope": "openid email", "state": flow.State, "nonce": flow.Nonce, "code_challenge_method": "S256",
	} {
		if got := u.Query().Get(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	if strings.Contains(address, flow.Verifier) {
		t.Error("the verifier is in the address")
	}
	for name, change := range map[string]func(*testenv.Issuer){
		"away":        func(i *testenv.Issuer) { i.SetAway(true) },
		"no endpoint": func(i *testenv.Issuer) { i.SetDocument("authorization_endpoint", nil) },
		"no token":    func(i *testenv.Issuer) { i.SetDocument("token_endpoint", "") },
		"plain":       func(i *testenv.Issuer) { i.SetDocument("authorization_endpoint", "http://127.0.0.1/authorize") },
		"script":      func(i *testenv.Issuer) { i.SetDocument("authorization_endpoint", "javascript:alert(1)") },
		"no host":     func(i *testenv.Issuer) { i.SetDocument("authorization_endpoint", "https:///authorize") },
	} {
		r := newSignRig(t, "")
		change(r.issuer)
		if got, err := r.signIn.AuthorizationURL(t.Context(), flow); !errors.Is(err, publish.ErrUnavailable) {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}

// An ID token of people is no workload's token, and opens nothing as one.
func TestPeoplesTokensAreNoWorkloads(t *testing.T) {
	t.Parallel()
	r := newSignRig(t, "")
	claims := map[string]any{"aud": "pawl-page", "sub": "person-1", "exp": time.Now().Unix() + 300, "groups": "artists"}
	if caller, err := r.verifier.Authenticate(t.Context(), r.issuer.Token(t, claims)); !errors.Is(err, publish.ErrUnauthorized) || !strings.Contains(err.Error(), "doesn't trust") {
		t.Errorf("of an issuer for people alone: %+v, %v", caller, err)
	}
	// Where workloads have rules too, neither side's tokens fit the other's: not by the audience, and not by the rules.
	text := fmt.Sprintf(`{"issuers": [{"issuer": %q, "ca_file": %q, "audience": "pawl",
		"rules": [{"claims": {"repository": "x"}, "name": "ci", "scopes": ["publish"]}],
		"sign_in": {"client_id": "pawl-page", "rules": [{"claims": {"groups": "artists"}, "name": "p", "scopes": ["read"]}]}}]}`, r.issuer.URL, r.issuer.CAFile)
	config, err := ParseConfig([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	verifier, err := New(config)
	if err != nil {
		t.Fatal(err)
	}
	for audience, want := range map[string]publish.Code{"pawl-page": publish.ErrUnauthorized, "pawl": publish.ErrForbidden} {
		claims["aud"] = audience
		if caller, err := verifier.Authenticate(t.Context(), r.issuer.Token(t, claims)); !errors.Is(err, want) {
			t.Errorf("%s: %+v, %v", audience, caller, err)
		}
	}
}
