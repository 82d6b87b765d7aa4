package web_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/pawlhq/pawl/publish"
	"github.com/pawlhq/pawl/web"
)

// Case 49: whoever may read some keys sees them in every list, feed, page, export and stream, and no other one, however much its name is like theirs, nor
// anything that is of others alone.
func TestCase49ListsShowWhatTheCallerMayRead(t *testing.T) {
	t.Parallel()
	r, known := newAuthRig(t, web.Options{PublicRead: publish.ReachOf("press/")})
	r.runEvents()
	admin := known.issue(t, "root", "admin")
	names := []string{"team-a/k1x", "team-a/y/k2x", "team-ab/k3x", "TEAM-A/k4x", "team-a!/k5x", "team-/k6x", "teamXa/k7x", "team-b/k8x", "press/k9x"}
	for _, name := range names {
		late := r.publishedBy(admin, name, "bytes")
		r.publishedBy(admin, name, "other bytes")
		r.with(admin, "PUT", late.generation()+"/files/late", "late", "Pawl-Lease", late.lease).wantProblem(publish.ErrStaleToken)
		r.with(admin, "POST", "/v1/keys/"+name+"/-/lease", `{"holder":"holder of `+name+`","ttl":"1h"}`).want(201)
		r.with(admin, "PUT", "/v1/keys/"+name+"/-/pin", `{"reason":"reason of `+name+`"}`).want(200)
		r.with(admin, "DELETE", "/v1/keys/"+name+"/-/pin", "").want(204)
		r.with(admin, "PUT", "/v1/policies?prefix="+name+"/policy", `{"fence_mode":"granted"}`).want(200)
		r.with(admin, "POST", "/v1/credentials", `{"name":"credential `+mark(name)+`","scopes":["read:`+name+`"]}`).want(201)
	}
	const each = 5 // Two publishes, a rejection, a pin and its end.
	await(t, func() bool {
		return strings.Contains(r.with(admin, "GET", "/v1/events?before=newest&limit=1", "").body, fmt.Sprintf(`"0-%d"`, each*len(names)))
	})
	for _, test := range []struct {
		name, scopes string
		sees         []string
	}{
		{"below", "read:team-a/", []string{"team-a/k1x", "team-a/y/k2x", "press/k9x"}},
		{"one", "read:team-a/y/k2x", []string{"team-a/y/k2x", "press/k9x"}},
		{"two", "publish:team-ab/,read:TEAM-A", []string{"team-ab/k3x", "TEAM-A/k4x", "press/k9x"}},
		{"wildcards", "read:team-_/,read:%,read:*", []string{"press/k9x"}},
		{"all", "read", names},
		{"admin", "admin:team-a,read:team-b/", []string{"team-a/k1x", "team-a/y/k2x", "team-b/k8x", "press/k9x"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			caller := known.issue(t, test.name, test.scopes)
			for target, all := range map[string]bool{ // whether it shows all keys that it may
				"/v1/keys?limit=1000":                    true,
				"/v1/keys?prefix=team-a&limit=1000":      false,
				"/v1/keys?prefix=&delimiter=/":           false,
				"/v1/leases?expired=true":                true,
				"/v1/leases?format=csv":                  true,
				"/v1/rejections":                         false,
				"/v1/rejections?format=csv":              false,
				"/v1/events?after=0-0&limit=1000":        true,
				"/v1/events?before=newest&limit=1000":    true,
				"/v1/events?after=0-0&wait=1s":           false,
				"/v1/events?format=csv":                  true,
				"/v1/policies?limit=1000":                false,
				"/?q=x":                                  false,
				"/?sort=age":                             true,
				"/?sort=-name":                           true,
				"/?sort=rejections":                      true,
				"/?leased=true&sort=publisher":           true,
				"/":                                      false,
				"/b/team-a/":                             false,
				"/activity":                              false,
				"/leases":                                true,
				"/rejections":                            false,
				"/policies":                              false,
				"/v1/keys?after=team-a/w&limit=1":        false,
				"/v1/keys?after=TEAM-A/a&limit=1":        false,
				"/v1/events?after=0-0&limit=1":           false,
				"/v1/events?prefix=team-&before=newest":  false,
				"/v1/leases?prefix=t&limit=1":            false,
				"/v1/keys?prefix=team-&delimiter=/":      false,
				"/v1/rejections?prefix=team&limit=1000":  false,
				"/v1/leases?prefix=TEAM-A/&expired=true": false,
			} {
				got := r.with(caller, "GET", target, "", "Accept", map[bool]string{true: "application/json", false: "text/html"}[strings.HasPrefix(target, "/v1/")])
				showsOnly(t, target, got.want(200).body, names, test.sees, all)
			}
			var keys []string
			for _, name := range names {
				keys = append(keys, `"`+name+`"`)
			}
			resolved := r.with(caller, "POST", "/v1/resolve", `{"keys":[`+strings.Join(keys, ",")+`]}`).want(200).body
			for _, name := range names {
				absent := strings.Contains(resolved, `{"key":"`+name+`","found":false,"url":null}`)
				if absent == slices.Contains(test.sees, name) {
					t.Errorf("%s resolves to %s", name, resolved)
				}
			}
			if strings.HasPrefix(test.scopes, "admin") {
				audit := r.with(caller, "GET", "/v1/audit?limit=1000", "").want(200).body
				administers := []string{"team-a/k1x", "team-a/y/k2x"}
				showsOnly(t, "/v1/audit", audit, names, administers, true)
				if got := strings.Count(audit, "create-credential"); got != len(administers) {
					t.Errorf("%d credentials in the audit, want %d: %s", got, len(administers), audit)
				}
				showsOnly(t, "/v1/credentials", r.with(caller, "GET", "/v1/credentials", "").want(200).body, names, administers, true)
			}
		})
	}
	t.Run("anybody", func(t *testing.T) {
		t.Parallel()
		for _, target := range []string{"/v1/keys", "/v1/leases", "/v1/events?after=0-0", "/v1/rejections", "/", "/activity", "/leases"} {
			showsOnly(t, target, r.call("GET", target, "").want(200).body, names, []string{"press/k9x"}, false)
		}
	})
}

