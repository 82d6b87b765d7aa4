package oidc

import (
	"encoding/json"
	"errors"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pawlhq/pawl/internal/testenv"
	"github.com/pawlhq/pawl/publish"
)

// clock is a clock that a test sets.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// rig is a verifier and its only issuer.
type rig struct {
	*testing.T
	issuer   *testenv.Issuer
	verifier *Verifier
	clock    *clock
}

const rules = `[{"claims": {"repository": "acme/renders"}, "name": "github {repository}", "scopes": ["publish:renders/"]}]`

// newRig starts an issuer, and a verifier that has some rules for it.
func newRig(t *testing.T, rules string) *rig {
	t.Helper()
	issuer := testenv.NewIssuer(t)
	r := &rig{T: t, issuer: issuer, clock: &clock{now: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)}}
	r.verifier = newVerifierOf(t, r.clock, issuer, rules)
	return r
}

func newVerifierOf(t *testing.T, c *clock, issuer *testenv.Issuer, rules string) *Verifier {
	t.Helper()
	text, err := json.Marshal(map[string]any{"issuers": []any{map[string]any{
		"issuer": issuer.URL, "audience": "pawl", "ca_file": issuer.CAFile, "rules": json.RawMessage(rules),
	}}})
	if err != nil {
		t.Fatal(err)
	}
	config, err := ParseConfig(text)
	if err != nil {
		t.Fatal(err)
	}
	verifier, err := newVerifier(config, c.Now)
	if err != nil {
		t.Fatal(err)
	}
	return verifier
}

// claims are good ones, with some changed; those that are nil are taken away.
func (r *rig) claims(changed map[string]any) map[string]any {
	now := r.clock.Now().Unix()
	claims := map[string]any{
		"sub": "repo:acme/renders:ref:refs/heads/main", "aud": "pawl", "iat": now, "nbf": now, "exp": now + 300, "repository": "acme/renders",
	}
	maps.Copy(claims, changed)
	maps.DeleteFunc(claims, func(_ string, value any) bool { return value == nil })
	return claims
}

func (r *rig) token(changed map[string]any) string {
	r.Helper()
	return r.issuer.Token(r, r.claims(changed))
}

// good checks that a token is accepted.
func (r *rig) good(token string) publish.Caller {
	r.Helper()
	caller, err := r.verifier.Authenticate(r.Context(), token)
	if err != nil {
		r.Fatalf("refused: %v", err)
	}
	return caller
}

// refused checks that a token is refused for a reason, by an error that tells nothing of it.
func (r *rig) refused(token string, code publish.Code, reason string) {
	r.Helper()
	caller, err := r.verifier.Authenticate(r.Context(), token)
	if !errors.Is(err, code) {
		r.Fatalf("got %+v, %v; want %s", caller, err, code)
	}
	if caller.Known() || len(caller.Scopes) > 0 {
		r.Errorf("a caller came with the refusal: %+v", caller)
	}
	if !strings.Contains(err.Error(), reason) {
		r.Errorf("the error is %q; it must say %q", err, reason)
	}
	hides(r, err.Error(), token)
}

// hides checks that a text holds no part of a token that could be used, or that a secret could be.
func hides(t testing.TB, text, token string) {
	t.Helper()
	for part := range strings.SplitSeq(token, ".") {
		if len(part) >= 8 && strings.Contains(text, part[:8]) {
			t.Errorf("%q holds a part of the token", text)
		}
	}
}

// requests checks how many requests the issuer has had.
func (r *rig) requests(want int) {
	r.Helper()
	if got := r.issuer.Requests(); got != want {
		r.Errorf("the issuer had %d requests, want %d", got, want)
	}
}
