package migrations_test

import (
	"sync"
	"testing"
	"time"

	"github.com/pawlhq/pawl/migrations"
)

// What uploads left before the sweep existed is due once it does. Its indexes are built while uploads are written, and the
// migration can be repeated after a break in its middle.
func TestSweepOfAnOldDatabase(t *testing.T) {
	t.Parallel()
	ctx, dsn, conn := connect(t)
	if err := down(ctx, dsn, 10); err != nil {
		t.Fatal(err)
	}
	for _, sql := range []string{
		`SELECT pawl.acquire('k', sha256('A'), 'A', 60000, '{}')`,
		`INSERT INTO pawl.files (key_id, token, path, upload_id, state, started_at, ended_at)
			SELECT k.id, 1, 'f' || n, decode(md5(n::text), 'hex'), CASE WHEN n % 10 = 0 THEN 'pending' ELSE 'dropped' END,
				now() - interval '1 day', CASE WHEN n % 10 > 0 THEN now() - interval '1 day' END
			FROM generate_series(1, 100000) n, pawl.keys k`,
		// As a crash would leave it between two statements.
		`CREATE INDEX files_due ON pawl.files (upload_no)`,
		`ALTER TABLE pawl.files ADD COLUMN swept_at timestamptz`,
	} {
		if _, err := conn.Exec(ctx, sql); err != nil {
			t.Fatal(err)
		}
	}
	var writing sync.WaitGroup
	done := make(chan struct{})
	written, slowest := 0, time.Duration(0)
	writing.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
			}
			began := time.Now()
			if _, err := conn.Exec(ctx, `SELECT pawl.begin_upload('k', 1, sha256('A'), 'new', decode(md5(random()::text), 'hex'), NULL, false)`); err != nil {
				t.Error(err)
				return
			}
			written++
			slowest = max(slowest, time.Since(began))
		}
	})
	began := time.Now()
	err := migrations.Up(ctx, dsn)
	took := time.Since(began)
	close(done)
	writing.Wait()
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("the migration took %s; meanwhile %d uploads began, the slowest in %s", took, written, slowest)
	var due, failed int
	const count = `SELECT jsonb_array_length(pawl.due_uploads(3600000, 3600000, NULL, NULL, 1000)),
		(pawl.fail_idle_uploads(3600000, 3600000, 1000)->>'uploads')::integer`
	if err := conn.QueryRow(ctx, count).Scan(&due, &failed); err != nil || due != 1000 || failed != 1000 {
		t.Errorf("%d uploads are due and %d were failed, %v; want 1000 and 1000", due, failed, err)
	}
}
