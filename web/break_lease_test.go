package web_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/pawlhq/pawl/publish"
	"github.com/pawlhq/pawl/web"
)

func TestBreakLease(t *testing.T) {
	t.Parallel()
	r := newRig(t, web.Options{})
	const lease, breaking = "/v1/keys/k/-/lease", "/v1/keys/k/-/lease?break=true&reason=node+is+gone&token="
	r.call("DELETE", breaking+"1", "").wantProblem(publish.ErrNotFound)
	a := r.grant("k")
	broken := r.call("DELETE", breaking+"1", "", by, "mia@ws-12").want(200).json()
	if got := fmt.Sprint(broken["token"], broken["holder"], broken["broken"]); !strings.HasPrefix(got, "1testmap[at:") || !strings.HasSuffix(got, "by:mia@ws-12 reason:node is gone]") {
		t.Errorf("the answer is %s", got)
	}
	lost := r.call("PATCH", lease, "", "Pawl-Lease", a.lease).wantProblem(publish.ErrLeaseLost)
	if got := fmt.Sprint(lost["detail"]); got != `"mia@ws-12" has broken the lease of token 1 (node is gone); acquire the key again` {
		t.Errorf("the holder hears %q", got)
	}
	a.put("f", "before anybody newer").want(201)
	a.publish("").want(200)

	b := r.grant("k")
	if again := r.call("DELETE", breaking+"1", "").want(200).json(); again["replayed"] != true {
		t.Errorf("the repeat gave %v", again)
	}
	c := r.call("DELETE", breaking+"2", "").want(200).json()
	if c["replayed"] != nil {
		t.Errorf("the second gave %v", c)
	}
	r.grant("k")
	r.call("PATCH", lease, "", "Pawl-Lease", b.lease).wantProblem(publish.ErrLeaseLost)
	r.pointers.Expire("k")
	r.grant("k")
	late := r.call("DELETE", breaking+"3", "").wantProblem(publish.ErrPreconditionFailed)
	if got := fmt.Sprint(late["detail"]); late["granted_token"] != 4.0 || late["expires_at"] == nil || !strings.Contains(got, `"test" holds the key under token 4`) {
		t.Errorf("a late click hears %v", late)
	}
	r.call("DELETE", breaking+"9", "").wantProblem(publish.ErrUnknownToken)

	for target, pointer := range map[string]string{
		"?break=true&token=4":                                    "/reason",
		"?break=yes&token=4&reason=r":                            "break",
		"?token=4&reason=r":                                      "break",
		"?break=true&token=4&reason=" + strings.Repeat("x", 501): "/reason",
		"?break=true&token=4&reason=a%0Ab":                       "/reason",
		"?break=true&token=4&reason=r&force=true":                "query",
	} {
		if members := r.call("DELETE", lease+target, "").wantProblem(publish.ErrInvalidRequest); !strings.Contains(fmt.Sprint(members["errors"]), "pointer:"+pointer+"]") {
			t.Errorf("%s: %v, want %s", target, members, pointer)
		}
	}
	r.call("DELETE", lease+"?break=true&reason=r", "").wantProblem(publish.ErrInvalidToken)
	r.call("DELETE", breaking+"4", "", "Pawl-Lease", b.lease).wantProblem(publish.ErrInvalidRequest)
	if held := r.call("GET", lease, "").want(200).json(); held["held"] != true || held["token"] != 4.0 {
		t.Errorf("afterwards the lease is %v", held)
	}
}
