package publishtest

import (
	"context"
	"errors"
	"time"

	"github.com/pawlhq/pawl/publish"
)

func leaseTests() []pointerTest {
	return []pointerTest{
		{name: "order", run: testTokensIncrease},
		{name: "grant", run: testGrantFacts},
		{name: "held", run: testLeaseHeld},
		{name: "repeat", run: testAcquireRepeated},
		{name: "repeat-old", run: testAcquireOldID},
		{name: "renew", run: testRenew},
		{name: "renew-expired", run: testRenewExpired},
		{name: "renew-refused", run: testRenewRefused},
		{name: "release", run: testRelease},
		{name: "release-old", run: testReleaseOld},
		{name: "scopes", run: testKeysAreSeparate},
		{name: "canceled", run: testCanceled},
	}
}

// testTokensIncrease: each grant of a key gets a greater token, however the one before ended.
func testTokensIncrease(s *suite) {
	key := s.key("k")
	for token := publish.Token(1); token <= 6; token++ {
		grant := s.acquire(key, "a")
		s.same("token", grant.Token, token)
		if token%2 == 0 {
			s.Expire(s.T, key)
		} else if err := s.Store.Release(s.Context(), key, grant.LeaseID); err != nil {
			s.Fatal(err)
		}
	}
}

func testGrantFacts(s *suite) {
	req := acquireRequest(s.key("k"), `näme "of" <a> worker ✂`)
	req.Labels = map[string]string{"job": "17", "ünicode": "✓ \"<>&"}
	req.TTL = 90 * time.Second
	got, err := s.Store.Acquire(s.Context(), req)
	if err != nil {
		s.Fatal(err)
	}
	expires := publish.Time{Time: got.ServerTime.Add(req.TTL)}
	want := publish.Lease{
		Key: req.Key, Token: 1, LeaseID: req.LeaseID, Holder: req.Holder, Held: true, TTLMillis: 90_000,
		ExpiresAt: &expires, ServerTime: got.ServerTime, Labels: req.Labels,
		EffectPrefix: got.EffectPrefix,
	}
	s.same("grant", got, want)

	s.output(publish.Grant{Key: req.Key, Token: 1, LeaseID: req.LeaseID}, "one")
	got, err = s.Store.Lease(s.Context(), req.Key)
	if err != nil {
		s.Fatal(err)
	}
	want.LeaseID = publish.LeaseID{} // It is known to the holder alone.
	want.ServerTime, want.Current = got.ServerTime, &publish.Version{Token: 1, Revision: 1}
	s.same("lease", got, want)

	_, err = s.Store.Lease(s.Context(), s.key("other"))
	s.refused(err, publish.Error{Code: publish.ErrNotFound, Key: s.key("other")})
}

func testLeaseHeld(s *suite) {
	key := s.key("k")
	a := s.acquire(key, "a")
	there, err := s.Store.Lease(s.Context(), key)
	if err != nil {
		s.Fatal(err)
	}
	for range 2 {
		_, err := s.Store.Acquire(s.Context(), acquireRequest(key, "b"))
		held := s.refused(err, publish.Error{
			Code: publish.ErrLeaseHeld, Key: key, Holder: "a", Token: a.Token, GrantedToken: a.Token, ExpiresAt: there.ExpiresAt,
		})
		if left := time.Duration(held.RetryAfterMillis) * time.Millisecond; left <= suiteTTL-time.Minute || left > suiteTTL {
			s.Errorf("retry after %s of a lease of %s", left, suiteTTL)
		}
	}
	s.same("the next token", s.takeOver(key, "b").Token, a.Token+1) // Refusals use up no token.
}

