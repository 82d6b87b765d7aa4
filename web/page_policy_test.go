package web_test

import (
	"net/netip"
	"regexp"
	"strings"
	"testing"

	"github.com/pawlhq/pawl/publish"
	"github.com/pawlhq/pawl/web"
)

// TestPagePolicyWithStore lets pages show files from the store that readers are sent to, and nothing else from there.
func TestPagePolicyWithStore(t *testing.T) {
	t.Parallel()
	const store = "https://files.example:8443"
	r := newRig(t, web.Options{StoreOrigin: store})
	policy := r.call("GET", "/", "").want(200).header.Get("Content-Security-Policy")
	for directive := range strings.SplitSeq(policy, "; ") {
		name, sources, _ := strings.Cut(directive, " ")
		switch name {
		case "img-src", "media-src", "frame-src", "connect-src":
			if sources != "'self' "+store {
				t.Errorf("%s is %q", name, sources)
			}
		default:
			if strings.Contains(sources, store) {
				t.Errorf("%s is %q", name, sources)
			}
		}
	}
	for _, wrong := range []string{"files.example", "https://files.example/", "https://*", "https://a b", "https://a;script-src 'unsafe-inline'", "https://a,b", "*", "data:"} {
		if _, err := web.New(&publish.Service{}, web.Options{StoreOrigin: wrong}); err == nil {
			t.Errorf("%q was taken for an origin", wrong)
		}
	}
}

// A page runs its own scripts alone, whatever lies on this server besides: each has the nonce of the page, which no other page has.
func TestPagePolicy(t *testing.T) {
	t.Parallel()
	r := newRig(t, web.Options{})
	r.published("k", "a.js", "alert(1)")
	nonces := map[string]bool{}
	policy := regexp.MustCompile(`^default-src 'none'; style-src 'nonce-([A-Z2-7]{26,})'; script-src 'nonce-([A-Z2-7]{26,})'; ` +
		`img-src 'self'; media-src 'self'; frame-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'$`)
	element := regexp.MustCompile(`<(?:script|link rel="stylesheet")[^>]*>`)
	own := regexp.MustCompile(`nonce="([A-Z2-7]+)" (?:src|href)="/static/`)
	pages := []string{"/", "/", "/k/k", "/k/k/-/generations/1", "/k/k/-/history", "/k/k/-/compare", "/upload", "/problems/stale-token", "/k/nothing"}
	for _, page := range pages {
		got := r.call("GET", page, "", "Accept", "text/html")
		match := policy.FindStringSubmatch(got.header.Get("Content-Security-Policy"))
		if match == nil || match[1] != match[2] || nonces[match[1]] {
			t.Errorf("%s has the policy %q", page, got.header.Get("Content-Security-Policy"))
			continue
		}
		nonces[match[1]] = true
		elements := element.FindAllString(got.body, -1)
		if len(elements) < 2 {
			t.Errorf("%s has no style or script: %q", page, elements)
		}
		for _, e := range elements {
			if in := own.FindStringSubmatch(e); in == nil || in[1] != match[1] {
				t.Errorf("%s: %s hasn't the nonce %s", page, e, match[1])
			}
		}
		if strings.Count(got.body, match[1]) != len(elements) {
			t.Errorf("%s: the nonce stands elsewhere too", page)
		}
	}
}

// Browsers are told to come by TLS again, when they did: to this server, or to a proxy that is trusted.
func TestTransportIsRemembered(t *testing.T) {
	t.Parallel()
	const proto, header = "X-Forwarded-Proto", "Strict-Transport-Security"
	plain, behind := newRig(t, web.Options{}), newRig(t, web.Options{TrustedProxies: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}})
	for _, test := range []struct {
		r    *rig
		told []string
		want string
	}{
		{plain, nil, ""},
		{plain, []string{proto, "https"}, ""},
		{behind, nil, ""},
		{behind, []string{proto, "http"}, ""},
		{behind, []string{proto, "https"}, "max-age=31536000"},
		{behind, []string{proto, "http, HTTPS"}, "max-age=31536000"},
		{behind, []string{proto, "https", proto, "http"}, ""}, // a client's word, and then the proxy's
	} {
		for _, target := range []string{"/", "/v1/keys", "/static/style.css", "/nothing"} {
			if got := test.r.call("GET", target, "", test.told...).header.Get(header); got != test.want {
				t.Errorf("%s with %q: %s is %q", target, test.told, header, got)
			}
		}
	}
}
