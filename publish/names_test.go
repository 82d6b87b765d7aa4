package publish_test

import (
	"net/url"
	"strings"
	"testing"

	"github.com/pawlhq/pawl/publish"
)

// FuzzParseEffectName: an accepted name passes through a URL's segment and a third party's header as it is.
func FuzzParseEffectName(f *testing.F) {
	for _, name := range []string{"invoice-52", "a:b@c+d=e,f~g", ".", "..", "...", "", "a b", "a/b", "a%2Fb", "ä", "a\r\nb", strings.Repeat("x", 129)} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		effect, err := publish.ParseEffectName(name)
		if err != nil {
			return
		}
		if string(effect) != name || len(name) < 1 || len(name) > publish.MaxEffectNameBytes {
			t.Fatalf("%q became %q", name, effect)
		}
		if joined := (&url.URL{Path: "/a/"}).JoinPath(name); joined.EscapedPath() != "/a/"+name {
			t.Fatalf("%q in a URL is %s", name, joined)
		}
		if strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r > '~' || strings.ContainsRune(`"\;<>`, r) }) {
			t.Fatalf("%q was accepted", name)
		}
	})
}

// FuzzParseDirectID: an accepted id of an upload is one segment of a URL, and prints as it was written, but for the case of its digits.
func FuzzParseDirectID(f *testing.F) {
	upload := strings.Repeat("0f", 16)
	for _, text := range []string{upload + ".", upload + ".a-b_c~d", strings.ToUpper(upload) + ".A", upload, upload + "./", upload + ". ", "." + upload, upload + "." + strings.Repeat("x", 1025)} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		id, err := publish.ParseDirectID(text)
		if err != nil {
			return
		}
		hex, parts, _ := strings.Cut(text, ".")
		if id.String() != strings.ToLower(hex)+"."+parts || len(parts) > 1024 || strings.Contains(text, "/") {
			t.Fatalf("%q became %s", text, id)
		}
		if again, err := publish.ParseDirectID(id.String()); err != nil || again != id {
			t.Fatalf("%s became %s, %v", id, again, err)
		}
	})
}

// FuzzParseObjectName: the parts of an accepted name make that name again, and are themselves legal.
func FuzzParseObjectName(f *testing.F) {
	upload := strings.Repeat("0f", 16)
	for _, name := range []string{
		"a/b/-/17/" + upload + "/c/d", "a/-/17/published/receipt.json", "a/-/17/published/other", "a/-/017/" + upload + "/c", "a/-/17/" + strings.ToUpper(upload) + "/c",
		"a/-/-/17/" + upload + "/c", "a/-/17/" + upload + "/", "-/17/" + upload + "/c", "a/-/17/" + upload + "/-/c", "a/-/17/" + upload + "/../c",
	} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		parts, ok := publish.ParseObjectName(publish.ObjectName(name))
		if !ok {
			return
		}
		if string(parts.Name()) != name {
			t.Fatalf("%q became %q", name, parts.Name())
		}
		checkName(t, string(parts.Key))
		checkName(t, string(parts.Path))
		if strings.Contains("/"+string(parts.Key)+"/", "/-/") || parts.Token < 1 || parts.Token > publish.MaxToken {
			t.Fatalf("%q became %+v", name, parts)
		}
	})
}
