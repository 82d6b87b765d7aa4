package publishtest

import (
	"time"

	"github.com/pawlhq/pawl/publish"
)

func opensTests() []pointerTest {
	return []pointerTest{
		{name: "own", run: testOpensOwn},
		{name: "sealed", run: testOpensSealed},
		{name: "fenced", run: testOpensFenced},
		{name: "fenced-by-grant", run: testOpensFencedByGrant},
		{name: "condemned", run: testOpensCondemned},
		{name: "revoked", run: testOpensRevoked},
	}
}

// opens fails unless the lease id of a grant opens that.
func (s *suite) opens(grant publish.Grant, granted, open bool) {
	s.Helper()
	got, err := s.Store.Opens(s.Context(), grant)
	s.ok(err)
	got.Caller = ""
	s.same("opening", got, publish.Opening{Granted: granted, Open: open})
}

// testOpensOwn: a lease id is good for its own token of its own key, whatever becomes of the lease.
func testOpensOwn(s *suite) {
	s.opens(publish.Grant{Key: s.key("never"), Token: 1, LeaseID: publish.NewLeaseID()}, false, false)
	a, other := s.acquire(s.key("k"), "a"), s.acquire(s.key("other"), "b")
	s.opens(a, true, true)
	for _, not := range []publish.Grant{
		{Key: a.Key, Token: a.Token},
		{Key: a.Key, Token: a.Token, LeaseID: publish.NewLeaseID()},
		{Key: a.Key, Token: a.Token, LeaseID: other.LeaseID},
		{Key: a.Key, Token: a.Token + 1, LeaseID: a.LeaseID},
		{Key: other.Key, Token: a.Token, LeaseID: a.LeaseID},
	} {
		s.opens(not, false, false)
	}
	s.Expire(s.T, a.Key)
	s.opens(a, true, true)
	b := s.acquire(a.Key, "b")
	s.opens(a, true, true) // Nobody newer has published yet.
	s.opens(b, true, true)
	s.ok(s.Store.Release(s.Context(), b.Key, b.LeaseID))
	s.opens(b, true, true)
}

func testOpensSealed(s *suite) {
	a := s.acquire(s.key("k"), "a")
	s.upload(a, "f", "x")
	s.publish(publish.PublishRequest{Grant: a})
	s.opens(a, true, true) // It goes on: that publish wasn't the final one.
	s.publish(publish.PublishRequest{Grant: a, Final: true})
	s.opens(a, true, false)
}

func testOpensFenced(s *suite) {
	a := s.acquire(s.key("k"), "a")
	b := s.takeOver(a.Key, "b")
	s.output(b, "x")
	s.opens(a, true, false)
}

func testOpensFencedByGrant(s *suite) {
	a := s.acquire(s.key("k"), "a")
	s.ok(s.Store.SetPolicy(s.Context(), publish.Policy{Prefix: string(a.Key), FenceMode: publish.FenceGranted}, "o"))
	s.opens(a, true, true)
	b := s.takeOver(a.Key, "b")
	s.opens(a, true, false)
	s.opens(b, true, true)
}

func testOpensCondemned(s *suite) {
	a := s.acquire(s.key("k"), "a")
	s.Condemn(s.T, a.Key, a.Token)
	s.opens(a, true, false)
}

// testOpensRevoked: the lease id of a revoked credential opens nothing from then on, that of one which was replaced or has run out goes on, as does that of a caller
// who is no credential of ours.
func testOpensRevoked(s *suite) {
	a, revoked := s.grantedTo("a")
	b, replaced := s.grantedTo("b")
	identity := s.acquireAs(s.as(s.callerOf("identity")), s.key("c"))
	for grant, caller := range map[publish.Grant]publish.CredentialID{a: revoked.ID, b: replaced.ID, identity: s.callerOf("identity")} {
		got, err := s.Store.Opens(s.Context(), grant)
		s.ok(err)
		s.same("opening", got, publish.Opening{Granted: true, Open: true, Caller: caller})
	}
	s.revoke(revoked.ID)
	s.opens(a, false, false)
	_, err := s.Store.Acquire(s.Context(), publish.AcquireRequest{Key: a.Key, Holder: "w", TTL: suiteTTL, LeaseID: a.LeaseID})
	s.ok(err) // A repeat by another credential makes it no other's.
	s.opens(a, false, false)
	b2 := s.replace(replacement(replaced.ID))
	s.AgeCredential(s.T, replaced.ID, 2*time.Hour)
	s.opens(b, true, true)
	s.revoke(b2.ID)
	s.opens(b, true, true)
	s.revoke(replaced.ID)
	s.opens(b, false, false)
	s.opens(identity, true, true)
}
