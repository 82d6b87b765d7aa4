package publishtest

import (
	"fmt"
	"slices"
	"time"

	"github.com/pawlhq/pawl/publish"
)

func overviewTests() []pointerTest {
	return []pointerTest{
		{name: "life", run: testOverview},
		{name: "rejections", run: testRejections, alone: true},
		{name: "leases", run: testLeases, alone: true},
	}
}

func (s *suite) overview(key publish.Key) publish.Overview {
	s.Helper()
	overview, err := s.Store.Overview(s.Context(), key)
	s.ok(err)
	if overview.ServerTime.IsZero() {
		s.Error("an overview tells no time")
	}
	overview.ServerTime = publish.Time{}
	return overview
}

// testOverview follows a key through its life.
func testOverview(s *suite) {
	key := s.key("k")
	_, err := s.Store.Overview(s.Context(), key)
	s.refused(err, publish.Error{Code: publish.ErrNotFound, Key: key})

	a := s.acquire(key, "a")
	granted := s.overview(key)
	if granted.Lease == nil {
		s.Fatal("a lease that runs isn't shown")
	}
	lease := *granted.Lease
	s.same("lease", lease, publish.Holding{
		Key: key, Token: 1, Holder: "a", GrantedAt: lease.GrantedAt, ExpiresAt: publish.Time{Time: lease.GrantedAt.Add(suiteTTL)},
		TTLMillis: suiteTTL.Milliseconds(), Live: true,
	})
	s.same("granted", granted, publish.Overview{Key: key, Lease: &lease, Counter: 1, Generations: 1})

	s.Expire(s.T, key)
	if late := s.overview(key).Lease; late == nil || late.Live {
		s.Errorf("a lease that ran out: %+v", late)
	}
	b := s.acquire(key, "b")
	s.output(b, "b")
	s.refused(s.changes(a, "f")["begin"](), publish.Error{Code: publish.ErrStaleToken})
	s.refused(s.changes(a, "f")["publish"](), publish.Error{Code: publish.ErrStaleToken})
	s.ok(s.Store.Release(s.Context(), key, b.LeaseID))
	pin, err := s.Store.Pin(s.Context(), publish.PinRequest{Key: key, Reason: "good", By: "op"})
	s.ok(err)
	policy := publish.Policy{Prefix: string(key), FenceMode: publish.FenceAccepted, KeepGenerations: 7, MaxTTL: publish.Duration{Duration: time.Hour}}
	s.ok(s.Store.SetPolicy(s.Context(), policy, "op"))
	pointer, rejection := s.pointer(key), s.generation(a).Rejections[0]
	s.same("published", s.overview(key), publish.Overview{
		Key: key, Pointer: &pointer, Pinned: &pin.Pin, Counter: 2, Fence: 2, Generations: 2, Rejections: 2, Policy: &policy,
		LastRejection: &publish.KeyRejection{Key: key, Rejection: rejection},
	})

	s.ok(s.Store.Unpin(s.Context(), publish.UnpinRequest{Key: key, By: "op"}))
	retired, err := s.Store.Retire(s.Context(), publish.RetireRequest{Key: key, Reason: "old", By: "op", RequestID: publish.NewLeaseID()})
	s.ok(err)
	over := s.overview(key)
	s.same("retired", over.Retired, &retired)
	if over.Pointer != nil || over.Lease != nil || over.Pinned != nil || over.Counter != 3 || over.Fence != 3 || over.Generations != 3 {
		s.Errorf("retired: %+v", over)
	}
}

// feedSizes are sizes of pages, with what a page may look at.
var feedSizes = []struct{ limit, bound int }{{1, 1}, {2, 2}, {2, 5}, {3, 100}, {100, 100}}

// testRejections walks the rejections of several keys.
func testRejections(s *suite) {
	var want []publish.KeyRejection
	for i := range 6 {
		key := s.key([]string{"a", "a/b", "b"}[i%3])
		stale := s.acquire(key, fmt.Sprint("stale ", i))
		s.output(s.takeOver(key, "winner"), "won")
		for range 1 + i%2 {
			s.refused(s.changes(stale, "f")["begin"](), publish.Error{Code: publish.ErrStaleToken})
		}
		s.refused(s.changes(stale, "")["publish"](), publish.Error{Code: publish.ErrStaleToken})
		s.Expire(s.T, key)
		for _, rejection := range s.generation(stale).Rejections {
			want = append(want, publish.KeyRejection{Key: key, Rejection: rejection})
		}
	}
	slices.SortFunc(want, func(a, b publish.KeyRejection) int { return comparePlacesInFeed(b.Place(), a.Place()) })
	testFeed(s, want, publish.KeyRejection.Place, func(query publish.FeedQuery) ([]publish.KeyRejection, *publish.FeedPlace, publish.Time, error) {
		found, err := s.Store.Rejections(s.Context(), query)
		return found.Rejections, found.End, found.Now, err
	})
}

// testLeases walks leases that run, that ran out, that were taken over, and that were given back.
func testLeases(s *suite) {
	var running, all []publish.Holding
	for i, name := range []string{"a", "a/b", "a/c", "b", "b/c", "c", "d"} {
		key := s.key(name)
		req := acquireRequest(key, "first")
		req.Labels = map[string]string{"job": "17"}
		_, err := s.Store.Acquire(s.Context(), req)
		s.ok(err)
		switch i % 4 {
		case 0:
			s.Expire(s.T, key)
		case 1:
			s.ok(s.Store.Release(s.Context(), key, req.LeaseID))
			continue
		case 2:
			s.takeOver(key, "second")
		}
		lease := *s.overview(key).Lease
		if all = append(all, lease); lease.Live {
			running = append(running, lease)
		}
	}
	if len(all) != 5 || len(running) != 3 {
		s.Fatalf("%d leases, %d run", len(all), len(running))
	}
	slices.Reverse(all)
	slices.Reverse(running)
	for expired, want := range map[bool][]publish.Holding{false: running, true: all} {
		testFeed(s, want, publish.Holding.Place, func(query publish.FeedQuery) ([]publish.Holding, *publish.FeedPlace, publish.Time, error) {
			query.Expired = expired
			found, err := s.Store.Leases(s.Context(), query)
			return found.Leases, found.End, found.Now, err
		})
	}
}

// testFeed walks a feed below several prefixes, in pages of several sizes.
func testFeed[Row any](s *suite, all []Row, place func(Row) *publish.FeedPlace, read func(publish.FeedQuery) ([]Row, *publish.FeedPlace, publish.Time, error)) {
	s.Helper()
	for _, sub := range []string{"", "/", "/a", "/a/", "/none"} {
		want := slices.DeleteFunc(slices.Clone(all), func(row Row) bool {
			key := string(place(row).Key)
			return len(key) < len(s.prefix+sub) || key[:len(s.prefix+sub)] != s.prefix+sub
		})
		for _, size := range feedSizes {
			query := publish.FeedQuery{Reach: publish.Everything, Prefix: s.prefix + sub, Limit: size.limit, Bound: size.bound}
			if sub == "" {
				query.Prefix = ""
			}
			var got []Row
			for pages := 0; ; pages++ {
				rows, end, now, err := read(query)
				s.ok(err)
				if len(rows) > size.limit || now.IsZero() || pages > 2*len(all)+2 {
					s.Fatalf("%+v: %d rows, page %d", query, len(rows), pages)
				}
				if got = append(got, rows...); end == nil {
					break
				}
				query.From = end
			}
			s.same(fmt.Sprintf("%+v", query), got, want)
		}
	}
}
