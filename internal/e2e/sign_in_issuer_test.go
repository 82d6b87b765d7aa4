package e2e

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawlhq/pawl/internal/testenv"
)

// certificate makes files of a certificate for this machine, which nobody but its own key vouches for, and of the key.
func certificate(t *testing.T) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	made, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	text, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return fileOf(t, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: made})), fileOf(t, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: text}))
}

func fileOf(t *testing.T, text []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// clientSecret is what the server proves to the issuer that it is it.
const clientSecret = "s3cret-of-the-client"

// serveSignIn starts a server whose people sign in by an issuer, below a base path, with TLS or without.
func serveSignIn(t *testing.T, issuer *testenv.Issuer, overTLS bool, base string) *server {
	t.Helper()
	s := launch(t, testenv.Postgres(t), directory(t), "PAWL_AUTH=required", "PAWL_BASE_PATH="+base)
	s.kill() // What follows takes the address.
	if overTLS {
		cert, key := certificate(t)
		s.env = append(s.env, "PAWL_TLS_CERT="+cert, "PAWL_TLS_KEY="+key)
		s.url = "https://" + s.addr
	}
	issuer.SetClient(testenv.IssuerClient{ID: "pawl-page", RedirectURI: s.url + base + "/sign-in/callback", Secret: clientSecret})
	config, err := json.Marshal(map[string]any{"issuers": []any{map[string]any{"issuer": issuer.URL, "ca_file": issuer.CAFile, "sign_in": map[string]any{
		"client_id": "pawl-page", "client_secret_file": fileOf(t, []byte(clientSecret)), "label": "Acme",
		"rules": []any{map[string]any{"claims": map[string]any{"groups": "artists"}, "name": "acme {email}", "scopes": []string{"operate:press/"}}},
	}}}})
	if err != nil {
		t.Fatal(err)
	}
	s.env = append(s.env, "PAWL_OIDC="+fileOf(t, config), "PAWL_ORIGIN="+s.url)
	s.launch()
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	t.Cleanup(transport.CloseIdleConnections)
	testenv.Eventually(t, patience, func() error {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.url+"/readyz", nil)
		if err != nil {
			return err
		}
		resp, err := (&http.Client{Transport: transport}).Do(req)
		if err != nil {
			return err
		}
		if err := resp.Body.Close(); err != nil || resp.StatusCode != http.StatusOK {
			return fmt.Errorf("not ready: %s, %w", resp.Status, err)
		}
		return nil
	})
	s.url += base
	return s
}

// People press a button, sign in at their issuer, and are back where they were, under the name that the rules give. The issuer leads on to another origin, as many
// do, and neither that nor the way back is held up by the page's policy. It learns nothing of where they came from, and the log nothing of how.
func TestSignInByIssuer(t *testing.T) {
	t.Parallel()
	axe := testenv.Axe(t)
	for name, test := range map[string]struct {
		overTLS bool
		base    string
	}{"on loopback, below a base path, without scripts": {false, "/pawl"}, "over TLS": {true, ""}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			issuer, tab := testenv.NewIssuer(t), testenv.Browser(t)
			s := serveSignIn(t, issuer, test.overTLS, test.base)
			issuer.SetPerson(map[string]any{"email": "mia@acme.example", "groups": []string{"artists"}})
			issuer.Intercept(func(w http.ResponseWriter, r *http.Request) bool {
				if referrer := r.Header.Get("Referer"); strings.Contains(referrer, s.addr) {
					t.Errorf("the issuer learns of %s", referrer)
				}
				if _, port, _ := net.SplitHostPort(r.Host); r.URL.Path == "/authorize" && !strings.HasPrefix(r.Host, "localhost:") {
					http.Redirect(w, r, "https://localhost:"+port+r.URL.RequestURI(), http.StatusFound)
					return true
				}
				return false
			})
			tab.TrustAnyCertificate()
			if !test.overTLS {
				tab.DisableScripts()
			}
			begin := func() {
				t.Helper()
				tab.Open(s.url + "/activity?prefix=press%2F")
				awaitPage(t, tab, signedOut)
				press(t, tab, `form[action="`+test.base+`/sign-in/issuer"] button`)
				awaitPage(t, tab, `location.hostname === "localhost" && document.querySelector("#agree")`)
			}

			tab.Open(s.url + "/activity")
			awaitPage(t, tab, signedOut+` && document.querySelector('form[action="`+test.base+`/sign-in/issuer"] button').textContent === "Sign in with Acme"`)
			if test.overTLS {
				for _, broken := range tab.Violations(axe, "") {
					t.Error(broken)
				}
			}
			begin()
			press(t, tab, "#agree")
			awaitPage(t, tab, `location.pathname + location.search === "`+test.base+`/activity?prefix=press%2F" && document.querySelector(".account bdi").textContent === "acme mia@acme.example"`)
			if cookies := eval[string](t, tab, `document.cookie`); cookies != "" {
				t.Errorf("scripts see the cookies %q", cookies)
			}
			tab.Open(s.url + "/k/press/x/-/upload")
			awaitPage(t, tab, `document.querySelector("main").textContent.includes("acme mia@acme.example")`)

			// The answer again, as from the browser's history, signs nobody in and says so.
			all := tab.Requests()
			at := slices.IndexFunc(all, func(address string) bool { return strings.Contains(address, "/sign-in/callback?") })
			if at < 0 {
				t.Fatalf("no answer came: %v", all)
			}
			back := all[at]
			tab.Open(back)
			awaitPage(t, tab, `document.querySelector("[role=alert]").textContent.includes("belongs to no sign-in that is under way in this browser")`)

			// The session ends as any other.
			tab.Open(s.url + "/activity")
			press(t, tab, `form[action="`+test.base+`/sign-out-everywhere"] button`)
			awaitPage(t, tab, signedOut)
			tab.Open(s.url + "/activity")
			awaitPage(t, tab, signedOut)

			// Who doesn't agree, or may do nothing here, learns it.
			begin()
			press(t, tab, "#deny")
			awaitPage(t, tab, `document.querySelector("[role=alert]").textContent.includes("access_denied (<b>the person said no</b>)")`)
			issuer.SetPerson(map[string]any{"email": "eve@acme.example", "groups": []string{"guests"}})
			begin()
			press(t, tab, "#agree")
			awaitPage(t, tab, `document.querySelector("[role=alert]").textContent.includes("Acme says that you are eve@acme.example (sub person-1), and nothing here is open to you")`)

			secrets := []string{clientSecret, "eyJ", "eve@acme.example"}
			for _, address := range tab.Requests() {
				u, err := url.Parse(address)
				if err != nil {
					t.Fatal(err)
				}
				for _, parameter := range []string{"code", "state", "nonce", "code_challenge"} {
					if value := u.Query().Get(parameter); value != "" {
						secrets = append(secrets, value)
					}
				}
			}
			if len(secrets) < 10 {
				t.Errorf("the browser was at %v", tab.Requests())
			}
			for _, secret := range secrets {
				if strings.Contains(s.errs.String(), secret) {
					t.Errorf("%s is in the log", secret)
				}
			}
			tab.CheckConsole(slices.DeleteFunc(tab.Requests(), func(address string) bool { return !strings.Contains(address, "/sign-in/callback?") })...)
		})
	}
}
