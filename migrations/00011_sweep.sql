-- The sweep of uploads that don't count: what is left in the blob store of rows in state failed or dropped, and of rows that stay
-- pending because their server or client was killed.
--
-- No manifest names such an object. A row becomes dropped only out of pending, failed, or a stored file that no revision has named
-- yet (end_files compares from_revision with the revision of the generation, whose lock keeps publishes out), and it becomes failed only out of pending. Neither
-- state is ever left for stored: complete_upload refuses a failed upload and answers a dropped one as overtaken. A generation that reuses
-- files names objects of published, so of stored rows, by the token of the generation that they were uploaded in. The name that is swept is made
-- of the row's own token and id, so it is that of its own upload alone.
--
-- The indexes are built without keeping writers out, which can't be done in a transaction. So every statement may be run again
-- after a break.

-- +goose NO TRANSACTION
-- +goose Up

-- alive_at is when a server last said that it has a part in the upload. sweeps counts the times that what it left was removed
-- since then, the last one at swept_at. No row is rewritten for them.
ALTER TABLE pawl.files
    ADD COLUMN IF NOT EXISTS alive_at timestamptz,
    ADD COLUMN IF NOT EXISTS swept_at timestamptz,
    ADD COLUMN IF NOT EXISTS sweeps smallint NOT NULL DEFAULT 0;

-- What is due is a seek: an upload leaves these indexes when it is stored, or swept. The last sign of it is what counts: its start, a server's
-- word, its end, or its last sweep. An upload that a client may send to the store by itself is swept twice, since what was signed for it may be used
-- after the first time. Rows from before this migration are due as all others.
DROP INDEX CONCURRENTLY IF EXISTS pawl.files_pending;
CREATE INDEX CONCURRENTLY files_pending ON pawl.files (greatest(started_at, alive_at)) WHERE state = 'pending';
DROP INDEX CONCURRENTLY IF EXISTS pawl.files_due;
CREATE INDEX CONCURRENTLY files_due ON pawl.files (greatest(started_at, alive_at, ended_at, swept_at), upload_no)
    WHERE state IN ('failed', 'dropped') AND sweeps < CASE WHEN part_size IS NULL THEN 1 ELSE 2 END;

-- A stored file that is dropped ends then, not when it was stored: its publisher may be reading it.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION pawl.end_dropped() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.ended_at := clock_timestamp();
    RETURN NEW;
END $$;
-- +goose StatementEnd

CREATE OR REPLACE TRIGGER files_dropped BEFORE UPDATE ON pawl.files FOR EACH ROW
    WHEN (OLD.state = 'stored' AND NEW.state = 'dropped') EXECUTE FUNCTION pawl.end_dropped();

-- keep_uploads says that uploads are alive, whatever their state but stored. One that was swept is due again later: its server may have stored
-- something since. A row that is locked is being ended or marked now; it is left out, so that this waits for nobody.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION pawl.keep_uploads(p_keys text[], p_tokens bigint[], p_paths text[], p_upload_nos bigint[]) RETURNS jsonb
LANGUAGE plpgsql AS $$
DECLARE
    kept integer := 0;
BEGIN
    FOR i IN 1 .. cardinality(p_keys) LOOP
        UPDATE pawl.files SET alive_at = clock_timestamp(), sweeps = 0 WHERE ctid = (
            SELECT f.ctid FROM pawl.files f
            WHERE f.key_id = (SELECT id FROM pawl.keys WHERE name = p_keys[i]) AND f.token = p_tokens[i]
                AND f.path = p_paths[i] AND f.upload_no = p_upload_nos[i] AND f.state <> 'stored'
            FOR NO KEY UPDATE SKIP LOCKED);
        IF FOUND THEN
            kept := kept + 1;
        END IF;
    END LOOP;
    RETURN jsonb_build_object('uploads', kept);
END $$;
-- +goose StatementEnd

-- fail_idle_uploads marks pending uploads as failed of which there was no sign for longer than p_idle_ms, direct ones p_direct_ms. The lock is that of
-- lock_path, so complete_upload either comes first or finds the upload failed; who has it is at work on the path now. It is only tried, so
-- several of them can't end in a deadlock.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION pawl.fail_idle_uploads(p_idle_ms bigint, p_direct_ms bigint, p_limit integer) RETURNS jsonb
LANGUAGE plpgsql SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off AS $$
DECLARE
    t      timestamptz := clock_timestamp();
    f      pawl.files;
    failed integer := 0;
