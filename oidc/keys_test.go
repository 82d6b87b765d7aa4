package oidc

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/pawlhq/pawl/internal/testenv"
	"github.com/pawlhq/pawl/publish"
)

func TestKeyRotation(t *testing.T) {
	t.Parallel()
	r := newRig(t, rules)
	old := r.token(nil)
	r.good(old)
	r.issuer.Rotate(t)
	renewed := r.token(nil)
	r.refused(renewed, publish.ErrUnauthorized, "signature") // The issuer was asked within this minute.
	r.requests(2)
	r.clock.pass(fetchPause)
	r.good(renewed)
	r.requests(4)
	// The old key was taken back; only what is remembered goes on, for a while.
	r.good(old)
	r.clock.pass(rememberFor)
	r.refused(old, publish.ErrUnauthorized, "signature")
}

// A key that is taken back ends without any token that names a new one.
func TestKeyTakenBack(t *testing.T) {
	t.Parallel()
	r := newRig(t, rules)
	token := r.token(map[string]any{"exp": r.clock.Now().Unix() + 86400})
	r.good(token)
	r.issuer.Rotate(t)
	r.clock.pass(keysFresh - time.Second)
	r.good(token)
	r.clock.pass(rememberFor)
	r.refused(token, publish.ErrUnauthorized, "signature")
	r.requests(4)
}

func TestMadeUpKeyNamesAreNoBurden(t *testing.T) {
	t.Parallel()
	r := newRig(t, rules)
	good := r.token(nil)
	r.good(good)
	r.requests(2)
	header, rest, _ := strings.Cut(good, ".")
	flood := func() {
		t.Helper()
		for n := range 50 {
			r.refused(encode(fmt.Sprintf(`{"alg":"ES256","kid":"%s-%d"}`, header[:4], n))+"."+rest, publish.ErrUnauthorized, "signature")
		}
	}
	flood()
	r.requests(2)
	r.clock.pass(fetchPause)
	flood()
	r.requests(4)
	r.clock.pass(fetchPause - time.Second)
	flood()
	r.requests(4)
	// Nor is a wrong signature by a key that is known.
	r.clock.pass(time.Second)
	r.refused(header+"."+rest[:len(rest)-8]+"AAAAAAAA", publish.ErrUnauthorized, "signature")
	r.requests(4)
}

func TestIssuerAway(t *testing.T) {
	t.Parallel()
	r := newRig(t, rules)
	r.issuer.SetAway(true)
	token := r.token(nil)
	r.refused(token, publish.ErrUnavailable, "the issuer "+r.issuer.URL)
	r.requests(1)
	// It isn't asked for each token.
	r.refused(token, publish.ErrUnavailable, "")
	r.requests(1)
	// Those that are bad by what is known stay so.
	r.refused(token+"=", publish.ErrUnauthorized, "")
	r.issuer.SetAway(false)
	r.clock.pass(firstPause)
	r.good(token)
	r.requests(3)

	// With keys at hand the server goes on without it, however old they are.
	r.issuer.SetAway(true)
	for range 3 {
		r.clock.pass(2 * keysFresh)
		r.good(r.token(nil))
	}
	// A key that may have come since is another matter: this isn't the token's fault.
	r.issuer.Rotate(t)
	renewed := r.token(nil)
	r.refused(renewed, publish.ErrUnavailable, "")
	r.issuer.SetAway(false)
	r.clock.pass(fetchPause)
	r.good(renewed)
}

// A start without any issuer is a start, and one issuer that is away is nothing to the tokens of another.
func TestIssuerGone(t *testing.T) {
	t.Parallel()
	r := newRig(t, rules)
	gone := httptest.NewTLSServer(http.NotFoundHandler())
	gone.Close()
	config := Config{Issuers: []IssuerConfig{
		{Issuer: gone.URL, Audience: "pawl"},
		{Issuer: r.issuer.URL, Audience: "pawl", CAFile: r.issuer.CAFile, Rules: r.verifier.Issuer(r.issuer.URL).config.Rules},
	}}
	verifier, err := newVerifier(config, r.clock.Now)
	if err != nil {
		t.Fatal(err)
	}
	r.verifier = verifier
	r.refused(r.token(map[string]any{"iss": gone.URL}), publish.ErrUnavailable, gone.URL)
	r.good(r.token(nil))
}

