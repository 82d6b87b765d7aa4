package page

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	// batch is how many keys are made at once.
	batch = 50_000
	// fillTime bounds the making of all keys.
	fillTime = 10 * time.Minute
)

// makeSQL chooses the keys from $1 to $2 of $3 in all. Of ten keys five are thumbs/image-…, four lie deep below shots/, one is a model; every thousandth
// is in a small folder, another one is a set of 40 files, a few texts have 1,000 generations, and a few streams 60 of 100 revisions. Every fifth
// key has three generations, every 50th a lease (half of them have run out), every 50th rejections. Each key was published a little later than the one before, over
// the last 30 days.
const makeSQL = `
INSERT INTO made SELECT n, CASE
		WHEN deep THEN 'deep/text-' || lpad(n::text, 8, '0')
		WHEN stream THEN 'streams/live-' || lpad(n::text, 8, '0')
		WHEN n % 1000 = 0 THEN 'small/' || lpad(n::text, 8, '0')
		WHEN n % 1000 = 6 THEN 'sets/take-' || lpad(n::text, 8, '0')
		WHEN n % 10 < 5 THEN 'thumbs/image-' || lpad(n::text, 8, '0')
		WHEN n % 10 < 9 THEN format('shots/seq%s/shot%s/comp/layer-%s', lpad((n % 97)::text, 3, '0'), lpad((n / 97 % 40)::text, 3, '0'), lpad(n::text, 8, '0'))
		ELSE 'models/' || md5(n::text) || '/weights' END,
	CASE WHEN deep THEN 1000 WHEN stream THEN 60 WHEN n % 5 = 0 THEN 3 ELSE 1 END, CASE WHEN stream THEN 100 ELSE 1 END,
	CASE WHEN n % 1000 = 6 THEN 40 ELSE 1 END,
	CASE WHEN deep THEN 16384 ELSE 1 + n % 4096 END,
	CASE WHEN deep OR n % 20 = 3 THEN 'text/plain; charset=utf-8' WHEN n % 10 < 5 THEN 'image/png' ELSE 'application/octet-stream' END,
	now() - interval '30 days' + n * interval '30 days' / $3::int
FROM (SELECT n, n % 20000 = 8 AS deep, n % 100000 = 9 AS stream FROM generate_series($1::int, $2::int) n) n`

// fillSQL makes all rows of the keys that were chosen.
var fillSQL = []string{
	`INSERT INTO pawl.keys (id, name, counter, fence, lease_ttl_ms, published, current_token, current_revision, lease_sha256, lease_expires_at)
		OVERRIDING SYSTEM VALUE
		SELECT id, name, grants, grants, 30000, true, grants, revisions, CASE WHEN id % 50 = 1 THEN sha256(int8send(id)) END,
			CASE id % 100 WHEN 1 THEN now() + interval '1 day' WHEN 51 THEN at + interval '5 minutes' END FROM made ORDER BY id`,
	`INSERT INTO pawl.generations (key_id, token, lease_sha256, holder, granted_at, released_at, state, revision, sealed_at)
		SELECT id, token, CASE WHEN token = grants THEN sha256(int8send(id)) ELSE sha256(int8send(id * 1000 + token)) END, 'worker-' || id % 200,
			at - (grants - token) * interval '1 hour', CASE WHEN token < grants OR id % 50 <> 1 THEN at END, 'sealed', revisions, at
		FROM made, generate_series(1, grants) token ORDER BY id, token`,
	`INSERT INTO pawl.receipts (key_id, token, revision, manifest_digest, final, primary_path, primary_type, files, bytes, published_at, metadata, lease_expired,
			previous_token, previous_revision)
		SELECT id, token, revision, sha256(int8send(id * 1000 + token)), revision = revisions, CASE WHEN files = 1 THEN 'out' ELSE 'frame.0001' END,
			type, files, size * files, at - (grants - token) * interval '1 hour' - (revisions - revision) * interval '10 seconds', '{"job": "nightly"}', false,
			CASE WHEN revision > 1 THEN token ELSE nullif(token - 1, 0) END, CASE WHEN revision > 1 THEN revision - 1 WHEN token > 1 THEN revisions END
		FROM made, generate_series(1, grants) token, generate_series(1, revisions) revision ORDER BY id, token, revision`,
	`INSERT INTO pawl.files (key_id, token, path, upload_id, state, size, sha256, content_type, from_revision, started_at, ended_at)
		SELECT id, token, CASE WHEN files = 1 THEN 'out' ELSE 'frame.' || lpad(f::text, 4, '0') END, substr(sha256(int8send(id)), 1, 16), 'stored', size,
			sha256(int8send(id * 1000 + token)), type, 1, at, at
		FROM made, generate_series(1, grants) token, generate_series(1, files) f ORDER BY id, token`,
	`INSERT INTO pawl.rejections (key_id, token, operation, path, lost, accepted_token, granted_token, superseded_by, superseded_at, first_at, last_at, repeat, overrun_ms)
		SELECT id, token, 'upload', 'out-' || p, false, token + 1, token + 1, 'worker-7', at, at, at + p * interval '1 minute', p, 12000
		FROM made, generate_series(1, grants / 3) token, generate_series(1, 3) p WHERE id % 50 = 0 OR grants > 3`,
	`INSERT INTO pawl.rejected_keys (key_id, name, rejections) SELECT id, name, 6 * (grants / 3) FROM made WHERE id % 50 = 0 OR grants > 3`,
	`INSERT INTO pawl.events (epoch, n, kind, key, token, revision, at, by, facts)
		SELECT 0, id, 'published', name, grants, revisions, at, 'worker-' || id % 200, '{"final": true, "files": 1, "bytes": 512, "content_type": "image/png"}'
		FROM made`,
}

