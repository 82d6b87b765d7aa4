package publishtest

import (
	"context"
	"net/netip"

	"github.com/pawlhq/pawl/publish"
)

func actorTests() []pointerTest {
	return []pointerTest{
		{name: "history", run: testActorHistory},
		{name: "operators", run: testActorOperators},
		{name: "nobody", run: testActorNobody},
		{name: "revoked lease", run: testRevokedLease},
		{name: "revoked lease and operators", run: testRevokedLeaseOperators},
		{name: "revoked lease and limit", run: testRevokedLeaseLimit},
	}
}

// as is a context of calls that work for a caller.
func (s *suite) as(caller publish.CredentialID) context.Context {
	return publish.WithCaller(s.Context(), publish.Caller{Credential: caller, Name: "name of " + string(caller)})
}

// asFrom is as for a caller that has an address, and what is to be told of it.
func (s *suite) asFrom(name, address string) (context.Context, publish.Actor) {
	caller := s.callerOf(name)
	return publish.WithClient(s.as(caller), netip.MustParseAddr(address)), publish.Actor{Credential: "name of " + string(caller), From: address}
}

// acquireAs is granted a free key, for a caller.
func (s *suite) acquireAs(ctx context.Context, key publish.Key) publish.Grant {
	s.Helper()
	req := acquireRequest(key, "w")
	lease, err := s.Store.Acquire(ctx, req)
	s.ok(err)
	return publish.Grant{Key: key, Token: lease.Token, LeaseID: req.LeaseID}
}

// testActorHistory: each grant, publish and stale request tells by whom it was made, whatever its holder is called; and a repeat changes nothing of it.
func testActorHistory(s *suite) {
	farm, byFarm := s.asFrom("farm", "10.0.0.7")
	other, byOther := s.asFrom("other", "2001:db8::7")
	late, byLate := s.asFrom("late", "10.0.0.9")
	a := s.acquireAs(farm, s.key("k"))
	_, err := s.Store.Acquire(other, publish.AcquireRequest{Key: a.Key, Holder: "w", TTL: suiteTTL, LeaseID: a.LeaseID})
	s.ok(err)
	s.upload(a, "f", "one")
	for _, ctx := range []context.Context{farm, other} { // The second one is a repeat.
		receipt, err := s.Store.Publish(ctx, publish.PublishRequest{Grant: a})
		s.ok(err)
		s.same("receipt", receipt.Actor, byFarm)
	}
	s.upload(a, "f", "two")
	receipt, err := s.Store.Publish(other, publish.PublishRequest{Grant: a})
	s.ok(err)
	s.same("receipt of another caller", receipt.Actor, byOther)

	s.output(s.takeOver(a.Key, "b"), "three")
	for _, ctx := range []context.Context{late, farm} {
		s.refused(s.Store.DeleteFile(ctx, a, "f"), publish.Error{Code: publish.ErrStaleToken})
	}
	g := s.generation(a)
	s.same("grant", g.Actor, byFarm)
	s.same("second publish", g.Receipts[0].Actor, byOther)
	s.same("first publish", g.Receipts[1].Actor, byFarm)
	s.same("stale request", g.Rejections[0].Actor, byLate)
	overview, err := s.Store.Overview(s.Context(), a.Key)
	s.ok(err)
	s.same("last stale request", overview.LastRejection.Actor, byLate)
	found, err := s.Store.Rejections(s.Context(), publish.FeedQuery{Reach: publish.Everything, Prefix: string(a.Key), Limit: 10, Bound: 1000})
	s.ok(err)
	s.same("stale requests", len(found.Rejections), 1)
	s.same("feed", found.Rejections[0].Actor, byLate)
}

// testActorOperators: what is done to a key by hand tells it, too.
func testActorOperators(s *suite) {
	one, _, _ := s.twoVersions(s.key("k"))
	mia, byMia := s.asFrom("mia", "10.0.0.7")
	rolled, err := s.Store.Rollback(mia, rollbackTo(one.Key, one.Token))
	s.ok(err)
	s.same("receipt", rolled.Actor, byMia)
	retired, err := s.Store.Retire(mia, publish.RetireRequest{Key: one.Key, Reason: "r", By: "mia", RequestID: publish.NewLeaseID()})
	s.ok(err)
	for _, token := range []publish.Token{rolled.Token, retired.Token} {
		s.same("grant", s.generation(publish.Grant{Key: one.Key, Token: token}).Actor, byMia)
	}
}

// testActorNobody: where nobody is asked who it is, nothing is told, nor from where.
func testActorNobody(s *suite) {
	there := publish.WithClient(s.Context(), netip.MustParseAddr("10.0.0.7"))
	a := s.acquireAs(there, s.key("k"))
	s.upload(a, "f", "one")
	receipt, err := s.Store.Publish(publish.WithCaller(there, publish.Caller{}), publish.PublishRequest{Grant: a})
	s.ok(err)
	s.same("receipt", receipt.Actor, publish.Actor{})
	s.same("grant", s.generation(a).Actor, publish.Actor{})
}

