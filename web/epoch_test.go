package web_test

import (
	"strings"
	"testing"
	"time"

	"github.com/pawlhq/pawl/publish"
	"github.com/pawlhq/pawl/web"
)

// That the database has lost a part of its history is said on every page and by the readiness probe, with the reason; the versions that readers
// hold stay good.
func TestRaisedEpochIsShown(t *testing.T) {
	t.Parallel()
	r := newRig(t, web.Options{})
	r.published("thumbs/a", "f", "x")
	tag := r.call("GET", "/v1/keys/thumbs/a", "").want(200).header.Get("ETag")
	for _, first := range []*publish.Epoch{nil, {Reason: "the first"}} {
		if first != nil {
			r.handler.SetEpoch(*first)
		}
		if page := r.call("GET", "/", "").want(200); strings.Contains(page.body, "Epoch") {
			t.Errorf("nothing was raised, and the page says: %s", page.body)
		}
	}
	raised := publish.Epoch{
		Epoch: 95431, RaisedAt: publish.Time{Time: time.Date(2026, 11, 29, 22, 5, 0, 0, time.UTC)}, Reason: "timeline 1 became 2 <b>",
	}
	r.handler.SetEpoch(raised)
	for _, url := range []string{"/", "/problems/stale-token"} {
		page := r.call("GET", url, "").want(200)
		if !strings.Contains(page.body, "Epoch 95431, raised 2026-11-29 22:05 UTC: timeline 1 became 2 &lt;b&gt;.") {
			t.Errorf("%s says: %s", url, page.body)
		}
	}
	if probe := r.call("GET", "/readyz", "").want(200); !strings.Contains(probe.body, `"epoch":95431`) || !strings.Contains(probe.body, "timeline 1 became 2") {
		t.Errorf("the probe says: %s", probe.body)
	}
	r.call("GET", "/v1/keys/thumbs/a", "", "If-None-Match", tag).want(304)
}
