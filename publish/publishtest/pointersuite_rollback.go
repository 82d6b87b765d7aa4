package publishtest

import (
	"time"

	"github.com/pawlhq/pawl/publish"
)

func rollbackTests() []pointerTest {
	return []pointerTest{
		{name: "compare", run: testRollbackCompare},
		{name: "compare-none", run: testRollbackCompareNone},
		{name: "lease-seen", run: testRollbackLeaseSeen},
		{name: "files-again", run: testRollback},
		{name: "revision", run: testRollbackRevision},
		{name: "to-current", run: testRollbackToCurrent},
		{name: "chain", run: testRollbackChain},
		{name: "fences-worker", run: testRollbackFencesWorker},
		{name: "held", run: testRollbackHeld},
		{name: "replay", run: testRollbackReplay},
		{name: "request-reused", run: testRequestReused},
		{name: "refused", run: testRollbackRefused},
		{name: "pin", run: testRollbackPin},
		{name: "source", run: testRollbackSource},
		{name: "exhausted", run: testRollbackExhausted},
		{name: "epoch", run: testRollbackEpoch, alone: true},
	}
}

func rollbackTo(key publish.Key, token publish.Token) publish.RollbackRequest {
	return publish.RollbackRequest{
		Key: key, To: publish.Version{Token: token}, Reason: "the new one flickers", By: "mia@ws-12", RequestID: publish.NewLeaseID(),
	}
}

func (s *suite) rollback(req publish.RollbackRequest) publish.Receipt {
	s.Helper()
	receipt, err := s.Store.Rollback(s.Context(), req)
	if err != nil {
		s.Fatalf("roll %s back to %s: %v", req.Key, req.To, err)
	}
	return receipt
}

// twoVersions publishes "one" under token 1 and "two" under token 2, each with a file of its own beside; the lease of 2 is given back.
func (s *suite) twoVersions(key publish.Key) (one, two publish.Grant, first publish.Receipt) {
	s.Helper()
	one = s.acquire(key, "one")
	s.upload(one, "only-one.txt", "1")
	s.upload(one, "out.png", "one")
	req := final(one)
	req.Primary, req.Metadata, req.SourceRevision = "out.png", map[string]string{"camera": "a"}, new(int64(5))
	first = s.publish(req)
	two = s.takeOver(key, "two")
	s.upload(two, "out.png", "two")
	req = final(two)
	req.SourceRevision, req.Release = new(int64(9)), true
	s.publish(req)
	return one, two, first
}

func testRollback(s *suite) {
	one, two, first := s.twoVersions(s.key("k"))
	receipt := s.rollback(rollbackTo(one.Key, one.Token))
	s.same("receipt", receipt, publish.Receipt{
		Key: one.Key, Token: 3, Revision: 1, ManifestDigest: first.ManifestDigest, Final: true, Primary: "out.png", Files: 2, Bytes: 4,
		PublishedAt: receipt.PublishedAt, Publisher: "mia@ws-12", SourceRevision: new(int64(5)), Metadata: map[string]string{"camera": "a"},
		Current: &publish.Version{Token: 3, Revision: 1}, Previous: &publish.Version{Token: 2, Revision: 1}, ReusedFiles: 2, ReusedBytes: 4,
		RollbackTo: &publish.Version{Token: 1, Revision: 1}, Reason: "the new one flickers",
	})
	s.current(one.Key, receipt.Version())
	third := publish.Grant{Key: one.Key, Token: receipt.Token}
	s.files(third, fileOf("only-one.txt", "1"), fileOf("out.png", "one"))
	s.same("object", s.object(third, "out.png"), s.object(one, "out.png"))
	pointer := s.pointer(one.Key)
	s.same("content type", pointer.ContentType, "image/png")

	g := s.generation(third)
	s.same("generation", [4]any{g.Kind, g.Reason, *g.Target, g.State},
		[4]any{publish.KindRollback, "the new one flickers", publish.Version{Token: 1, Revision: 1}, publish.StateSealed})
	lease, err := s.Store.Lease(s.Context(), one.Key)
	s.ok(err)
	s.same("lease", [3]any{lease.Token, lease.Held, lease.Holder}, [3]any{publish.Token(3), false, "mia@ws-12"})
	s.same("the next token", s.acquire(one.Key, "next").Token, publish.Token(4))
	s.files(two, fileOf("out.png", "two"))
}