BEGIN
    FOR f IN
        SELECT * FROM pawl.files
        WHERE state = 'pending' AND greatest(started_at, alive_at) < t - p_idle_ms * interval '1 millisecond'
            AND (part_size IS NULL OR greatest(started_at, alive_at) < t - p_direct_ms * interval '1 millisecond')
        ORDER BY greatest(started_at, alive_at) LIMIT p_limit
    LOOP
        CONTINUE WHEN NOT pg_try_advisory_xact_lock(hashtextextended(format('pawl/%s/%s/%s', f.key_id, f.token, f.path), 0));
        UPDATE pawl.files SET state = 'failed', failure = 'its server or client was gone', ended_at = clock_timestamp()
        WHERE key_id = f.key_id AND token = f.token AND path = f.path AND upload_no = f.upload_no AND state = 'pending'
            AND greatest(started_at, alive_at) = greatest(f.started_at, f.alive_at);
        IF FOUND THEN
            failed := failed + 1;
        END IF;
    END LOOP;
    RETURN jsonb_build_object('uploads', failed);
END $$;
-- +goose StatementEnd

-- due_uploads returns what may be swept, from the oldest on, behind a place (p_since null: from the beginning). It locks nothing: the states that
-- it finds are not left again, and sweeping twice does no harm. The planner knows nothing of the expression's values in a new index and may sort
-- all that is due; the index has the order.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION pawl.due_uploads(p_grace_ms bigint, p_direct_ms bigint, p_since timestamptz, p_upload_no bigint, p_limit integer)
RETURNS jsonb LANGUAGE plpgsql SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off AS $$
DECLARE
    t timestamptz := clock_timestamp();
BEGIN
    p_since := coalesce(p_since, '-infinity');
    RETURN (
        SELECT coalesce(jsonb_agg(jsonb_build_object('key', k.name, 'token', due.token, 'path', due.path,
            'upload_id', encode(due.upload_id, 'hex'), 'upload_no', due.upload_no, 'state', due.state, 'since', due.since)
            ORDER BY due.since, due.upload_no), '[]')
        FROM (
            SELECT key_id, token, path, upload_id, upload_no, state, greatest(started_at, alive_at, ended_at, swept_at) AS since
            FROM pawl.files
            WHERE state IN ('failed', 'dropped') AND sweeps < CASE WHEN part_size IS NULL THEN 1 ELSE 2 END
                AND greatest(started_at, alive_at, ended_at, swept_at) < t - p_grace_ms * interval '1 millisecond'
                AND (part_size IS NULL
                    OR greatest(started_at, alive_at, ended_at, swept_at) < t - p_direct_ms * interval '1 millisecond')
                AND (greatest(started_at, alive_at, ended_at, swept_at), upload_no) > (p_since, p_upload_no)
            ORDER BY greatest(started_at, alive_at, ended_at, swept_at), upload_no LIMIT p_limit
        ) due JOIN pawl.keys k ON k.id = due.key_id);
END $$;
-- +goose StatementEnd

-- swept notes that what uploads had left was removed, of those of which there was no sign since due_uploads found them. So of two that sweep
-- the same one counts, and an upload that has come to life again stays due.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION pawl.swept(p_since timestamptz[], p_upload_nos bigint[]) RETURNS jsonb
LANGUAGE plpgsql SET enable_seqscan = off AS $$
DECLARE
    swept integer := 0;
BEGIN
    FOR i IN 1 .. cardinality(p_since) LOOP
        UPDATE pawl.files SET swept_at = clock_timestamp(), sweeps = sweeps + 1 WHERE ctid = (
            SELECT f.ctid FROM pawl.files f
            WHERE f.state IN ('failed', 'dropped') AND f.sweeps < CASE WHEN f.part_size IS NULL THEN 1 ELSE 2 END
                AND greatest(f.started_at, f.alive_at, f.ended_at, f.swept_at) = p_since[i] AND f.upload_no = p_upload_nos[i]
            FOR NO KEY UPDATE SKIP LOCKED);
        IF FOUND THEN
            swept := swept + 1;
        END IF;
    END LOOP;
    RETURN jsonb_build_object('uploads', swept);
END $$;
-- +goose StatementEnd

-- +goose Down
DROP FUNCTION IF EXISTS pawl.swept, pawl.due_uploads, pawl.fail_idle_uploads, pawl.keep_uploads;
DROP TRIGGER IF EXISTS files_dropped ON pawl.files;
DROP FUNCTION IF EXISTS pawl.end_dropped;
DROP INDEX CONCURRENTLY IF EXISTS pawl.files_due;
DROP INDEX CONCURRENTLY IF EXISTS pawl.files_pending;
ALTER TABLE pawl.files DROP COLUMN IF EXISTS sweeps, DROP COLUMN IF EXISTS swept_at, DROP COLUMN IF EXISTS alive_at;