// grantedTo is granted a free key by a credential that is made for it.
func (s *suite) grantedTo(name string) (publish.Grant, publish.Credential) {
	s.Helper()
	c := s.create(s.newCredential(name))
	return s.acquireAs(s.as(c.ID), s.key(name)), c
}

func (s *suite) revoke(id publish.CredentialID) {
	s.Helper()
	_, err := s.Store.RevokeCredential(s.Context(), id, "ops")
	s.ok(err)
}

// testRevokedLease: the lease of a revoked credential keeps nobody from the key, and its fence stays where it is. Until somebody asks nothing else changes.
func testRevokedLease(s *suite) {
	a, c := s.grantedTo("a")
	expiring, _ := s.grantedTo("b")
	s.upload(a, "f", "one")
	held := publish.Error{Code: publish.ErrLeaseHeld, Key: a.Key, Token: a.Token, GrantedToken: a.Token, Holder: "w"}
	_, err := s.Store.Acquire(s.Context(), acquireRequest(a.Key, "x"))
	s.refused(err, held)
	s.revoke(c.ID)
	_, err = s.Store.Renew(s.Context(), a.Key, a.LeaseID, suiteTTL) // By another credential.
	s.ok(err)

	b := s.acquire(a.Key, "x")
	s.same("token", b.Token, a.Token+1)
	_, err = s.Store.Renew(s.Context(), a.Key, a.LeaseID, suiteTTL)
	s.refused(err, publish.Error{Code: publish.ErrLeaseLost, Key: a.Key, Token: a.Token, GrantedToken: b.Token})
	_, err = s.Store.Acquire(s.Context(), acquireRequest(a.Key, "y"))
	s.refused(err, publish.Error{Code: publish.ErrLeaseHeld, Key: a.Key, Token: b.Token, GrantedToken: b.Token, Holder: "x"})
	s.publish(publish.PublishRequest{Grant: a, Final: true}) // By another credential: nobody newer has published.
	g := s.generation(a)
	if g.LeaseEndedAt == nil || g.LeaseEndedAt.After(s.generation(b).GrantedAt.Time) {
		s.Errorf("the lease has ended at %v", g.LeaseEndedAt)
	}

	_, err = s.Store.Acquire(s.Context(), acquireRequest(expiring.Key, "x"))
	s.refused(err, publish.Error{Code: publish.ErrLeaseHeld, Key: expiring.Key, Token: expiring.Token, GrantedToken: expiring.Token, Holder: "w"})
}

// testRevokedLeaseOperators: nor does it keep operators, who need not break it.
func testRevokedLeaseOperators(s *suite) {
	for name, change := range map[string]func(publish.Key, publish.Version) error{
		"back": func(key publish.Key, to publish.Version) error {
			_, err := s.Store.Rollback(s.Context(), publish.RollbackRequest{Key: key, To: to, Reason: "r", By: "mia", RequestID: publish.NewLeaseID()})
			return err
		},
		"retire": func(key publish.Key, _ publish.Version) error {
			_, err := s.Store.Retire(s.Context(), publish.RetireRequest{Key: key, Reason: "r", By: "mia", RequestID: publish.NewLeaseID()})
			return err
		},
	} {
		first := s.acquire(s.key(name), "first")
		s.output(first, "one")
		s.Expire(s.T, first.Key)
		c := s.create(s.newCredential(name))
		worker := s.acquireAs(s.as(c.ID), first.Key)
		to := publish.Version{Token: first.Token, Revision: 1}
		s.refused(change(first.Key, to), publish.Error{Code: publish.ErrLeaseHeld, Key: first.Key, Token: worker.Token, GrantedToken: worker.Token, Holder: "w"})
		s.revoke(c.ID)
		if err := change(first.Key, to); err != nil {
			s.Errorf("%s: %v", name, err)
		}
		_, err := s.Store.Renew(s.Context(), first.Key, worker.LeaseID, suiteTTL)
		s.refused(err, publish.Error{Code: publish.ErrLeaseLost})
	}
}

// testRevokedLeaseLimit: who takes the key of a revoked credential keeps to its own limit.
func testRevokedLeaseLimit(s *suite) {
	a, c := s.grantedTo("a")
	s.revoke(c.ID)
	s.get("other", s.callerOf("x"), 1)
	s.oneTooMany("a", s.callerOf("x"), 1)
	if again := s.get("a", s.callerOf("x"), 2); again.Token != a.Token+1 {
		s.Errorf("the next token is %d", again.Token)
	}
}
