package publishtest

import (
	"time"

	"github.com/pawlhq/pawl/publish"
)

func pinTests() []pointerTest {
	return []pointerTest{
		{name: "keeps-publishes-out", run: testPin},
		{name: "order-of-checks", run: testPinOrder},
		{name: "compare", run: testPinCompare},
		{name: "idempotent", run: testPinIdempotent},
		{name: "seen", run: testPinSeen},
		{name: "without-pointer", run: testPinWithoutPointer},
		{name: "shows", run: testPinShows},
	}
}

func pinRequest(key publish.Key) publish.PinRequest {
	return publish.PinRequest{Key: key, Reason: "client review", By: "mia@ws-12"}
}

func (s *suite) pin(req publish.PinRequest) publish.PinnedKey {
	s.Helper()
	pinned, err := s.Store.Pin(s.Context(), req)
	if err != nil {
		s.Fatalf("pin %s: %v", req.Key, err)
	}
	return pinned
}

// A worker keeps its lease and its uploads under a pin, and may publish once it is gone.
func testPin(s *suite) {
	a := s.acquire(s.key("k"), "a")
	s.output(a, "one")
	b := s.takeOver(a.Key, "b")
	pinned := s.pin(pinRequest(a.Key))
	s.same("pinned version", pinned.Current, publish.Version{Token: a.Token, Revision: 1})
	s.upload(b, "out.png", "two")
	_, err := s.Store.Publish(s.Context(), final(b))
	refusal := s.refused(err, publish.Error{
		Code: publish.ErrPinned, Token: b.Token, Operation: publish.OperationPublish, Current: &publish.Version{Token: a.Token, Revision: 1},
	})
	s.same("pin", *refusal.Pinned, pinned.Pin)
	_, err = s.Store.Renew(s.Context(), b.Key, b.LeaseID, 0)
	s.ok(err)
	s.current(a.Key, publish.Version{Token: a.Token, Revision: 1})
	s.ok(s.Store.Unpin(s.Context(), publish.UnpinRequest{Key: a.Key, By: "mia@ws-12"}))
	s.publish(final(b))
	s.current(a.Key, publish.Version{Token: b.Token, Revision: 1})
	s.same("no rejection", len(s.generation(b).Rejections), 0)
}

// A pin comes behind replay, stale and sealed, and before the preconditions. The pinned generation takes no further revision.
func testPinOrder(s *suite) {
	a := s.acquire(s.key("k"), "a")
	s.output(a, "one")
	b := s.takeOver(a.Key, "b")
	s.upload(b, "out.png", "two")
	progressive := publish.PublishRequest{Grant: b}
	s.publish(progressive)
	s.pin(pinRequest(a.Key))
	s.same("replayed", s.publish(progressive).Replayed, true)
	_, err := s.Store.Publish(s.Context(), final(a))
	s.ok(err) // Its own replay, though stale.
	s.upload(b, "more.txt", "more")
	_, err = s.Store.Publish(s.Context(), progressive)
	s.refused(err, publish.Error{Code: publish.ErrPinned})
	c := s.takeOver(a.Key, "c")
	req := final(c)
	req.IfNoneMatch = true
	_, err = s.Store.Publish(s.Context(), req)
	s.refused(err, publish.Error{Code: publish.ErrPinned})
	late := final(a)
	late.ManifestDigest = &publish.Digest{1}
	_, err = s.Store.Publish(s.Context(), late)
	s.refused(err, publish.Error{Code: publish.ErrStaleToken})
}

func testPinCompare(s *suite) {
	a := s.acquire(s.key("k"), "a")
	s.output(a, "one")
	req := pinRequest(a.Key)
	req.Current = &publish.Version{Token: a.Token, Revision: 2}
	_, err := s.Store.Pin(s.Context(), req)
	s.refused(err, publish.Error{Code: publish.ErrPreconditionFailed, Current: &publish.Version{Token: a.Token, Revision: 1}})
	s.same("not pinned", s.pointer(a.Key).Pinned, (*publish.Pin)(nil))
	req.Current.Revision = 1
	s.pin(req)
}

