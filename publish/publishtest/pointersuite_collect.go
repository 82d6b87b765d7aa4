package publishtest

import (
	"fmt"
	"time"

	"github.com/pawlhq/pawl/publish"
)

func collectTests() []pointerTest {
	return []pointerTest{
		{name: "rules", run: testCollectRules},
		{name: "progressive", run: testCollectProgressive},
		{name: "retired", run: testCollectRetired},
		{name: "alive", run: testCollectAlive},
		{name: "given-up", run: testCollectGivenUp},
		{name: "given-up-lease", run: testCollectGivenUpLease, alone: true},
		{name: "due", run: testCollectDue, alone: true},
		{name: "shared", run: testCollectShared, alone: true},
		{name: "pages", run: testCollectPages, alone: true},
		{name: "duty", run: testDuty},
	}
}

func nameOf(grant publish.Grant) publish.GenerationName {
	return publish.GenerationName{Key: grant.Key, Token: grant.Token}
}

// collectable returns the tokens of a key that may be condemned.
func (s *suite) collectable(key publish.Key, grace time.Duration) []publish.Token {
	s.Helper()
	found, next, err := s.Store.Collectable(s.Context(), string(key), grace, nil, 1000)
	s.ok(err)
	if next != nil {
		s.Errorf("the walk of one key goes on at %v", next)
	}
	var tokens []publish.Token
	for _, name := range found {
		s.same("key", name.Key, key)
		tokens = append(tokens, name.Token)
	}
	return tokens
}

func (s *suite) condemn(grant publish.Grant, want bool) {
	s.Helper()
	done, err := s.Store.Condemn(s.Context(), nameOf(grant), 0)
	s.ok(err)
	s.same(fmt.Sprint("condemned ", grant.Token), done, want)
}

// testCollectRules: six generations, of which the first and the fourth were never published, and the sixth is current. All is done a long time ago.
func testCollectRules(s *suite) {
	const day = 24 * time.Hour
	for i, test := range []struct {
		what   string
		policy publish.Policy
		age    time.Duration
		grace  time.Duration
		want   []publish.Token
	}{
		{what: "without a policy published ones are kept for ever", age: 100 * day, want: []publish.Token{1, 4}},
		{what: "those never published, for a week", age: 7*day - time.Hour},
		{what: "or longer, by grace", age: 100 * day, grace: 101 * day},
		{what: "or by policy", policy: publish.Policy{KeepUnpublishedFor: span(101 * day)}, age: 100 * day},
		{what: "or shorter", policy: publish.Policy{KeepUnpublishedFor: span(time.Hour)}, age: 2 * time.Hour, want: []publish.Token{1, 4}},
		{what: "two beside the current", policy: publish.Policy{KeepGenerations: 2}, age: day, want: []publish.Token{2}},
		{what: "more than there are", policy: publish.Policy{KeepGenerations: 3}, age: day},
		{what: "one, by grace", policy: publish.Policy{KeepGenerations: 1}, age: day, grace: 2 * day},
		{what: "a time", policy: publish.Policy{KeepFor: span(time.Hour)}, age: day, want: []publish.Token{2, 3, 5}},
		{what: "a longer time", policy: publish.Policy{KeepFor: span(2 * day)}, age: day},
		{what: "neither among the newest nor young", policy: publish.Policy{KeepGenerations: 1, KeepFor: span(time.Hour)}, age: day, want: []publish.Token{2, 3}},
		{what: "old, but young enough", policy: publish.Policy{KeepGenerations: 1, KeepFor: span(2 * day)}, age: day},
	} {
		key := s.key(fmt.Sprint("k", i))
		if test.policy != (publish.Policy{}) {
			test.policy.Prefix = string(key)
			s.setPolicy(test.policy)
		}
		var grants []publish.Grant
		for n := 1; n <= 6; n++ {
			grants = append(grants, s.takeOver(key, fmt.Sprint("w", n)))
			s.upload(grants[n-1], "out.png", fmt.Sprint(n))
			if n != 1 && n != 4 {
				s.publish(final(grants[n-1]))
			}
		}
		s.Antedate(s.T, key, test.age)
		s.same(test.what, s.collectable(key, test.grace), test.want)
		for _, grant := range grants {
			want := false
			for _, token := range test.want {
				want = want || token == grant.Token
			}
			done, err := s.Store.Condemn(s.Context(), nameOf(grant), test.grace)
			s.ok(err)
			s.same(fmt.Sprintf("%s: condemned %d", test.what, grant.Token), done, want)
		}
		s.same(test.what+": again", s.collectable(key, test.grace), []publish.Token(nil))
		s.current(key, publish.Version{Token: 6, Revision: 1})
	}
}