// testAcquireRepeated: a client that lost the answer repeats the request with its own lease_id.
func testAcquireRepeated(s *suite) {
	req := acquireRequest(s.key("k"), "a")
	first, err := s.Store.Acquire(s.Context(), req)
	if err != nil {
		s.Fatal(err)
	}
	for _, expired := range []bool{false, true} {
		if expired {
			s.Expire(s.T, req.Key)
		}
		req.TTL *= 2
		again, err := s.Store.Acquire(s.Context(), req)
		if err != nil {
			s.Fatalf("expired %t: %v", expired, err)
		}
		expires := publish.Time{Time: again.ServerTime.Add(req.TTL)}
		s.same("the repeated grant", again, publish.Lease{
			Key: req.Key, Token: first.Token, LeaseID: req.LeaseID, Holder: "a", Held: true, TTLMillis: req.TTL.Milliseconds(),
			ExpiresAt: &expires, ServerTime: again.ServerTime, Replayed: true,
			EffectPrefix: first.EffectPrefix,
		})
	}
	if err := s.Store.Release(s.Context(), req.Key, req.LeaseID); err != nil {
		s.Fatal(err)
	}
	_, err = s.Store.Acquire(s.Context(), req)
	s.refused(err, publish.Error{Code: publish.ErrLeaseLost, Key: req.Key, GrantedToken: first.Token})
}

// testAcquireOldID: the lease_id of a superseded grant gets nothing, whether or not another lease runs.
func testAcquireOldID(s *suite) {
	req := acquireRequest(s.key("k"), "a")
	if _, err := s.Store.Acquire(s.Context(), req); err != nil {
		s.Fatal(err)
	}
	b := s.takeOver(req.Key, "b")
	_, err := s.Store.Acquire(s.Context(), req)
	s.refused(err, publish.Error{Code: publish.ErrLeaseLost, Key: req.Key, GrantedToken: b.Token})
	s.Expire(s.T, req.Key)
	_, err = s.Store.Acquire(s.Context(), req)
	s.refused(err, publish.Error{Code: publish.ErrLeaseLost, Key: req.Key, GrantedToken: b.Token})

	req.Key = s.key("other") // A lease_id names a grant of one key.
	if lease, err := s.Store.Acquire(s.Context(), req); err != nil || lease.Token != 1 || lease.Replayed {
		s.Errorf("the same lease_id on another key: %+v, %v", lease, err)
	}
}

func testRenew(s *suite) {
	grant := s.acquire(s.key("k"), "a")
	for _, test := range []struct{ ttl, want time.Duration }{{0, suiteTTL}, {10 * time.Second, 10 * time.Second}, {2 * suiteTTL, 2 * suiteTTL}} {
		lease, err := s.Store.Renew(s.Context(), grant.Key, grant.LeaseID, test.ttl)
		if err != nil {
			s.Fatal(err)
		}
		expires := publish.Time{Time: lease.ServerTime.Add(test.want)}
		s.same("renewed lease", lease, publish.Lease{
			Key: grant.Key, Token: grant.Token, LeaseID: grant.LeaseID, Holder: "a", Held: true,
			TTLMillis: test.want.Milliseconds(), ExpiresAt: &expires, ServerTime: lease.ServerTime,
			EffectPrefix: lease.EffectPrefix,
		})
	}
}

// testRenewExpired is the first half of case 6: expired, but nobody took over.
func testRenewExpired(s *suite) {
	grant := s.acquire(s.key("k"), "a")
	s.Expire(s.T, grant.Key)
	lease, err := s.Store.Lease(s.Context(), grant.Key)
	if err != nil || lease.Held || lease.ExpiresAt == nil || lease.ExpiresAt.After(lease.ServerTime.Time) {
		s.Fatalf("an expired lease reads as %+v, %v", lease, err)
	}
	lease, err = s.Store.Renew(s.Context(), grant.Key, grant.LeaseID, 0)
	if err != nil || !lease.Held || lease.Token != grant.Token {
		s.Fatalf("renewing an expired lease: %+v, %v", lease, err)
	}
	_, err = s.Store.Acquire(s.Context(), acquireRequest(grant.Key, "b"))
	s.refused(err, publish.Error{Code: publish.ErrLeaseHeld, Holder: "a"})
}

func testRenewRefused(s *suite) {
	key := s.key("k")
	renew := func(key publish.Key, id publish.LeaseID) error {
		_, err := s.Store.Renew(s.Context(), key, id, 0)
		return err
	}
	s.refused(renew(key, publish.NewLeaseID()), publish.Error{Code: publish.ErrNotFound, Key: key})
	a := s.acquire(key, "a")
	b := s.takeOver(key, "b")
	s.refused(renew(key, a.LeaseID), publish.Error{Code: publish.ErrLeaseLost, Key: key, Token: a.Token, GrantedToken: b.Token})
	s.refused(renew(key, publish.NewLeaseID()), publish.Error{Code: publish.ErrLeaseLost, Key: key, GrantedToken: b.Token})
	if err := s.Store.Release(s.Context(), key, b.LeaseID); err != nil {
		s.Fatal(err)
	}
	s.refused(renew(key, b.LeaseID), publish.Error{Code: publish.ErrLeaseLost, Key: key, Token: b.Token, GrantedToken: b.Token})
}

