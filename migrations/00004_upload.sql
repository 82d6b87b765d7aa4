-- The fence, and uploads: registering or deleting a file locks the generation in share, so that uploads of one
-- generation run side by side, and then its own path. A final publish excludes them all.

-- +goose Up

-- reject records a stale request and returns its refusal. g is the stale grant, all null when nothing is known of it.
-- +goose StatementBegin
CREATE FUNCTION pawl.reject(k pawl.keys, g pawl.generations, p_token bigint, p_operation text, p_path text) RETURNS jsonb
LANGUAGE plpgsql AS $$
DECLARE
    t      timestamptz := clock_timestamp();
    winner pawl.generations;
    since  timestamptz;
    r      pawl.rejections;
BEGIN
    SELECT * INTO winner FROM pawl.generations
    WHERE key_id = k.id AND token = CASE WHEN k.fence > p_token THEN k.fence ELSE k.counter END;
    since := winner.granted_at;
    IF k.fence > p_token THEN
        SELECT published_at INTO since FROM pawl.receipts WHERE key_id = k.id AND token = k.fence AND revision = 1;
    END IF;
    INSERT INTO pawl.rejections AS old (key_id, token, operation, path, lost, accepted_token, granted_token,
        superseded_by, superseded_at, first_at, last_at, overrun_ms)
    VALUES (k.id, p_token, p_operation, p_path, g.token IS NULL, k.fence, k.counter, coalesce(winner.holder, ''), since, t, t,
        coalesce(greatest(0, extract(epoch FROM t - coalesce(g.released_at, g.lease_ended_at,
            CASE WHEN g.token = k.counter THEN k.lease_expires_at END)) * 1000), 0)::bigint)
    ON CONFLICT (key_id, token, operation, path) DO UPDATE SET repeat = old.repeat + 1,
        last_at = greatest(old.last_at, excluded.last_at), accepted_token = excluded.accepted_token,
        granted_token = excluded.granted_token, superseded_by = excluded.superseded_by,
        superseded_at = excluded.superseded_at, overrun_ms = excluded.overrun_ms
    RETURNING * INTO r;
    RETURN pawl.refused('stale-token', jsonb_build_object('key', k.name, 'path', nullif(p_path, ''),
        'operation', p_operation, 'token', p_token, 'accepted_token', nullif(k.fence, 0), 'granted_token', k.counter,
        'holder', winner.holder, 'superseded_at', since, 'repeat', r.repeat, 'overrun_ms', r.overrun_ms,
        'next', 'acquire', 'worker', g.holder));
END $$;
-- +goose StatementEnd

-- check_grant returns the refusal of a request that doesn't come from a grant of the key, or null.
-- +goose StatementBegin
CREATE FUNCTION pawl.check_grant(k pawl.keys, g pawl.generations, p_key text, p_token bigint, p_lease bytea,
    p_operation text, p_path text) RETURNS jsonb LANGUAGE plpgsql AS $$
BEGIN
    IF k.id IS NULL THEN
        RETURN pawl.refused('not-found', jsonb_build_object('key', p_key));
    ELSIF p_token > k.counter AND p_token > pawl.greatest_possible(k, pawl.epoch_now()) THEN
        RETURN pawl.refused('unknown-token', jsonb_build_object('key', p_key, 'operation', p_operation,
            'token', p_token, 'granted_token', k.counter));
    ELSIF g.token IS NULL THEN
        RETURN pawl.reject(k, g, p_token, p_operation, p_path); -- Granted in a history that was lost.
    ELSIF g.lease_sha256 <> p_lease THEN
        RETURN pawl.refused('lease-lost', jsonb_build_object('key', p_key, 'operation', p_operation,
            'token', p_token, 'granted_token', k.counter));
    END IF;
    RETURN NULL;
END $$;
-- +goose StatementEnd

-- check_fence returns the refusal of a grant that was fenced, or whose generation is closed, or null.
-- +goose StatementBegin
CREATE FUNCTION pawl.check_fence(k pawl.keys, g pawl.generations, p_operation text, p_path text) RETURNS jsonb
LANGUAGE plpgsql AS $$
BEGIN
    IF g.token < k.fence OR pawl.fenced_by_grant(k, g.token) THEN
        RETURN pawl.reject(k, g, g.token, p_operation, p_path);
    ELSIF g.state IN ('condemned', 'collected') THEN
        RETURN pawl.refused('generation-collected', jsonb_build_object('key', k.name, 'operation', p_operation, 'token', g.token));
    ELSIF g.state = 'sealed' THEN
        RETURN pawl.refused('generation-sealed', jsonb_build_object('key', k.name, 'operation', p_operation, 'token', g.token,
            'current', pawl.version(k.current_token, k.current_revision)));
    END IF;
    RETURN NULL;
END $$;
-- +goose StatementEnd

-- enter locks the generation of a grant in share, if there is one, then reads the key, whose fence is at least as new as the lock,
-- and checks the grant. The key's row itself is not locked: an upload that a later publish overtakes is harmless.
-- +goose StatementBegin
CREATE FUNCTION pawl.enter(p_key text, p_token bigint, p_lease bytea, p_operation text, p_path text,
    OUT k pawl.keys, OUT g pawl.generations, OUT refusal jsonb) LANGUAGE plpgsql AS $$