// An earlier revision of a progressive generation is a version of its own, with files that later ones have replaced.
func testRollbackRevision(s *suite) {
	a := s.acquire(s.key("k"), "a")
	s.upload(a, "list.m3u8", "1")
	s.publish(publish.PublishRequest{Grant: a})
	s.upload(a, "list.m3u8", "12")
	s.upload(a, "seg2.ts", "2")
	s.publish(final(a))
	req := rollbackTo(a.Key, a.Token)
	req.To.Revision, req.BreakLease = 1, true
	receipt := s.rollback(req)
	s.files(publish.Grant{Key: a.Key, Token: receipt.Token}, fileOf("list.m3u8", "1"))
	s.same("rolled back to", *receipt.RollbackTo, publish.Version{Token: a.Token, Revision: 1})
	req = rollbackTo(a.Key, a.Token)
	s.same("rolled back to the last revision", *s.rollback(req).RollbackTo, publish.Version{Token: a.Token, Revision: 2})
}

// What is current already can be brought back: it fences whoever works on the key.
func testRollbackToCurrent(s *suite) {
	_, two, _ := s.twoVersions(s.key("k"))
	worker := s.acquire(two.Key, "worker")
	req := rollbackTo(two.Key, two.Token)
	req.BreakLease = true
	receipt := s.rollback(req)
	s.same("token", receipt.Token, worker.Token+1)
	s.files(publish.Grant{Key: two.Key, Token: receipt.Token}, fileOf("out.png", "two"))
	_, err := s.Store.Publish(s.Context(), final(worker))
	s.refused(err, publish.Error{Code: publish.ErrStaleToken, AcceptedToken: receipt.Token})
}

// A rollback to a rollback, and a publish that reuses one, name the first object.
func testRollbackChain(s *suite) {
	one, _, _ := s.twoVersions(s.key("k"))
	third := s.rollback(rollbackTo(one.Key, one.Token))
	fourth := s.rollback(rollbackTo(one.Key, third.Token))
	s.same("object", s.object(publish.Grant{Key: one.Key, Token: fourth.Token}, "out.png"), s.object(one, "out.png"))
	b := s.acquire(one.Key, "b")
	s.upload(b, "more.txt", "more")
	s.publish(reusing(b, fourth.Token))
	s.files(b, fileOf("more.txt", "more"), fileOf("only-one.txt", "1"), fileOf("out.png", "one"))
	s.same("reused object", s.object(b, "out.png"), s.object(one, "out.png"))
}

// The work of a running worker is stale, whatever it does next, and its rejection names who rolled back.
func testRollbackFencesWorker(s *suite) {
	for _, mode := range []publish.FenceMode{publish.FenceAccepted, publish.FenceGranted} {
		key := s.key(string(mode) + "/k")
		s.setFenceMode(string(s.key(string(mode))), mode)
		one, _, _ := s.twoVersions(key)
		worker := s.acquire(key, "worker")
		s.upload(worker, "out.png", "late")
		req := rollbackTo(key, one.Token)
		req.BreakLease = true
		receipt := s.rollback(req)
		for name, change := range s.changes(worker, "late.png") {
			stale := s.refused(change(), publish.Error{
				Code: publish.ErrStaleToken, Token: worker.Token, AcceptedToken: receipt.Token, Holder: "mia@ws-12", Worker: "worker",
			})
			s.same(name+": superseded at", *stale.SupersededAt, receipt.PublishedAt)
		}
		_, err := s.Store.Renew(s.Context(), key, worker.LeaseID, 0)
		s.refused(err, publish.Error{Code: publish.ErrLeaseLost, GrantedToken: receipt.Token})
		s.ok(s.Store.Release(s.Context(), key, worker.LeaseID))
		s.same("its lease ended", s.generation(worker).LeaseEndedAt != nil, true)
		s.current(key, receipt.Version())
	}
}

func testRollbackHeld(s *suite) {
	one, _, _ := s.twoVersions(s.key("k"))
	worker := s.acquire(one.Key, "worker")
	_, err := s.Store.Rollback(s.Context(), rollbackTo(one.Key, one.Token))
	held := s.refused(err, publish.Error{Code: publish.ErrLeaseHeld, Holder: "worker", Token: worker.Token, Operation: publish.KindRollback})
	s.same("expiry", held.ExpiresAt != nil && held.RetryAfterMillis > 0, true)
	s.output(worker, "three")
	s.Expire(s.T, one.Key)
	s.rollback(rollbackTo(one.Key, one.Token)) // Nobody holds it any more.
}

