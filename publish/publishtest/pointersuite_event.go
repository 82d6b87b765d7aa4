package publishtest

import (
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/pawlhq/pawl/publish"
)

func eventTests() []pointerTest {
	return []pointerTest{
		{name: "kinds", run: testEventKinds},
		{name: "operators", run: testEventsOfOperators},
		{name: "rejected", run: testEventsOfRejections},
		{name: "none", run: testNoEvents},
		{name: "pages", run: testEventPages, alone: true},
		{name: "restored", run: testEventRestored, alone: true},
		{name: "trimmed", run: testEventsTrimmed, alone: true},
		{name: "ahead", run: testEventsAhead, alone: true},
		{name: "lost-bounded", run: testEventsOfLostTokens, alone: true},
	}
}

// number numbers all events that wait, also when another subtest is at it.
func (s *suite) number() {
	s.Helper()
	for {
		numbered, err := s.Store.NumberEvents(s.Context(), 1000)
		if err != nil {
			s.Fatal(err)
		}
		if !numbered.More && !numbered.Busy {
			return
		}
	}
}

// events numbers and returns all events with a prefix, oldest first.
func (s *suite) events(prefix string) (all []publish.Event) {
	s.Helper()
	s.number()
	for after := publish.OldestEvent; ; {
		page, err := s.Store.Events(s.Context(), publish.EventsRequest{Reach: publish.Everything, Prefix: prefix, After: &after, Limit: 100})
		if err != nil || page.Next == nil {
			s.Fatalf("events after %s: %+v, %v", after, page, err)
		}
		all = append(all, page.Events...)
		if *page.Next == after {
			return all
		}
		after = *page.Next
	}
}

// wantEvents compares all that happened to the subtest's keys, but for times and cursors.
func (s *suite) wantEvents(want ...publish.Event) {
	s.Helper()
	got := s.events(s.prefix + "/")
	if diff := cmp.Diff(want, got, cmpopts.IgnoreTypes(publish.Time{}, publish.EventCursor{}), cmpopts.IgnoreFields(publish.Event{}, "OverrunMillis")); diff != "" {
		s.Fatalf("events (-want +got):\n%s", diff)
	}
	for i, e := range got {
		if e.At.IsZero() || time.Since(e.At.Time).Abs() > suiteTTL {
			s.Errorf("event %+v happened at %s", e, e.At)
		}
		if i > 0 && e.Cursor.Compare(got[i-1].Cursor) <= 0 {
			s.Errorf("event %s follows %s", e.Cursor, got[i-1].Cursor)
		}
	}
}

// published is the event of a receipt of one file.
func published(r publish.Receipt) publish.Event {
	return publish.Event{
		Kind: publish.EventPublished, Key: r.Key, Token: r.Token, Revision: r.Revision, By: r.Publisher, Previous: r.Previous,
		ManifestDigest: &r.ManifestDigest, Final: r.Final, Primary: r.Primary, Files: r.Files, Bytes: r.Bytes, LeaseExpired: r.LeaseExpired,
		ContentType: publish.ContentType(r.Primary, "text/plain"),
	}
}

// testEventKinds: what workers do to a key, told in order.
func testEventKinds(s *suite) {
	key := s.key("k")
	a := s.acquire(key, "a")
	s.upload(a, "f.txt", "one")
	first := s.publish(publish.PublishRequest{Grant: a, Primary: "f.txt"})
	s.upload(a, "f.txt", "two, longer")
	second := s.publish(publish.PublishRequest{Grant: a, Primary: "f.txt", Final: true})
	s.publish(publish.PublishRequest{Grant: a, Primary: "f.txt", Final: true}) // A replay is no event.
	b := s.takeOver(key, "b")
	third := s.output(b, "b")
	if err := s.Store.Release(s.Context(), key, b.LeaseID); err != nil {
		s.Fatal(err)
	}
	s.acquire(key, "c") // Nobody was taken over.
	want := []publish.Event{
		published(first), published(second),
		{Kind: publish.EventTakenOver, Key: key, Token: b.Token, By: "b", From: &publish.EndedLease{Token: a.Token, Holder: "a", EndedAt: &publish.Time{}}},
		published(third),
	}
	s.wantEvents(want...)
}

