package web_test

import (
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/pawlhq/pawl/publish"
	"github.com/pawlhq/pawl/web"
)

// staleCases says for each route that changes something what it answers to a worker whose token was fenced: token 1 of
// a key on which token 2 has published. A route that is added without an entry fails the test.
var staleCases = map[string]struct {
	body string
	code publish.Code // "" means that the route is harmless then, with the status below
	want int
	// operator routes are no worker's: they refuse to be sent a lease.
	operator bool
}{
	"POST /v1/keys/{key}/-/lease":                              {body: `{"holder":"again","lease_id":"LEASE"}`, code: publish.ErrLeaseLost},
	"PATCH /v1/keys/{key}/-/lease":                             {code: publish.ErrLeaseLost},
	"DELETE /v1/keys/{key}/-/lease":                            {want: 204}, // it gives back what is lost anyway
	"PUT /v1/keys/{key}/-/generations/{token}/files/{path}":    {body: "late", code: publish.ErrStaleToken},
	"DELETE /v1/keys/{key}/-/generations/{token}/files/{path}": {code: publish.ErrStaleToken},
	"POST /v1/keys/{key}/-/generations/{token}/publish":        {code: publish.ErrStaleToken},
	"POST /v1/keys/{key}/-/generations/{token}/effects/{name}": {code: publish.ErrStaleToken},
	"POST /v1/keys/{key}/-/rollback":                           {body: `{"to":1,"reason":"r"}`, code: publish.ErrInvalidRequest, operator: true},
	"PUT /v1/keys/{key}/-/pin":                                 {body: `{"reason":"r"}`, code: publish.ErrInvalidRequest, operator: true},
	"DELETE /v1/keys/{key}/-/pin":                              {code: publish.ErrInvalidRequest, operator: true},
	"PUT /v1/policies":                                         {code: publish.ErrInvalidRequest, operator: true},
	"DELETE /v1/policies":                                      {code: publish.ErrInvalidRequest, operator: true},
	"POST /v1/credentials":                                     {code: publish.ErrForbidden, operator: true}, // nobody is asked for one
	"POST /v1/credentials/:id/rotate":                          {code: publish.ErrForbidden, operator: true},
	"DELETE /v1/credentials/:id":                               {code: publish.ErrForbidden, operator: true},
	"POST /credentials":                                        {code: publish.ErrForbidden, operator: true},
	"POST /credentials/:id/rotate":                             {code: publish.ErrForbidden, operator: true},
	"POST /credentials/:id/revoke":                             {code: publish.ErrForbidden, operator: true},
	"POST /sign-in":                                            {code: publish.ErrForbidden, operator: true},
	"POST /sign-in/issuer":                                     {code: publish.ErrForbidden, operator: true},
	"POST /sign-out":                                           {want: 303, operator: true}, // nobody is signed in
	"POST /sign-out-everywhere":                                {want: 303, operator: true},
	"POST /policies":                                           {code: publish.ErrInvalidRequest, operator: true}, // it is no form
	"DELETE /v1/keys/{key}":                                    {code: publish.ErrInvalidRequest, operator: true},
	"POST /k/{key}/-/rollback":                                 {code: publish.ErrInvalidRequest, operator: true},
	"POST /k/{key}/-/pin":                                      {code: publish.ErrInvalidRequest, operator: true},
	"POST /k/{key}/-/unpin":                                    {code: publish.ErrInvalidRequest, operator: true},
	"POST /k/{key}/-/retire":                                   {code: publish.ErrInvalidRequest, operator: true},
	"POST /k/{key}/-/break-lease":                              {code: publish.ErrInvalidRequest, operator: true},
	"POST /k/{key}/-/upload":                                   {code: publish.ErrInvalidRequest, operator: true}, // it takes a grant of its own
	"POST /upload":                                             {code: publish.ErrInvalidRequest, operator: true},
	"POST /v1/resolve":                                         {body: `{"keys":["k"]}`, want: 200}, // it reads
	"POST /v1/keys/{key}/-/generations/{token}/uploads": {
		body: `{"path":"g","size":4,"sha256":"` + strings.Repeat("ab", 32) + `"}`, code: publish.ErrStaleToken,
	},
	"POST /v1/keys/{key}/-/generations/{token}/uploads/{upload}/parts":    {body: `{"part_numbers":[1]}`, code: publish.ErrStaleToken},
	"POST /v1/keys/{key}/-/generations/{token}/uploads/{upload}/complete": {code: publish.ErrStaleToken},
	"DELETE /v1/keys/{key}/-/generations/{token}/uploads/{upload}":        {want: 204}, // it removes what can't count any more
}