// A repeat is a replay, also when the key has moved on.
func testRollbackReplay(s *suite) {
	one, _, _ := s.twoVersions(s.key("k"))
	req := rollbackTo(one.Key, one.Token)
	receipt := s.rollback(req)
	again := s.rollback(req)
	s.same("replayed", again.Replayed, true)
	s.same("token", again.Token, receipt.Token)
	b := s.acquire(one.Key, "b")
	s.output(b, "three")
	again = s.rollback(req)
	s.same("replayed, since superseded", [3]any{again.Replayed, again.Token, *again.Current},
		[3]any{true, receipt.Token, publish.Version{Token: b.Token, Revision: 1}})
}

// An id names one request for ever: another one under it is refused and changes nothing, whichever of the two was first. How hard a request tries and who asks
// makes it no other one.
func testRequestReused(s *suite) {
	one, two, _ := s.twoVersions(s.key("k"))
	s.rollback(rollbackTo(one.Key, one.Token))
	first := rollbackTo(one.Key, one.Token)
	first.Pin = true
	receipt := s.rollback(first)
	s.ok(s.Store.Unpin(s.Context(), publish.UnpinRequest{Key: one.Key, By: "mia@ws-12"}))
	retirement := retire(s.key("retired"))
	s.output(s.acquire(retirement.Key, "a"), "one")
	retired, err := s.Store.Retire(s.Context(), retirement)
	s.ok(err)

	rollback := func(change func(*publish.RollbackRequest)) func() error {
		req := first
		change(&req)
		return func() error { _, err := s.Store.Rollback(s.Context(), req); return err }
	}
	retire := func(change func(*publish.RetireRequest)) func() error {
		req := retirement
		change(&req)
		return func() error { _, err := s.Store.Retire(s.Context(), req); return err }
	}
	for name, ask := range map[string]func() error{
		"another version":                rollback(func(r *publish.RollbackRequest) { r.To.Token = two.Token }),
		"a revision that never was":      rollback(func(r *publish.RollbackRequest) { r.To.Revision = 2 }),
		"another reason":                 rollback(func(r *publish.RollbackRequest) { r.Reason = "other" }),
		"without the pin":                rollback(func(r *publish.RollbackRequest) { r.Pin = false }),
		"a worker's lease_id":            rollback(func(r *publish.RollbackRequest) { r.RequestID = two.LeaseID }),
		"a rollback's id, retiring":      retire(func(r *publish.RetireRequest) { r.Key, r.RequestID = first.Key, first.RequestID }),
		"a worker's lease_id, retiring":  retire(func(r *publish.RetireRequest) { r.Key, r.RequestID = two.Key, two.LeaseID }),
		"retiring for another reason":    retire(func(r *publish.RetireRequest) { r.Reason = "other" }),
		"a retirement's id, rolled back": rollback(func(r *publish.RollbackRequest) { r.Key, r.RequestID = retirement.Key, retirement.RequestID }),
	} {
		refusal := s.refused(ask(), publish.Error{Code: publish.ErrInvalidRequest})
		if len(refusal.Fields) != 1 || refusal.Fields[0].Pointer != "Idempotency-Key" {
			s.Errorf("%s: the refusal doesn't name the header: %v", name, refusal)
		}
	}
	s.current(one.Key, receipt.Version())
	if p := s.pointer(one.Key); p.Pinned != nil {
		s.Errorf("the refused requests have pinned it: %+v", p.Pinned)
	}
	for name, change := range map[string]func(*publish.RollbackRequest){
		"the same":             func(*publish.RollbackRequest) {},
		"its revision spelled": func(r *publish.RollbackRequest) { r.To.Revision = 1 },
		"by another, harder":   func(r *publish.RollbackRequest) { r.By, r.BreakLease = "leo", true },
	} {
		req := first
		change(&req)
		again := s.rollback(req)
		s.same(name, [2]any{again.Replayed, again.Token}, [2]any{true, receipt.Token})
	}
	again, err := s.Store.Retire(s.Context(), retirement)
	s.ok(err)
	s.same("retired again", [2]any{again.Replayed, again.Token}, [2]any{true, retired.Token})
	for key, id := range map[publish.Key]publish.LeaseID{one.Key: first.RequestID, retirement.Key: retirement.RequestID} {
		_, err := s.Store.Acquire(s.Context(), publish.AcquireRequest{Key: key, Holder: "a", TTL: time.Hour, LeaseID: id})
		refusal := s.refused(err, publish.Error{Code: publish.ErrInvalidRequest})
		if len(refusal.Fields) != 1 || refusal.Fields[0].Pointer != "/lease_id" {
			s.Errorf("the refusal doesn't name the lease_id: %v", refusal)
		}
	}
	for key, token := range map[publish.Key]publish.Token{one.Key: receipt.Token, retirement.Key: retired.Token} {
		lease, err := s.Store.Lease(s.Context(), key)
		s.ok(err)
		s.same("the newest token of "+string(key), lease.Token, token)
	}
}

