package oidc

import (
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"time"

	goidc "github.com/coreos/go-oidc/v3/oidc"
	"github.com/go-jose/go-jose/v4"
)

const (
	// fetchTimeout bounds one request to an issuer with its answer.
	fetchTimeout = 5 * time.Second
	// maxDocument bounds an answer of an issuer, in bytes.
	maxDocument = 1 << 20
	// maxKeys bounds how many keys of an issuer are kept: a token that names no key is tried with each.
	maxKeys = 64
	// minRSABits is the least that RFC 7518, section 3.3, allows.
	minRSABits = 2048
)

// published is what an issuer says of itself.
type published struct {
	provider *goidc.Provider
	keys     []jose.JSONWebKey
}

// newClient makes the client for one issuer. It keeps no connection open: an issuer is asked every quarter of an hour.
func newClient(issuer IssuerConfig) (*http.Client, error) {
	u, err := url.Parse(issuer.Issuer)
	if err != nil {
		return nil, err
	}
	trust := &tls.Config{MinVersion: tls.VersionTLS12}
	if issuer.CAFile != "" {
		text, err := os.ReadFile(issuer.CAFile)
		if err != nil {
			return nil, err
		}
		trust.RootCAs = x509.NewCertPool()
		if !trust.RootCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("%s holds no certificate in PEM", issuer.CAFile)
		}
	}
	return &http.Client{
		Timeout: fetchTimeout,
		Transport: &guardedTransport{plain: plain(u), next: &http.Transport{
			Proxy: http.ProxyFromEnvironment, TLSClientConfig: trust, DisableKeepAlives: true, ForceAttemptHTTP2: true,
		}},
	}, nil
}

// guardedTransport asks nobody without TLS, wherever a document or a redirection leads to, and reads no more of an answer than it must.
type guardedTransport struct {
	plain bool // the issuer itself is on a loopback address without TLS
	next  http.RoundTripper
}

var errUnguarded = errors.New("the issuer leads to an address without TLS")

// guarded reports whether nobody can read what is sent to an address, or change what comes from it. local tells that the issuer itself is on a loopback address.
func guarded(u *url.URL, local bool) bool { return u.Scheme == "https" || local && plain(u) }

// RoundTrip sends one request.
func (t *guardedTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	if !guarded(req.URL, t.plain) {
		return nil, errUnguarded
	}
	resp, err := t.next.RoundTrip(req)
	if err == nil {
		resp.Body = http.MaxBytesReader(nil, resp.Body, maxDocument)
	}
	return resp, err
}

// fetch asks an issuer for its discovery document, and for the keys that this leads to.
func fetch(ctx context.Context, client *http.Client, issuer string) (*published, error) {
	provider, err := goidc.NewProvider(goidc.ClientContext(ctx, client), issuer)
	if err != nil {
		return nil, fmt.Errorf("discovery document: %w", shortened{err})
	}
	var document struct {
		KeysURL string `json:"jwks_uri"`
	}
	if err := provider.Claims(&document); err != nil {
		return nil, fmt.Errorf("discovery document: %w", err)
	}
	keys, err := fetchKeys(ctx, client, document.KeysURL)
	if err != nil {
		return nil, fmt.Errorf("keys at %.200q: %w", document.KeysURL, err)
	}
	return &published{provider, keys}, nil
}

func fetchKeys(ctx context.Context, client *http.Client, address string) ([]jose.JSONWebKey, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, err
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }() //nolint:errcheck // All of it was read, or it is of no use.
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the answer is %s", resp.Status)
	}
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal(text, &set); err != nil {
		return nil, errors.New("the answer is no JSON Web Key Set")
	}
	var keys []jose.JSONWebKey
	for _, text := range set.Keys {
		// What this program doesn't know must not keep it from the keys that it does (RFC 7517, section 5).
		var key jose.JSONWebKey
		if err := json.Unmarshal(text, &key); err == nil && signs(key) && len(keys) < maxKeys {
			keys = append(keys, key)
		}
	}
	if len(keys) == 0 {
		return nil, errors.New("the answer holds no public key for signatures that is known and long enough")
	}
	return keys, nil
}

// signs reports whether a key is one that may check signatures.
func signs(key jose.JSONWebKey) bool {
	if key.Use != "" && key.Use != "sig" || !key.Valid() {
		return false
	}
	switch public := key.Key.(type) {
	case *rsa.PublicKey:
		return public.N.BitLen() >= minRSABits
	case *ecdsa.PublicKey, ed25519.PublicKey:
		return true
	}
	return false
}

// shortened is an error whose text is cut: the library's holds all of an answer.
type shortened struct{ error }

// Error is the beginning of the text.
func (e shortened) Error() string { return fmt.Sprintf("%.300q", e.error.Error()) }

// Unwrap is the whole error.
func (e shortened) Unwrap() error { return e.error }
