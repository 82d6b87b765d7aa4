package oidc

import (
	"errors"
	"maps"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/pawlhq/pawl/publish"
)

// Config is whose tokens are accepted and what they allow.
type Config struct {
	Issuers []IssuerConfig
}

// IssuerConfig is one issuer.
type IssuerConfig struct {
	// Issuer is its URL, byte for byte as the claim iss of its tokens has it.
	Issuer string
	// Audience must be in the claim aud of a workload's token: what the token was asked for. It is "" of an issuer for people alone.
	Audience string
	// CAFile is a PEM file of the only authorities that the issuer's certificate may be of; "" is those of the system.
	CAFile string
	// Rules say what tokens of workloads allow. All that match add up.
	Rules []Rule
	// SignIn is how people sign in by it on the pages; nil is not at all.
	SignIn *SignInConfig
}

// ParseConfig reads the JSON text of a configuration. Errors name the wrong member by a JSON pointer, and the cure.
//
//	{"issuers": [{
//	  "issuer": "https://token.actions.githubusercontent.com",
//	  "audience": "pawl",
//	  "rules": [{
//	    "claims": {"repository": "acme/renders", "ref": ["refs/heads/main", "refs/heads/release/*"]},
//	    "name": "github {repository}",
//	    "scopes": ["publish:renders/"]
//	  }]
//	}]}
func ParseConfig(text []byte) (Config, error) {
	tree, err := parseObject(text)
	if err != nil {
		return Config{}, err
	}
	top := reader{tree: tree}
	var config Config
	for _, each := range top.objects("issuers") {
		issuer := each.issuer()
		if slices.ContainsFunc(config.Issuers, func(other IssuerConfig) bool { return other.Issuer == issuer.Issuer }) {
			each.fail("issuer", "stands twice; put all rules of an issuer into one")
		}
		config.Issuers = append(config.Issuers, issuer)
		top.take(each)
	}
	top.end()
	return config, top.fault
}

func (r *reader) issuer() IssuerConfig {
	issuer := IssuerConfig{Issuer: r.text("issuer")}
	if people := !r.has("audience") && !r.has("rules") && r.has("sign_in"); !people {
		issuer.Audience = r.text("audience")
		issuer.Rules = r.rules(issuer.Issuer, shared)
	}
	if r.has("ca_file") {
		issuer.CAFile = r.text("ca_file")
	}
	if err := checkIssuer(issuer.Issuer); err != nil {
		r.fail("issuer", "%v", err)
	}
	if r.has("sign_in") {
		part := r.object("sign_in")
		issuer.SignIn = part.signIn(issuer)
		r.take(part)
	}
	r.end()
	return issuer
}

// rules reads the rules of an issuer. limits are, for issuers that serve everybody, the claims of which each rule must name one.
func (r *reader) rules(issuer string, limits map[string][]string) (rules []Rule) {
	for _, each := range r.objects("rules") {
		rules = append(rules, each.rule(issuer, limits[issuer]))
		r.take(each)
	}
	return rules
}

func (r *reader) rule(issuer string, limits []string) Rule {
	rule := Rule{name: r.text("name")}
	for _, text := range r.texts("scopes") {
		scope, err := publish.ParseScope(text.value)
		if refusal, isRefusal := errors.AsType[*publish.Error](err); isRefusal {
			r.failAt(text.at, "%s", refusal.Fields[0].Detail)
		}
		rule.scopes = append(rule.scopes, scope)
	}
	if err := rule.checkName(); err != nil {
		r.fail("name", "%v", err)
	}
	claims := r.object("claims")
	for _, name := range slices.Sorted(maps.Keys(claims.tree)) {
		claims.claim(&rule, name)
	}
	r.take(claims)
	if len(rule.claims) == 0 {
		r.fail("claims", "is empty, and would let in whoever has a token of this issuer; name claims that only those have who are meant")
	}
	if limits != nil && !slices.ContainsFunc(rule.claims, func(t claimTest) bool { return slices.Contains(limits, t.claim) }) {
		r.fail("claims", "says nothing of who is meant, and %s gives tokens to everybody; add one of %s", issuer, strings.Join(limits, ", "))
	}
	r.end()
	return rule
}

func (r *reader) claim(rule *Rule, name string) {
	path, err := claimPath(name)
	if err != nil {
		r.fail(name, "%v", err)
	}
	test := claimTest{claim: name, path: path}
	values, isList := r.tree[name].([]any)
	if !isList {
		values = []any{r.tree[name]}
	}
	for _, value := range values {
		want, err := parseWanted(value)
		if err != nil {
			r.fail(name, "%v", err)
		}
		test.anyOf = append(test.anyOf, want)
	}
	if len(values) == 0 {
		r.fail(name, "is an empty list, which no token matches; give the values that are allowed")
	}
	rule.claims = append(rule.claims, test)
}

// shared is, for issuers whose tokens anybody in the world can get, the claims of which a rule must name one, since they say whose a workload is. Others, such as
// the name of a branch, or the workflow that is called, strangers can have too.
var shared = map[string][]string{
	"https://token.actions.githubusercontent.com": {"repository", "repository_id", "repository_owner", "repository_owner_id", "sub", "enterprise", "enterprise_id"},
	"https://gitlab.com":                          {"project_path", "project_id", "namespace_path", "namespace_id", "sub"},
	"https://accounts.google.com":                 {"sub", "email", "hd"},
}

// checkIssuer says what is wrong with the URL of an issuer.
func checkIssuer(text string) error {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Host == "" || u.Opaque != "":
		return errors.New("must be the URL of an issuer, as the claim iss of its tokens has it, e.g. https://token.actions.githubusercontent.com")
	case u.Scheme != "https" && !plain(u):
		return errors.New("must begin with https://, since whoever is on the way to its keys could make tokens; http:// is for loopback addresses alone")
	case u.User != nil || u.RawQuery != "" || u.ForceQuery || strings.Contains(text, "#"):
		return errors.New("must hold no user, query or fragment")
	}
	return nil
}

// plain reports whether a URL is of http on a loopback address, which nobody can listen to on the way.
func plain(u *url.URL) bool {
	ip, err := netip.ParseAddr(u.Hostname())
	return u.Scheme == "http" && (u.Hostname() == "localhost" || err == nil && ip.IsLoopback())
}