func TestIssuerThatCannotBeBelieved(t *testing.T) {
	t.Parallel()
	plain := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		t.Error("was asked without TLS")
		w.WriteHeader(http.StatusNotFound)
	}))
	defer plain.Close()
	big := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`{"keys":[` + strings.Repeat(" ", maxDocument) + `]}`))
	}))
	defer big.Close()
	leading := httptest.NewTLSServer(http.RedirectHandler(plain.URL, http.StatusFound))
	defer leading.Close()
	for name, change := range map[string]func(*rig){
		"another's document": func(r *rig) { r.issuer.SetDocument("issuer", "https://other.example") },
		"no address of keys": func(r *rig) { r.issuer.SetDocument("jwks_uri", "") },
		"keys without TLS":   func(r *rig) { r.issuer.SetDocument("jwks_uri", plain.URL+"/keys") },
		"keys in a file":     func(r *rig) { r.issuer.SetDocument("jwks_uri", "file:///etc/passwd") },
		"keys nowhere":       func(r *rig) { r.issuer.SetDocument("jwks_uri", r.issuer.URL+"/nowhere") },
		"too long an answer": func(r *rig) { r.issuer.SetDocument("filler", strings.Repeat("x", maxDocument)) },
		"no keys":            func(r *rig) { r.issuer.SetKeys() },
		"too many keys":      func(r *rig) { r.issuer.SetDocument("jwks_uri", big.URL) },
		"led away from TLS":  func(r *rig) { r.issuer.SetDocument("jwks_uri", leading.URL) },
		"secrets as keys":    func(r *rig) { r.issuer.SetKeys(jose.JSONWebKey{Key: []byte("secret"), KeyID: "key-1"}) },
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, rules)
			token := r.token(nil)
			change(r)
			r.refused(token, publish.ErrUnavailable, "")
			_, err := r.verifier.Authenticate(t.Context(), token)
			if len(err.Error()) > 1000 {
				t.Errorf("the error has %d bytes", len(err.Error()))
			}
		})
	}
}

// Many that need keys at once ask together, and none waits beyond its own time.
func TestOneAsksForAll(t *testing.T) {
	t.Parallel()
	var asked atomic.Int32
	began, release := make(chan struct{}), make(chan struct{})
	k := &keys{issuer: "https://issuer.example", now: time.Now, fetch: func(ctx context.Context) (*published, error) {
		if asked.Add(1) == 1 {
			close(began)
		}
		<-release
		return &published{keys: []jose.JSONWebKey{{KeyID: "a"}}}, ctx.Err()
	}}
	// The first one hangs up while it asks; the others get the answer all the same.
	first, hangUp := context.WithCancel(t.Context())
	var all sync.WaitGroup
	find := func(ctx context.Context) {
		if found, err := k.find(ctx, "a"); err != nil || len(found) != 1 {
			t.Errorf("found %v, %v", found, err)
		}
	}
	all.Go(func() { find(first) })
	<-began
	hangUp()
	for range 20 {
		all.Go(func() { find(t.Context()) })
	}
	impatient, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := k.find(impatient, "a"); !errors.Is(err, publish.ErrUnavailable) || !errors.Is(err, context.Canceled) {
		t.Errorf("who can't wait got %v", err)
	}
	close(release)
	all.Wait()
	if n := asked.Load(); n != 1 {
		t.Errorf("the issuer was asked %d times", n)
	}
}

