package publishtest

import (
	"github.com/pawlhq/pawl/publish"
)

func epochTests() []pointerTest {
	return []pointerTest{
		{name: "restored", run: testRestored, alone: true},
		{name: "twice", run: testRestoredTwice, alone: true},
		{name: "lost", run: testLostTokens, alone: true},
		{name: "lost-late", run: testLostTokensLate, alone: true},
		{name: "lost-bounded", run: testLostBounded, alone: true},
		{name: "case-51", run: testCase51},
	}
}

// testRestored: after a restore the next token of every key is above all that the lost history can have granted, and then they
// count on one by one. A grant that is still known goes on.
func testRestored(s *suite) {
	key := s.key("k")
	a := s.grants(key, 3)[3]
	s.upload(a, "f", "one")
	s.RaiseEpoch(s.T)
	_, err := s.Store.Acquire(s.Context(), acquireRequest(key, "b"))
	s.refused(err, publish.Error{Code: publish.ErrLeaseHeld, Token: a.Token})
	if lease, err := s.Store.Renew(s.Context(), key, a.LeaseID, 0); err != nil || lease.Token != a.Token {
		s.Errorf("renew after a restore: %+v, %v", lease, err)
	}
	s.publish(publish.PublishRequest{Grant: a})

	b := s.takeOver(key, "b")
	if b.Token <= a.Token+epochStep {
		s.Errorf("after a restore token %d follows %d", b.Token, a.Token)
	}
	s.output(b, "b")
	s.same("the one after", s.takeOver(key, "c").Token, b.Token+1)

	// A key that the restored database doesn't know may have been granted as well.
	if fresh := s.acquire(s.key("fresh"), "a"); fresh.Token <= epochStep {
		s.Errorf("after a restore the first token of a key is %d", fresh.Token)
	}
}

func testRestoredTwice(s *suite) {
	key, last := s.key("k"), publish.Token(0)
	for range 3 {
		grant := s.takeOver(key, "a")
		if grant.Token <= last || last > 0 && grant.Token <= last+epochStep {
			s.Errorf("token %d follows %d over a restore", grant.Token, last)
		}
		last = grant.Token
		s.output(grant, "one")
		s.RaiseEpoch(s.T)
	}
}

// testLostTokens is case 17 before the first grant of the new epoch: a worker whose grant was lost is stale, not unknown.
func testLostTokens(s *suite) {
	a := s.grants(s.key("k"), 2)[2]
	s.RaiseEpoch(s.T)
	lost := publish.Grant{Key: a.Key, Token: a.Token + 1, LeaseID: publish.NewLeaseID()}
	for name, change := range s.changes(lost, "f") {
		s.Log(name)
		s.refused(change(), publish.Error{Code: publish.ErrStaleToken, Key: a.Key, Token: lost.Token, GrantedToken: a.Token, Next: "acquire"})
	}
	above := publish.Grant{Key: a.Key, Token: publish.MaxToken, LeaseID: lost.LeaseID}
	for _, change := range s.changes(above, "f") {
		s.refused(change(), publish.Error{Code: publish.ErrUnknownToken, Token: above.Token, GrantedToken: a.Token})
	}
	s.output(a, "one") // Nothing of this stands in the way of who is known.
	history, err := s.Store.History(s.Context(), a.Key, 0, 1)
	if err != nil || history.Next == 0 {
		s.Fatalf("history: %+v, %v", history, err)
	}
	repeats := map[string]int{}
	for _, rejection := range history.Lost {
		repeats[rejection.Operation] = rejection.Repeat
		s.same("token and holder", [2]any{rejection.Token, rejection.Holder}, [2]any{lost.Token, ""})
		s.same("code", rejection.Code, publish.ErrStaleToken)
	}
	s.same("records", repeats, map[string]int{"upload": 2, "delete": 1, "publish": 1, "effect": 1})
	second, err := s.Store.History(s.Context(), a.Key, history.Next, 1)
	if err != nil || len(second.Lost) != 0 {
		s.Errorf("lost tokens stand on the second page too: %+v, %v", second.Lost, err)
	}
}

