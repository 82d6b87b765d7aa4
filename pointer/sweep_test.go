package pointer_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawlhq/pawl/internal/testenv"
	"github.com/pawlhq/pawl/publish"
)

// What is due is found by a seek: in a history of many rows, each call reads about as many entries of an index as it has to do with,
// and no rows in sequence.
func TestSweepSeeks(t *testing.T) {
	t.Parallel()
	_, dsn := newStore(t)
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx) //nolint:errcheck // The test is over.
	for _, sql := range []string{
		`SELECT pawl.acquire('k', sha256('A'), 'A', 60000, '{}')`,
		`INSERT INTO pawl.files (key_id, token, path, upload_id, state, started_at, ended_at, sweeps)
			SELECT k.id, 1, 'f' || n, decode(md5(n::text), 'hex'),
				CASE WHEN n % 100 = 0 THEN 'pending' WHEN n % 3 = 0 THEN 'failed' ELSE 'dropped' END,
				now() - n * interval '1 second', now() - n * interval '1 second', CASE WHEN n % 10 = 1 THEN 0 ELSE 1 END
			FROM generate_series(1, 50000) n, pawl.keys k`,
	} {
		if _, err := conn.Exec(ctx, sql); err != nil {
			t.Fatal(err)
		}
	}
	for _, sql := range []string{
		`SELECT pawl.due_uploads(60000, 60000, NULL, NULL, 100)`,
		`SELECT pawl.due_uploads(60000, 60000, now() - interval '1 hour', 1, 100)`,
		`SELECT pawl.fail_idle_uploads(60000, 60000, 100)`,
		`SELECT pawl.keep_uploads(array_agg('k'::text), array_agg(1::bigint), array_agg('f' || n), array_agg(n::bigint)) FROM generate_series(1, 100) n`,
		`SELECT pawl.swept(array_agg((d->>'since')::timestamptz), array_agg((d->>'upload_no')::bigint))
			FROM jsonb_array_elements(pawl.due_uploads(60000, 60000, NULL, NULL, 100)) d`,
	} {
		before := testenv.TableReads(t, conn, "files")
		if _, err := conn.Exec(ctx, sql); err != nil {
			t.Fatal(err)
		}
		// A row that is changed is looked up a few times, and shown to be no other's by the unique index.
		if read := testenv.TableReads(t, conn, "files") - before; read == 0 || read > 1000 {
			t.Errorf("%s read %d rows or entries of indexes", sql, read)
		}
	}
}

// An upload that ends while sweeps give it up is either stored, and stays so, or refused. Sweeps, ends, replacements and signs of life meet on
// the same paths without a deadlock.
func TestSweepRacesWithUploads(t *testing.T) {
	t.Parallel()
	store, _ := newStore(t)
	ctx := context.Background()
	g := grant(t, store, "k", "A").grant()
	stored := map[publish.UploadID]bool{}
	var mu sync.Mutex
	end, stop := context.WithCancel(ctx)
	var sweeps, uploads sync.WaitGroup
	for range 2 {
		sweeps.Go(func() {
			for end.Err() == nil {
				if _, err := store.FailIdleUploads(ctx, time.Millisecond, time.Millisecond, 100); err != nil {
					t.Error(err)
				}
				due, err := store.DueUploads(ctx, time.Millisecond, time.Millisecond, nil, 100)
				if err == nil {
					_, err = store.Swept(ctx, due)
				}
				if err != nil {
					t.Error(err)
				}
				mu.Lock()
				for _, upload := range due {
					if stored[upload.ID] && upload.State != publish.UploadDropped {
						t.Errorf("%s is stored and due", upload.Object())
					}
				}
				mu.Unlock()
			}
		})
	}
	given := 0
	for worker := range 4 {
		uploads.Go(func() {
			for i := range 50 {
				path := publish.Path(fmt.Sprintf("f%d", (worker+i)%3))
				id := publish.UploadID{byte(worker + 1), byte(i)}
				start, err := store.BeginUpload(ctx, publish.BeginUploadRequest{Grant: g, Path: path, ID: id})
				if err != nil {
					t.Error(err)
					return
				}
				if i%2 == 0 {
					if err := store.KeepUploads(ctx, []publish.Upload{start.Upload}); err != nil {
						t.Error(err)
					}
				}
				result, err := store.CompleteUpload(ctx, start.Upload, publish.File{Path: path, Size: 1, SHA256: publish.Digest{1}, ContentType: "text/plain"})
				mu.Lock()
				switch {
				case err == nil:
					stored[id] = !result.Overtaken // else it may have been given up before it was replaced
				case errors.Is(err, publish.ErrGenerationIncomplete):
					given++
				default:
					t.Error(err)
				}
				mu.Unlock()
			}
		})
	}
	uploads.Wait()
	stop()
	sweeps.Wait()
	t.Logf("%d were stored, %d given up", len(stored), given)
	if len(stored) == 0 || given == 0 {
		t.Errorf("%d were stored and %d given up; the race needs both", len(stored), given)
	}
}