// testEventsOfOperators: what people do to a key.
func testEventsOfOperators(s *suite) {
	key := s.key("k")
	a := s.acquire(key, "a")
	first := s.output(a, "a")
	b := s.takeOver(key, "b")
	ctx := s.Context()
	back, err := s.Store.Rollback(ctx, publish.RollbackRequest{
		Key: key, To: first.Version(), Reason: "bad", By: "mia", BreakLease: true, Pin: true, RequestID: publish.NewLeaseID(),
	})
	if err != nil {
		s.Fatal(err)
	}
	if _, err := s.Store.Pin(ctx, publish.PinRequest{Key: key, Reason: "bad", By: "mia"}); err != nil { // It changes nothing.
		s.Fatal(err)
	}
	for range 2 {
		if err := s.Store.Unpin(ctx, publish.UnpinRequest{Key: key, By: "noa"}); err != nil {
			s.Fatal(err)
		}
	}
	c := s.acquire(key, "c")
	var retired publish.Retirement
	for range 2 {
		if retired, err = s.Store.Retire(ctx, publish.RetireRequest{Key: key, Reason: "done", By: "mia", BreakLease: true, RequestID: publish.NewLeaseID()}); err != nil {
			s.Fatal(err)
		}
	}
	rolledBack := published(back)
	rolledBack.Kind, rolledBack.RollbackTo, rolledBack.Reason = publish.EventRolledBack, new(first.Version()), "bad"
	from := func(g publish.Grant, holder string) *publish.EndedLease {
		return &publish.EndedLease{Token: g.Token, Holder: holder, EndedAt: &publish.Time{}}
	}
	s.wantEvents(
		published(first),
		publish.Event{Kind: publish.EventTakenOver, Key: key, Token: b.Token, By: "b", From: from(a, "a")},
		publish.Event{Kind: publish.EventTakenOver, Key: key, Token: back.Token, By: "mia", From: from(b, "b")},
		rolledBack,
		publish.Event{Kind: publish.EventPinned, Key: key, Token: back.Token, Revision: 1, By: "mia", Reason: "bad"},
		publish.Event{Kind: publish.EventUnpinned, Key: key, Token: back.Token, Revision: 1, By: "noa"},
		publish.Event{Kind: publish.EventTakenOver, Key: key, Token: retired.Token, By: "mia", From: from(c, "c")},
		publish.Event{Kind: publish.EventRetired, Key: key, Token: retired.Token, By: "mia", Reason: "done", Previous: new(back.Version())},
	)
}

// testEventsOfRejections: a stale request is told once, however often it comes.
func testEventsOfRejections(s *suite) {
	key := s.key("k")
	a := s.acquire(key, "a")
	b := s.takeOver(key, "b")
	receipt := s.output(b, "b")
	for range 3 {
		_, err := s.Store.Publish(s.Context(), final(a))
		s.refused(err, publish.Error{Code: publish.ErrStaleToken})
		_, err = s.Store.BeginUpload(s.Context(), beginRequest(a, "late"))
		s.refused(err, publish.Error{Code: publish.ErrStaleToken})
	}
	rejected := publish.Event{
		Kind: publish.EventRejected, Key: key, Token: a.Token, By: "a", Operation: publish.OperationPublish,
		AcceptedToken: b.Token, GrantedToken: b.Token, SupersededBy: "b", SupersededAt: &publish.Time{},
	}
	upload := rejected
	upload.Operation, upload.Path = publish.OperationUpload, "late"
	s.wantEvents(publish.Event{
		Kind: publish.EventTakenOver, Key: key, Token: b.Token, By: "b", From: &publish.EndedLease{Token: a.Token, Holder: "a", EndedAt: &publish.Time{}},
	}, published(receipt), rejected, upload)
}

// testNoEvents: grants, renewals, uploads and releases are no events, and neither is what was refused.
func testNoEvents(s *suite) {
	key := s.key("k")
	a := s.acquire(key, "a")
	s.upload(a, "f", "one")
	if _, err := s.Store.Renew(s.Context(), key, a.LeaseID, 0); err != nil {
		s.Fatal(err)
	}
	if _, err := s.Store.Acquire(s.Context(), acquireRequest(key, "b")); !errors.Is(err, publish.ErrLeaseHeld) {
		s.Fatal(err)
	}
	if err := s.Store.Release(s.Context(), key, a.LeaseID); err != nil {
		s.Fatal(err)
	}
	s.acquire(key, "c")
	s.wantEvents()
}