// testLostTokensLate is case 17 after the new epoch's first grant: the bytes of the lost grant never mix with it.
func testLostTokensLate(s *suite) {
	a := s.grants(s.key("k"), 2)[2]
	s.RaiseEpoch(s.T)
	b := s.takeOver(a.Key, "b")
	s.output(b, "b")
	for _, token := range []publish.Token{a.Token + 1, a.Token + epochStep} {
		lost := publish.Grant{Key: a.Key, Token: token, LeaseID: publish.NewLeaseID()}
		_, err := s.Store.Publish(s.Context(), final(lost))
		s.refused(err, publish.Error{Code: publish.ErrStaleToken, Token: token, AcceptedToken: b.Token, GrantedToken: b.Token, Repeat: 1})
	}
	unknown := publish.Grant{Key: a.Key, Token: b.Token + 1, LeaseID: publish.NewLeaseID()}
	_, err := s.Store.Publish(s.Context(), final(unknown))
	s.refused(err, publish.Error{Code: publish.ErrUnknownToken})
	s.current(a.Key, publish.Version{Token: b.Token, Revision: 1})
}

// testLostBounded: whoever makes up tokens of a lost history leaves no more than the newest 100 records, also with small ones.
func testLostBounded(s *suite) {
	const n = 103
	a := s.grants(s.key("k"), 2)[2]
	s.RaiseEpoch(s.T)
	forged := func(i int) error {
		grant := publish.Grant{Key: a.Key, Token: a.Token + n - publish.Token(i), LeaseID: publish.NewLeaseID()}
		return s.changes(grant, "f")["delete"]()
	}
	var want []publish.Token
	for i := range n {
		s.refused(forged(i), publish.Error{Code: publish.ErrStaleToken, Repeat: 1})
		if want = append([]publish.Token{a.Token + n - publish.Token(i)}, want...); len(want) > 100 {
			want = want[:100]
		}
	}
	s.refused(forged(n-1), publish.Error{Code: publish.ErrStaleToken, Repeat: 2})
	s.refused(forged(0), publish.Error{Code: publish.ErrStaleToken, Repeat: 1}) // Its record was dropped.
	want = append([]publish.Token{a.Token + n}, want[:99]...)
	history, err := s.Store.History(s.Context(), a.Key, 0, 1)
	if err != nil {
		s.Fatal(err)
	}
	var got []publish.Token
	for _, rejection := range history.Lost {
		got = append(got, rejection.Token)
	}
	s.same("lost tokens", got, want)
}

// testCase51: the last token is granted, and then no other.
func testCase51(s *suite) {
	key := s.key("k")
	a := s.acquire(key, "a")
	s.SetCounter(s.T, key, publish.MaxToken-1)
	s.Expire(s.T, key)
	last := s.acquire(key, "last")
	s.same("the last token", last.Token, publish.MaxToken)
	s.output(last, "one")
	if err := s.Store.Release(s.Context(), key, last.LeaseID); err != nil {
		s.Fatal(err)
	}
	for range 2 {
		_, err := s.Store.Acquire(s.Context(), acquireRequest(key, "b"))
		s.refused(err, publish.Error{Code: publish.ErrTokenExhausted, Key: key})
	}
	lease, err := s.Store.Lease(s.Context(), key)
	if err != nil || lease.Token != last.Token || lease.Held {
		s.Errorf("after the end of the counter the lease reads as %+v, %v", lease, err)
	}
	s.current(key, publish.Version{Token: publish.MaxToken, Revision: 1})
	_, err = s.Store.Publish(s.Context(), final(a))
	s.refused(err, publish.Error{Code: publish.ErrStaleToken, AcceptedToken: publish.MaxToken})
}
