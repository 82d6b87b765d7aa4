package pointer_test

import (
	"testing"

	"github.com/pawlhq/pawl/publish"
)

// Entries about what belongs to no keys are for those alone who administer all. Whoever administers little finds the few entries behind many others,
// page after page.
func TestAuditWithinReach(t *testing.T) {
	t.Parallel()
	store, dsn := newStore(t)
	const others = 2*publish.MaxAuditSearched + 17
	exec1(t, dsn, `INSERT INTO pawl.audit (actor, action, subject) VALUES ('mia', 'pin', 'team-a/x')`)
	exec1(t, dsn, `INSERT INTO pawl.audit (actor, action, subject) VALUES ('mia', 'credential', 'team-a/x')`)
	exec1(t, dsn, `INSERT INTO pawl.audit (actor, action, subject) SELECT 'mia', 'retire', 'team-ab/' || n FROM generate_series(1, $1::int) n`, others)
	for _, test := range []struct {
		reach       publish.Reach
		want, pages int
	}{
		{publish.Everything, others + 2, 5},
		{publish.ReachOf("team-a/"), 1, 3},
		{publish.ReachOf("team-a", "mia", "credential"), 1, 3},
		{publish.ReachOf("team-ab"), others, 5},
		{publish.ReachOf(), 0, 3},
	} {
		got, pages := 0, 0
		for before := int64(0); before != 0 || pages == 0; pages++ {
			page, err := store.Audit(t.Context(), test.reach, before, publish.MaxPageSize)
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
