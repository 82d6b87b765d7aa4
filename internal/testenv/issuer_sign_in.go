//go:build unix

package testenv

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"
)

// IssuerClient is a program that people sign in to by an Issuer.
type IssuerClient struct {
	ID, RedirectURI string
	// Secret is shown by Basic authentication; "" is for a public client.
	Secret string
}

// granted is what a code stands for.
type granted struct {
	redirectURI, challenge, nonce string
}

// SetClient makes a client the only one that the issuer knows.
func (i *Issuer) SetClient(client IssuerClient) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.client = client
}

// SetPerson says what ID tokens claim from now on, besides what all do or instead of that; nil takes a claim away.
func (i *Issuer) SetPerson(claims map[string]any) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.person = claims
}

// Intercept makes a function see every request first, on many goroutines at once. It returns whether it has answered. nil ends that.
func (i *Issuer) Intercept(answer func(http.ResponseWriter, *http.Request) bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.intercept = answer
}

// Agree does what a person does at the issuer that a server has sent to the address, and returns where the issuer then sends the browser.
func (i *Issuer) Agree(t testing.TB, address string) string {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil || u.Scheme+"://"+u.Host+u.Path != i.URL+"/authorize" {
		t.Fatalf("people are sent to %q, %v", address, err)
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	back, err := i.authorize(u.Query())
	if err != nil {
		t.Fatal(err)
	}
	return back
}

// authorize makes a code (OpenID Connect Core, section 3.1.2).
func (i *Issuer) authorize(query url.Values) (string, error) {
	switch {
	case query.Get("response_type") != "code" || i.client.ID == "" || query.Get("client_id") != i.client.ID:
		return "", fmt.Errorf("no such client, or no code is wanted: %v", query)
	case query.Get("redirect_uri") != i.client.RedirectURI:
		return "", fmt.Errorf("redirect_uri is %q, want %q", query.Get("redirect_uri"), i.client.RedirectURI)
	case query.Get("code_challenge_method") != "S256" || len(query.Get("code_challenge")) != 43:
		return "", errors.New("the challenge of PKCE is missing")
	case !slices.Contains(strings.Fields(query.Get("scope")), "openid") || query.Get("state") == "":
		return "", fmt.Errorf("the scope is %q, the state %q", query.Get("scope"), query.Get("state"))
	}
	code := "code-" + rand.Text()
	i.codes[code] = granted{redirectURI: query.Get("redirect_uri"), challenge: query.Get("code_challenge"), nonce: query.Get("nonce")}
	return i.client.RedirectURI + "?" + url.Values{"code": {code}, "state": {query.Get("state")}, "iss": {i.URL}, "session_state": {"x"}}.Encode(), nil
}

var authorizePage = template.Must(template.New("authorize").Parse(`<!DOCTYPE html><title>The issuer</title><link rel="icon" href="data:,"><a id="agree" href="{{.Agree}}">Sign in</a>
<a id="deny" href="{{.Deny}}">Don't</a>`))

// showAuthorize asks the person at the browser.
func (i *Issuer) showAuthorize(w http.ResponseWriter, r *http.Request) {
	back, err := i.authorize(r.URL.Query())
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	denied := url.Values{"error": {"access_denied"}, "error_description": {"<b>the person said no</b>"}, "state": {r.URL.Query().Get("state")}, "iss": {i.URL}}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_ = authorizePage.Execute(w, map[string]string{"Agree": back, "Deny": i.client.RedirectURI + "?" + denied.Encode()}) //nolint:errcheck // Who has gone doesn't need it.
}

// serveToken gives an ID token for a code: once, and to who has begun (RFC 6749, section 4.1.3; RFC 7636, section 4.6).
func (i *Issuer) serveToken(w http.ResponseWriter, r *http.Request) {
	refuse := func(status int, code string) {
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(map[string]string{"error": code, "error_description": "not " + r.PostFormValue("code")}) //nolint:errcheck // Who has gone doesn't need it.
	}
	id, secret, basic := r.BasicAuth()
	if !basic {
		id = r.PostFormValue("client_id")
	}
	if r.Method != http.MethodPost || id != i.client.ID || secret != i.client.Secret || r.URL.RawQuery != "" {
		refuse(http.StatusUnauthorized, "invalid_client")
		return
	}
	code := r.PostFormValue("code")
	grant, found := i.codes[code]
	delete(i.codes, code)
	sum := sha256.Sum256([]byte(r.PostFormValue("code_verifier")))
	if !found || grant.redirectURI != r.PostFormValue("redirect_uri") || base64.RawURLEncoding.EncodeToString(sum[:]) != grant.challenge {
		refuse(http.StatusBadRequest, "invalid_grant")
		return
	}
	now := time.Now().Unix()
	claims := map[string]any{"iss": i.URL, "aud": i.client.ID, "sub": "person-1", "iat": now, "exp": now + 300, "nonce": grant.nonce}
	maps.Copy(claims, i.person)
	maps.DeleteFunc(claims, func(_ string, value any) bool { return value == nil })
	payload, err := json.Marshal(claims)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	token, err := sign(i.keys[0], payload)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"access_token": "access-" + rand.Text(), "token_type": "Bearer", "expires_in": 300, "id_token": token}) //nolint:errcheck // Who has gone doesn't need it.
}
