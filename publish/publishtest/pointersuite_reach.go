package publishtest

import (
	"fmt"
	"slices"
	"strings"

	"github.com/pawlhq/pawl/publish"
)

func reachTests() []pointerTest {
	return []pointerTest{
		{name: "list", run: testReachList},
		{name: "browse", run: testReachBrowse, alone: true},
		{name: "rejections", run: testReachRejections, alone: true},
		{name: "leases", run: testReachLeases, alone: true},
		{name: "events", run: testReachEvents, alone: true},
		{name: "policies", run: testReachPolicies, alone: true},
		{name: "audit", run: testReachAudit, alone: true},
	}
}

// neighbours are names near a team's: below it, beside it, and like it to whoever takes letters, wildcards or segments for something else.
func neighbours() []string {
	return []string{
		"team-", "team-a", "team-a/x", "team-a/x/y", "team-a/z", "team-a/\U0010ffff", "team-a!", "team-a!/x", "team-a /x", "team-a0", "team-a0/x", "team-ab", "team-ab/x",
		"TEAM-A", "TEAM-A/x", "team_a/x", "teamXa/x", "team%/x", "team/x", "a", "z", "é/x", "É/x",
	}
}

// reaches are sets of prefixes by the rule of scopes, each a caller's.
func reaches() [][]string {
	return [][]string{
		nil,
		{""},
		{"team-a/"},
		{"team-a"},
		{"TEAM-A/"},
		{"team-ab/"},
		{"team-a!"},
		{"team_a/"},
		{"team%"},
		{"team%/"},
		{"_"},
		{"%"},
		{"team-a/x"},
		{"team-a/x/y/"},
		{"team-a/", "team-ab/"},
		{"z", "TEAM-A", "team-a/x/"},
		{"team-a", "team-a!", "team-a0", "team-ab"},
		{"é/", "a"},
		{"none", "team-a/none/"},
		{"team-a/", "none", ""},
	}
}

// reach makes the reach of prefixes that are below the subtest's own; "" is all keys of the subtest.
func (s *suite) reach(prefixes []string) publish.Reach {
	var all []string
	for _, prefix := range prefixes {
		all = append(all, strings.TrimSuffix(s.prefix+"/"+prefix, "//"))
	}
	return publish.ReachOf(all...)
}

// within says whether the prefixes of a reach hold a name, as the words of the API have it.
func within(prefixes []string, name string) bool {
	return slices.ContainsFunc(prefixes, func(prefix string) bool {
		return prefix == "" || name == prefix || strings.HasPrefix(name, strings.TrimSuffix(prefix, "/")+"/")
	})
}

// testReachList: a listing holds what the same listing would if there were no keys but those in the reach.
func testReachList(s *suite) {
	names := neighbours()
	for _, name := range names {
		s.output(s.acquire(s.key(name), "a"), name)
	}
	s.acquire(s.key("team-a/held"), "a") // Nothing was published there.
	for _, prefixes := range reaches() {
		reached := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return !within(prefixes, name) })
		for _, sub := range []string{"/", "/t", "/team-a", "/team-a/", "/team-a/x", "/TEAM", "/team-ab/", "/none", "/é"} {
			for _, delimiter := range []string{"", "/"} {
				want := listModel(reached, s.prefix, sub, delimiter)
				for _, limit := range []int{1, 2, 5, 1000} {
					req := publish.ListRequest{Reach: s.reach(prefixes), Prefix: s.prefix + sub, Delimiter: delimiter, Limit: limit}
					s.same(fmt.Sprintf("reach %q, prefix %q, delimiter %q, limit %d", prefixes, sub, delimiter, limit), s.list(req), want)
				}
			}
			s.same(fmt.Sprintf("reach %q, folders below %q", prefixes, sub), s.tree(prefixes, sub), listModel(reached, s.prefix, sub, "/"))
		}
	}
}

// tree collects all pages of folders below a prefix, in pages of two.
func (s *suite) tree(prefixes []string, sub string) (all []string) {
	s.Helper()
	query := publish.BrowseQuery{Bound: 100, BrowseRequest: publish.BrowseRequest{
		Reach: s.reach(prefixes), Prefix: s.prefix + sub, Delimiter: true, Sort: publish.SortName, Limit: 2,
	}}
	for {
		found, err := s.Store.Browse(s.Context(), query)
		s.ok(err)
		entries := slices.Clone(found.Prefixes)
		for _, row := range found.Rows {
			entries = append(entries, string(row.Key))
		}
		slices.Sort(entries)
		if all = append(all, entries...); found.End == nil {
			return all
		}
		query.From = found.End
	}
}

