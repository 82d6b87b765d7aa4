package oidc

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/pawlhq/pawl/publish"
)

// ruleOf reads one rule.
func ruleOf(t testing.TB, text string) Rule {
	t.Helper()
	config, err := ParseConfig([]byte(`{"issuers": [{"issuer": "https://issuer.example", "audience": "pawl", "rules": [` + text + `]}]}`))
	if err != nil {
		t.Fatal(err)
	}
	return config.Issuers[0].Rules[0]
}

func claimsOf(t testing.TB, text string) Claims {
	t.Helper()
	tree, err := parseObject([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return Claims{tree: tree}
}

func TestRuleMatches(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		rule string // its claims
		fit  []string
		not  []string
	}{
		{
			rule: `{"repository": "acme/renders"}`,
			fit:  []string{`{"repository": "acme/renders"}`, `{"repository": "acme/renders", "x": 1}`, `{"repository": ["other", "acme/renders"]}`},
			not: []string{
				`{}`, `{"repository": "acme/renders2"}`, `{"repository": "acme/render"}`, `{"repository": "acme/Renders"}`, `{"repository": " acme/renders"}`, `{"repository": ""}`,
				`{"Repository": "acme/renders"}`, `{"repository": null}`, `{"repository": {"acme/renders": true}}`, `{"repository": [["acme/renders"]]}`, `{"repository": []}`,
			},
		},
		{
			rule: `{"ref": ["refs/heads/main", "refs/heads/release/*"]}`,
			fit:  []string{`{"ref": "refs/heads/main"}`, `{"ref": "refs/heads/release/1.2"}`, `{"ref": "refs/heads/release/*"}`},
			not:  []string{`{"ref": "refs/heads/release/"}`, `{"ref": "refs/heads/release"}`, `{"ref": "refs/heads/release/1/2"}`, `{"ref": "refs/heads/main/x"}`, `{"ref": "x/refs/heads/release/1"}`, `{"ref": "refs/heads/*"}`},
		},
		{
			rule: `{"repository": "acme/renders", "ref": "refs/heads/main"}`,
			fit:  []string{`{"repository": "acme/renders", "ref": "refs/heads/main"}`},
			not:  []string{`{"repository": "acme/renders"}`, `{"ref": "refs/heads/main"}`, `{"repository": "acme/renders", "ref": "refs/heads/other"}`},
		},
		{
			rule: `{"/kubernetes.io/namespace": "renders", "/kubernetes.io/serviceaccount/name": "worker"}`,
			fit:  []string{`{"kubernetes.io": {"namespace": "renders", "serviceaccount": {"name": "worker", "uid": "1"}}}`},
			not: []string{
				`{"kubernetes.io/namespace": "renders", "kubernetes.io/serviceaccount/name": "worker"}`, `{"kubernetes.io": "renders"}`,
				`{"kubernetes.io": {"namespace": "renders", "serviceaccount": "worker"}}`, `{"kubernetes.io": {"namespace": "renders", "serviceaccount": [{"name": "worker"}]}}`,
				`{"kubernetes": {"io": {"namespace": "renders", "serviceaccount": {"name": "worker"}}}}`, `{"/kubernetes.io/namespace": "renders", "/kubernetes.io/serviceaccount/name": "worker"}`,
			},
		},
		{
			rule: `{"/https:~1~1acme.example~1role/a~0b": "x"}`,
			fit:  []string{`{"https://acme.example/role": {"a~b": "x"}}`},
			not:  []string{`{"https://acme.example/role": "x"}`},
		},
		{
			rule: `{"https://acme.example/role": "render", "a.b": "c"}`,
			fit:  []string{`{"https://acme.example/role": "render", "a.b": "c"}`},
			not:  []string{`{"https://acme.example/role": "render", "a": {"b": "c"}}`},
		},
		{
			rule: `{"email_verified": true}`,
			fit:  []string{`{"email_verified": true}`, `{"email_verified": [true]}`},
			not:  []string{`{"email_verified": "true"}`, `{"email_verified": false}`, `{"email_verified": 1}`, `{}`},
		},
		{
			rule: `{"x": ["true", "1", "null"]}`,
			fit:  []string{`{"x": "true"}`, `{"x": "1"}`},
			not:  []string{`{"x": true}`, `{"x": 1}`, `{"x": null}`},
		},
	} {
		rule := ruleOf(t, `{"claims": `+test.rule+`, "name": "x", "scopes": ["read"]}`)
		for _, claims := range test.fit {
			if !rule.matches(claimsOf(t, claims)) {
				t.Errorf("%s doesn't fit %s", claims, test.rule)
			}
		}
		for _, claims := range test.not {
			if rule.matches(claimsOf(t, claims)) {
				t.Errorf("%s fits %s", claims, test.rule)
			}
		}
	}
	if (&Rule{}).matches(claimsOf(t, `{}`)) {
		t.Error("the zero rule fits")
	}
}

func TestRulesAddUp(t *testing.T) {
	t.Parallel()
	r := newRig(t, `[
		{"claims": {"repository": "other"}, "name": "zero", "scopes": ["admin"]},
		{"claims": {"repository": "acme/renders"}, "name": "one {sub}", "scopes": ["publish:renders/", "read"]},
		{"claims": {"repository": "acme/*"}, "name": "two", "scopes": ["read", "operate:tests/"]}]`)
	caller := r.good(r.token(map[string]any{"sub": "x"}))
	if diff := cmp.Diff([]string{"publish:renders/", "read", "operate:tests/"}, texts(caller.Scopes)); diff != "" || caller.Name != "one x" {
		t.Errorf("%q: %s", caller.Name, diff)
	}
}

func texts(scopes publish.Scopes) []string {
	var all []string
	for _, scope := range scopes {
		all = append(all, scope.String())
	}
	return all
}

func TestNames(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ name, claims, want string }{
		{"github", `{}`, "github"},
		{"{a}", `{"a": "x"}`, "x"},
		{"a {a}, b {/b/c}!", `{"a": "x", "b": {"c": "y"}}`, "a x, b y!"},
		{"{a} {b} {c} {d} {e}", `{"a": 7, "b": true, "c": null, "d": [1], "e": {}}`, "7 true ? ? ?"},
		{"{a}", `{}`, "?"},
		{"{a}", `{"a": ""}`, "?"},
		{"{a}", `{"a": "{b}", "b": "no"}`, "{b}"},
		{"by {a}", `{"a": "m\u200bi\ufeffa\u00ad\ufe0f\u115f\u00a0x"}`, "by m?i?a????x"},
		{"by {a}", `{"a": "x\r\nlevel=error\u0000\u202e\u2028\ufffd\u007f"}`, "by x??level=error?????"},
		{"{a}", `{"a": "  x  "}`, "x"},
		{"{a}", `{"a": "` + strings.Repeat("é", 60) + `"}`, strings.Repeat("é", 50)},
		{"x{a}", `{"a": "` + strings.Repeat("é", 60) + `"}`, "x" + strings.Repeat("é", 49)},
	} {
		name, err := json.Marshal(test.name)
		if err != nil {
			t.Fatal(err)
		}
		rule := ruleOf(t, `{"claims": {"x": "x"}, "name": `+string(name)+`, "scopes": ["read"]}`)
		if got := rule.nameOf(claimsOf(t, test.claims)); got != test.want {
			t.Errorf("%s of %s is %q, want %q", test.name, test.claims, got, test.want)
		}
	}
}

