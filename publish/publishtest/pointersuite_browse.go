package publishtest

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pawlhq/pawl/publish"
)

func browseTests() []pointerTest {
	return []pointerTest{
		{name: "pages", run: testBrowsePages, alone: true},
		{name: "tree", run: testBrowseTree},
		{name: "row", run: testBrowseRow},
	}
}

// browseKeys makes keys that differ in everything a page is sorted or filtered by, and returns the rows of those that have a pointer.
func (s *suite) browseKeys() (rows []publish.BrowseRow) {
	types := []publish.Path{"out.png", "out.jpg", "notes.txt", "out.bin"}
	for i, name := range []string{
		"a", "a/b", "a/B", "a/b/c", "a/b/d", "a0", "b", "É/x", "é/x", "z/100%", "z/1_0", "z/back", "z/\U0010ffff", "z/\U0010ffffa", "z\U0010ffff", "zz",
	} {
		key := s.key(name)
		var stale []publish.Grant
		for range i % 3 { // Receipts that are not current any more, and grants that are stale.
			stale = append(stale, s.acquire(key, "earlier"))
			s.output(stale[len(stale)-1], "earlier")
			s.Expire(s.T, key)
		}
		grant := s.acquire(key, fmt.Sprintf("worker %d", i*5%7))
		s.upload(grant, types[i%len(types)], strings.Repeat("x", 1+i*7%16))
		s.publish(publish.PublishRequest{Grant: grant, Final: true, Release: i%4 != 0})
		refused := 0
		for n, late := range stale {
			for range 2*n + 1 {
				s.refused(s.changes(late, "late")["begin"](), publish.Error{Code: publish.ErrStaleToken})
				refused++
			}
		}
		row := publish.BrowseRow{Pointer: s.pointer(key), Rejections: int64(refused)}
		if i%4 == 0 {
			row.Lease = &publish.Holding{Key: key}
		}
		rows = append(rows, row)
	}
	// No page shows a key that nobody has published, or that was retired.
	s.acquire(s.key("a/held"), "w")
	retired := s.acquire(s.key("a/retired"), "w")
	s.output(retired, "gone")
	if _, err := s.Store.Retire(s.Context(), publish.RetireRequest{Key: retired.Key, By: "op", BreakLease: true, RequestID: publish.NewLeaseID()}); err != nil {
		s.Fatal(err)
	}
	return rows
}

// testBrowsePages walks all orders and filters, in pages of several sizes and with several bounds, and compares them with a plain model.
func testBrowsePages(s *suite) {
	all := s.browseKeys()
	middle := all[len(all)/2].PublishedAt.Time
	for _, filter := range []publish.BrowseRequest{
		{},
		{Text: "B"},
		{Text: "é/"},
		{Text: "0%"},
		{Text: "_0"},
		{Type: "image"},
		{Type: "image/png"},
		{Type: "text/plain"},
		{Type: "imag"},
		{Leased: true},
		{Rejected: true},
		{UpdatedSince: middle},
		{UpdatedSince: middle, Type: "image", Text: "x"},
		{Leased: true, Rejected: true},
		{Rejected: true, UpdatedSince: middle},
		{Text: "nowhere"},
	} {
		for _, sub := range []string{"", "/a", "/z/", "/z/\U0010ffff"} {
			filter.Reach, filter.Prefix = publish.Everything, s.prefix+sub
			for _, sort := range publish.BrowseSorts() {
				filter.Sort = sort
				var want []publish.BrowseRow
				for _, row := range all {
					if strings.HasPrefix(string(row.Key), filter.Prefix) && passes(filter, row) {
						want = append(want, row)
					}
				}
				held := len(slices.DeleteFunc(slices.Clone(all), func(row publish.BrowseRow) bool { return !strings.HasPrefix(string(row.Key), filter.Prefix) }))
				for _, size := range []struct{ limit, bound int }{{1, 1}, {3, 7}, {7, 100}} {
					query := publish.BrowseQuery{BrowseRequest: filter, Bound: size.bound}
					query.Limit = size.limit
					what := fmt.Sprintf("%+v", query)
					if held > size.bound && !sort.ByName() && !sort.ByAge() {
						found, err := s.Store.Browse(s.Context(), query)
						s.ok(err)
						s.same(what, found, publish.BrowseFound{})
						continue
					}
					s.sameOrder(what, query, s.browse(query, held), want)
				}
			}
		}
	}
}

