package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pawlhq/pawl/internal/testenv"
)

// The whole way of a workload: a token of an issuer in the file that PAWL_CREDENTIAL_FILE names opens what the rules say, and no more, and is nowhere in the log
// (case 50).
func TestServeTakesTokens(t *testing.T) {
	t.Parallel()
	issuer := testenv.NewIssuer(t)
	dir := t.TempDir()
	write := func(name, text string) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	config, err := json.Marshal(map[string]any{"issuers": []any{map[string]any{
		"issuer": issuer.URL, "audience": "pawl", "ca_file": issuer.CAFile,
		"rules": []any{map[string]any{"claims": map[string]any{"repository": "acme/renders"}, "name": "ci {repository}", "scopes": []string{"operate:renders/"}}},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	s := startAsking(t, "PAWL_OIDC="+write("oidc.json", string(config)))
	var shown []string
	as := func(repository, audience string) []string {
		t.Helper()
		token := issuer.Token(t, map[string]any{
			"sub": "repo:" + repository, "aud": audience, "exp": time.Now().Add(time.Hour).Unix(), "repository": repository, "filler": strings.Repeat("x", 3000),
		})
		shown = append(shown, token)
		return []string{"PAWL_URL=" + s.url, "PAWL_CREDENTIAL_FILE=" + write("token", token+"\n")}
	}
	file := write("f.txt", "a frame")
	call(t, as("acme/renders", "pawl"), "put", "renders/x", file).expect(t, exitOK)
	call(t, as("acme/renders", "pawl"), "put", "other/x", file).expect(t, exitRefused, "not-found")
	call(t, as("acme/renders", "other"), "put", "renders/x", file).expect(t, exitNotAllowed, "another audience")
	call(t, as("evil/renders", "pawl"), "put", "renders/x", file).expect(t, exitNotAllowed, "no rule maps this token")
	call(t, as("acme/renders", "pawl"), "pin", "renders/x", "--reason", "r").expect(t, exitOK)
	root, _ := s.issue(t, "root", "admin")
	if _, audit := s.get(t, "GET", "/v1/audit", root); !strings.Contains(audit, `"by":"ci acme/renders"`) {
		t.Errorf("the audit is %s", audit)
	}
	for _, token := range shown {
		for part := range strings.SplitSeq(token, ".") {
			if strings.Contains(s.stderr.String(), part) {
				t.Error("a token is in the log")
			}
		}
	}
}

func TestOIDCSetting(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "oidc.json")
	if err := os.WriteFile(path, []byte(`{"issuers": [{"issuer": "http://issuer.example"}]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for env, want := range map[string]string{
		"PAWL_OIDC=" + path:                             "set PAWL_AUTH=required too",
		"PAWL_AUTH=required PAWL_OIDC=" + path:          "PAWL_OIDC: " + path + ": /issuers/0/audience: must be a text",
		"PAWL_AUTH=required PAWL_OIDC=" + path + ".not": "PAWL_OIDC: ",
	} {
		_, err := (&app{getenv: lookup(strings.Fields(env))}).authSettings()
		if exitCode(err) != exitConfig || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", env, err)
		}
	}
}
