package web_test

import (
	"strings"
	"testing"

	"github.com/pawlhq/pawl/web"
)

// Each page that shows what changes has the stream of what changes on it, from where it was made, and no other page has one.
func TestPagesListen(t *testing.T) {
	t.Parallel()
	r := newRig(t, web.Options{BasePath: "/pawl"})
	r.published("shots/010", "f", "one")
	r.number()
	for target, want := range map[string]string{
		"/b/shots/":                `data-stream="/pawl/v1/events?prefix=shots%2F" data-cursor="0-1" data-key="" data-text=""`,
		"/?q=Comp&prefix=shots/":   `data-stream="/pawl/v1/events?prefix=shots%2F" data-cursor="0-1" data-key="" data-text="comp" data-mime="" data-change=""`,
		"/?type=Image&q=o":         `data-text="o" data-mime="image" data-change="Something changed"`,
		"/?since=1h":               `data-mime="" data-change="Something changed"`,
		"/k/shots/010":             `data-stream="/pawl/v1/events?prefix=shots%2F010" data-cursor="0-1" data-key="shots/010" data-text=""`,
		"/k/shots/010/-/history":   `data-stream="/pawl/v1/events?prefix=shots%2F010" data-cursor="0-1" data-key="shots/010" data-text=""`,
		"/rejections":              `data-stream="/pawl/v1/events?prefix=" data-cursor="0-1" data-key="" data-text="" data-mime="" data-change="" data-kinds="rejected restored"`,
		"/leases?prefix=shots/010": `data-stream="/pawl/v1/events?prefix=shots%2F010" data-cursor="0-1" data-key="" data-text="" data-mime="" data-change="" data-kinds="taken-over lease-broken restored"`,
		"/policies":                "",
		"/problems/pinned":         "",
	} {
		page := r.call("GET", target, "").want(200)
		listens := strings.Contains(page.body, `src="/pawl/static/live.js?v=`)
		if listens != (want != "") || !strings.Contains(page.body, want) || strings.Contains(page.body, `class="live"`) != listens {
			t.Errorf("%s listens: %t, want %s in %s", target, listens, want, page.body)
		}
		if strings.Contains(target, "/k/") && !strings.Contains(page.body, `data-version="1.1"`) {
			t.Errorf("%s doesn't tell which version it shows", target)
		}
	}
}
