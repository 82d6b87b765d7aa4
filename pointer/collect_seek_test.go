package pointer_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawlhq/pawl/internal/testenv"
	"github.com/pawlhq/pawl/publish"
)

// The walk reads each kept generation once, and none of what was collected; everything else is a seek, whatever the tables hold, also
// while the statistics know nothing of it.
func TestCollectSeeks(t *testing.T) {
	t.Parallel()
	store, dsn := newStore(t)
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx) //nolint:errcheck // The test is over.
	const keys, perKey = 300, 51
	for _, sql := range []string{
		`INSERT INTO pawl.keys (name, counter) SELECT 'k/' || lpad(n::text, 6, '0'), 51 FROM generate_series(1, 300) n`,
		// 49 collected ones a key, and 2 that are kept; the last of them is young.
		`INSERT INTO pawl.generations (key_id, token, lease_sha256, holder, granted_at, state, condemned_at, empty_at)
			SELECT k.id, n, sha256(convert_to(n::text, 'UTF8')), 'W', now() - (51 - n) * interval '30 days', CASE WHEN n < 50 THEN 'collected' ELSE 'open' END,
				CASE WHEN n < 50 THEN now() END, CASE WHEN n = 49 AND k.id % 10 = 0 THEN now() - interval '1 hour' END
			FROM pawl.keys k, generate_series(1, 51) n`,
		`INSERT INTO pawl.files (key_id, token, path, upload_id, state, size, sha256, content_type, from_revision, started_at, object_token)
			SELECT k.id, CASE WHEN n % 2 = 0 THEN 49 ELSE 50 END, 'f' || n / 2, decode(md5((n / 2)::text), 'hex'), 'stored', 1, sha256('x'), 'text/plain', 1,
				now() - interval '60 days', CASE WHEN n % 2 = 1 THEN 49 END
			FROM pawl.keys k, generate_series(1, 20) n`,
		`INSERT INTO pawl.files (key_id, token, path, upload_id, state, size, sha256, content_type, from_revision, object_token)
			SELECT 1, 51, 'g' || n, decode(md5((n)::text), 'hex'), 'stored', 1, sha256('x'), 'text/plain', 1, 49 FROM generate_series(1, 50000) n`,
	} {
		if _, err := conn.Exec(ctx, sql); err != nil {
			t.Fatal(err)
		}
	}
	for _, test := range []struct {
		sql  string
		most int64 // rows or entries of indexes, of generations and files
	}{
		{`SELECT pawl.collectable('', '', 0, 0, 1000)`, 4000},
		{`SELECT pawl.collectable('k/000250', '', 0, 0, 1000)`, 50},
		{`SELECT pawl.collectable('', 'k/000290', 49, 0, 1000)`, 200},
		{`SELECT pawl.due_generations(NULL, NULL, 0, 100)`, 1000},
		{`SELECT pawl.condemn('k/000250', 50, 0)`, 50},
		{`SELECT pawl.referenced('k/000001', 49, array_agg(decode(md5(n::text), 'hex')), array_agg('g' || n)) FROM generate_series(1, 100) n`, 1000},
		{`SELECT pawl.emptied('k/000010', 49, (SELECT empty_at FROM pawl.generations WHERE key_id = 10 AND token = 49), 0)`, 200},
	} {
		before := testenv.TableReads(t, conn, "files", "generations")
		var answer string
		if err := conn.QueryRow(ctx, test.sql).Scan(&answer); err != nil {
			t.Fatalf("%s: %v", test.sql, err)
		}
		read := testenv.TableReads(t, conn, "files", "generations") - before
		t.Logf("%s read %d", test.sql, read)
		if read == 0 || read > test.most {
			t.Errorf("%s read %d rows or entries of indexes, want at most %d; it answers %.100s", test.sql, read, test.most, answer)
		}
	}
	found, err := walk(store)
	if err != nil || len(found) != keys-1 {
		t.Errorf("%d generations may be condemned, %v; want %d of %d", len(found), err, keys-1, keys*perKey)
	}
}

// walk finds all that may be condemned.
func walk(store publish.PointerStore) (all []publish.GenerationName, err error) {
	var after *publish.GenerationName
	for {
		found, next, err := store.Collectable(context.Background(), "", time.Second, after, 300)
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
		if next == nil {
			return all, nil
		}
		after = next
	}
}
