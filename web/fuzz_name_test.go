package web

import (
	"mime"
	"net/url"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/pawlhq/pawl/publish"
)

// FuzzSplitKeyURL: what a URL of a key was taken apart into makes a URL that is taken apart into the same; and no key ends before its "/-/".
func FuzzSplitKeyURL(f *testing.F) {
	for _, seed := range []string{
		"/a/b", "/a%2Fb/-/lease", "/a/-/generations/17/files/x%20y.png", "/a/%2D/b", "/a%2F-%2Fb", "/%61/-/-/x", "/k/-/", "/%zz", "/a%252F..", "//", "/caf%C3%A9/-/current",
		"/cafe%CC%81", "/a/-/files/a%252e%252e", "/\u202e/-/x",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, escaped string) {
		at, err := splitKeyURL(escaped)
		if err != nil {
			return
		}
		if key, err := publish.ParseKey(string(at.key)); err != nil || key != at.key {
			t.Fatalf("%q has the key %q: %v", escaped, at.key, err)
		}
		again := "/" + escapeName(string(at.key))
		if at.hasTail {
			again += "/-/" + escapeName(at.tail)
		}
		if same, err := splitKeyURL(again); err != nil || same != at {
			t.Fatalf("%q is %+v, and %q is %+v, %v", escaped, at, again, same, err)
		}
	})
}

// FuzzAttachment: whatever a file is called, its name ends no header and leaves no folder, and comes out as it went in but for what would.
func FuzzAttachment(f *testing.F) {
	for _, seed := range []string{
		"report.pdf", "a b.png", `a"b\c.png`, "a\r\nSet-Cookie: x=y", "100%.txt", "€ rates.txt", "exe.\u202egpj", "..", "", "a;filename=b", "'quoted'", "\xff.bin", "%41.txt",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, name string) {
		header := attachment(name)
		if strings.ContainsFunc(header, func(c rune) bool { return c < ' ' || c > '~' }) {
			t.Fatalf("%q makes %q", name, header)
		}
		kind, params, err := mime.ParseMediaType(header)
		if name == "" { // No file has that name.
			return
		}
		if err != nil || kind != "attachment" {
			t.Fatalf("%q makes %q: %q, %v", name, header, kind, err)
		}
		if !utf8.ValidString(name) {
			return // Names of files are UTF-8.
		}
		got := params["filename"]
		if strings.ContainsAny(got, "/\\\r\n") || utf8.RuneCountInString(got) != utf8.RuneCountInString(name) {
			t.Fatalf("%q comes out as %q", name, got)
		}
		for i, c := range []rune(got) {
			if was := []rune(name)[i]; c != was && c != '_' {
				t.Fatalf("%q comes out as %q", name, got)
			}
		}
	})
}

// FuzzBrowseQuery: the address of a page of keys says what the query said that it was made from.
func FuzzBrowseQuery(f *testing.F) {
	for _, seed := range []string{
		"prefix=a/b/&q=x", "q=+Caf%C3%A9+&type=image/&since=7d&leased=true&rejected=false&sort=-age&view=grid&after=x", "sort=name&view=list", "prefix=a//b",
		"since=2026-11-30", "leased=1", "prefix=a&after=%00", "q=cafe%CC%81", "prefix=a%2520/",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		values, err := url.ParseQuery(raw)
		if err != nil {
			return
		}
		q, err := readBrowseQuery(values)
		if err != nil {
			return
		}
		address, err := url.Parse(links{base: "/pawl"}.browseAt(q))
		if err != nil {
			t.Fatalf("%q makes no address: %v", raw, err)
		}
		again := address.Query()
		if prefix, found := strings.CutPrefix(wirePath(address), "/pawl/b/"); found {
			if prefix, err = url.PathUnescape(prefix); err != nil || again.Has("prefix") {
				t.Fatalf("%q leads to %q: %v", raw, address, err)
			}
			again.Set("prefix", prefix)
		}
		if same, err := readBrowseQuery(again); err != nil || same != q {
			t.Fatalf("%q is %+v, and %q is %+v, %v", raw, q, address, same, err)
		}
	})
}
