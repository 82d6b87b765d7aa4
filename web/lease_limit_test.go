package web_test

import (
	"strings"
	"testing"

	"github.com/pawlhq/pawl/publish"
	"github.com/pawlhq/pawl/web"
)

// Each credential holds so many leases open and no more, whatever else is granted; who is asked for no credential has no such limit.
func TestLimitOfLeases(t *testing.T) {
	t.Parallel()
	r, known := newAuthRig(t, web.Options{Leases: 2})
	one, other := known.issue(t, "one", "publish"), known.issue(t, "other", "publish")
	acquire := func(caller []string, key, more string) answer {
		return r.with(caller, "POST", "/v1/keys/"+key+"/-/lease", `{"holder":"W","ttl":"1h"`+more+`}`)
	}
	for _, key := range []string{"a", "b"} {
		acquire(one, key, "").want(201)
	}
	acquire(other, "c", "").want(201)
	// Waiting is for keys that are held: a free one is refused at once.
	for _, more := range []string{"", `,"wait":"1h"`} {
		got := acquire(one, "d", more).want(507)
		got.wantProblem(publish.ErrQuotaExceeded)
		for _, part := range []string{`"limit":2`, `"unit":"leases"`, "2 leases of yours", "PAWL_LIMIT_LEASES", "release some"} {
			if !strings.Contains(got.body, part) {
				t.Errorf("the refusal has no %s: %s", part, got.body)
			}
		}
		if got.header.Get("Retry-After") != "" || strings.Contains(got.body, `"retryable":true`) {
			t.Errorf("the refusal asks to be repeated: %v %s", got.header, got.body)
		}
	}
	acquire(one, "c", "").wantProblem(publish.ErrLeaseHeld)
	acquire(other, "d", "").want(201)
	acquire(other, "e", "").wantProblem(publish.ErrQuotaExceeded)

	open := newRig(t, web.Options{Leases: 1})
	for _, key := range []string{"a", "b"} {
		open.call("POST", "/v1/keys/"+key+"/-/lease", `{"holder":"W"}`).want(201)
	}
}