func testRelease(s *suite) {
	key := s.key("k")
	err := s.Store.Release(s.Context(), key, publish.NewLeaseID())
	s.refused(err, publish.Error{Code: publish.ErrNotFound, Key: key})
	for _, expired := range []bool{false, true} {
		grant := s.acquire(key, "a")
		if expired {
			s.Expire(s.T, key)
		}
		for range 2 {
			if err := s.Store.Release(s.Context(), key, grant.LeaseID); err != nil {
				s.Fatal(err)
			}
		}
		lease, err := s.Store.Lease(s.Context(), key)
		if err != nil || lease.Held || lease.ExpiresAt != nil || lease.Token != grant.Token || lease.Holder != "a" {
			s.Errorf("a released lease reads as %+v, %v", lease, err)
		}
		if g := s.generation(grant); g.ReleasedAt == nil || g.LeaseEndedAt != nil || g.State != publish.StateOpen {
			s.Errorf("its generation reads as %+v", g)
		}
	}
	s.refused(s.Store.Release(s.Context(), key, publish.NewLeaseID()), publish.Error{Code: publish.ErrLeaseLost, Key: key, GrantedToken: 2})
}

// testReleaseOld: a late release by a superseded holder doesn't end the lease of its successor.
func testReleaseOld(s *suite) {
	key := s.key("k")
	a := s.acquire(key, "a")
	b := s.takeOver(key, "b")
	if err := s.Store.Release(s.Context(), key, a.LeaseID); err != nil {
		s.Fatal(err)
	}
	if lease, err := s.Store.Lease(s.Context(), key); err != nil || !lease.Held || lease.Token != b.Token {
		s.Errorf("the successor's lease reads as %+v, %v", lease, err)
	}
	if g := s.generation(a); g.ReleasedAt != nil || g.LeaseEndedAt == nil || g.LeaseEndedAt.Before(g.GrantedAt.Add(-suiteTTL)) {
		s.Errorf("the superseded generation reads as %+v", g)
	}
}

// nastyNames are legal names that software tends to get wrong (cases 33 and 37).
func nastyNames() []string {
	return []string{
		"a+b.png", "a b.png", "a%2Bb.png", "100%.png", "q?x=1#y.png", "semi;colon&amp.png", "😀.png", "shot", "shot/010", "shot/010/-x",
		"tileset", "tileset/0.glb", "under_score", "back`tick'quote\"", "$1{}[]|^~", "café.png", "İI", "zz\U0010fffd", "日本/語", "...", "-dash", "a:b", "~", "NULL", "%s%d",
	}
}

// testKeysAreSeparate: scopes don't touch each other, and names are kept byte for byte.
func testKeysAreSeparate(s *suite) {
	for _, name := range nastyNames() {
		grant := s.acquire(s.key(name), name)
		s.same("token of "+name, grant.Token, publish.Token(1))
		path := publish.Path(name)
		s.upload(grant, path, name)
		s.publish(final(grant))
		s.files(grant, fileOf(path, name))
		s.same("pointer's key", s.pointer(grant.Key).Key, s.key(name))
		s.same("pointer's primary", s.pointer(grant.Key).Primary, path)
	}
}

func testCanceled(s *suite) {
	ctx, cancel := context.WithCancel(s.Context())
	cancel()
	if _, err := s.Store.Acquire(ctx, acquireRequest(s.key("k"), "a")); !errors.Is(err, context.Canceled) {
		s.Errorf("acquire with a canceled context: %v", err)
	}
	s.same("the first token", s.acquire(s.key("k"), "b").Token, publish.Token(1))
	if _, err := s.Store.Pointer(ctx, s.key("k")); !errors.Is(err, context.Canceled) {
		s.Errorf("pointer with a canceled context: %v", err)
	}
}