// An open generation that is current is kept. Its age counts from the first publish of the next one.
func testCollectProgressive(s *suite) {
	key := s.key("k")
	s.setPolicy(publish.Policy{Prefix: string(key), KeepFor: span(time.Hour)})
	a := s.acquire(key, "a")
	for _, path := range []publish.Path{"1", "2"} {
		s.upload(a, path, "x")
		s.publish(publish.PublishRequest{Grant: a})
	}
	s.Antedate(s.T, key, 2*time.Hour)
	s.same("current", s.collectable(key, 0), []publish.Token(nil))
	b := s.takeOver(key, "b")
	s.upload(b, "1", "y")
	s.publish(publish.PublishRequest{Grant: b})
	s.same("just superseded", s.collectable(key, 0), []publish.Token(nil))
	s.condemn(a, false)
	s.Antedate(s.T, key, 2*time.Hour)
	s.upload(b, "2", "y")
	s.publish(publish.PublishRequest{Grant: b})
	s.same("superseded", s.collectable(key, 0), []publish.Token{1})
}

// What a retired key has published last is old from its retirement on. The retirement itself is nothing to collect.
func testCollectRetired(s *suite) {
	key := s.key("k")
	s.setPolicy(publish.Policy{Prefix: string(key), KeepFor: span(time.Hour)})
	s.output(s.acquire(key, "a"), "one")
	s.Antedate(s.T, key, 2*time.Hour)
	s.retire(key)
	s.same("just retired", s.collectable(key, 0), []publish.Token(nil))
	s.Antedate(s.T, key, 2*time.Hour)
	s.same("retired", s.collectable(key, 0), []publish.Token{1})
}

// An upload is a sign of work. A lease that is alive is none.
func testCollectAlive(s *suite) {
	key := s.key("k")
	a := s.acquire(key, "a")
	s.Antedate(s.T, key, 8*24*time.Hour)
	s.same("nothing but a lease", s.collectable(key, 0), []publish.Token{1})
	upload := s.begin(a, "f")
	s.same("an upload", s.collectable(key, 0), []publish.Token(nil))
	s.condemn(a, false)
	s.Antedate(s.T, key, 8*24*time.Hour)
	s.ok(s.Store.KeepUploads(s.Context(), []publish.Upload{upload}))
	s.same("a living upload", s.collectable(key, 0), []publish.Token(nil))
	s.Antedate(s.T, key, 8*24*time.Hour)
	s.condemn(a, true)
	s.condemn(a, false)
	s.condemn(publish.Grant{Key: s.key("none"), Token: 1}, false)
}

// Case 8: nothing comes of a condemned generation any more, whether its lease lives or not. Its objects are due.
func testCollectGivenUp(s *suite) {
	key := s.key("k")
	a := s.acquire(key, "a")
	s.upload(a, "stored", "x")
	upload := s.begin(a, "pending")
	s.Antedate(s.T, key, 8*24*time.Hour)
	s.condemn(a, true)
	collected := publish.Error{Code: publish.ErrGenerationCollected}
	_, err := s.Store.Publish(s.Context(), final(a))
	s.refused(err, collected)
	_, err = s.Store.CompleteUpload(s.Context(), upload, fileOf("pending", "x"))
	s.refused(err, collected)
	_, err = s.Store.BeginUpload(s.Context(), beginRequest(a, "more"))
	s.refused(err, collected)
	_, err = s.Store.File(s.Context(), key, a.Token, "stored", a.LeaseID)
	s.refused(err, collected)
	s.same("state", s.generation(a).State, publish.StateCondemned)
	b := s.takeOver(key, "b")
	s.output(b, "two")
	_, err = s.Store.Publish(s.Context(), final(a))
	s.refused(err, publish.Error{Code: publish.ErrStaleToken}) // before generation-collected
}

