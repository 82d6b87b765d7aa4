package web_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/pawlhq/pawl/publish"
	"github.com/pawlhq/pawl/web"
)

// What a credential was refused stands in the audit, once a minute, whoever asks how often. What strangers were refused doesn't: they could fill it.
func TestRefusalsAreAudited(t *testing.T) {
	t.Parallel()
	r := newAskRig(t)
	reader, stranger := r.issue("reader", "read:team-a/"), []string{"Authorization", "Bearer nonsense"}
	for range 3 {
		r.ask("POST /v1/keys/{key}/-/rollback", "team-a/x", reader).want(403)
		r.ask("POST /v1/keys/{key}/-/rollback", "team-b/x", reader).want(404)
		r.ask("POST /v1/keys/{key}/-/rollback", "team-a/x", stranger).want(401)
		r.ask("POST /v1/keys/{key}/-/rollback", "team-a/x", nil).want(401)
	}
	page, err := r.service.Audit(t.Context(), publish.AuditRequest{Reach: publish.Everything, Limit: 100})
	if err != nil {
		t.Fatal(err)
	}
	if len(page.Entries) > 2*2+1 {
		t.Errorf("the audit has %d entries", len(page.Entries))
	}
	var refused []string
	for _, entry := range page.Entries {
		if entry.Refused != "" {
			refused = append(refused, string(entry.By)+" "+entry.Action+" "+entry.Subject+" "+string(entry.Refused))
		}
	}
	slices.Sort(refused) // The minute may change meanwhile: then they are there twice.
	if got := strings.Join(slices.Compact(refused), ", "); got != "reader POST rollback team-a/x forbidden, reader POST rollback team-b/x not-found" {
		t.Errorf("the audit has %s", got)
	}
}

// Each route has a name that the audit takes.
func TestRefusedActionsHaveNames(t *testing.T) {
	t.Parallel()
	for _, action := range web.RouteActions() {
		if len(action) > publish.MaxActionBytes {
			t.Errorf("%s has %d bytes", action, len(action))
		}
	}
}
