//go:build unix

package testenv

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/go-jose/go-jose/v4"
)

// Issuer is an OpenID Connect issuer in this process: over TLS, with a discovery document and keys that change. Its methods may be called from many
// goroutines at once.
type Issuer struct {
	// URL is the issuer's, without a slash at its end.
	URL string
	// CAFile is a PEM file of the authority of its certificate.
	CAFile string

	mu       sync.Mutex
	keys     []jose.JSONWebKey // with their private parts; the first one signs
	drawn    int
	away     bool
	requests int
	document map[string]any

	client    IssuerClient
	person    map[string]any
	codes     map[string]granted
	intercept func(http.ResponseWriter, *http.Request) bool
}

// NewIssuer starts an issuer with one key, by the name key-1, of ES256. It ends with the test.
func NewIssuer(t testing.TB) *Issuer {
	t.Helper()
	i := &Issuer{codes: map[string]granted{}}
	server := httptest.NewTLSServer(http.HandlerFunc(i.serve))
	t.Cleanup(server.Close)
	i.URL = server.URL
	i.document = map[string]any{
		"issuer": i.URL, "jwks_uri": i.URL + "/keys", "id_token_signing_alg_values_supported": []string{"ES256"},
		"authorization_endpoint": i.URL + "/authorize", "token_endpoint": i.URL + "/token",
	}
	i.CAFile = filepath.Join(t.TempDir(), "issuer.pem")
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	if err := os.WriteFile(i.CAFile, text, 0o600); err != nil {
		t.Fatal(err)
	}
	i.Rotate(t)
	return i
}

func (i *Issuer) serve(w http.ResponseWriter, r *http.Request) {
	i.mu.Lock()
	intercept := i.intercept
	i.mu.Unlock()
	if intercept != nil && intercept(w, r) {
		return
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.requests++
	w.Header().Set("Content-Type", "application/json")
	switch {
	case i.away:
		http.Error(w, "away", http.StatusServiceUnavailable)
	case r.URL.Path == "/.well-known/openid-configuration":
		_ = json.NewEncoder(w).Encode(i.document) //nolint:errcheck // Who has gone doesn't need it.
	case r.URL.Path == "/keys":
		set := jose.JSONWebKeySet{}
		for _, key := range i.keys {
			set.Keys = append(set.Keys, key.Public())
		}
		_ = json.NewEncoder(w).Encode(set) //nolint:errcheck // Who has gone doesn't need it.
	case r.URL.Path == "/authorize":
		i.showAuthorize(w, r)
	case r.URL.Path == "/token":
		i.serveToken(w, r)
	default:
		http.NotFound(w, r)
	}
}

// Rotate draws a new key, by the name of the next number, and takes back those before it.
func (i *Issuer) Rotate(t testing.TB) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.drawn++
	i.keys = []jose.JSONWebKey{{Key: key, KeyID: fmt.Sprintf("key-%d", i.drawn), Algorithm: "ES256", Use: "sig"}}
}

// SetKeys makes the issuer publish keys, of which the first one signs.
func (i *Issuer) SetKeys(keys ...jose.JSONWebKey) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.keys = keys
}

// SetDocument changes a member of the discovery document.
func (i *Issuer) SetDocument(member string, value any) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.document[member] = value
}

// SetAway makes the issuer answer nothing but 503, or takes that back.
func (i *Issuer) SetAway(away bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.away = away
}

// Requests is how many requests have come.
func (i *Issuer) Requests() int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.requests
}

// Token signs claims, to which it adds iss unless they have it.
func (i *Issuer) Token(t testing.TB, claims map[string]any) string {
	t.Helper()
	i.mu.Lock()
	key := i.keys[0]
	i.mu.Unlock()
	full := map[string]any{"iss": i.URL}
	maps.Copy(full, claims)
	payload, err := json.Marshal(full)
	if err != nil {
		t.Fatal(err)
	}
	return SignToken(t, key, payload)
}

// SignToken signs a payload with a key, whose name and algorithm go into the header.
func SignToken(t testing.TB, key jose.JSONWebKey, payload []byte) string {
	t.Helper()
	token, err := sign(key, payload)
	if err != nil {
		t.Fatal(err)
	}
	return token
}

func sign(key jose.JSONWebKey, payload []byte) (string, error) {
	options := (&jose.SignerOptions{}).WithType("JWT")
	if key.KeyID != "" {
		options = options.WithHeader("kid", key.KeyID)
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.SignatureAlgorithm(key.Algorithm), Key: key.Key}, options)
	if err != nil {
		return "", err
	}
	signed, err := signer.Sign(payload)
	if err != nil {
		return "", err
	}
	return signed.CompactSerialize()
}
