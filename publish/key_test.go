package publish_test

import (
	"errors"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/pawlhq/pawl/publish"
)

// legalNames round-trip byte for byte (cases 33 and 37).
var legalNames = []string{
	"a", "thumbs/image-52", "a+b.png", "a b.png", " a ", "a%2Bb.png", "100%.png", "%2e%2e", "..%2f", "q?x=1#y.png",
	"semi;colon&amp.png", "😀/🎬.png", "café.png", "日本語", "shot", "shot/010", "tileset/0.glb", "...", ".hidden", "a..b", "-a/a-/--",
	"C:", "~", "*", "\"'`$", "\u00a0", "\u200b", "a:b|c<d>", "NUL", "con", "\U0010fffd",
	strings.Repeat("s", 200), strings.Repeat("s", 199) + "/" + strings.Repeat("t", 200),
	strings.Repeat("é", 100), strings.Repeat("é/", 133) + "a",
}

// illegalNames are refused as keys and as paths (cases 34 and 35).
var illegalNames = map[string]string{
	"empty":             "",
	"root":              "/",
	"leading slash":     "/a",
	"trailing slash":    "a/",
	"doubled slash":     "a//b",
	"only slashes":      "//a",
	"dot":               ".",
	"dots":              "..",
	"dot segment":       "a/./b",
	"dots segment":      "a/../b",
	"dots at the start": "../a",
	"dots at the end":   "a/..",
	"dot slash":         "./",
	"backslash":         `a\..\b`,
	"NUL":               "a\x00b",
	"newline":           "a\nb",
	"carriage return":   "a\r",
	"tab":               "a\tb",
	"escape":            "\x1b[31m",
	"DEL":               "a\x7f",
	"C1 control":        "a\u0085",
	"bidi override":     "a\u202egnp.exe",
	"bidi embedding":    "\u202aa",
	"bidi isolate":      "a\u2066b",
	"bidi pop":          "a\u2069b",
	"Arabic mark":       "a\u061cb",
	"left-to-right":     "a\u200eb",
	"right-to-left":     "\u200fa",
	"line separator":    "a\u2028b",
	"lost character":    "a\ufffdb",
	"lone surrogate":    "a\xed\xa0\x80b",
	"overlong slash":    "a\xc0\xafb",
	"overlong NUL":      "a\xc0\x80",
	"cut short":         "caf\xc3",
	"Latin-1":           "caf\xe9",
	"beyond Unicode":    "\xf4\x90\x80\x80",
	"long segment":      strings.Repeat("s", 201),
	"long segment, two": "a/" + strings.Repeat("é", 101),
	"long name":         strings.Repeat("s", 200) + "/" + strings.Repeat("t", 200),
	"very long name":    strings.Repeat("a/", 1<<20) + "a",
}

func TestNames(t *testing.T) {
	t.Parallel()
	for _, name := range legalNames {
		if key, err := publish.ParseKey(name); err != nil || string(key) != name {
			t.Errorf("key %q: %q, %v", name, key, err)
		}
		if path, err := publish.ParsePath(name); err != nil || string(path) != name {
			t.Errorf("path %q: %q, %v", name, path, err)
		}
	}
	for what, name := range illegalNames {
		_, err := publish.ParseKey(name)
		refusedField(t, "key, "+what, err, publish.ErrInvalidKey, "key")
		_, err = publish.ParsePath(name)
		refusedField(t, "path, "+what, err, publish.ErrInvalidPath, "path")
	}
}

// TestDashSegment: "-" ends a key in a URL, so only a path may have such a segment.
func TestDashSegment(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"-", "-/a", "a/-", "a/-/b"} {
		_, err := publish.ParseKey(name)
		refusedField(t, name, err, publish.ErrInvalidKey, "key")
		if path, err := publish.ParsePath(name); err != nil || string(path) != name {
			t.Errorf("path %q: %q, %v", name, path, err)
		}
	}
}