// While the issuer takes its time, tokens by keys that are held don't.
func TestHeldKeysDoNotWait(t *testing.T) {
	t.Parallel()
	c := &clock{now: time.Unix(1e9, 0)}
	began, release := make(chan struct{}), make(chan struct{})
	calls := 0
	k := &keys{issuer: "https://issuer.example", now: c.Now}
	k.fetch = func(context.Context) (*published, error) {
		if calls++; calls > 1 {
			close(began)
			<-release
			return nil, errors.New("away")
		}
		return &published{keys: []jose.JSONWebKey{{KeyID: "a"}}}, nil
	}
	if _, err := k.find(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	c.pass(keysFresh)
	var slow sync.WaitGroup
	slow.Go(func() {
		if found, err := k.find(t.Context(), "a"); err != nil || len(found) != 1 {
			t.Errorf("who asked got %v, %v", found, err)
		}
	})
	<-began
	if found, err := k.find(t.Context(), "a"); err != nil || len(found) != 1 {
		t.Errorf("got %v, %v", found, err)
	}
	close(release)
	slow.Wait()
}

func TestProvider(t *testing.T) {
	t.Parallel()
	r := newRig(t, rules)
	r.issuer.SetDocument("authorization_endpoint", r.issuer.URL+"/authorize")
	issuer := r.verifier.Issuer(r.issuer.URL)
	r.issuer.SetAway(true)
	if _, err := issuer.Provider(t.Context()); !errors.Is(err, publish.ErrUnavailable) {
		t.Errorf("got %v", err)
	}
	r.issuer.SetAway(false)
	r.clock.pass(firstPause)
	provider, err := issuer.Provider(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if got := provider.Endpoint().AuthURL; got != r.issuer.URL+"/authorize" {
		t.Errorf("people sign in at %q", got)
	}
	// Other audiences of the issuer are verified by the same keys.
	claims, err := issuer.Verify(t.Context(), r.token(map[string]any{"aud": "page", "nonce": "n"}), "page")
	if err != nil || claims.Text("nonce") != "n" {
		t.Errorf("got %v, %v", claims, err)
	}
	r.requests(3)
}

func TestCAFile(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{"missing": "", "no PEM": "certificate"} {
		path := filepath.Join(t.TempDir(), "ca.pem")
		if text != "" {
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		_, err := New(Config{Issuers: []IssuerConfig{{Issuer: "https://a.example"}, {Issuer: "https://issuer.example", CAFile: path}}})
		if err == nil || !strings.HasPrefix(err.Error(), "/issuers/1/ca_file: ") || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v", name, err)
		}
	}
	// Without a file the authorities are those of the system.
	issuer := testenv.NewIssuer(t)
	r := &rig{T: t, issuer: issuer, clock: &clock{now: time.Unix(1e9, 0)}}
	verifier, err := newVerifier(Config{Issuers: []IssuerConfig{{Issuer: issuer.URL, Audience: "pawl"}}}, r.clock.Now)
	if err != nil {
		t.Fatal(err)
	}
	r.verifier = verifier
	r.refused(r.token(nil), publish.ErrUnavailable, "certificate")
}

func TestCacheIsBounded(t *testing.T) {
	t.Parallel()
	var c cache
	now := time.Unix(1e9, 0)
	hash := func(n int) (h tokenHash) { copy(h[:], fmt.Sprint(n)); return h }
	for n := range 3 * rememberTokens {
		c.put(hash(n), publish.Caller{Name: fmt.Sprint(n)}, now.Add(time.Minute))
	}
	if held := len(c.young) + len(c.old); held > 2*rememberTokens {
		t.Errorf("%d tokens are remembered", held)
	}
	last := 3*rememberTokens - 1
	if caller, ok := c.get(hash(last), now); !ok || caller.Name != fmt.Sprint(last) {
		t.Errorf("the last one is %v, %v", caller, ok)
	}
	if _, ok := c.get(hash(0), now); ok {
		t.Error("the first one is remembered still")
	}
	if _, ok := c.get(hash(last), now.Add(time.Minute)); ok {
		t.Error("one is remembered beyond its end")
	}
}
