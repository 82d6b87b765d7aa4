package publishtest

import (
	"fmt"
	"slices"
	"strings"

	"github.com/pawlhq/pawl/publish"
)

func listTests() []pointerTest {
	return []pointerTest{
		{name: "nothing", run: testListNothing},
		{name: "pages", run: testListPages},
		{name: "after", run: testListAfter},
		{name: "facts", run: testListFacts},
	}
}

// testListNothing: keys without a pointer aren't listed, and lists are empty rather than absent.
func testListNothing(s *suite) {
	s.upload(s.acquire(s.key("k"), "a"), "f", "one")
	for _, delimiter := range []string{"", "/"} {
		page, err := s.Store.List(s.Context(), publish.ListRequest{Reach: publish.Everything, Prefix: s.prefix + "/", Delimiter: delimiter, Limit: 10})
		if err != nil || page.Keys == nil || page.Prefixes == nil {
			s.Fatalf("%#v, %v", page, err)
		}
		s.same("page", page, publish.ListPage{})
	}
}

// testListPages walks listings in pages of every size and compares them with a plain model.
func testListPages(s *suite) {
	names := slices.Concat(nastyNames(), []string{
		"a", "a-", "a/b", "a/b/c", "a/b/d", "a/c", "a0", "a/-x", "b/c/d/e", "b/c/d/f", "B", "ab/c", "z/z/z", "é/é", "z", "zz",
	})
	for _, name := range names {
		s.output(s.acquire(s.key(name), "a"), name)
	}
	for _, sub := range []string{"/", "/a", "/a/", "/a/b", "/a/b/", "/b", "/b/c/", "/shot", "/shot/", "/zz", "/none", "/under_", "/100%", "", "/é"} {
		for _, delimiter := range []string{"", "/"} {
			want := listModel(names, s.prefix, sub, delimiter)
			for _, limit := range []int{1, 2, 3, 7, 1000} {
				got := s.list(publish.ListRequest{Reach: publish.Everything, Prefix: s.prefix + sub, Delimiter: delimiter, Limit: limit})
				s.same(fmt.Sprintf("prefix %q, delimiter %q, limit %d", sub, delimiter, limit), got, want)
			}
		}
	}
}

// listModel says what a listing holds, as the words of the API have it.
func listModel(names []string, base, sub, delimiter string) []string {
	var entries []string
	for _, name := range names {
		rest, found := strings.CutPrefix("/"+name, sub)
		if !found {
			continue
		}
		if head, _, cut := strings.Cut(rest, "/"); cut && delimiter != "" {
			rest = head + "/"
		}
		entries = append(entries, base+sub+rest)
	}
	slices.Sort(entries)
	return slices.Compact(entries)
}

// list collects all pages of a listing, checking each.
func (s *suite) list(req publish.ListRequest) []string {
	s.Helper()
	var all []string
	for {
		page, err := s.Store.List(s.Context(), req)
		if err != nil {
			s.Fatal(err)
		}
		var entries []string
		for _, pointer := range page.Keys {
			entries = append(entries, string(pointer.Key))
		}
		if !slices.IsSorted(entries) || !slices.IsSorted(page.Prefixes) {
			s.Fatalf("not in byte order: %q, %q", entries, page.Prefixes)
		}
		entries = append(entries, page.Prefixes...)
		slices.Sort(entries)
		if len(entries) > req.Limit {
			s.Fatalf("%d entries with the limit %d", len(entries), req.Limit)
		}
		all = append(all, entries...)
		if page.Next == "" {
			return all
		}
		if len(entries) != req.Limit || page.Next != entries[len(entries)-1] || page.Next <= req.After {
			s.Fatalf("a page of %q after %q has the next %q", entries, req.After, page.Next)
		}
		req.After = page.Next
	}
}

// testListAfter: a page may start anywhere, also where no entry is, or behind a whole sub-prefix.
func testListAfter(s *suite) {
	for _, name := range []string{"a/b", "a/c/d", "a/c/e", "a/f", "b"} {
		s.output(s.acquire(s.key(name), "a"), name)
	}
	for _, test := range []struct {
		sub, delimiter, after string
		want                  []string
	}{
		{"/", "", "/a/bb", []string{"/a/c/d", "/a/c/e", "/a/f", "/b"}},
		{"/", "/", "/a/", []string{"/b"}},
		{"/", "/", "/a", []string{"/a/", "/b"}},
		{"/a/", "/", "/a/c/", []string{"/a/f"}},
		{"/a/", "/", "/b", nil},
		{"/a/", "", "/", []string{"/a/b", "/a/c/d", "/a/c/e", "/a/f"}},
	} {
		want := make([]string, len(test.want))
		for i, name := range test.want {
			want[i] = s.prefix + name
		}
		if test.after == "/" {
			test.after = "" // Before everything: the listing's own prefix would stand for all of it.
		}
		req := publish.ListRequest{Reach: publish.Everything, Prefix: s.prefix + test.sub, Delimiter: test.delimiter, Limit: 10}
		if test.after != "" {
			req.After = s.prefix + test.after
		}
		s.same(fmt.Sprintf("%+v", test), s.list(req), want)
	}
}

// testListFacts: an entry is the pointer itself, as it is now.
func testListFacts(s *suite) {
	a := s.acquire(s.key("k"), "a")
	s.upload(a, "f.png", "one")
	s.upload(a, "g", "two")
	source := int64(8)
	s.publish(publish.PublishRequest{Grant: a, Primary: "f.png", SourceRevision: &source, Metadata: map[string]string{"a": "ü"}})
	for range 2 {
		page, err := s.Store.List(s.Context(), publish.ListRequest{Reach: publish.Everything, Prefix: s.prefix, Limit: 10})
		if err != nil {
			s.Fatal(err)
		}
		s.same("listed", page.Keys, []publish.Pointer{s.pointer(a.Key)})
		s.output(s.takeOver(a.Key, "b"), "b")
	}
}