// Whoever still has the lease of a generation that was given up learns it from the next renewal, or from the repeat of the acquire; the lease ends with
// that, so that the key can be acquired again at once.
func testCollectGivenUpLease(s *suite) {
	for name, ask := range map[string]func(publish.AcquireRequest) error{
		publish.OperationRenew: func(req publish.AcquireRequest) error {
			_, err := s.Store.Renew(s.Context(), req.Key, req.LeaseID, 0)
			return err
		},
		publish.OperationAcquire: func(req publish.AcquireRequest) error {
			_, err := s.Store.Acquire(s.Context(), req)
			return err
		},
	} {
		for _, collected := range []bool{false, true} {
			for _, released := range []bool{false, true} {
				key := s.key(fmt.Sprint(name, collected, released))
				req := acquireRequest(key, "a")
				_, err := s.Store.Acquire(s.Context(), req)
				s.ok(err)
				if released {
					s.ok(s.Store.Release(s.Context(), key, req.LeaseID))
				}
				s.Antedate(s.T, key, 8*24*time.Hour)
				s.condemn(publish.Grant{Key: key, Token: 1}, true)
				if collected {
					due, err := s.Store.DueGenerations(s.Context(), nil, 100)
					s.ok(err)
					for _, d := range due {
						if d.Key == key {
							s.emptied(d, true)
						}
					}
				}
				for range 2 { // It ends no more than once.
					s.refused(ask(req), publish.Error{Code: publish.ErrGenerationCollected, Key: key, Operation: name, Token: 1})
					lease, err := s.Store.Lease(s.Context(), key)
					s.ok(err)
					if lease.Held || lease.ExpiresAt != nil {
						s.Errorf("%s: the lease goes on: %+v", key, lease)
					}
				}
				s.same("the next token", s.acquire(key, "a").Token, publish.Token(2))
				s.refused(ask(req), publish.Error{Code: publish.ErrLeaseLost, Token: 1, GrantedToken: 2}) // before generation-collected
			}
		}
	}
}

// dueNow returns what is due, and checks which that is.
func (s *suite) dueNow(want ...publish.Token) []publish.DueGeneration {
	s.Helper()
	due, err := s.Store.DueGenerations(s.Context(), nil, 100)
	s.ok(err)
	var tokens []publish.Token
	for _, d := range due {
		tokens = append(tokens, d.Token)
	}
	s.same("due", tokens, want)
	return due
}

func (s *suite) emptied(due publish.DueGeneration, want bool) {
	s.Helper()
	done, err := s.Store.Emptied(s.Context(), due, time.Hour)
	s.ok(err)
	s.same("emptied", done, want)
}

// Case 20: a condemned generation is due until it was emptied, and once more when what was signed for it has expired.
func testCollectDue(s *suite) {
	key := s.key("k")
	a := s.acquire(key, "a")
	s.upload(a, "f", "x")
	s.dueNow()
	s.Antedate(s.T, key, 8*24*time.Hour)
	s.condemn(a, true)
	first := s.dueNow(1)[0]
	s.emptied(first, true)
	s.same("state", s.generation(a).State, publish.StateCollected)
	s.emptied(first, false)
	s.dueNow()
	s.Antedate(s.T, key, 2*time.Hour)
	s.emptied(s.dueNow(1)[0], true)
	s.Antedate(s.T, key, 2*time.Hour)
	s.dueNow()
}

