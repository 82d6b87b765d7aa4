package publishtest

import (
	"time"

	"github.com/pawlhq/pawl/publish"
)

func leaseLimitTests() []pointerTest {
	return []pointerTest{
		{name: "open leases", run: testLeaseLimit},
		{name: "what ends a lease", run: testLeaseLimitEnds},
		{name: "replays and held keys", run: testLeaseLimitReplay},
		{name: "renewals", run: testLeaseLimitRenew},
	}
}

// callerOf is a caller that only one subtest has.
func (s *suite) callerOf(name string) publish.CredentialID {
	return publish.CredentialID(s.prefix + " " + name)
}

// askAs asks for a key as one of at most n open leases of a caller.
func (s *suite) askAs(key string, caller publish.CredentialID, n int64) (publish.Grant, error) {
	req := acquireRequest(s.key(key), "w")
	req.MaxLeases = n
	lease, err := s.Store.Acquire(s.as(caller), req)
	return publish.Grant{Key: lease.Key, Token: lease.Token, LeaseID: lease.LeaseID}, err
}

// get is granted a key that is within the limit.
func (s *suite) get(key string, caller publish.CredentialID, n int64) publish.Grant {
	s.Helper()
	grant, err := s.askAs(key, caller, n)
	if err != nil {
		s.Fatalf("%s as one of %d leases: %v", key, n, err)
	}
	return grant
}

// oneTooMany asks for a key that is above the limit.
func (s *suite) oneTooMany(key string, caller publish.CredentialID, n int64) {
	s.Helper()
	_, err := s.askAs(key, caller, n)
	s.refused(err, publish.Error{
		Code: publish.ErrQuotaExceeded, Key: s.key(key), Operation: publish.OperationAcquire, Limit: n, Unit: publish.UnitLeases,
	})
}

// testLeaseLimit: each caller has as many as are allowed, and who has no name, or no limit, has any number. What is refused leaves nothing.
func testLeaseLimit(s *suite) {
	a, b := s.callerOf("a"), s.callerOf("b")
	s.get("1", a, 2)
	s.get("2", a, 2)
	s.oneTooMany("3", a, 2)
	s.oneTooMany("3", a, 1)
	if _, err := s.Store.Lease(s.Context(), s.key("3")); err == nil {
		s.Error("a key that was refused is there")
	}
	s.get("4", b, 1)
	s.oneTooMany("5", b, 1)
	s.get("6", a, 0)
	s.oneTooMany("3", a, 3) // What was granted without a limit counts.
	for _, key := range []string{"7", "8"} {
		s.get(key, "", 1)
	}
	if grant := s.get("3", a, 4); grant.Token != 1 {
		s.Errorf("after refusals the first token is %d", grant.Token)
	}
}

// testLeaseLimitEnds: a lease counts until it ends, however it does, and then for whoever has the key next.
func testLeaseLimitEnds(s *suite) {
	a, b := s.callerOf("a"), s.callerOf("b")
	grant := s.get("released", a, 1)
	s.oneTooMany("k", a, 1)
	s.ok(s.Store.Release(s.Context(), grant.Key, grant.LeaseID))

	grant = s.get("broken", a, 1)
	s.oneTooMany("k", a, 1)
	_, err := s.Store.BreakLease(s.Context(), publish.BreakLeaseRequest{Key: grant.Key, Token: grant.Token, Reason: "stuck", By: "ops"})
	s.ok(err)

	grant = s.get("published", a, 1)
	s.upload(grant, "f", "x")
	s.oneTooMany("k", a, 1)
	s.publish(publish.PublishRequest{Grant: grant, Final: true, Primary: "f"})
	s.oneTooMany("k", a, 1) // A publish leaves the lease as it is.
	s.ok(s.Store.Release(s.Context(), grant.Key, grant.LeaseID))

	s.get("taken-over", a, 1)
	s.oneTooMany("k", a, 1)
	s.Expire(s.T, s.key("taken-over"))
	s.get("taken-over", b, 1)
	s.oneTooMany("k", b, 1)
	s.get("k", a, 1)
	s.oneTooMany("k2", a, 1)
}

// testLeaseLimitReplay: a repeat is no further lease, and a key that somebody holds is told as such.
func testLeaseLimitReplay(s *suite) {
	a := s.callerOf("a")
	grant := s.get("k", a, 1)
	req := acquireRequest(grant.Key, "w")
	req.MaxLeases, req.LeaseID = 1, grant.LeaseID
	for range 2 {
		lease, err := s.Store.Acquire(s.as(a), req)
		if err != nil || !lease.Replayed || lease.Token != grant.Token {
			s.Errorf("repeated: %+v, %v", lease, err)
		}
	}
	s.oneTooMany("other", a, 1)
	other := s.acquire(s.key("other"), "x")
	_, err := s.askAs("other", a, 1)
	s.refused(err, publish.Error{Code: publish.ErrLeaseHeld, Key: other.Key, Token: other.Token, GrantedToken: other.Token, Holder: "x"})
	lost := s.takeOver(grant.Key, "x")
	_, err = s.Store.Acquire(s.as(a), req)
	s.refused(err, publish.Error{Code: publish.ErrLeaseLost, Key: grant.Key, Token: grant.Token, GrantedToken: lost.Token})
	s.get("free", a, 1)
}

// testLeaseLimitRenew: what was renewed counts again, and no renewal is refused.
func testLeaseLimitRenew(s *suite) {
	a := s.callerOf("a")
	first := s.get("1", a, 1)
	s.Expire(s.T, first.Key)
	second := s.get("2", a, 1)
	for _, grant := range []publish.Grant{first, second} {
		_, err := s.Store.Renew(s.Context(), grant.Key, grant.LeaseID, suiteTTL+time.Hour)
		s.ok(err)
	}
	s.ok(s.Store.Release(s.Context(), second.Key, second.LeaseID))
	s.oneTooMany("3", a, 1)
	s.oneTooMany("2", a, 1)
	s.ok(s.Store.Release(s.Context(), first.Key, first.LeaseID))
	s.get("2", a, 1)
}
