package publishtest

import (
	"fmt"
	"slices"
	"strings"

	"github.com/pawlhq/pawl/publish"
)

// testReachEvents: pages of events, both ways, tell of the keys in the reach, and each of a restore.
func testReachEvents(s *suite) {
	for _, name := range neighbours() {
		s.output(s.acquire(s.key(name), "a"), name)
	}
	s.number()
	s.RaiseEpoch(s.T)
	s.output(s.acquire(s.key("team-a/late"), "a"), "late")
	all := s.events("")
	for _, prefixes := range reaches() {
		for _, sub := range []string{"", "/team-a", "/team-a/"} {
			want := slices.DeleteFunc(slices.Clone(all), func(e publish.Event) bool {
				name := strings.TrimPrefix(string(e.Key), s.prefix+"/")
				return e.Kind != publish.EventRestored && (!within(prefixes, name) || !strings.HasPrefix(string(e.Key), s.prefix+sub))
			})
			for _, limit := range []int{1, 3, 1000} {
				req := publish.EventsRequest{Reach: s.reach(prefixes), Prefix: s.prefix + sub, Limit: limit}
				what := fmt.Sprintf("reach %q, %+v", prefixes, req)
				up, down := s.eventsUp(req), s.eventsDown(req)
				slices.Reverse(down)
				s.same(what+", oldest first", up, want)
				s.same(what+", newest first", down, want)
			}
		}
	}
}

// eventsUp collects all pages of a request, oldest first.
func (s *suite) eventsUp(req publish.EventsRequest) (all []publish.Event) {
	s.Helper()
	for req.After = &publish.OldestEvent; ; {
		page, err := s.Store.Events(s.Context(), req)
		s.ok(err)
		if all = append(all, page.Events...); *page.Next == *req.After {
			return all
		}
		req.After = page.Next
	}
}

// eventsDown collects all pages of a request, newest first.
func (s *suite) eventsDown(req publish.EventsRequest) (all []publish.Event) {
	s.Helper()
	for req.Before = &publish.NewestEvent; req.Before != nil; {
		page, err := s.Store.Events(s.Context(), req)
		s.ok(err)
		all, req.Before = append(all, page.Events...), page.Next
	}
	return all
}

// testReachPolicies: a policy is shown to whoever has a key that it is for: below its prefix, or above it.
func testReachPolicies(s *suite) {
	prefixes := []string{"", "_", "team", "team-a", "team-a/x", "team-a/x/y", "team-a/z", "team-a!", "team-a0", "team-ab", "TEAM-A", "team_a", "team%", "é"}
	for _, prefix := range prefixes {
		s.setPolicy(publish.Policy{Prefix: prefix})
	}
	for _, test := range []struct {
		reach, want []string
	}{
		{nil, nil},
		{[]string{""}, prefixes},
		{[]string{"team-a/"}, []string{"", "team-a", "team-a/x", "team-a/x/y", "team-a/z"}},
		{[]string{"team-a"}, []string{"", "team-a", "team-a/x", "team-a/x/y", "team-a/z"}},
		{[]string{"team-a/x"}, []string{"", "team-a", "team-a/x", "team-a/x/y"}},
		{[]string{"team-a/x/y/z/"}, []string{"", "team-a", "team-a/x", "team-a/x/y"}},
		{[]string{"team-a/x/", "team-a/z"}, []string{"", "team-a", "team-a/x", "team-a/x/y", "team-a/z"}},
		{[]string{"team-ab/x", "TEAM-A/"}, []string{"", "team-ab", "TEAM-A"}},
		{[]string{"team-/"}, []string{""}},
		{[]string{"%"}, []string{""}},
		{[]string{"_/"}, []string{"", "_"}},
		{[]string{"é/x"}, []string{"", "é"}},
	} {
		want := slices.Sorted(slices.Values(test.want))
		for _, limit := range []int{1, 2, 100} {
			var got []string
			for after := (*string)(nil); ; {
				page, err := s.Store.Policies(s.Context(), publish.ReachOf(test.reach...), after, limit)
				s.ok(err)
				for _, policy := range page.Policies {
					got = append(got, policy.Prefix)
				}
				if after = page.Next; after == nil {
					break
				}
				if len(page.Policies) != limit {
					s.Fatalf("reach %q: a page of %d that isn't the last, with the limit %d", test.reach, len(page.Policies), limit)
				}
			}
			s.same(fmt.Sprintf("reach %q, limit %d", test.reach, limit), got, want)
		}
	}
}

// testReachAudit: an entry is for whoever administers its key, or all that its policy is for.
func testReachAudit(s *suite) {
	for _, name := range neighbours() {
		s.output(s.acquire(s.key(name), "a"), name)
		s.pin(pinRequest(s.key(name)))
	}
	s.output(s.acquire(s.key("team-a/retired"), "a"), "gone")
	s.retire(s.key("team-a/retired"))
	for _, prefix := range []string{"", s.prefix, s.prefix + "/team-a", s.prefix + "/team-a/x", s.prefix + "/team-ab"} {
		s.setPolicy(publish.Policy{Prefix: prefix})
	}
	page, err := s.Store.Audit(s.Context(), publish.AuditRequest{Reach: publish.Everything, Limit: publish.MaxPageSize})
	s.ok(err)
	all := page.Entries
	for _, prefixes := range reaches() {
		want := slices.DeleteFunc(slices.Clone(all), func(entry publish.AuditEntry) bool {
			name, below := strings.CutPrefix(entry.Subject, s.prefix+"/")
			// No reach here holds the key that is the subtest's prefix, and so not all that the policy of that name is for.
			return !below || !within(prefixes, name) || entry.Action == "policy" && !within(prefixes, name+"/below")
		})
		for _, limit := range []int{1, 4, 100} {
			var got []publish.AuditEntry
			for before := int64(0); ; {
				page, err := s.Store.Audit(s.Context(), publish.AuditRequest{Reach: s.reach(prefixes), Before: before, Limit: limit})
				s.ok(err)
				if len(page.Entries) > limit {
					s.Fatalf("%d entries with the limit %d", len(page.Entries), limit)
				}
				if got, before = append(got, page.Entries...), page.Next; before == 0 {
					break
				}
			}
			s.same(fmt.Sprintf("reach %q, limit %d", prefixes, limit), got, want)
		}
	}
}
