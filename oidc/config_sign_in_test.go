package oidc

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const goodSignIn = `{"issuers": [{"issuer": "https://accounts.google.com", "sign_in": {"client_id": "c", "scope": "openid email",
	"rules": [{"claims": {"hd": "acme.example"}, "name": "{email}", "scopes": ["read"]}]}}]}`

func TestParseSignIn(t *testing.T) {
	t.Parallel()
	config, err := ParseConfig([]byte(goodSignIn))
	if err != nil {
		t.Fatal(err)
	}
	if issuer := config.Issuers[0]; issuer.Audience != "" || issuer.Rules != nil || issuer.SignIn.Label != "accounts.google.com" || len(issuer.SignIn.Rules) != 1 {
		t.Errorf("got %+v", issuer)
	}
	const part = "/issuers/0/sign_in"
	for name, test := range map[string]struct{ old, new, fault string }{
		"no object":             {`"sign_in": {`, `"sign_in": 1, "x": {`, part + ": must be an object"},
		"no client":             {`"client_id": "c", `, "", part + "/client_id: must be a text"},
		"secret in the file":    {`"scope"`, `"client_secret": "s", "scope"`, part + "/client_secret: is unknown here; the members are client_id, rules, client_secret_file, label, scope"},
		"no rules":              {`"rules"`, `"rulez"`, part + "/rules: must be a list"},
		"everybody":             {`{"hd": "acme.example"}`, `{}`, part + "/rules/0/claims: is empty, and would let in whoever"},
		"everybody's claim":     {`{"hd": "acme.example"}`, `{"email_verified": true}`, part + "/rules/0/claims: says nothing of who is meant, and https://accounts.google.com gives tokens to everybody; add one of sub, email, hd"},
		"no openid":             {"openid email", "email", part + "/scope: lacks the word openid"},
		"scopes":                {`"scope":`, `"scopes":`, part + "/scopes: is unknown here"},
		"label":                 {`"scope"`, `"label": " x", "scope"`, part + "/label: must have at most"},
		"workloads' audience":   {`"sign_in"`, `"audience": "c", "rules": [{"claims": {"sub": "s"}, "name": "n", "scopes": ["read"]}], "sign_in"`, part + "/client_id: is the audience of workloads too"},
		"audience and no rules": {`"sign_in"`, `"audience": "pawl", "sign_in"`, "/issuers/0/rules: must be a list"},
		"rules and no audience": {`"sign_in"`, `"rules": [{"claims": {"sub": "s"}, "name": "n", "scopes": ["read"]}], "sign_in"`, "/issuers/0/audience: must be a text"},
	} {
		text := strings.Replace(goodSignIn, test.old, test.new, 1)
		if _, err := ParseConfig([]byte(text)); text == goodSignIn || err == nil || !strings.HasPrefix(err.Error(), test.fault) {
			t.Errorf("%s: the error is %v, want %q", name, err, test.fault)
		}
	}
}

// The secret is read at the start, so that a wrong name shows then, and not when the first person signs in.
func TestClientSecretFile(t *testing.T) {
	t.Parallel()
	empty := filepath.Join(t.TempDir(), "empty")
	if err := os.WriteFile(empty, []byte("\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for path, cure := range map[string]string{empty: "write the client's secret into it", empty + ".not": "name a file that can be read"} {
		config, err := ParseConfig([]byte(strings.Replace(goodSignIn, `"scope"`, `"client_secret_file": "`+path+`", "scope"`, 1)))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := New(config); err == nil || !strings.HasPrefix(err.Error(), "/issuers/0/sign_in/client_secret_file: ") || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), cure) {
			t.Errorf("%s: %v", path, err)
		}
	}
}
