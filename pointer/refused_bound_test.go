package pointer_test

import (
	"testing"
	"time"

	"github.com/pawlhq/pawl/publish"
)

// However many files a stale worker comes back with, its generation sums up a bounded number of rejections, the newest ones, in little time.
func TestRefusedSumsAreBounded(t *testing.T) {
	t.Parallel()
	store, dsn := newStore(t)
	late := grant(t, store, "k", "a")
	exec1(t, dsn, `ALTER TABLE pawl.rejections DISABLE TRIGGER USER`) // Nobody reads the events of these.
	exec1(t, dsn, `INSERT INTO pawl.rejections (key_id, token, operation, path, lost, accepted_token, granted_token, superseded_by, first_at, last_at, repeat, overrun_ms)
		SELECT k.id, $1, CASE WHEN n = 1 THEN 'publish' ELSE 'upload' END, n, false, 2, 2, 'b', clock_timestamp() - interval '1 hour' + n * interval '1 ms', clock_timestamp(), 2, 0
		FROM pawl.keys k, generate_series(1, $2::int) n WHERE k.name = 'k'`, int64(late.lease.Token), publish.MaxRefusedCounted+50)
	began := time.Now()
	g, err := store.Generation(t.Context(), "k", late.lease.Token)
	t.Logf("summed up in %v", time.Since(began))
	if err != nil || len(g.Rejections) != 100 || len(g.Refused) != 1 {
		t.Fatalf("%d rejections, sums %+v, %v", len(g.Rejections), g.Refused, err)
	}
	sum := g.Refused[0]
	if sum.Count != publish.MaxRefusedCounted || sum.Repeat != 2*publish.MaxRefusedCounted || sum.Operation != "upload" || sum.Holder != "a" || !sum.FirstAt.Before(g.Rejections[99].FirstAt.Time) {
		t.Errorf("the sum is %+v", sum)
	}
	history, err := store.History(t.Context(), "k", 0, 10)
	if err != nil || len(history.Generations) != 1 || len(history.Generations[0].Refused) != 1 {
		t.Errorf("the history is %+v, %v", history, err)
	}
}
