package web_test

import (
	"context"
	"maps"
	"slices"
	"sync"
	"testing"

	"github.com/pawlhq/pawl/publish"
	"github.com/pawlhq/pawl/web"
)

// credentials stands for the service that knows credentials.
type credentials struct {
	mu      sync.Mutex
	callers map[publish.Secret]publish.Caller
	asked   int
	away    bool // nobody can be asked
}

// newAuthRig is a rig that asks for credentials.
func newAuthRig(t *testing.T, opts web.Options) (*rig, *credentials) {
	t.Helper()
	known := &credentials{callers: map[publish.Secret]publish.Caller{}}
	opts.Authenticate = known.authenticate
	return newRig(t, opts), known
}

// issue makes a credential, and returns the header that carries it, as arguments of call.
func (k *credentials) issue(t *testing.T, name, scopes string) []string {
	t.Helper()
	parsed, err := publish.ParseScopes(scopes)
	if err != nil {
		t.Fatal(err)
	}
	secret := publish.NewSecret()
	k.mu.Lock()
	defer k.mu.Unlock()
	k.callers[secret] = publish.Caller{Name: name, Credential: publish.NewCredentialID(), Scopes: parsed}
	return bearer(secret)
}

// revoke makes all credentials of a name unknown.
func (k *credentials) revoke(name string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	maps.DeleteFunc(k.callers, func(_ publish.Secret, c publish.Caller) bool { return c.Name == name })
}

func (k *credentials) goAway(away bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.away = away
}

func (k *credentials) timesAsked() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.asked
}

func (k *credentials) authenticate(ctx context.Context, secret publish.Secret) (publish.Caller, error) {
	if err := ctx.Err(); err != nil {
		return publish.Caller{}, err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.asked++
	if k.away {
		return publish.Caller{}, publish.Unavailable("the pointer store (Postgres)", nil)
	}
	caller, known := k.callers[secret]
	if !known {
		return publish.Caller{}, &publish.Error{Code: publish.ErrUnauthorized, Detail: "it was revoked on a Tuesday"}
	}
	return caller, nil
}

func bearer(secret publish.Secret) []string {
	return []string{"Authorization", "Bearer " + secret.Reveal()}
}

// with is call for a caller.
func (r *rig) with(caller []string, method, target, body string, headers ...string) answer {
	r.t.Helper()
	return r.call(method, target, body, slices.Concat(caller, headers)...)
}

// grantTo is grant for a caller; its worker sends no credential by itself.
func (r *rig) grantTo(caller []string, key string) worker {
	r.t.Helper()
	lease := r.with(caller, "POST", "/v1/keys/"+key+"/-/lease", `{"holder":"test"}`).want(201).json()
	token, _ := lease["token"].(float64)
	id, _ := lease["lease_id"].(string)
	return worker{rig: r, key: key, token: int64(token), lease: id}
}

// publishedBy makes a key with one published file "f".
func (r *rig) publishedBy(caller []string, key, body string) worker {
	r.t.Helper()
	w := r.grantTo(caller, key)
	w.put("f", body, caller...).want(201)
	w.publish(`{"release":true}`, caller...).want(200)
	return w
}