func TestParsePrefix(t *testing.T) {
	t.Parallel()
	for _, prefix := range append([]string{"", "a/", "a/b/", "a/.", "a/..", ".", "-", "a/-", strings.Repeat("s", 200) + "/"}, legalNames...) {
		if got, err := publish.ParsePrefix(prefix); err != nil || got != prefix {
			t.Errorf("%q: %q, %v", prefix, got, err)
		}
	}
	for _, prefix := range []string{
		"/", "/a", "a//", "a//b", "./", "../", "a/../", "a/../b", "-/", "a/-/", "a/-/b", `a\`, "a\x00", "a\n", "a\u202e", "caf\xc3", "\ufffd",
		strings.Repeat("s", 201), strings.Repeat("s", 201) + "/", strings.Repeat("a/", 300),
	} {
		_, err := publish.ParsePrefix(prefix)
		refusedField(t, prefix, err, publish.ErrInvalidRequest, "prefix")
	}
}

// refusedField checks that err is of the kind, names the field, and tells how to cure it.
func refusedField(t *testing.T, what string, err error, code publish.Code, pointer string) {
	t.Helper()
	var refusal *publish.Error
	if !errors.As(err, &refusal) || refusal.Code != code || !errors.Is(err, code) {
		t.Errorf("%s: got %v, want %s", what, err, code)
		return
	}
	if len(refusal.Fields) != 1 || refusal.Fields[0].Pointer != pointer || refusal.Fields[0].Detail == "" {
		t.Errorf("%s: fields %+v, want one about %s", what, refusal.Fields, pointer)
	}
}

func addNames(f *testing.F) {
	f.Helper()
	for _, name := range legalNames {
		f.Add(name)
	}
	for _, name := range illegalNames {
		if len(name) < 1000 {
			f.Add(name)
		}
	}
}

// checkName says in other words than the parser what every accepted name is like.
func checkName(t *testing.T, name string) {
	t.Helper()
	if len(name) == 0 || len(name) > 400 || !utf8.ValidString(name) {
		t.Fatalf("%q was accepted", name)
	}
	for _, wrong := range []string{"\\", "//", "\u202e", "\ufffd", "\x7f", "/../", "/./"} {
		if strings.Contains("/"+name+"/", wrong) {
			t.Fatalf("%q with %q was accepted", name, wrong)
		}
	}
	if strings.ContainsFunc(name, unicode.IsControl) || strings.Trim(name, "/") != name {
		t.Fatalf("%q was accepted", name)
	}
	for segment := range strings.SplitSeq(name, "/") {
		if len(segment) > 200 {
			t.Fatalf("%q with a segment of %d bytes was accepted", name, len(segment))
		}
	}
}

// FuzzParseKey: an accepted key obeys the rule, is a path too, and each of its beginnings is a prefix for listings, as every
// page's end is.
func FuzzParseKey(f *testing.F) {
	addNames(f)
	f.Fuzz(func(t *testing.T, name string) {
		key, err := publish.ParseKey(name)
		if err != nil {
			return
		}
		checkName(t, name)
		if string(key) != name || strings.Contains("/"+name+"/", "/-/") {
			t.Fatalf("%q became %q", name, key)
		}
		if _, err := publish.ParsePath(name); err != nil {
			t.Fatalf("%q is a key but not a path: %v", name, err)
		}
		beginnings := []string{name, name + "/"} // A page of a listing may end with either.
		for i := range name {
			beginnings = append(beginnings, name[:i])
		}
		for _, prefix := range beginnings {
			if _, err := publish.ParsePrefix(prefix); err != nil {
				t.Fatalf("%q is a key but %q not a prefix: %v", name, prefix, err)
			}
		}
	})
}

// FuzzParsePath: an accepted path obeys the rule, and is a key too but for its "-" segments.
func FuzzParsePath(f *testing.F) {
	addNames(f)
	f.Fuzz(func(t *testing.T, name string) {
		path, err := publish.ParsePath(name)
		if err != nil {
			return
		}
		checkName(t, name)
		_, err = publish.ParseKey(name)
		if dash := strings.Contains("/"+name+"/", "/-/"); string(path) != name || dash == (err == nil) {
			t.Fatalf("%q became %q; as a key: %v", name, path, err)
		}
	})
}
