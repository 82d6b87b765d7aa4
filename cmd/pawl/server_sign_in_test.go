package main

import (
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pawlhq/pawl/blobstore"
	"github.com/pawlhq/pawl/internal/testenv"
)

// signInFile is a file for PAWL_OIDC by which people sign in.
func signInFile(t *testing.T, issuer, caFile, secret string) string {
	t.Helper()
	dir := t.TempDir()
	text := fmt.Sprintf(`{"issuers": [{"issuer": %q, "ca_file": %q, "sign_in": {"client_id": "pawl-page", "client_secret_file": %q, "label": "Acme",
		"rules": [{"claims": {"groups": "artists"}, "name": "p", "scopes": ["read"]}]}}]}`, issuer, caFile, filepath.Join(dir, "secret"))
	for name, text := range map[string]string{"oidc.json": text, "secret": secret} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(dir, "oidc.json")
}

// Who lets people sign in by an issuer says where they come back to; what proves the server to the issuer is a secret of the log.
func TestSignInSettings(t *testing.T) {
	t.Parallel()
	issuer := testenv.NewIssuer(t)
	file := "PAWL_OIDC=" + signInFile(t, issuer.URL, issuer.CAFile, "s3cret-of-the-client\n")
	read := func(env ...string) (serverSettings, error) {
		a := &app{stderr: io.Discard, getenv: lookup(append(env, "PAWL_AUTH=required", file))}
		return a.serverSettings(serverFlags{}, slog.LevelInfo)
	}
	for _, test := range []struct{ env, want string }{
		{"PAWL_HOSTS=x", "PAWL_ORIGIN is not set, but PAWL_OIDC has a sign_in"},
		{"PAWL_ORIGIN=pawl.example", "PAWL_ORIGIN: "},
		{"PAWL_ORIGIN=http://pawl.example", "PAWL_ORIGIN: "},
		{"PAWL_ORIGIN=https://pawl.example/pawl", "PAWL_ORIGIN: "},
		{"PAWL_ORIGIN=https://files.example PAWL_CONTENT_ORIGIN=https://files.example", "PAWL_CONTENT_ORIGIN (beside"},
	} {
		if _, err := read(strings.Fields(test.env)...); exitCode(err) != exitConfig || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v", test.env, err)
		}
	}
	s, err := read("PAWL_ORIGIN=https://Pawl.example:8443", "PAWL_BASE_PATH=/pawl/", "PAWL_HOSTS=other.example")
	if err != nil {
		t.Fatal(err)
	}
	if hosts := s.originHosts(); s.transport.origin != "https://pawl.example:8443" || len(hosts) != 1 || hosts[0] != "pawl.example" || len(s.auth.signInIssuers()) != 1 {
		t.Errorf("the origin is %q of %q", s.transport.origin, hosts)
	}
	if clean := s.redacted(fmt.Errorf("it says s3cret-of-the-client")); strings.Contains(clean.Error(), "s3cret") {
		t.Errorf("%v holds the secret", clean)
	}
	want := "the issuer answers; it must know the redirect URI https://pawl.example:8443/pawl/sign-in/callback"
	if found := signInFindings(t.Context(), s); len(found) != 1 || found[0].Level != blobstore.LevelOK || found[0].Name != "sign-in by Acme" || found[0].Seen != want {
		t.Errorf("the doctor finds %+v", found)
	}
	issuer.SetAway(true)
	if s, err = read("PAWL_ORIGIN=https://pawl.example"); err != nil {
		t.Fatal(err)
	}
	if found := signInFindings(t.Context(), s); len(found) != 1 || found[0].Level != blobstore.LevelWarn || !strings.Contains(found[0].Cure, issuer.URL) ||
		!strings.Contains(found[0].Seen, "must know the redirect URI https://pawl.example/sign-in/callback") {
		t.Errorf("the doctor finds %+v of an issuer that is away", found)
	}
}

// The host of the pages' origin leads here, also to a server that listens on this machine alone, behind a proxy.
func TestOriginLeadsHere(t *testing.T) {
	t.Parallel()
	s := startAsking(t, "PAWL_ORIGIN=https://pawl.example:8443")
	for host, want := range map[string]int{"pawl.example:8443": http.StatusOK, "pawl.example": http.StatusOK, "other.example": http.StatusForbidden} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.url+"/livez", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Host = host
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		if err := resp.Body.Close(); err != nil || resp.StatusCode != want {
			t.Errorf("%s is answered with %s, %v", host, resp.Status, err)
		}
	}
}