// testEventPages: pages of every size, both ways, with and without a prefix, hold the same; numbers have no gaps.
func testEventPages(s *suite) {
	page, err := s.Store.Events(s.Context(), publish.EventsRequest{Reach: publish.Everything, Limit: 10})
	if err != nil || len(page.Events) != 0 || page.Next == nil {
		s.Fatalf("the end of an empty feed: %+v, %v", page, err)
	}
	start := *page.Next
	for _, name := range []string{"x/1", "x/2", "xx/1", "y/1", "x_1", "x/3"} {
		s.output(s.acquire(s.key(name), "a"), name)
	}
	all := s.events("")
	for i, e := range all {
		s.same("number", e.Cursor, publish.EventCursor{Epoch: start.Epoch, N: start.N + int64(i) + 1})
	}
	s.same("all", len(all), 6)
	for sub, count := range map[string]int{"": 6, "/x": 5, "/x/": 3, "/x_": 1, "/%": 0, "/y/1": 1, "/none": 0} {
		prefix := s.prefix + sub
		want := slices.DeleteFunc(slices.Clone(all), func(e publish.Event) bool { return !strings.HasPrefix(string(e.Key), prefix) })
		s.same("with "+sub, len(want), count)
		for _, limit := range []int{1, 2, 5, 1000} {
			var up, down []publish.Event
			for after := start; ; {
				page, err := s.Store.Events(s.Context(), publish.EventsRequest{Reach: publish.Everything, Prefix: prefix, After: &after, Limit: limit})
				if err != nil || len(page.Events) > limit || page.Next == nil {
					s.Fatalf("%+v, %v", page, err)
				}
				if up = append(up, page.Events...); *page.Next == after {
					break
				}
				after = *page.Next
			}
			for before := &publish.NewestEvent; before != nil; {
				page, err := s.Store.Events(s.Context(), publish.EventsRequest{Reach: publish.Everything, Prefix: prefix, Before: before, Limit: limit})
				if err != nil || len(page.Events) > limit {
					s.Fatalf("%+v, %v", page, err)
				}
				down, before = append(down, page.Events...), page.Next
			}
			slices.Reverse(down)
			s.same("oldest first", up, append([]publish.Event(nil), want...))
			s.same("newest first", down, append([]publish.Event(nil), want...))
		}
	}
	now, err := s.Store.Events(s.Context(), publish.EventsRequest{Reach: publish.Everything, Limit: 10})
	if err != nil || *now.Next != all[5].Cursor {
		s.Errorf("now is %v, %v; want %s", now.Next, err, all[5].Cursor)
	}
}

// testEventRestored: after a restore numbers go on in a new epoch, which a restored event begins, and a cursor of the lost history reads all of it.
func testEventRestored(s *suite) {
	s.output(s.acquire(s.key("a"), "a"), "one")
	before := s.events("")
	s.same("before", len(before), 1)
	lost := publish.EventCursor{Epoch: before[0].Cursor.Epoch, N: before[0].Cursor.N + 1000}
	s.output(s.acquire(s.key("b"), "a"), "not numbered before the restore")
	s.RaiseEpoch(s.T)
	s.output(s.acquire(s.key("c"), "a"), "two")
	s.number()
	for _, prefix := range []string{"", s.prefix + "/b", s.prefix + "/none"} {
		page, err := s.Store.Events(s.Context(), publish.EventsRequest{Reach: publish.Everything, Prefix: prefix, After: &lost, Limit: 100})
		if err != nil || len(page.Events) == 0 {
			s.Fatalf("after the lost %s: %+v, %v", lost, page, err)
		}
		first := page.Events[0]
		if first.Kind != publish.EventRestored || first.Cursor.Epoch <= lost.Epoch || first.Cursor.N != before[0].Cursor.N+1 || first.Reason == "" || first.Key != "" {
			s.Errorf("the new epoch begins with %+v", first)
		}
		if prefix == "" {
			s.same("events of the new epoch", len(page.Events), 3)
			s.same("the last", page.Events[2].Cursor, publish.EventCursor{Epoch: first.Cursor.Epoch, N: first.Cursor.N + 2})
		}
	}
	s.number()
	s.same("once", len(s.events("")), 4)
}