// fill makes rows in an empty database as if workers had published n keys. They are written directly: no request could be so fast.
func fill(t testing.TB, dsn string, n int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), fillTime)
	defer cancel()
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.WithoutCancel(ctx)) //nolint:errcheck // It has done its work.
	do := func(sql string, args ...any) {
		t.Helper()
		if _, err := conn.Exec(ctx, sql, args...); err != nil {
			t.Fatalf("%.60s: %v", sql, err)
		}
	}
	begun := time.Now()
	// What is counted later is what the reads read, and nobody else: the analysis below is the only one.
	do(`DO $$ DECLARE name regclass; BEGIN
		FOR name IN SELECT oid FROM pg_class WHERE relnamespace = 'pawl'::regnamespace AND relkind = 'r' LOOP
			EXECUTE format('ALTER TABLE %s SET (autovacuum_enabled = off)', name);
		END LOOP;
	END $$`)
	// Neither the events nor the foreign keys of so many rows are wanted.
	do(`SET session_replication_role = replica`)
	do(`SET synchronous_commit = off`)
	do(`SET maintenance_work_mem = '256MB'`)
	do(`SET work_mem = '256MB'`)
	do(`CREATE TEMPORARY TABLE made (id bigint, name text, grants integer, revisions integer, files integer, size bigint, type text, at timestamptz)`)

	// Indexes are made in one go afterwards, but for those of the tables' constraints.
	rows, err := conn.Query(ctx, `SELECT i.indexrelid::regclass::text, pg_get_indexdef(i.indexrelid) FROM pg_index i JOIN pg_class c ON c.oid = i.indrelid
		WHERE c.relnamespace = 'pawl'::regnamespace AND NOT EXISTS (SELECT FROM pg_constraint WHERE conindid = i.indexrelid) ORDER BY 1`)
	if err != nil {
		t.Fatal(err)
	}
	type index struct{ Name, Definition string }
	indexes, err := pgx.CollectRows(rows, pgx.RowToStructByPos[index])
	if err != nil {
		t.Fatal(err)
	}
	for _, index := range indexes {
		do(`DROP INDEX ` + index.Name)
	}
	for from := 1; from <= n; from += batch {
		do(`TRUNCATE made`)
		do(makeSQL, from, min(from+batch-1, n), n)
		for _, sql := range fillSQL {
			do(sql)
		}
	}
	made := time.Since(begun)
	for _, index := range indexes {
		do(index.Definition)
	}
	do(`SELECT setval(pg_get_serial_sequence('pawl.keys', 'id'), (SELECT max(id) FROM pawl.keys))`)
	do(`UPDATE pawl.event_feed SET n = (SELECT max(n) FROM pawl.events)`)
	indexed := time.Since(begun)
	do(`VACUUM ANALYZE`)
	do(`CHECKPOINT`)
	t.Logf("%d keys made in %s: rows %s, indexes %s, vacuum %s", n, time.Since(begun).Round(time.Second), made.Round(time.Second),
		(indexed - made).Round(time.Second), (time.Since(begun) - indexed).Round(time.Second))
}
