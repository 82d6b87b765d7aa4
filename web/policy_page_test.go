package web_test

import (
	"html"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/pawlhq/pawl/publish"
	"github.com/pawlhq/pawl/web"
)

// People see, set and remove policies on a page; what they do is in the audit.
func TestPolicyPage(t *testing.T) {
	t.Parallel()
	r := newRig(t, web.Options{})
	const formType = "application/x-www-form-urlencoded"
	send := func(fields url.Values, headers ...string) answer {
		t.Helper()
		return r.call("POST", "/policies", fields.Encode(), append([]string{"Content-Type", formType}, headers...)...)
	}
	if page := r.call("GET", "/policies", "").want(200); !strings.Contains(page.body, "No policy is set") {
		t.Errorf("an empty page is %s", page.body)
	}
	if home := r.call("GET", "/", "").want(200); !strings.Contains(home.body, `href="/policies"`) {
		t.Errorf("the list of keys doesn't lead to the policies: %s", home.body)
	}

	const odd = `a<b>/"c"`
	set := url.Values{"prefix": {odd}, "fence_mode": {"granted"}, "keep_generations": {"3"}, "keep_for": {"720h"}, "max_ttl": {""}, "by": {"mia"}}
	if got := send(set).want(303); got.header.Get("Location") != "/policies" {
		t.Errorf("it leads to %q", got.header.Get("Location"))
	}
	send(url.Values{"prefix": {""}, "fence_mode": {"accepted"}, "max_file_bytes": {"1000"}}).want(303)
	page := r.call("GET", "/policies", "").want(200)
	for _, want := range []string{"<bdi>" + html.EscapeString(odd) + "</bdi>", "granted", ">3<", "720h0m0s", "all keys", ">1000<"} {
		if !strings.Contains(page.body, want) {
			t.Errorf("%q is missing in %s", want, page.body)
		}
	}
	if audit := r.call("GET", "/v1/audit", "").want(200); !strings.Contains(audit.body, `"by":"mia"`) || !strings.Contains(audit.body, `"by":"page"`) {
		t.Errorf("the audit is %s", audit.body)
	}

	// What is refused is said beside what was typed, and nothing has changed.
	for field, bad := range map[string]string{
		"keep_generations": "0", "max_file_bytes": "much", "max_generation_bytes": "-1", "keep_for": "10 days", "keep_unpublished_for": "1ms",
		"max_ttl": "0s", "fence_mode": "strict", "prefix": "x/", "by": "a\nb",
	} {
		typed := url.Values{"prefix": {"typed"}, "fence_mode": {"granted"}}
		typed.Set(field, bad)
		got := send(typed).want(400)
		alert := regexp.MustCompile(`role="alert"><bdi>([^<]*)`).FindStringSubmatch(got.body)
		if alert == nil || field != "by" && !strings.Contains(alert[1], field) {
			t.Errorf("%s=%q: the page says %q", field, bad, alert)
		}
		if field != "prefix" && !strings.Contains(got.body, `value="typed"`) || got.header.Get("Content-Security-Policy") == "" {
			t.Errorf("%s=%q: what was typed is lost, or the page isn't one of ours: %s", field, bad, got.body)
		}
	}
	send(url.Values{"prefix": {"x"}, "shape": {"round"}}).wantProblem(publish.ErrInvalidRequest)
	send(url.Values{"prefix": {"x", "y"}}).wantProblem(publish.ErrInvalidRequest)
	r.call("POST", "/policies", `{"prefix":"x"}`, "Content-Type", "application/json").wantProblem(publish.ErrInvalidRequest)
	r.call("POST", "/policies?prefix=x", "", "Content-Type", formType).wantProblem(publish.ErrInvalidRequest)
	send(set, "Sec-Fetch-Site", "cross-site").wantProblem(publish.ErrForbidden)
	if list := r.call("GET", "/v1/policies", "").want(200); strings.Count(list.body, `"prefix"`) != 2 {
		t.Errorf("the policies are %s", list.body)
	}

	send(url.Values{"remove": {odd}}).want(303)
	send(url.Values{"remove": {""}}).want(303)
	if list := r.call("GET", "/v1/policies", "").want(200); list.body != `{"policies":[]}`+"\n" {
		t.Errorf("after the removal the policies are %s", list.body)
	}
}