// sameOrder checks rows against those that are wanted. Which of two that are equal in the order comes first is the store's choice.
func (s *suite) sameOrder(what string, query publish.BrowseQuery, got, want []publish.BrowseRow) {
	s.Helper()
	value := func(row publish.BrowseRow) *publish.BrowsePlace {
		place := query.Place(row)
		if !query.Sort.ByName() {
			place.Name = ""
		}
		return place
	}
	for i := 1; i < len(got); i++ {
		if comparePlaces(value(got[i-1]), value(got[i])) > 0 {
			s.Fatalf("%s: %q comes before %q", what, got[i-1].Key, got[i].Key)
		}
	}
	names := func(rows []publish.BrowseRow) (names []string) {
		for _, row := range rows {
			names = append(names, string(row.Key))
		}
		slices.Sort(names)
		return names
	}
	s.same(what, names(got), names(want))
}

// browse collects all pages of a query, checking each. held is how many keys the prefix has.
func (s *suite) browse(query publish.BrowseQuery, held int) (all []publish.BrowseRow) {
	s.Helper()
	for pages := 0; ; pages++ {
		found, err := s.Store.Browse(s.Context(), query)
		s.ok(err)
		if len(found.Rows) > query.Limit || found.Searched > query.Bound || found.Sortable != (held <= query.Bound) || len(found.Prefixes) != 0 {
			s.Fatalf("%+v: %d rows, %d searched, sortable %v", query, len(found.Rows), found.Searched, found.Sortable)
		}
		all = append(all, found.Rows...)
		if found.End == nil {
			return all
		}
		if len(found.Rows) < query.Limit && found.Searched < query.Bound || found.End.Sort != query.Sort || pages > 200 {
			s.Fatalf("%+v: a page with %d rows of %d searched ends at %+v", query, len(found.Rows), found.Searched, *found.End)
		}
		if name := publish.Key(found.End.Name); name != "" && !query.Reach.Has(name) {
			s.Fatalf("%+v: a page ends at %s", query, name)
		}
		query.From = found.End
	}
}

// testBrowseTree: with the delimiter the entries are those of a listing.
func testBrowseTree(s *suite) {
	for _, name := range []string{"a", "a/b", "a/c/d", "b/c", "c"} {
		s.output(s.acquire(s.key(name), "w"), name)
	}
	for _, limit := range []int{1, 2, 100} {
		query := publish.BrowseQuery{Bound: 100, BrowseRequest: publish.BrowseRequest{Reach: publish.Everything, Prefix: s.prefix + "/", Delimiter: true, Sort: publish.SortName, Limit: limit}}
		var got []string
		for {
			found, err := s.Store.Browse(s.Context(), query)
			s.ok(err)
			page := slices.Clone(found.Prefixes)
			for _, row := range found.Rows {
				page = append(page, string(row.Key))
			}
			slices.Sort(page)
			if got = append(got, page...); found.End == nil {
				break
			}
			if len(page) != limit || !found.Sortable {
				s.Fatalf("%+v: %+v", query, found)
			}
			query.From = found.End
		}
		s.same(fmt.Sprint("limit ", limit), got, []string{s.prefix + "/a", s.prefix + "/a/", s.prefix + "/b/", s.prefix + "/c"})
	}
}

// testBrowseRow: a row is the pointer as it reads, with the lease that runs and all that was rejected.
func testBrowseRow(s *suite) {
	key := s.key("k")
	row := func() publish.BrowseRow {
		s.Helper()
		found, err := s.Store.Browse(s.Context(), publish.BrowseQuery{Bound: 10, BrowseRequest: publish.BrowseRequest{Reach: publish.Everything, Prefix: s.prefix, Sort: publish.SortAge, Limit: 10}})
		s.ok(err)
		if len(found.Rows) != 1 {
			s.Fatalf("%+v", found)
		}
		return found.Rows[0]
	}
	a := s.acquire(key, "a")
	b := s.takeOver(key, "b")
	s.output(b, "b")
	for range 3 {
		s.refused(s.changes(a, "f")["begin"](), publish.Error{Code: publish.ErrStaleToken})
	}
	s.refused(s.changes(a, "f")["publish"](), publish.Error{Code: publish.ErrStaleToken})
	if _, err := s.Store.Pin(s.Context(), publish.PinRequest{Key: key, Reason: "good", By: "op"}); err != nil {
		s.Fatal(err)
	}
	got := row()
	want := publish.BrowseRow{Pointer: s.pointer(key), Rejections: 4, Lease: &publish.Holding{
		Key: key, Token: b.Token, Holder: "b", TTLMillis: suiteTTL.Milliseconds(), Live: true,
	}}
	if got.Lease == nil || got.Lease.ExpiresAt.Sub(got.Lease.GrantedAt.Time) != suiteTTL || time.Since(got.Lease.GrantedAt.Time).Abs() > time.Hour {
		s.Fatalf("%+v", got.Lease)
	}
	want.Lease.GrantedAt, want.Lease.ExpiresAt = got.Lease.GrantedAt, got.Lease.ExpiresAt
	s.same("row", got, want)
	s.Expire(s.T, key)
	if got = row(); got.Lease != nil {
		s.Errorf("a lease that ran out is shown: %+v", *got.Lease)
	}
}