func testRollbackRefused(s *suite) {
	one, two, _ := s.twoVersions(s.key("k"))
	open := s.acquire(one.Key, "open")
	s.upload(open, "out.png", "never published")
	s.ok(s.Store.Release(s.Context(), open.Key, open.LeaseID))
	s.Condemn(s.T, one.Key, one.Token)
	tests := []struct {
		name string
		to   publish.Version
		want publish.Code
	}{
		{"condemned", publish.Version{Token: one.Token}, publish.ErrGenerationCollected},
		{"never published", publish.Version{Token: open.Token}, publish.ErrNotFound},
		{"never granted", publish.Version{Token: 77}, publish.ErrNotFound},
		{"no such revision", publish.Version{Token: two.Token, Revision: 2}, publish.ErrNotFound},
	}
	for _, test := range tests {
		req := rollbackTo(one.Key, test.to.Token)
		req.To = test.to
		_, err := s.Store.Rollback(s.Context(), req)
		s.refused(err, publish.Error{Code: test.want, Token: test.to.Token, Revision: test.to.Revision, Operation: publish.KindRollback})
	}
	_, err := s.Store.Rollback(s.Context(), rollbackTo(s.key("none"), 1))
	s.refused(err, publish.Error{Code: publish.ErrNotFound, Key: s.key("none")})
	s.current(one.Key, publish.Version{Token: two.Token, Revision: 1})
	s.same("no token was drawn", s.acquire(one.Key, "next").Token, open.Token+1)
}

// A rollback that pins keeps the next worker from overwriting it at once; without pin, a pinned key stays.
func testRollbackPin(s *suite) {
	one, two, _ := s.twoVersions(s.key("k"))
	req := rollbackTo(one.Key, one.Token)
	req.Pin = true
	third := s.rollback(req)
	worker := s.acquire(one.Key, "farm")
	s.upload(worker, "out.png", "again")
	_, err := s.Store.Publish(s.Context(), final(worker))
	s.refused(err, publish.Error{Code: publish.ErrPinned, Current: &publish.Version{Token: third.Token, Revision: 1}})
	req = rollbackTo(one.Key, two.Token)
	req.BreakLease = true
	_, err = s.Store.Rollback(s.Context(), req)
	pinned := s.refused(err, publish.Error{Code: publish.ErrPinned, Operation: publish.KindRollback})
	s.same("pin", [2]any{pinned.Pinned.Reason, pinned.Pinned.By}, [2]any{"the new one flickers", publish.Operator("mia@ws-12")})
	req.Pin, req.Reason = true, "second thoughts"
	fifth := s.rollback(req)
	s.same("pin moved along", s.pointer(one.Key).Pinned.Reason, "second thoughts")
	s.current(one.Key, fifth.Version())
}

// A rollback isn't held against the current source_revision; what follows is held against the one that came back.
func testRollbackSource(s *suite) {
	one, _, _ := s.twoVersions(s.key("k"))
	s.rollback(rollbackTo(one.Key, one.Token))
	b := s.acquire(one.Key, "b")
	s.upload(b, "out.png", "seven")
	req := final(b)
	req.SourceRevision = new(int64(4))
	_, err := s.Store.Publish(s.Context(), req)
	s.refused(err, publish.Error{Code: publish.ErrOlderSource})
	req.SourceRevision = new(int64(7))
	s.publish(req)
}

func testRollbackExhausted(s *suite) {
	one, two, _ := s.twoVersions(s.key("k"))
	s.SetCounter(s.T, one.Key, publish.MaxToken)
	_, err := s.Store.Rollback(s.Context(), rollbackTo(one.Key, one.Token))
	s.refused(err, publish.Error{Code: publish.ErrTokenExhausted})
	_, err = s.Store.Retire(s.Context(), retire(one.Key))
	s.refused(err, publish.Error{Code: publish.ErrTokenExhausted})
	s.current(one.Key, publish.Version{Token: two.Token, Revision: 1})
}

// After a restore, the token of a rollback or a retirement lies above all that the lost history can have granted, as any other.
func testRollbackEpoch(s *suite) {
	one, _, _ := s.twoVersions(s.key("k"))
	s.RaiseEpoch(s.T)
	receipt := s.rollback(rollbackTo(one.Key, one.Token))
	s.same("leapt", receipt.Token > 1_000_000_000, true)
	s.RaiseEpoch(s.T)
	retired, err := s.Store.Retire(s.Context(), retire(one.Key))
	s.ok(err)
	s.same("leapt again", retired.Token >= receipt.Token+1_000_000_000, true)
}

