package web_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/pawlhq/pawl/internal/testenv"
	"github.com/pawlhq/pawl/oidc"
	"github.com/pawlhq/pawl/publish"
	"github.com/pawlhq/pawl/web"
)

// callbackURI is where the issuer sends people back to. The server of a test is reached by another address, as behind a proxy.
const callbackURI = "https://pawl.example/pawl/sign-in/callback"

// people are an issuer's, as cmd/pawl hands them over.
type people struct{ *oidc.SignIn }

func (p people) AuthorizationURL(ctx context.Context, flow web.SignInFlow) (string, error) {
	return p.SignIn.AuthorizationURL(ctx, oidc.Flow(flow))
}

func (p people) Redeem(ctx context.Context, flow web.SignInFlow, code, issuer string) (publish.Caller, error) {
	return p.SignIn.Redeem(ctx, oidc.Flow(flow), code, issuer)
}

// signInIssuers start issuers that let artists in.
func signInIssuers(t *testing.T, labels ...string) (issuers []*testenv.Issuer, options []web.SignInIssuer) {
	t.Helper()
	var parts []any
	for _, label := range labels {
		issuer := testenv.NewIssuer(t)
		issuer.SetClient(testenv.IssuerClient{ID: "pawl-page", RedirectURI: callbackURI})
		issuer.SetPerson(map[string]any{"email": "mia@acme.example", "groups": []string{"artists"}})
		issuers = append(issuers, issuer)
		parts = append(parts, map[string]any{"issuer": issuer.URL, "ca_file": issuer.CAFile, "sign_in": map[string]any{
			"client_id": "pawl-page", "label": label, "scope": "openid email",
			"rules": []any{map[string]any{"claims": map[string]any{"groups": "artists"}, "name": "acme {email}", "scopes": []string{"operate:press/"}}},
		}})
	}
	text, err := json.Marshal(map[string]any{"issuers": parts})
	if err != nil {
		t.Fatal(err)
	}
	config, err := oidc.ParseConfig(text)
	if err != nil {
		t.Fatal(err)
	}
	verifier, err := oidc.New(config)
	if err != nil {
		t.Fatal(err)
	}
	for _, each := range verifier.SignIns() {
		options = append(options, people{each})
	}
	return issuers, options
}

// issuerRig is a rig whose people sign in by issuers.
type issuerRig struct {
	*rig
	issuers []*testenv.Issuer
	opts    web.Options
}

func newIssuerRig(t *testing.T, labels ...string) *issuerRig {
	t.Helper()
	if labels == nil {
		labels = []string{"Acme"}
	}
	r := &issuerRig{opts: web.Options{Origin: "https://pawl.example", BasePath: "/pawl"}}
	r.issuers, r.opts.SignInIssuers = signInIssuers(t, labels...)
	r.rig = newSignRig(t, r.opts)
	return r
}

// replica is another server on the same stores.
func (r *issuerRig) replica() *issuerRig {
	r.t.Helper()
	other := &rig{t: r.t, pointers: r.pointers, blobs: r.blobs, log: r.log}
	r.opts.Authenticate = func(ctx context.Context, secret publish.Secret) (publish.Caller, error) {
		return other.service.Authenticate(ctx, secret)
	}
	return &issuerRig{other.start(r.blobs, r.opts), r.issuers, r.opts}
}

// attempt is what a browser has of a sign-in that it has begun.
type attempt struct {
	to     string // where it is sent
	cookie *http.Cookie
}

// begin presses the button.
func (r *issuerRig) begin(issuer, next string, headers ...string) attempt {
	r.t.Helper()
	form := url.Values{"issuer": {issuer}, "next": {next}}
	got := r.call("POST", "/sign-in/issuer", form.Encode(), slices.Concat([]string{"Content-Type", formType}, headers)...).want(200)
	to, found := strings.CutPrefix(got.header.Get("Refresh"), "0;url=")
	if !found || got.header.Get("Cache-Control") != "no-store" || got.header.Get("Referrer-Policy") != "no-referrer" {
		r.t.Fatalf("the button leads to %v", got.header)
	}
	for _, cookie := range got.cookies() {
		if cookie.MaxAge > 0 {
			return attempt{to, cookie}
		}
	}
	r.t.Fatalf("no attempt is kept: %v", got.header)
	return attempt{}
}

func (a answer) cookies() []*http.Cookie { return (&http.Response{Header: a.header}).Cookies() }

// signedIn is the cookie of the session that an answer begins, nil for none.
func (a answer) signedIn() *http.Cookie {
	for _, cookie := range a.cookies() {
		if (cookie.Name == "pawl" || cookie.Name == "__Host-pawl") && cookie.Value != "" {
			return cookie
		}
	}
	return nil
}

// agree is where the issuer sends the browser back to, of this server's own address.
func (r *issuerRig) agree(a attempt) string {
	r.t.Helper()
	return strings.TrimPrefix(r.issuers[0].Agree(r.t, a.to), "https://pawl.example")
}

// changed is an address with other parameters; those that are "" are taken away.
func changed(address string, parameters ...string) string {
	path, query, _ := strings.Cut(address, "?")
	values, _ := url.ParseQuery(query)
	for i := 0; i < len(parameters); i += 2 {
		if values.Set(parameters[i], parameters[i+1]); parameters[i+1] == "" {
			values.Del(parameters[i])
		}
	}
	return path + "?" + values.Encode()
}

// refuses checks that an answer of the issuer begins no session, and says why on a page that has the form.
func (r *issuerRig) refuses(status int, says, address string, headers ...string) answer {
	r.t.Helper()
	got := r.call("GET", address, "", headers...).want(status)
	if cookie := got.signedIn(); cookie != nil {
		r.t.Errorf("a session begins: %v", cookie)
	}
	if !strings.Contains(got.body, says) || !strings.Contains(got.body, `name="credential"`) || got.header.Get("Cache-Control") != "no-store" {
		r.t.Errorf("the page must say %q, and be kept by nobody: %v %s", says, got.header, got.body)
	}
	return got
}

// kept is what the browser keeps of an attempt; with changes it.
func (a attempt) kept(t *testing.T) (members map[string]any) {
	t.Helper()
	text, err := base64.RawURLEncoding.DecodeString(a.cookie.Value)
	if err == nil {
		err = json.Unmarshal(text, &members)
	}
	if err != nil {
		t.Fatal(err)
	}
	return members
}

func (a attempt) with(t *testing.T, member string, value any) *http.Cookie {
	t.Helper()
	members := a.kept(t)
	if _, found := members[member]; !found {
		t.Fatalf("%s isn't kept", member)
	}
	members[member] = value
	text, err := json.Marshal(members)
	if err != nil {
		t.Fatal(err)
	}
	return &http.Cookie{Name: a.cookie.Name, Value: base64.RawURLEncoding.EncodeToString(text)}
}

func valueOf(address, parameter string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	return u.Query().Get(parameter)
}
