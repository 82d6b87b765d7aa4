package publish

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// Case 49, in the domain.
func TestCase49ScopesEndAtSegments(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		scope     string
		in, notIn []Key
	}{
		{"read:team-a/", []Key{"team-a/x", "team-a/x/y", "team-a/-x"}, []Key{"team-a", "team-ab/x", "TEAM-A/x", "team-a/../team-b", "team-b/x", "team-a!/x", "team-", "team-a0"}},
		{"read:team-a", []Key{"team-a", "team-a/x"}, []Key{"team-ab", "team-a!", "team-a /x", "team-a0", "team"}},
		{"read:a_b/", []Key{"a_b/x"}, []Key{"axb/x", "a%b/x"}},
		{"read:a%/", []Key{"a%/x"}, []Key{"ab/x", "a/x"}},
		{"read", []Key{"a", "\U0010ffff/x"}, nil},
	} {
		scopes, err := ParseScopes(c.scope)
		if err != nil {
			t.Fatal(err)
		}
		for _, key := range c.in {
			if !scopes.Allow(VerbRead, key) || scopes.Allow(VerbPublish, key) {
				t.Errorf("%s: %s can't be read, or published", c.scope, key)
			}
		}
		for _, key := range c.notIn {
			if _, err := ParseKey(string(key)); err == nil && scopes.Allow(VerbRead, key) {
				t.Errorf("%s allows %s", c.scope, key)
			}
		}
	}
}

func TestParseScope(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "none", "none:a/", "write", "read:", "read:/", "read:a//", "read:../a", "read:a/-/", "Read", "read:a\x00", "read :a", "publish:" + strings.Repeat("a", 500)} {
		if scope, err := ParseScope(text); err == nil || !strings.Contains(err.Error(), "scopes") {
			t.Errorf("%q: %v, %v", text, scope, err)
		}
	}
	if scopes, err := ParseScopes("read, publish:a/,admin:b"); err != nil || len(scopes) != 3 || scopes[1] != (Scope{VerbPublish, "a/"}) || scopes[2].String() != "admin:b" {
		t.Errorf("%v, %v", scopes, err)
	}
}

// What is printed is what was given, and nothing else would be printed so: keys may contain commas, quotes and spaces.
func TestScopesRoundTrip(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]Scopes{
		`publish:a/,read`:                     {{VerbPublish, "a/"}, {VerbRead, ""}},
		`"publish:a/,read"`:                   {{VerbPublish, "a/,read"}},
		`read:a,"publish:b,\"c\" /",admin:é/`: {{VerbRead, "a"}, {VerbPublish, `b,"c" /`}, {VerbAdmin, "é/"}},
		`"read: a ","read:a\u00a0"`:           {{VerbRead, " a "}, {VerbRead, "a\u00a0"}},
	} {
		if got := want.String(); got != text {
			t.Errorf("%#v is printed as %s, want %s", want, got, text)
		}
		if got, err := ParseScopes(text); err != nil || !slices.Equal(got, want) {
			t.Errorf("%s is read as %#v, %v", text, got, err)
		}
	}
	for _, text := range []string{`"read" "read"`, `"read:a,b`, `read,`, `"read",`, `'r'`, "`read`", `""`, `"read:a\x00"`, `"none"`} {
		if scopes, err := ParseScopes(text); err == nil || !strings.Contains(err.Error(), "scopes") {
			t.Errorf("%q: %v, %v", text, scopes, err)
		}
	}
}

// A Reach, its ranges for Postgres, and what a scope means say the same of every key.
func TestReach(t *testing.T) {
	t.Parallel()
	name := rapid.SampledFrom([]string{"a", "a/b", "a/b/c", "a!", "a0", "ab", "b", "b/a", "a /x", "é", "a/b0"})
	scope := rapid.Custom(func(t *rapid.T) Scope {
		prefix := name.Draw(t, "name") + rapid.SampledFrom([]string{"", "/"}).Draw(t, "slash")
		return Scope{Verb: rapid.SampledFrom([]Verb{VerbRead, VerbAdmin}).Draw(t, "verb"), Prefix: prefix}
	})
	rapid.Check(t, func(t *rapid.T) {
		scopes := Scopes(rapid.SliceOfN(scope, 0, 5).Draw(t, "scopes"))
		key := name.Draw(t, "key")
		want := func(verb Verb) bool {
			return slices.ContainsFunc(scopes, func(s Scope) bool {
				return s.Verb >= verb && (key == s.Prefix || strings.HasPrefix(key, strings.TrimSuffix(s.Prefix, "/")+"/"))
			})
		}
		for _, verb := range []Verb{VerbRead, VerbAdmin} {
			reach := scopes.Reach(verb)
			from, to := reach.Spans()
			inRange := false
			for i := range from {
				inRange = inRange || from[i] <= key && (to[i] == "" || key < to[i])
				if i > 0 && from[i] <= to[i-1] {
					t.Fatalf("%v: ranges touch: %q %q", scopes, from, to)
				}
			}
			if got := reach.Has(Key(key)); got != want(verb) || inRange != got {
				t.Fatalf("%v has %q: %v, by ranges %v; want %v", scopes, key, got, inRange, want(verb))
			}
		}
		if !scopes.Within(scopes.Reach(VerbRead)) || len(scopes) > 0 && scopes.Within(Reach{}) {
			t.Fatalf("%v isn't within itself, or is within nothing", scopes)
		}
	})
	if !ReachOf("", "a").All() || !Everything.All() || ReachOf("a").All() || !(Reach{}).Empty() || !ReachOf("a").Or(Everything).All() {
		t.Error("All or Empty is wrong")
	}
}
