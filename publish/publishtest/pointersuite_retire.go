package publishtest

import "github.com/pawlhq/pawl/publish"

func retireTests() []pointerTest {
	return []pointerTest{
		{name: "reads", run: testRetireReads},
		{name: "case-51-revival", run: testCase51Revival},
		{name: "fences-worker", run: testRetireFencesWorker},
		{name: "held", run: testRetireHeld},
		{name: "pinned", run: testRetirePinned},
		{name: "repeat", run: testRetireRepeat},
		{name: "never-published", run: testRetireNeverPublished},
		{name: "rollback", run: testRetireRollback},
		{name: "takes-nothing", run: testRetireTakesNothing},
	}
}

func retire(key publish.Key) publish.RetireRequest {
	return publish.RetireRequest{Key: key, Reason: "shot was cut", By: "mia@ws-12", BreakLease: true, RequestID: publish.NewLeaseID()}
}

// retire takes the pointer of a key away, whoever works on it.
func (s *suite) retire(key publish.Key) publish.Retirement {
	s.Helper()
	retired, err := s.Store.Retire(s.Context(), retire(key))
	if err != nil {
		s.Fatalf("retire %s: %v", key, err)
	}
	return retired
}

// A retired key has no current version and isn't listed. What it published is there still, and its history says what happened.
func testRetireReads(s *suite) {
	a := s.acquire(s.key("k"), "a")
	s.output(a, "one")
	retired := s.retire(a.Key)
	s.same("retirement", retired, publish.Retirement{
		Key: a.Key, Token: a.Token + 1, Reason: "shot was cut", By: "mia@ws-12", At: retired.At, Previous: &publish.Version{Token: a.Token, Revision: 1},
	})
	_, err := s.Store.Pointer(s.Context(), a.Key)
	refusal := s.refused(err, publish.Error{Code: publish.ErrRetired, Key: a.Key})
	s.same("facts", *refusal.Retired, retired)
	_, err = s.Store.CurrentFile(s.Context(), a.Key, "")
	s.refused(err, publish.Error{Code: publish.ErrRetired})
	_, err = s.Store.CurrentFile(s.Context(), a.Key, "out.png")
	s.refused(err, publish.Error{Code: publish.ErrRetired})
	resolved, err := s.Store.Resolve(s.Context(), []publish.Key{a.Key, s.key("none")})
	s.ok(err)
	s.same("resolved", resolved, []publish.Resolved{{Key: a.Key, Retired: true}, {Key: s.key("none")}})
	page, err := s.Store.List(s.Context(), publish.ListRequest{Reach: publish.Everything, Prefix: string(a.Key), Limit: 10})
	s.ok(err)
	s.same("listed keys", len(page.Keys)+len(page.Prefixes), 0)

	s.files(a, fileOf("out.png", "one"))
	history, err := s.Store.History(s.Context(), a.Key, 0, 10)
	s.ok(err)
	s.same("history says so", *history.Retired, retired)
	first := history.Generations[0]
	s.same("newest generation", [4]any{first.Token, first.Kind, first.Reason, *first.Target},
		[4]any{retired.Token, publish.KindRetire, "shot was cut", publish.Version{Token: a.Token, Revision: 1}})
	s.same("nothing is current", history.Generations[1].Current, false)
	s.same("the receipt says so, too", s.publish(final(a)).Current, (*publish.Version)(nil))
}

// Case 51: a key that was retired and is made again goes on counting, up to its end. Nothing is current meanwhile, so create-only
// passes, and so does any source revision.
func testCase51Revival(s *suite) {
	one, _, _ := s.twoVersions(s.key("k"))
	retired := s.retire(one.Key)
	b := s.acquire(one.Key, "b")
	s.same("the next token", b.Token, retired.Token+1)
	s.upload(b, "out.png", "again")
	req := final(b)
	req.IfNoneMatch, req.SourceRevision = true, new(int64(1))
	receipt := s.publish(req)
	s.same("previous", receipt.Previous, (*publish.Version)(nil))
	s.current(one.Key, receipt.Version())
	history, err := s.Store.History(s.Context(), one.Key, 0, 10)
	s.ok(err)
	s.same("no longer retired", history.Retired, (*publish.Retirement)(nil))
	s.same("generations", len(history.Generations), 4)

	s.ok(s.Store.Release(s.Context(), b.Key, b.LeaseID))
	s.SetCounter(s.T, one.Key, publish.MaxToken-1)
	s.same("the last token", s.retire(one.Key).Token, publish.MaxToken)
	_, err = s.Store.Acquire(s.Context(), acquireRequest(one.Key, "c"))
	s.refused(err, publish.Error{Code: publish.ErrTokenExhausted, GrantedToken: publish.MaxToken})
}

func testRetireFencesWorker(s *suite) {
	for _, mode := range []publish.FenceMode{publish.FenceAccepted, publish.FenceGranted} {
		s.setFenceMode(string(s.key(string(mode))), mode)
		a := s.acquire(s.key(string(mode)+"/k"), "a")
		s.output(a, "one")
		worker := s.takeOver(a.Key, "worker")
		s.upload(worker, "out.png", "late")
		retired := s.retire(a.Key)
		for _, change := range s.changes(worker, "late.png") {
			stale := s.refused(change(), publish.Error{
				Code: publish.ErrStaleToken, Token: worker.Token, AcceptedToken: retired.Token, Holder: "mia@ws-12", Worker: "worker",
			})
			s.same("superseded at", *stale.SupersededAt, retired.At)
		}
		_, err := s.Store.Renew(s.Context(), a.Key, worker.LeaseID, 0)
		s.refused(err, publish.Error{Code: publish.ErrLeaseLost})
		s.without(a.Key, publish.ErrRetired)
	}
}

