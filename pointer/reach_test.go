package pointer_test

import (
	"testing"

	"github.com/pawlhq/pawl/publish"
)

// Entries about what has scopes are for whoever administers all of their keys, and those about what belongs to no keys for those alone who administer all.
// Whoever administers little finds the few entries behind many others, page after page.
func TestAuditWithinReach(t *testing.T) {
	t.Parallel()
	store, dsn := newStore(t)
	const others = 2*publish.MaxAuditSearched + 17
	exec1(t, dsn, `INSERT INTO pawl.audit (actor, action, subject) VALUES ('mia', 'pin', 'team-a/x')`)
	exec1(t, dsn, `INSERT INTO pawl.audit (actor, action, subject) VALUES ('mia', 'something', 'team-a/x')`)
	exec1(t, dsn, `INSERT INTO pawl.audit (actor, action, subject, before, after) VALUES
		('mia', 'create-credential', '1', NULL, '{"scopes": ["publish:team-a/", "read:team-a/x"]}'),
		('mia', 'create-credential', '2', NULL, '{"scopes": ["publish:team-a/", "read:team-b/x"]}'),
		('mia', 'create-credential', '3', NULL, '{"scopes": ["read:team-a"]}'),
		('mia', 'create-credential', '4', NULL, '{"scopes": ["admin"]}'),
		('mia', 'create-credential', '5', NULL, '{"scopes": null}'),
		('mia', 'revoke-credential', '1', '{"scopes": ["publish:team-a/"]}', NULL)`)
	exec1(t, dsn, `INSERT INTO pawl.audit (actor, action, subject) SELECT 'mia', 'retire', 'team-ab/' || n FROM generate_series(1, $1::int) n`, others)
	for _, test := range []struct {
		reach       publish.Reach
		want, pages int
	}{
		{publish.Everything, others + 8, 5},
		{publish.ReachOf("team-a/"), 3, 3},
		{publish.ReachOf("team-a", "mia", "something"), 4, 3},
		{publish.ReachOf("team-a/x", "team-b"), 1, 3},
		{publish.ReachOf("team-a/", "team-b/x"), 4, 3},
		{publish.ReachOf("team-ab"), others, 5},
		{publish.ReachOf(), 0, 3},
	} {
		got, pages := 0, 0
		for before := int64(0); before != 0 || pages == 0; pages++ {
			page, err := store.Audit(t.Context(), publish.AuditRequest{Reach: test.reach, Before: before, Limit: publish.MaxPageSize})
			if err != nil {
				t.Fatal(err)
			}
			for _, entry := range page.Entries {
				if !entry.In(test.reach) {
					t.Errorf("%+v is shown", entry)
				}
			}
			got, before = got+len(page.Entries), page.Next
		}
		if got != test.want || pages != test.pages {
			t.Errorf("%d entries on %d pages, want %d on %d", got, pages, test.want, test.pages)
		}
	}
}
