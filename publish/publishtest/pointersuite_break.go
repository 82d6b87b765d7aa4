package publishtest

import (
	"time"

	"github.com/pawlhq/pawl/publish"
)

func breakTests() []pointerTest {
	return []pointerTest{
		{name: "frees-the-key", run: testBreakFreesKey},
		{name: "holder-hears", run: testBreakHolderHears},
		{name: "fences-nobody", run: testBreakFencesNobody},
		{name: "run-out", run: testBreakRunOut},
		{name: "repeat", run: testBreakRepeat},
		{name: "another-grants-lease", run: testBreakAnother},
		{name: "lease-that-is-over", run: testBreakOver},
		{name: "no-grant", run: testBreakNoGrant},
		{name: "shows", run: testBreakShows},
		{name: "event", run: testBreakEvent},
	}
}

func breakRequest(grant publish.Grant) publish.BreakLeaseRequest {
	return publish.BreakLeaseRequest{Key: grant.Key, Token: grant.Token, Reason: "node is gone", By: "mia@ws-12"}
}

func (s *suite) breakLease(grant publish.Grant) publish.BrokenLease {
	s.Helper()
	broken, err := s.Store.BreakLease(s.Context(), breakRequest(grant))
	if err != nil {
		s.Fatalf("break the lease of %d: %v", grant.Token, err)
	}
	return broken
}

// Others needn't wait: the next acquire is granted a greater token at once.
func testBreakFreesKey(s *suite) {
	a := s.acquire(s.key("k"), "a")
	_, err := s.Store.Acquire(s.Context(), publish.AcquireRequest{Key: a.Key, Holder: "b", TTL: time.Hour, LeaseID: publish.NewLeaseID()})
	s.refused(err, publish.Error{Code: publish.ErrLeaseHeld})
	broken := s.breakLease(a)
	s.same("broken", broken, publish.BrokenLease{
		Key: a.Key, Token: a.Token, Holder: "a", Broken: &publish.Break{Reason: "node is gone", By: "mia@ws-12", At: broken.Broken.At},
	})
	lease, err := s.Store.Lease(s.Context(), a.Key)
	s.ok(err)
	s.same("lease", [2]any{lease.Held, lease.ExpiresAt}, [2]any{false, (*publish.Time)(nil)})
	s.same("next token", s.acquire(a.Key, "b").Token, a.Token+1)
}

// The holder learns who did it, and can't get the lease back under its own lease_id.
func testBreakHolderHears(s *suite) {
	a := s.acquire(s.key("k"), "a")
	broken := s.breakLease(a)
	_, err := s.Store.Renew(s.Context(), a.Key, a.LeaseID, 0)
	refusal := s.refused(err, publish.Error{Code: publish.ErrLeaseLost, Token: a.Token, GrantedToken: a.Token, Broken: broken.Broken})
	s.same("given back by its holder", refusal.Released(), false)
	_, err = s.Store.Acquire(s.Context(), publish.AcquireRequest{Key: a.Key, Holder: "a", TTL: time.Hour, LeaseID: a.LeaseID})
	s.refused(err, publish.Error{Code: publish.ErrLeaseLost, Token: a.Token, GrantedToken: a.Token, Broken: broken.Broken})
	s.ok(s.Store.Release(s.Context(), a.Key, a.LeaseID))
	b := s.acquire(a.Key, "b")
	_, err = s.Store.Acquire(s.Context(), publish.AcquireRequest{Key: a.Key, Holder: "a", TTL: time.Hour, LeaseID: a.LeaseID})
	s.refused(err, publish.Error{Code: publish.ErrLeaseLost, Token: a.Token, GrantedToken: b.Token, Broken: broken.Broken})
	_, err = s.Store.Renew(s.Context(), a.Key, a.LeaseID, 0)
	s.refused(err, publish.Error{Code: publish.ErrLeaseLost, Token: a.Token, GrantedToken: b.Token, Broken: broken.Broken})
}

// The fence stays the truth: what the holder publishes before somebody newer is accepted, and stale after that.
func testBreakFencesNobody(s *suite) {
	a := s.acquire(s.key("k"), "a")
	s.breakLease(a)
	s.upload(a, "out.png", "late, but first")
	receipt := s.publish(final(a))
	s.same("without a lease", receipt.LeaseExpired, true)
	s.current(a.Key, receipt.Version())
	b := s.acquire(a.Key, "b")
	s.upload(b, "out.png", "of b")
	s.breakLease(b)
	c := s.acquire(a.Key, "c")
	s.output(c, "of c")
	_, err := s.Store.Publish(s.Context(), final(b))
	s.refused(err, publish.Error{Code: publish.ErrStaleToken, Token: b.Token, AcceptedToken: c.Token})
	s.current(a.Key, publish.Version{Token: c.Token, Revision: 1})
}