// without checks why a key has no current version.
func (s *suite) without(key publish.Key, want publish.Code) {
	s.Helper()
	_, err := s.Store.Pointer(s.Context(), key)
	s.refused(err, publish.Error{Code: want})
}

func testRetireHeld(s *suite) {
	a := s.acquire(s.key("k"), "a")
	s.output(a, "one")
	req := retire(a.Key)
	req.BreakLease = false
	_, err := s.Store.Retire(s.Context(), req)
	s.refused(err, publish.Error{Code: publish.ErrLeaseHeld, Holder: "a", Token: a.Token, Operation: publish.KindRetire})
	s.current(a.Key, publish.Version{Token: a.Token, Revision: 1})
	s.ok(s.Store.Release(s.Context(), a.Key, a.LeaseID))
	_, err = s.Store.Retire(s.Context(), req)
	s.ok(err)
}

func testRetirePinned(s *suite) {
	a := s.acquire(s.key("k"), "a")
	s.output(a, "one")
	s.pin(pinRequest(a.Key))
	_, err := s.Store.Retire(s.Context(), retire(a.Key))
	s.refused(err, publish.Error{Code: publish.ErrPinned, Operation: publish.KindRetire})
	s.ok(s.Store.Unpin(s.Context(), publish.UnpinRequest{Key: a.Key, By: "mia@ws-12"}))
	s.retire(a.Key)
}

// A retired key stays as it is, whoever retires it again, and draws no token. Once somebody was granted it, it can be retired anew.
func testRetireRepeat(s *suite) {
	a := s.acquire(s.key("k"), "a")
	s.output(a, "one")
	req := retire(a.Key)
	first, err := s.Store.Retire(s.Context(), req)
	s.ok(err)
	first.Replayed = true
	again, err := s.Store.Retire(s.Context(), req)
	s.ok(err)
	s.same("the same request", again, first)
	s.same("another request", s.retire(a.Key), first)

	b := s.acquire(a.Key, "b")
	again, err = s.Store.Retire(s.Context(), req)
	s.ok(err)
	s.same("the same request after a grant", again, first)
	second := s.retire(a.Key)
	s.same("retired anew", [3]any{second.Token, second.Replayed, second.Previous}, [3]any{b.Token + 1, false, (*publish.Version)(nil)})
	req = retire(a.Key)
	req.RequestID = b.LeaseID
	_, err = s.Store.Retire(s.Context(), req)
	s.refused(err, publish.Error{Code: publish.ErrInvalidRequest})
}

// A key that was granted and never published can be retired: its worker is fenced.
func testRetireNeverPublished(s *suite) {
	_, err := s.Store.Retire(s.Context(), retire(s.key("none")))
	s.refused(err, publish.Error{Code: publish.ErrNotFound})
	a := s.acquire(s.key("k"), "a")
	s.upload(a, "out.png", "one")
	s.same("previous", s.retire(a.Key).Previous, (*publish.Version)(nil))
	_, err = s.Store.Publish(s.Context(), final(a))
	s.refused(err, publish.Error{Code: publish.ErrStaleToken})
	s.without(a.Key, publish.ErrRetired)
}

// A rollback revives a retired key; to the retirement itself there is no way back.
func testRetireRollback(s *suite) {
	a := s.acquire(s.key("k"), "a")
	s.output(a, "one")
	retired := s.retire(a.Key)
	_, err := s.Store.Rollback(s.Context(), rollbackTo(a.Key, retired.Token))
	s.refused(err, publish.Error{Code: publish.ErrGenerationCollected})
	receipt := s.rollback(rollbackTo(a.Key, a.Token))
	s.same("previous", receipt.Previous, (*publish.Version)(nil))
	s.current(a.Key, receipt.Version())
}

// Who knows the ids of a retirement or a rollback can do nothing with them: they are no lease.
func testRetireTakesNothing(s *suite) {
	a := s.acquire(s.key("k"), "a")
	s.output(a, "one")
	req := retire(a.Key)
	retired, err := s.Store.Retire(s.Context(), req)
	s.ok(err)
	grant := publish.Grant{Key: a.Key, Token: retired.Token, LeaseID: req.RequestID}
	for _, change := range s.changes(grant, "in.png") {
		s.refused(change(), publish.Error{Code: publish.ErrGenerationCollected})
	}
	again := acquireRequest(a.Key, "x")
	again.LeaseID = req.RequestID
	_, err = s.Store.Acquire(s.Context(), again)
	s.refused(err, publish.Error{Code: publish.ErrInvalidRequest})
	_, err = s.Store.Renew(s.Context(), a.Key, req.RequestID, 0)
	s.refused(err, publish.Error{Code: publish.ErrLeaseLost})

	back := rollbackTo(a.Key, a.Token)
	receipt := s.rollback(back)
	grant = publish.Grant{Key: a.Key, Token: receipt.Token, LeaseID: back.RequestID}
	for name, change := range s.changes(grant, "in.png") {
		if name != "publish" && name != "effect" { // What is sealed is replayed, and may ask for effects.
			s.refused(change(), publish.Error{Code: publish.ErrGenerationSealed})
		}
	}
}
