package web_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/pawlhq/pawl/publish"
	"github.com/pawlhq/pawl/web"
)

// TestHistoryTellsWhoseCredential: a worker calls itself what it likes, and beside that stands whose credential it had, for everybody who may read the key, and its
// address for admins of the key. Those who read it because it is public are told neither.
func TestHistoryTellsWhoseCredential(t *testing.T) {
	t.Parallel()
	r, known := newAuthRig(t, web.Options{PublicRead: publish.ReachOf("open")})
	farm, boss := known.issue(t, "render farm", "publish"), known.issue(t, "boss", "admin")
	late := r.grantTo(farm, "open")
	late.put("f", "x", farm...).want(201)
	r.pointers.Expire("open")
	w := r.grantTo(farm, "open")
	w.put("f", "x", farm...).want(201)
	if receipt := w.publish("", farm...).want(200).json(); receipt["publisher"] != "test" || receipt["credential"] != "render farm" || receipt["from"] != nil {
		t.Errorf("the publisher's receipt: %v", receipt)
	}
	late.publish("", farm...).wantProblem(publish.ErrStaleToken)
	rolled := r.with(boss, "POST", "/v1/keys/open/-/rollback", `{"to":"2.1","reason":"r","break_lease":true}`).want(200).json()
	if rolled["credential"] != "boss" || rolled["from"] != "127.0.0.1" {
		t.Errorf("the receipt of a rollback: %v", rolled)
	}
	for _, test := range []struct {
		name             string
		caller           []string
		names, addresses bool
	}{
		{"nobody", nil, false, false},
		{"admin of other keys", known.issue(t, "a", "admin:other/"), false, false},
		{"reader", known.issue(t, "b", "read:open"), true, false},
		{"worker", known.issue(t, "e", "publish:open"), true, false},
		{"admin", boss, true, true},
		{"admin of the key", known.issue(t, "c", "admin:open"), true, true},
		{"reader who is an admin of others", known.issue(t, "d", "admin:other/,read:open"), true, false},
	} {
		for target, told := range map[string]int{ // How many actors it tells of.
			"/v1/keys/open/-/generations":     6,
			"/v1/keys/open/-/generations/1":   2,
			"/v1/keys/open/-/generations/2":   2,
			"/v1/rejections":                  1,
			"/v1/rejections?format=csv":       1,
			"/k/open/-/history":               5, // A rollback is told once.
			"/k/open/-/history?before=2":      2,
			"/k/open/-/generations/1":         2,
			"/k/open/-/generations/2":         2,
			"/k/open/-/compare?a=2.1&b=3.1":   2,
			"/rejections":                     1,
			"/k/open":                         0,
			"/v1/keys/open":                   0,
			"/v1/keys":                        0,
			"/v1/leases?expired=true":         0,
			"/v1/keys/open/-/lease":           0,
			"/v1/keys/open/-/generations?x=1": 0, // It is refused.
		} {
			accept := "*/*"
			if !strings.HasPrefix(target, "/v1/") {
				accept = "text/html"
			}
			got := r.call("GET", target, "", slices.Concat(test.caller, []string{"Accept", accept})...).body
			if names := strings.Contains(got, "render farm"); names != (test.names && told > 0) {
				t.Errorf("%s, %s: names are told: %t: %s", test.name, target, names, got)
			}
			want := 0
			if test.addresses {
				want = told
			}
			if addresses := strings.Count(got, "127.0.0.1") - strings.Count(got, "//127.0.0.1"); addresses != want {
				t.Errorf("%s, %s: addresses are told %d times, want %d: %s", test.name, target, addresses, want, got)
			}
		}
	}
}

// Who is about to break a lease sees whose it is, on the page of the key and in the form. Who reads the key because it is public doesn't.
func TestKeyPageTellsWhoseLease(t *testing.T) {
	t.Parallel()
	r, known := newAuthRig(t, web.Options{PublicRead: publish.ReachOf("open")})
	farm, boss := known.issue(t, "render farm", "publish"), known.issue(t, "boss", "admin")
	r.grantTo(farm, "open")
	const told = "<bdi>test</bdi> as <bdi>render farm</bdi> from 127.0.0.1 "
	r.with(boss, "GET", "/k/open", "").want(200).shows(told+"has token 1", told+"holds the key")
	r.with(boss, "GET", "/k/open/-/break-lease", "").want(200).shows(told + "holds the key")
	r.with(farm, "GET", "/k/open", "").want(200).shows("<bdi>test</bdi> as <bdi>render farm</bdi> has token 1")
	r.call("GET", "/k/open", "").want(200).shows("<bdi>test</bdi> has token 1")
	r.pointers.Expire("open")
	r.with(farm, "GET", "/k/open", "").want(200).shows("<bdi>test</bdi> as <bdi>render farm</bdi> had token 1")
}