// A lease that has run out could be renewed still; once it is broken it can't.
func testBreakRunOut(s *suite) {
	a := s.acquire(s.key("k"), "a")
	s.Expire(s.T, a.Key)
	s.same("replayed", s.breakLease(a).Replayed, false)
	_, err := s.Store.Renew(s.Context(), a.Key, a.LeaseID, 0)
	s.refused(err, publish.Error{Code: publish.ErrLeaseLost})
}

// The same again changes nothing, also when another grant's lease runs by now, and whoever asks.
func testBreakRepeat(s *suite) {
	a := s.acquire(s.key("k"), "a")
	first := s.breakLease(a)
	again := breakRequest(a)
	again.Reason, again.By = "another", "somebody else"
	first.Replayed = true
	for _, next := range []string{"b", "c"} {
		got, err := s.Store.BreakLease(s.Context(), again)
		s.ok(err)
		s.same("again, before "+next, got, first)
		s.takeOver(a.Key, next)
	}
}

// A late click never ends the lease of another grant, and tells whose runs now.
func testBreakAnother(s *suite) {
	a := s.acquire(s.key("k"), "a")
	b := s.takeOver(a.Key, "b")
	_, err := s.Store.BreakLease(s.Context(), breakRequest(a))
	refusal := s.refused(err, publish.Error{
		Code: publish.ErrPreconditionFailed, Operation: publish.OperationBreak, Token: a.Token, GrantedToken: b.Token, Holder: "b",
	})
	if refusal.ExpiresAt == nil {
		s.Error("the refusal doesn't say until when")
	}
	_, err = s.Store.Renew(s.Context(), b.Key, b.LeaseID, 0)
	s.ok(err)
	s.same("broken", s.generation(a).Broken, (*publish.Break)(nil))
}

// Given back, or run out and nobody holds the key now: there is nothing to break, and nothing in the way.
func testBreakOver(s *suite) {
	a := s.acquire(s.key("k"), "a")
	b := s.takeOver(a.Key, "b")
	s.ok(s.Store.Release(s.Context(), b.Key, b.LeaseID))
	for holder, grant := range map[string]publish.Grant{"a": a, "b": b} {
		s.same("over", s.breakLease(grant), publish.BrokenLease{Key: a.Key, Token: grant.Token, Holder: holder, Replayed: true})
		s.same("broken", s.generation(grant).Broken, (*publish.Break)(nil))
	}
	s.output(a, "one")
	retired := s.retire(a.Key)
	s.same("of an operator's grant", s.breakLease(publish.Grant{Key: a.Key, Token: retired.Token}).Replayed, true)
}

func testBreakNoGrant(s *suite) {
	_, err := s.Store.BreakLease(s.Context(), breakRequest(publish.Grant{Key: s.key("none"), Token: 1}))
	s.refused(err, publish.Error{Code: publish.ErrNotFound})
	a := s.acquire(s.key("k"), "a")
	_, err = s.Store.BreakLease(s.Context(), breakRequest(publish.Grant{Key: a.Key, Token: 2}))
	s.refused(err, publish.Error{Code: publish.ErrUnknownToken, Token: 2, GrantedToken: 1})
	s.SetCounter(s.T, a.Key, 5)
	_, err = s.Store.BreakLease(s.Context(), breakRequest(publish.Grant{Key: a.Key, Token: 3}))
	s.refused(err, publish.Error{Code: publish.ErrNotFound, Token: 3})
}

// History and audit say that a lease was broken: once, and not for what changed nothing.
func testBreakShows(s *suite) {
	a := s.acquire(s.key("k"), "a")
	broken := s.breakLease(a)
	s.breakLease(a)
	history, err := s.Store.History(s.Context(), a.Key, 0, 10)
	s.ok(err)
	s.same("history", history.Generations[0].Broken, broken.Broken)
	s.same("generation", [2]any{s.generation(a).Broken, s.generation(a).ReleasedAt != nil}, [2]any{broken.Broken, true})
	audit, err := s.Store.Audit(s.Context(), publish.AuditRequest{Reach: publish.Everything, Limit: publish.MaxPageSize})
	s.ok(err)
	entries := 0
	for _, entry := range audit.Entries {
		if entry.Subject == string(a.Key) {
			s.same("entry", [2]any{entry.By, entry.Action}, [2]any{publish.Operator("mia@ws-12"), publish.OperationBreak})
			entries++
		}
	}
	s.same("entries in the audit", entries, 1)
}

// One event tells who lost the lease, by whom and why. The grant that follows takes nobody over.
func testBreakEvent(s *suite) {
	a := s.acquire(s.key("k"), "a")
	s.breakLease(a)
	s.breakLease(a)
	s.acquire(a.Key, "b")
	s.wantEvents(publish.Event{
		Kind: publish.EventLeaseBroken, Key: a.Key, Token: a.Token, By: "mia@ws-12", Reason: "node is gone",
		From: &publish.EndedLease{Token: a.Token, Holder: "a", EndedAt: &publish.Time{}},
	})
}