func TestEveryChangingRouteRefusesAStaleToken(t *testing.T) {
	t.Parallel()
	for _, name := range web.RouteNames() {
		method, pattern, _ := strings.Cut(name, " ")
		if method == http.MethodGet {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test, listed := staleCases[name]
			if !listed {
				t.Fatal("this route changes something: say in staleCases what it answers to a stale token")
			}
			r := newRig(t, web.Options{})
			late := r.grant("k")
			late.put("f", "of the late one").want(201)
			upload, _ := late.begin("h", strings.Repeat("x", 20)).json()["upload_id"].(string)
			r.pointers.Expire("k")
			r.published("k", "f", "of the newer one")
			before := r.call("GET", "/v1/keys/k", "").want(200)

			target := strings.NewReplacer("{key}", "k", "{token}", "1", "{path}", "f", "{upload}", upload, "{name}", "n").Replace(pattern)
			got := r.call(method, target, strings.ReplaceAll(test.body, "LEASE", late.lease), "Pawl-Lease", late.lease)
			if test.code == "" {
				got.want(test.want)
			} else {
				members := got.wantProblem(test.code)
				if test.code == publish.ErrStaleToken && (members["token"] != 1.0 || members["accepted_token"] != 2.0 || members["next"] != "acquire") {
					t.Errorf("the facts are %s", got.body)
				}
			}
			if strings.Contains(got.body, late.lease) || strings.Contains(r.log.String(), late.lease) {
				t.Error("the lease id shows in answer or log")
			}
			after := r.call("GET", "/v1/keys/k", "").want(200)
			if before.body != after.body {
				t.Errorf("the pointer moved from %s to %s", before.body, after.body)
			}
			if got := r.call("GET", "/v1/keys/k/-/generations/2/files/f", "").want(200); got.body != "of the newer one" {
				t.Errorf("the current bytes are %q", got.body)
			}
		})
	}
	for name := range staleCases {
		if !slices.Contains(web.RouteNames(), name) {
			t.Errorf("there is no route %s any more", name)
		}
	}
}

// TestEveryChangingRouteNeedsALease covers 428, on files 401, and that a malformed id is never repeated.
func TestEveryChangingRouteNeedsALease(t *testing.T) {
	t.Parallel()
	r := newRig(t, web.Options{})
	const secret = "0123456789abcdef0123456789abcdeg"
	for name, test := range staleCases {
		if test.operator || strings.HasPrefix(name, "POST /v1/keys/{key}/-/lease") || name == "POST /v1/resolve" {
			continue
		}
		method, pattern, _ := strings.Cut(name, " ")
		target := strings.NewReplacer("{key}", "k", "{token}", "1", "{path}", "f", "{upload}", strings.Repeat("0", 32)+".x", "{name}", "n").Replace(pattern)
		if strings.Contains(pattern, "/files/") {
			r.call(method, target, "").wantChallenge()
		} else {
			r.call(method, target, "").wantProblem(publish.ErrLeaseRequired)
		}
		got := r.call(method, target, "", "Pawl-Lease", secret)
		if members := got.wantProblem(publish.ErrInvalidRequest); !strings.Contains(got.body, "Pawl-Lease") {
			t.Errorf("%s: the header isn't named in %v", name, members)
		}
		if strings.Contains(got.body, secret) {
			t.Errorf("%s repeats the header", name)
		}
	}
	if strings.Contains(r.log.String(), secret) {
		t.Error("the log has the header")
	}
}

