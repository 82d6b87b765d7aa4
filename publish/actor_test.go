package publish_test

import (
	"errors"
	"testing"
	"time"

	"github.com/pawlhq/pawl/publish"
	"github.com/pawlhq/pawl/publish/publishtest"
)

// Whose a lease id is is remembered for 5 s, so its uploads ask Postgres no more often; and no longer, so that on every replica it opens nothing 5 s after its
// credential was revoked, and at once on the one that was asked to.
func TestRevokedLeaseIsForgotten(t *testing.T) {
	t.Parallel()
	g := newGate(t)
	other := &publish.Service{Pointers: g.pointers, Blobs: publishtest.NewBlobs(), Clock: g.now}
	t.Cleanup(other.Close)
	made := g.create("ci", publish.Never)
	ctx := publish.WithCaller(t.Context(), publish.Caller{Name: made.Name, Credential: made.ID})
	lease, err := g.Acquire(ctx, publish.AcquireRequest{Key: "k", Holder: "w", TTL: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	grant := publish.Grant{Key: "k", Token: lease.Token, LeaseID: lease.LeaseID}
	opens := func(s *publish.Service, want bool) {
		t.Helper()
		caller, err := s.GrantedTo(t.Context(), grant)
		if want && (err != nil || caller.Credential != made.ID) || !want && !errors.Is(err, publish.ErrUnauthorized) {
			t.Fatalf("a lease id shows %+v, %v; want it to open: %t", caller, err, want)
		}
	}
	opens(g.Service, true)
	for range 10 {
		opens(other, true)
	}
	if asked := g.pointers.Faults.Calls("Opens"); asked != 2 {
		t.Errorf("Postgres was asked %d times", asked)
	}
	if _, err := g.RevokeCredential(t.Context(), made.ID, "ops", publish.Everything); err != nil {
		t.Fatal(err)
	}
	opens(g.Service, false)
	g.pass(5*time.Second - time.Millisecond)
	opens(other, true)
	g.pass(time.Millisecond)
	opens(other, false)
	other2 := publish.Grant{Key: "k", Token: lease.Token + 1, LeaseID: lease.LeaseID}
	if _, err := other.GrantedTo(t.Context(), other2); !errors.Is(err, publish.ErrUnauthorized) {
		t.Errorf("under another token: %v", err)
	}
}

// A program on the database itself is shown everything, and a server's caller what its scopes say.
func TestActorsAreNarrowed(t *testing.T) {
	t.Parallel()
	g := newGate(t)
	ctx := publish.WithCaller(t.Context(), publish.Caller{Name: "ci", Credential: "0123456789abcdef"})
	if _, err := g.Acquire(ctx, publish.AcquireRequest{Key: "k", Holder: "w", TTL: time.Hour}); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		caller *publish.Caller
		want   string
	}{
		{nil, "ci"},
		{&publish.Caller{}, ""},
		{&publish.Caller{Scopes: publish.Scopes{{Verb: publish.VerbRead, Prefix: "k"}}}, "ci"},
		{&publish.Caller{Scopes: publish.Scopes{{Verb: publish.VerbAdmin, Prefix: "other/"}}}, ""},
	} {
		ctx := t.Context()
		if test.caller != nil {
			ctx = publish.WithCaller(ctx, *test.caller)
		}
		if found, err := g.Generation(ctx, "k", 1); err != nil || found.Credential != test.want {
			t.Errorf("%+v is told %q, %v", test.caller, found.Credential, err)
		}
	}
}