func testPinIdempotent(s *suite) {
	a := s.acquire(s.key("k"), "a")
	s.output(a, "one")
	first := s.pin(pinRequest(a.Key))
	req := pinRequest(a.Key)
	req.By = "someone else"
	s.same("the same reason again", s.pin(req), first)
	req.Reason = "longer review"
	second := s.pin(req)
	s.same("another reason", [2]any{second.Reason, second.By}, [2]any{"longer review", publish.Operator("someone else")})
	s.ok(s.Store.Unpin(s.Context(), publish.UnpinRequest{Key: a.Key, By: "mia@ws-12"}))
	s.ok(s.Store.Unpin(s.Context(), publish.UnpinRequest{Key: a.Key, By: "mia@ws-12"}))
	s.refused(s.Store.Unpin(s.Context(), publish.UnpinRequest{Key: s.key("none"), By: "mia@ws-12"}), publish.Error{Code: publish.ErrNotFound})
}

// Who looked at another pin, or at none, neither replaces nor takes away the one that is there.
func testPinSeen(s *suite) {
	a := s.acquire(s.key("k"), "a")
	current := s.output(a, "one").Version()
	s.ok(s.Store.Release(s.Context(), a.Key, a.LeaseID))
	earlier := s.pin(pinRequest(a.Key))
	s.ok(s.Store.Unpin(s.Context(), publish.UnpinRequest{Key: a.Key, By: "mia@ws-12", PinnedAt: &earlier.At}))
	s.ok(s.Store.Unpin(s.Context(), publish.UnpinRequest{Key: a.Key, By: "mia@ws-12", PinnedAt: &earlier.At})) // A double click.
	none := publish.PinRequest{Key: a.Key, Reason: "legal hold", By: "bob", PinnedAt: &publish.Time{}}
	pinned := s.pin(none)
	s.same("a double click", s.pin(none), pinned)
	moved := publish.Error{Code: publish.ErrPreconditionFailed, Current: &current, Pinned: &pinned.Pin}
	s.refused(s.Store.Unpin(s.Context(), publish.UnpinRequest{Key: a.Key, By: "bob", PinnedAt: &publish.Time{}}), moved)
	for _, seen := range []publish.Time{{}, {Time: pinned.At.Add(-time.Second)}} {
		s.refused(s.Store.Unpin(s.Context(), publish.UnpinRequest{Key: a.Key, By: "mia", PinnedAt: &seen}), moved)
		req := pinRequest(a.Key)
		req.PinnedAt = &seen
		_, err := s.Store.Pin(s.Context(), req)
		s.refused(err, moved)
		back := rollbackTo(a.Key, a.Token)
		back.Pin, back.PinnedAt = true, &seen
		_, err = s.Store.Rollback(s.Context(), back)
		s.refused(err, moved)
	}
	back := rollbackTo(a.Key, a.Token)
	back.Pin, back.PinnedAt = true, &publish.Time{Time: pinned.At.Truncate(time.Millisecond)}
	receipt := s.rollback(back)
	s.same("again", s.rollback(back).Version(), receipt.Version())
	s.same("pin", s.pointer(a.Key).Pinned.Reason, back.Reason)
}

func testPinWithoutPointer(s *suite) {
	_, err := s.Store.Pin(s.Context(), pinRequest(s.key("none")))
	s.refused(err, publish.Error{Code: publish.ErrNotFound})
	a := s.acquire(s.key("k"), "a")
	_, err = s.Store.Pin(s.Context(), pinRequest(a.Key))
	s.refused(err, publish.Error{Code: publish.ErrNotFound})
	s.output(a, "one")
	s.retire(a.Key)
	_, err = s.Store.Pin(s.Context(), pinRequest(a.Key))
	s.refused(err, publish.Error{Code: publish.ErrRetired})
}

// Pointer, list and history say that a key is pinned.
func testPinShows(s *suite) {
	a := s.acquire(s.key("k"), "a")
	s.output(a, "one")
	pin := s.pin(pinRequest(a.Key)).Pin
	s.same("pointer", *s.pointer(a.Key).Pinned, pin)
	page, err := s.Store.List(s.Context(), publish.ListRequest{Reach: publish.Everything, Prefix: string(a.Key), Limit: 10})
	s.ok(err)
	s.same("list", *page.Keys[0].Pinned, pin)
	history, err := s.Store.History(s.Context(), a.Key, 0, 10)
	s.ok(err)
	s.same("history", *history.Pinned, pin)
}