// mark is the part of a name that is in no other one, and in nothing else of an answer.
func mark(name string) string { return name[strings.LastIndexByte(name, '/')+1:] }

// showsOnly fails when an answer has a key that it mustn't have, or lacks one that it must.
func showsOnly(t *testing.T, what, body string, names, sees []string, all bool) {
	t.Helper()
	for _, name := range names {
		found := strings.Contains(body, mark(name))
		switch may := slices.Contains(sees, name); {
		case found && !may:
			t.Errorf("%s shows %s: %s", what, name, body)
		case !found && may && all:
			t.Errorf("%s doesn't show %s: %s", what, name, body)
		}
	}
}

// A stream tells of the keys that its caller may read, both those of before and those that come.
func TestEventStreamsShowWhatTheCallerMayRead(t *testing.T) {
	t.Parallel()
	r, known := newAuthRig(t, web.Options{})
	r.runEvents()
	admin := known.issue(t, "root", "admin")
	publishAll := func() {
		for _, name := range []string{"team-ab/x", "TEAM-A/x", "team-a", "team-a/x"} {
			r.publishedBy(admin, name, "bytes")
		}
	}
	publishAll()
	s := r.open("/v1/events?after=0-0", known.issue(t, "narrow", "read:team-a/")...)
	if got := s.events(1)[0]; got != "0-4" {
		t.Errorf("of what was before it is told of %s", got)
	}
	publishAll()
	if got := s.events(1)[0]; got != "0-8" {
		t.Errorf("of what comes it is told of %s", got)
	}
}