// FuzzMapping: whatever rules and claims are, a token gets no more than the scopes of rules that fit it, and a name that is fit for a log.
func FuzzMapping(f *testing.F) {
	f.Add(`{"repository": "acme/*", "/a/b": [true, "x"]}`, "github {repository} {/a/b}", `{"repository": "acme/renders", "a": {"b": "x"}}`)
	f.Add(`{"a": "b"}`, "{sub}", `{"a": ["b", 1, null, {}], "sub": "\u202e"}`)
	f.Add(`{"/~1~0/x": "b"}`, "{/~1~0/x}", `{"/~": {"x": "b"}}`)
	f.Fuzz(func(t *testing.T, ruleClaims, name, tokenClaims string) {
		quoted, err := json.Marshal(name)
		if err != nil {
			return
		}
		config, err := ParseConfig([]byte(`{"issuers": [{"issuer": "https://issuer.example", "audience": "pawl", "rules": [
			{"claims": ` + ruleClaims + `, "name": ` + string(quoted) + `, "scopes": ["publish:renders/"]}]}]}`))
		if err != nil {
			return
		}
		tree, err := parseObject([]byte(tokenClaims))
		if err != nil {
			return
		}
		// What is accepted means the same to encoding/json.
		var plain map[string]any
		if err := json.Unmarshal([]byte(tokenClaims), &plain); err != nil || len(plain) != len(tree) {
			t.Fatalf("%q was read as %v, by encoding/json as %v, %v", tokenClaims, tree, plain, err)
		}
		rules := config.Issuers[0].Rules
		got, scopes, ok := apply(rules, Claims{tree: tree})
		if !ok {
			if got != "" || scopes != nil {
				t.Fatalf("nothing fits, and gives %q, %v", got, scopes)
			}
			return
		}
		if !slices.Equal(texts(scopes), []string{"publish:renders/"}) && len(rules) == 1 {
			t.Fatalf("got %v", scopes)
		}
		if got == "" || len(got) > MaxNameBytes || !utf8.ValidString(got) || cleanName(got) != got {
			t.Fatalf("the name is %q", got)
		}
		for _, test := range rules[0].claims {
			if _, found := (Claims{tree: tree}).at(test.path); !found && len(rules) == 1 {
				t.Fatalf("the token lacks %q", test.claim)
			}
		}
	})
}

// FuzzToken: no bearer text breaks the reader, and none is repeated by its errors.
func FuzzToken(f *testing.F) {
	f.Add(encode(`{"alg":"ES256","kid":"k"}`) + "." + encode(`{"iss":"https://issuer.example"}`) + ".AAAA")
	f.Add("a.b.c")
	f.Add(encode(`{"alg":"none"}`) + "." + encode(`{}`) + ".")
	f.Fuzz(func(t *testing.T, text string) {
		seen, err := look(text)
		if err != nil {
			if !slices.Contains([]error{errTokenSize, errTokenForm, errTokenHeader, errTokenAlgorithm}, err) {
				t.Fatalf("%v", err)
			}
			return
		}
		if !slices.Contains(algorithms, seen.algorithm) || len(text) > MaxTokenBytes || strings.Trim(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.") != "" {
			t.Fatalf("%+v was accepted", seen)
		}
	})
}