// testEventsAhead: a cursor that is ahead of all events is of another feed, and whoever went on from it would miss what this one tells until then.
func testEventsAhead(s *suite) {
	s.output(s.acquire(s.key("a"), "a"), "a")
	all := s.events("")
	newest := all[len(all)-1].Cursor
	for _, ahead := range []publish.EventCursor{{Epoch: newest.Epoch, N: newest.N + 1}, {Epoch: newest.Epoch + 1}, publish.NewestEvent} {
		for _, prefix := range []string{"", s.prefix + "/", s.prefix + "/none"} {
			_, err := s.Store.Events(s.Context(), publish.EventsRequest{Reach: publish.Everything, Prefix: prefix, After: &ahead, Limit: 10})
			s.refused(err, publish.Error{Code: publish.ErrCursorExpired, Newest: &newest})
		}
	}
	page, err := s.Store.Events(s.Context(), publish.EventsRequest{Reach: publish.Everything, After: &newest, Limit: 10})
	if err != nil || len(page.Events) != 0 || *page.Next != newest {
		s.Errorf("after the newest: %+v, %v", page, err)
	}
	page, err = s.Store.Events(s.Context(), publish.EventsRequest{Reach: publish.Everything, Before: &publish.EventCursor{Epoch: newest.Epoch, N: newest.N + 9}, Limit: 1})
	if err != nil || len(page.Events) != 1 || page.Events[0].Cursor != newest {
		s.Errorf("before one that is ahead: %+v, %v", page, err)
	}
}

// testEventsTrimmed: what is too old goes, oldest first. Who would miss some of it is told, and where to go on.
func testEventsTrimmed(s *suite) {
	for _, name := range []string{"a", "b", "c"} {
		s.output(s.acquire(s.key(name), "a"), name)
	}
	all := s.events("")
	trim := func(keep time.Duration, limit, want int) {
		s.Helper()
		if n, err := s.Store.TrimEvents(s.Context(), keep, limit); err != nil || n != want {
			s.Fatalf("%d events trimmed, %v; want %d", n, err, want)
		}
	}
	trim(time.Hour, 10, 0)
	trim(-time.Hour, 2, 2)
	_, err := s.Store.Events(s.Context(), publish.EventsRequest{Reach: publish.Everything, After: &all[0].Cursor, Limit: 10})
	s.refused(err, publish.Error{Code: publish.ErrCursorExpired, Oldest: &all[1].Cursor})
	for _, after := range []publish.EventCursor{publish.OldestEvent, all[1].Cursor} {
		page, err := s.Store.Events(s.Context(), publish.EventsRequest{Reach: publish.Everything, After: &after, Limit: 10})
		if err != nil {
			s.Fatal(err)
		}
		s.same("kept", page.Events, all[2:])
	}
	trim(-time.Hour, 2, 1)
	trim(-time.Hour, 2, 0)
	s.output(s.acquire(s.key("d"), "a"), "d")
	s.number()
	page, err := s.Store.Events(s.Context(), publish.EventsRequest{Reach: publish.Everything, After: &all[2].Cursor, Limit: 10})
	if err != nil || len(page.Events) != 1 || page.Events[0].Cursor.N != all[2].Cursor.N+1 {
		s.Errorf("numbers go on with %+v, %v", page, err)
	}
}

// testEventsOfLostTokens: whoever makes up tokens of a lost history makes no more than a hundred events of a key.
func testEventsOfLostTokens(s *suite) {
	a := s.acquire(s.key("k"), "a")
	s.RaiseEpoch(s.T)
	for i := range 110 {
		lost := publish.Grant{Key: a.Key, Token: a.Token + 1 + publish.Token(i), LeaseID: publish.NewLeaseID()}
		_, err := s.Store.Publish(s.Context(), final(lost))
		s.refused(err, publish.Error{Code: publish.ErrStaleToken})
	}
	s.same("rejected", len(s.events(s.prefix+"/")), 101) // One is the restore.
}