// Who looks at a version that isn't current any more changes nothing; a repeat of what was done is told from that.
func testRollbackCompare(s *suite) {
	a := s.acquire(s.key("k"), "a")
	first := s.output(a, "one").Version()
	second := s.output(s.takeOver(a.Key, "b"), "two").Version()
	back := publish.RollbackRequest{Key: a.Key, To: first, Reason: "r", By: "mia", BreakLease: true, RequestID: publish.NewLeaseID(), Current: &first}
	_, err := s.Store.Rollback(s.Context(), back)
	s.refused(err, publish.Error{Code: publish.ErrPreconditionFailed, Current: &second})
	gone := retire(a.Key)
	gone.Current = &first
	_, err = s.Store.Retire(s.Context(), gone)
	s.refused(err, publish.Error{Code: publish.ErrPreconditionFailed, Current: &second})
	s.current(a.Key, second)

	back.Current = &second
	receipt, err := s.Store.Rollback(s.Context(), back)
	s.ok(err)
	again, err := s.Store.Rollback(s.Context(), back)
	s.ok(err)
	s.same("again", [2]any{again.Version(), again.Replayed}, [2]any{receipt.Version(), true})
	gone.Current = new(receipt.Version())
	retired, err := s.Store.Retire(s.Context(), gone)
	s.ok(err)
	repeated, err := s.Store.Retire(s.Context(), gone)
	s.ok(err)
	s.same("retired again", [2]any{repeated.Token, repeated.Replayed}, [2]any{retired.Token, true})
	gone.RequestID = publish.NewLeaseID()
	_, err = s.Store.Retire(s.Context(), gone)
	s.refused(err, publish.Error{Code: publish.ErrPreconditionFailed})
}

// Who looked at a key without a current version changes nothing once there is one.
func testRollbackCompareNone(s *suite) {
	a := s.acquire(s.key("k"), "a")
	first := s.output(a, "one").Version()
	gone := retire(a.Key)
	gone.Current = &publish.Version{}
	_, err := s.Store.Retire(s.Context(), gone)
	s.refused(err, publish.Error{Code: publish.ErrPreconditionFailed, Current: &first})
	_, err = s.Store.Pin(s.Context(), publish.PinRequest{Key: a.Key, Reason: "r", By: "mia", Current: &publish.Version{}})
	s.refused(err, publish.Error{Code: publish.ErrPreconditionFailed, Current: &first})
	_, err = s.Store.Retire(s.Context(), retire(a.Key))
	s.ok(err)
	back := rollbackTo(a.Key, a.Token)
	back.Current = &publish.Version{}
	again := s.output(s.acquire(a.Key, "b"), "two").Version()
	_, err = s.Store.Rollback(s.Context(), back)
	s.refused(err, publish.Error{Code: publish.ErrPreconditionFailed, Current: &again})
	s.current(a.Key, again)
	_, err = s.Store.Retire(s.Context(), retire(a.Key))
	s.ok(err)
	receipt := s.rollback(back)
	s.same("again", s.rollback(back).Version(), receipt.Version())
}

// Who agreed to end the lease of one grant ends that of no other one.
func testRollbackLeaseSeen(s *suite) {
	a := s.acquire(s.key("k"), "a")
	current := s.output(a, "one").Version()
	s.ok(s.Store.Release(s.Context(), a.Key, a.LeaseID))
	b := s.acquire(a.Key, "b")
	s.ok(s.Store.Release(s.Context(), b.Key, b.LeaseID))
	c := s.acquire(a.Key, "c")
	back, gone := rollbackTo(a.Key, a.Token), retire(a.Key)
	back.BreakLease, back.Lease, gone.Lease = true, b.Token, b.Token
	held := publish.Error{Code: publish.ErrLeaseHeld, Holder: "c", Token: c.Token, GrantedToken: c.Token}
	_, err := s.Store.Rollback(s.Context(), back)
	s.refused(err, held)
	_, err = s.Store.Retire(s.Context(), gone)
	s.refused(err, held)
	_, err = s.Store.Renew(s.Context(), c.Key, c.LeaseID, 0)
	s.ok(err)
	s.current(a.Key, current)
	back.Lease = c.Token
	receipt := s.rollback(back)
	s.same("again", s.rollback(back).Version(), receipt.Version())
	gone.Lease = receipt.Token // Nobody holds the key: there is nothing to agree to.
	_, err = s.Store.Retire(s.Context(), gone)
	s.ok(err)
}