func TestUnknownRoutesAndMethods(t *testing.T) {
	t.Parallel()
	r := newRig(t, web.Options{})
	r.published("k", "f", "x")
	for _, target := range []string{
		"/nothing", "/v1", "/v1/keyz", "/v1/keys/k/-/", "/v1/keys/k/-/nothing", "/v1/keys/k/-/lease/more",
		"/v1/keys/k/-/generations/1/nothing", "/v1/keys/k/-/generations/1/effects", "/v1/keys/k/-/effects/n", "/problems/nothing", "/problems/a/b", "//", "/v1//keys",
	} {
		r.call("GET", target, "").wantProblem(publish.ErrNotFound)
		if !strings.HasPrefix(target, "/problems/") {
			r.call("POST", target, "{}").wantProblem(publish.ErrNotFound)
		}
	}
	for target, allow := range map[string]string{
		"/":                                    "OPTIONS, GET, HEAD",
		"/v1/keys":                             "OPTIONS, GET, HEAD",
		"/livez":                               "OPTIONS, GET, HEAD",
		"/v1/keys/k":                           "DELETE, GET, HEAD, OPTIONS",
		"/v1/keys/k/-/lease":                   "DELETE, GET, HEAD, PATCH, POST, OPTIONS",
		"/v1/keys/k/-/current":                 "GET, HEAD, OPTIONS",
		"/v1/keys/k/-/generations/1/publish":   "POST, OPTIONS",
		"/v1/keys/k/-/generations/1/effects/n": "POST, OPTIONS",
		"/v1/keys/k/-/effects":                 "GET, HEAD, OPTIONS",
		"/v1/keys/k/-/generations/1/files/f":   "DELETE, GET, HEAD, PUT, OPTIONS",
	} {
		got := r.call("BREW", target, "")
		if detail := fmt.Sprint(got.wantProblem(publish.ErrMethodNotAllowed)["detail"]); detail != "this route has the methods "+got.header.Get("Allow") {
			t.Errorf("%s: the detail is %q, Allow %q", target, detail, got.header.Get("Allow"))
		}
		options := r.call("OPTIONS", target, "").want(204)
		for _, header := range []http.Header{got.header, options.header} {
			if names := sortedNames(header.Get("Allow")); names != sortedNames(allow) {
				t.Errorf("%s allows %q, want %q", target, names, sortedNames(allow))
			}
		}
	}
}

func sortedNames(allow string) string {
	names := strings.Split(allow, ", ")
	slices.Sort(names)
	return strings.Join(names, ", ")
}

// drawn is what two answers differ in: the nonces of their policies, and the ends of the addresses that they give out.
var drawn = regexp.MustCompile(`'nonce-[A-Z2-7]+'|/~[^/]+/`)

// TestHeadIsServedWhereverGetIs compares the heads of all routes.
func TestHeadIsServedWhereverGetIs(t *testing.T) {
	t.Parallel()
	r := newRig(t, web.Options{ContentOrigin: contentAt, ContentKey: contentKey})
	r.published("k", "f", "x")
	for _, name := range web.RouteNames() {
		method, pattern, _ := strings.Cut(name, " ")
		if method != http.MethodGet {
			continue
		}
		target := strings.NewReplacer("{key}", "k", "{token}", "1", "{path}", "f", ":code", "stale-token", ":file", "style.css", "/b/*", "/b/k/").Replace(pattern)
		get, head := r.call("GET", target, ""), r.call("HEAD", target, "")
		// The first is for who has begun to sign in, the other for servers that ask for credentials.
		refused := pattern == web.SignInCallback || pattern == "/credentials/:id/revoke"
		if (get.status >= 400) != refused || head.status != get.status || head.body != "" {
			t.Errorf("%s: GET %d, HEAD %d with %q", target, get.status, head.status, head.body)
		}
		for _, name := range []string{"Content-Type", "ETag", "Cache-Control", "Location", "Content-Security-Policy", "Pawl-Token", "Repr-Digest"} {
			if drawn.ReplaceAllString(get.header.Get(name), "") != drawn.ReplaceAllString(head.header.Get(name), "") {
				t.Errorf("%s: %s is %q by GET, %q by HEAD", target, name, get.header.Get(name), head.header.Get(name))
			}
		}
		for _, header := range []http.Header{get.header, head.header} {
			if header.Get("X-Content-Type-Options") != "nosniff" || header.Get("Referrer-Policy") != "no-referrer" || header.Get("Content-Security-Policy") == "" {
				t.Errorf("%s lacks security headers: %v", target, header)
			}
		}
	}
}