BEGIN
    SELECT gen.* INTO g FROM pawl.generations gen
    WHERE gen.key_id = (SELECT id FROM pawl.keys WHERE name = p_key) AND gen.token = p_token FOR SHARE;
    SELECT * INTO k FROM pawl.keys WHERE name = p_key;
    refusal := pawl.check_grant(k, g, p_key, p_token, p_lease, p_operation, p_path);
END $$;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE FUNCTION pawl.file_json(f pawl.files) RETURNS jsonb LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN (f).path IS NOT NULL THEN jsonb_build_object('path', (f).path, 'size', (f).size,
        'sha256', encode((f).sha256, 'hex'), 'content_type', (f).content_type) END
$$;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE FUNCTION pawl.begin_upload(p_key text, p_token bigint, p_lease bytea, p_path text, p_upload_id bytea,
    p_sha256 bytea, p_replay_sealed boolean) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
    s       record;
    k       pawl.keys;
    g       pawl.generations;
    f       pawl.files;
    refusal jsonb;
    no      bigint;
BEGIN
    SELECT * INTO s FROM pawl.enter(p_key, p_token, p_lease, 'upload', p_path);
    k := s.k;
    g := s.g;
    IF s.refusal IS NOT NULL THEN
        RETURN s.refusal;
    END IF;
    IF p_replay_sealed AND g.state = 'sealed' THEN
        SELECT * INTO f FROM pawl.files
        WHERE key_id = k.id AND token = p_token AND path = p_path AND state = 'stored' AND until_revision IS NULL;
        IF FOUND THEN
            RETURN jsonb_build_object('existing', pawl.file_json(f), 'sealed', true,
                'superseded_by', CASE WHEN k.counter > p_token THEN k.counter END);
        END IF;
    END IF;
    refusal := pawl.check_fence(k, g, 'upload', p_path);
    IF refusal IS NOT NULL THEN
        RETURN refusal;
    END IF;
    IF p_sha256 IS NOT NULL THEN
        SELECT * INTO f FROM pawl.files
        WHERE key_id = k.id AND token = p_token AND path = p_path AND state <> 'dropped'
        ORDER BY upload_no DESC LIMIT 1;
        IF f.state = 'stored' AND f.until_revision IS NULL AND f.sha256 = p_sha256 THEN
            RETURN jsonb_build_object('existing', pawl.file_json(f),
                'superseded_by', CASE WHEN k.counter > p_token THEN k.counter END);
        END IF;
    END IF;
    INSERT INTO pawl.files (key_id, token, path, upload_id) VALUES (k.id, p_token, p_path, p_upload_id)
    RETURNING upload_no INTO no;
    RETURN jsonb_build_object('upload_no', no, 'superseded_by', CASE WHEN k.counter > p_token THEN k.counter END);
END $$;
-- +goose StatementEnd

-- end_files ends what counts at a path, and drops what blocks it, among the uploads before one (all, when that is null). A file that
-- a revision named keeps its row, and stays readable until the next revision. It returns whether a file counted. The caller has locked the path.
-- +goose StatementBegin
CREATE FUNCTION pawl.end_files(g pawl.generations, p_path text, p_before bigint) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    counted boolean;
BEGIN
    UPDATE pawl.files SET
        state = CASE WHEN from_revision > g.revision THEN 'dropped' ELSE 'stored' END,
        until_revision = CASE WHEN from_revision > g.revision THEN NULL ELSE g.revision END
    WHERE key_id = g.key_id AND token = g.token AND path = p_path AND state = 'stored' AND until_revision IS NULL
        AND (p_before IS NULL OR upload_no < p_before);
    counted := FOUND;
    UPDATE pawl.files SET state = 'dropped', ended_at = coalesce(ended_at, clock_timestamp())
    WHERE key_id = g.key_id AND token = g.token AND path = p_path AND state IN ('pending', 'failed')
        AND (p_before IS NULL OR upload_no < p_before);
    RETURN counted;
END $$;
-- +goose StatementEnd