// Case 23: what a kept generation names of a collected one stays, until that one goes, too: then the objects are due again.
func testCollectShared(s *suite) {
	key := s.key("k")
	s.setPolicy(publish.Policy{Prefix: string(key), KeepFor: span(time.Hour)})
	a := s.acquire(key, "a")
	shared, own := s.begin(a, "shared"), s.begin(a, "own")
	s.complete(shared, "x")
	s.complete(own, "x")
	s.publish(final(a))
	b := s.takeOver(key, "b")
	s.upload(b, "own", "y")
	s.publish(reusing(b, a.Token))
	s.Antedate(s.T, key, 2*time.Hour)
	s.condemn(a, true)
	objects := []publish.StoredUpload{{ID: own.ID, Path: "own"}, {ID: shared.ID, Path: "shared"}, {ID: shared.ID, Path: "other"}, {ID: newUploadID(), Path: "shared"}}
	referenced := func(want ...bool) {
		s.Helper()
		got, err := s.Store.Referenced(s.Context(), nameOf(a), objects)
		s.ok(err)
		s.same("referenced", got, want)
	}
	referenced(false, true, false, false)
	s.emptied(s.dueNow(1)[0], true)

	c := s.takeOver(key, "c")
	s.upload(c, "third", "z")
	s.remove(c, "shared")
	s.publish(reusing(c, b.Token))
	s.Antedate(s.T, key, 2*time.Hour)
	s.emptied(s.dueNow(1)[0], true) // once more, for late arrivals
	s.Antedate(s.T, key, time.Minute)
	s.dueNow()
	referenced(false, true, false, false)
	s.condemn(b, true)
	referenced(false, false, false, false)
	s.emptied(s.dueNow(2)[0], true)
	seen := s.dueNow(1)[0]
	s.emptied(seen, true)
	s.dueNow()
}

// Both walks go on where they have ended, also within a key.
func testCollectPages(s *suite) {
	var want []publish.GenerationName
	for _, key := range []publish.Key{"a", "a/b", "a/c", "a0", "b"} {
		key = s.key(string(key))
		for n := range 4 {
			grant := s.takeOver(key, fmt.Sprint("w", n))
			want = append(want, nameOf(grant))
		}
		s.Antedate(s.T, key, 8*24*time.Hour)
	}
	walk := func(prefix publish.Key, limit int) (all []publish.GenerationName) {
		s.Helper()
		var after *publish.GenerationName
		for range 100 {
			found, next, err := s.Store.Collectable(s.Context(), string(prefix), 0, after, limit)
			s.ok(err)
			if len(found) > limit {
				s.Errorf("a page of %d has %d", limit, len(found))
			}
			all = append(all, found...)
			if next == nil {
				return all
			}
			after = next
		}
		s.Fatalf("the walk doesn't end: it is at %v", after)
		return nil
	}
	for _, limit := range []int{2, 3, 5, 1000} {
		s.same(fmt.Sprint("all, by ", limit), walk("", limit), want)
		s.same(fmt.Sprint("below a, by ", limit), walk(s.key("a"), limit), want[:12])
	}
	for _, name := range want {
		s.condemn(publish.Grant{Key: name.Key, Token: name.Token}, true)
	}
	var due []publish.DueGeneration
	for range 100 {
		var after *publish.DueGeneration
		if len(due) > 0 {
			after = &due[len(due)-1]
		}
		page, err := s.Store.DueGenerations(s.Context(), after, 3)
		s.ok(err)
		if len(page) == 0 {
			break
		}
		due = append(due, page...)
	}
	var names []publish.GenerationName
	for _, d := range due {
		names = append(names, d.GenerationName)
	}
	s.same("due, in the order of condemning", names, want)
}

// A duty is one holder's until it is left or has run out.
func testDuty(s *suite) {
	duty := s.prefix
	take := func(holder string, ttl time.Duration, want bool) {
		s.Helper()
		has, err := s.Store.TakeDuty(s.Context(), duty, holder, ttl)
		s.ok(err)
		s.same(holder+" has it", has, want)
	}
	take("a", time.Hour, true)
	take("b", time.Hour, false)
	s.ok(s.Store.LeaveDuty(s.Context(), duty, "b"))
	take("b", time.Hour, false)
	take("a", time.Hour, true)
	s.ok(s.Store.LeaveDuty(s.Context(), duty, "a"))
	take("b", 0, true)
	take("a", time.Hour, true)
}