// testReachBrowse: in each order, with each filter and however little a page looks at, it shows the keys in the reach and no cursor names another one.
func testReachBrowse(s *suite) {
	all := s.browseKeys()
	middle := all[len(all)/2].PublishedAt.Time
	for _, prefixes := range [][]string{nil, {""}, {"a"}, {"a/"}, {"a/b/"}, {"A"}, {"b", "z/"}, {"z", "a/B", "É/"}, {"a0", "none", "zz", "é"}, {"%", "_"}} {
		reach := s.reach(prefixes)
		for _, filter := range []publish.BrowseRequest{{}, {Text: "B"}, {Type: "image"}, {Leased: true}, {Rejected: true}, {UpdatedSince: middle}} {
			filter.Reach = reach
			for _, sub := range []string{"", "/a"} {
				filter.Prefix = s.prefix + sub
				reached := slices.DeleteFunc(slices.Clone(all), func(row publish.BrowseRow) bool {
					return !within(prefixes, strings.TrimPrefix(string(row.Key), s.prefix+"/")) || !strings.HasPrefix(string(row.Key), filter.Prefix)
				})
				want := slices.DeleteFunc(slices.Clone(reached), func(row publish.BrowseRow) bool { return !passes(filter, row) })
				for _, sort := range publish.BrowseSorts() {
					filter.Sort = sort
					for _, size := range []struct{ limit, bound int }{{1, 1}, {2, 3}, {7, 100}} {
						query := publish.BrowseQuery{BrowseRequest: filter, Bound: size.bound}
						query.Limit = size.limit
						if len(reached) <= size.bound || sort.ByName() || sort.ByAge() {
							s.sameOrder(fmt.Sprintf("reach %q, %+v", prefixes, query), query, s.browse(query, len(reached)), want)
						}
					}
				}
			}
		}
	}
}

// testReachFeed walks a feed in pages of several sizes for each reach.
func testReachFeed[Row any](s *suite, all []Row, place func(Row) *publish.FeedPlace, read func(publish.FeedQuery) ([]Row, *publish.FeedPlace, error)) {
	s.Helper()
	for _, prefixes := range reaches() {
		reach := s.reach(prefixes)
		for _, sub := range []string{"", "/team-a", "/team-a/"} {
			want := slices.DeleteFunc(slices.Clone(all), func(row Row) bool {
				key := string(place(row).Key)
				return !within(prefixes, strings.TrimPrefix(key, s.prefix+"/")) || !strings.HasPrefix(key, s.prefix+sub)
			})
			for _, size := range feedSizes {
				query := publish.FeedQuery{Reach: reach, Prefix: s.prefix + sub, Limit: size.limit, Bound: size.bound}
				var got []Row
				for pages := 0; ; pages++ {
					rows, end, err := read(query)
					s.ok(err)
					if len(rows) > size.limit || pages > 2*len(all)+2 {
						s.Fatalf("%+v: %d rows, page %d", query, len(rows), pages)
					}
					if got = append(got, rows...); end == nil {
						break
					}
					if (end.ID == 0) != reach.Has(end.Key) || end.ID != 0 && *end != (publish.FeedPlace{At: end.At, ID: end.ID}) {
						s.Fatalf("reach %q: a page ends at %+v", prefixes, *end)
					}
					query.From = end
				}
				s.same(fmt.Sprintf("reach %q, %+v", prefixes, query), got, want)
			}
		}
	}
}

func testReachRejections(s *suite) {
	var want []publish.KeyRejection
	for i, name := range neighbours() {
		key := s.key(name)
		stale := s.acquire(key, "stale")
		s.output(s.takeOver(key, "winner"), "won")
		for path := range 1 + i%2 {
			s.refused(s.changes(stale, publish.Path(fmt.Sprint("f", path)))["begin"](), publish.Error{Code: publish.ErrStaleToken})
		}
		for _, rejection := range s.generation(stale).Rejections {
			want = append(want, publish.KeyRejection{Key: key, Rejection: rejection})
		}
	}
	slices.SortFunc(want, func(a, b publish.KeyRejection) int { return comparePlacesInFeed(b.Place(), a.Place()) })
	testReachFeed(s, want, publish.KeyRejection.Place, func(query publish.FeedQuery) ([]publish.KeyRejection, *publish.FeedPlace, error) {
		found, err := s.Store.Rejections(s.Context(), query)
		return found.Rejections, found.End, err
	})
}

func testReachLeases(s *suite) {
	var want []publish.Holding
	for _, name := range neighbours() {
		s.acquire(s.key(name), "holder")
		want = append(want, *s.overview(s.key(name)).Lease)
	}
	slices.Reverse(want)
	testReachFeed(s, want, publish.Holding.Place, func(query publish.FeedQuery) ([]publish.Holding, *publish.FeedPlace, error) {
		found, err := s.Store.Leases(s.Context(), query)
		return found.Leases, found.End, err
	})
}