-- lock_path lets two changes of one path happen one after the other, until the end of the transaction. It is the only advisory lock of
-- a transaction; two paths whose hashes are equal only wait for each other.
-- +goose StatementBegin
CREATE FUNCTION pawl.lock_path(g pawl.generations, p_path text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_advisory_xact_lock(hashtextextended(format('pawl/%s/%s/%s', g.key_id, g.token, p_path), 0));
END $$;
-- +goose StatementEnd

-- complete_upload registers stored bytes. Of several complete uploads of a path the one that started last counts.
-- +goose StatementBegin
CREATE FUNCTION pawl.complete_upload(p_key text, p_token bigint, p_lease bytea, p_path text, p_upload_no bigint,
    p_size bigint, p_sha256 bytea, p_content_type text) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
    s        record;
    k        pawl.keys;
    g        pawl.generations;
    f        pawl.files;
    refusal  jsonb;
    replaced boolean := false;
    outdone  boolean := false;
BEGIN
    SELECT * INTO s FROM pawl.enter(p_key, p_token, p_lease, 'upload', p_path);
    k := s.k;
    g := s.g;
    refusal := coalesce(s.refusal, pawl.check_fence(k, g, 'upload', p_path));
    IF refusal IS NOT NULL THEN
        UPDATE pawl.files SET state = 'failed', failure = refusal->'refused'->>'code', ended_at = clock_timestamp()
        WHERE key_id = k.id AND token = p_token AND path = p_path AND upload_no = p_upload_no AND state = 'pending'
            AND g.lease_sha256 = p_lease;
        RETURN refusal;
    END IF;

    PERFORM pawl.lock_path(g, p_path);
    SELECT * INTO f FROM pawl.files
    WHERE key_id = k.id AND token = p_token AND path = p_path AND upload_no = p_upload_no;
    IF NOT FOUND THEN
        RETURN pawl.refused('not-found', jsonb_build_object('key', p_key, 'token', p_token, 'path', p_path));
    ELSIF f.state = 'failed' THEN
        RETURN pawl.refused('generation-incomplete', jsonb_build_object('key', p_key, 'token', p_token,
            'failed', jsonb_build_array(p_path)));
    ELSIF f.state = 'dropped' THEN
        outdone := true;
    ELSIF f.state = 'pending' THEN
        outdone := EXISTS (SELECT FROM pawl.files
            WHERE key_id = k.id AND token = p_token AND path = p_path AND upload_no > p_upload_no
                AND state = 'stored' AND until_revision IS NULL);
        IF NOT outdone THEN
            replaced := pawl.end_files(g, p_path, p_upload_no);
        END IF;
        UPDATE pawl.files SET state = CASE WHEN outdone THEN 'dropped' ELSE 'stored' END, size = p_size,
            sha256 = p_sha256, content_type = p_content_type, ended_at = clock_timestamp(),
            from_revision = CASE WHEN outdone THEN NULL ELSE g.revision + 1 END
        WHERE key_id = k.id AND token = p_token AND path = p_path AND upload_no = p_upload_no;
    END IF;
    RETURN jsonb_build_object('upload', jsonb_build_object('key', p_key, 'token', p_token, 'path', p_path,
        'size', p_size, 'sha256', encode(p_sha256, 'hex'), 'content_type', p_content_type, 'replaced', replaced,
        'overtaken', outdone) || jsonb_strip_nulls(jsonb_build_object(
        'superseded_by', CASE WHEN k.counter > p_token THEN k.counter END)));
END $$;
-- +goose StatementEnd

-- fail_upload marks a pending upload as failed. It asks no fence: what is stale is marked all the same.
-- +goose StatementBegin
CREATE FUNCTION pawl.fail_upload(p_key text, p_token bigint, p_lease bytea, p_path text, p_upload_no bigint, p_why text)
RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
    s record;
    k pawl.keys;
    g pawl.generations;
BEGIN
    SELECT * INTO s FROM pawl.enter(p_key, p_token, p_lease, 'upload', p_path);
    k := s.k;
    g := s.g;
    IF s.refusal IS NOT NULL THEN
        RETURN s.refusal;
    END IF;
    PERFORM pawl.lock_path(g, p_path);
    UPDATE pawl.files SET state = 'failed', failure = p_why, ended_at = clock_timestamp()
    WHERE key_id = k.id AND token = p_token AND path = p_path AND upload_no = p_upload_no AND state = 'pending';
    RETURN '{}';
END $$;
-- +goose StatementEnd

-- delete_file drops a path from an open generation. It is later than every upload that has started.
-- +goose StatementBegin
CREATE FUNCTION pawl.delete_file(p_key text, p_token bigint, p_lease bytea, p_path text) RETURNS jsonb
LANGUAGE plpgsql AS $$
DECLARE
    s       record;
    k       pawl.keys;
    g       pawl.generations;
    refusal jsonb;
BEGIN
    SELECT * INTO s FROM pawl.enter(p_key, p_token, p_lease, 'delete', p_path);
    k := s.k;
    g := s.g;
    refusal := coalesce(s.refusal, pawl.check_fence(k, g, 'delete', p_path));
    IF refusal IS NOT NULL THEN
        RETURN refusal;
    END IF;
    PERFORM pawl.lock_path(g, p_path);
    IF NOT EXISTS (SELECT FROM pawl.files WHERE key_id = k.id AND token = p_token AND path = p_path) THEN
        RETURN pawl.refused('not-found', jsonb_build_object('key', p_key, 'token', p_token, 'path', p_path));
    END IF;
    PERFORM pawl.end_files(g, p_path, NULL);
    RETURN '{}';
END $$;
-- +goose StatementEnd

-- +goose Down
DROP FUNCTION pawl.delete_file, pawl.fail_upload, pawl.complete_upload, pawl.lock_path, pawl.end_files, pawl.begin_upload, pawl.file_json,
    pawl.enter, pawl.check_fence, pawl.check_grant, pawl.reject;
