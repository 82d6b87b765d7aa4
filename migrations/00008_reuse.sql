-- reuse_from: a publish carries files of an earlier generation over by reference. A carried file is a row of the new generation that
-- names the object of another one, so what is read, counted and replaced stays the matter of one generation's rows.

-- +goose Up

-- object_token is the token under which the bytes were uploaded, null for the row's own: the object's name is that of
-- (key, object_token, upload_id, path). A file that is carried twice names the first generation: there are no chains to follow.
ALTER TABLE pawl.files
    ADD COLUMN object_token bigint CONSTRAINT files_object_token CHECK (object_token < token);

-- Which generations still name objects of another one: what a collection must ask before it deletes those.
CREATE INDEX files_reused ON pawl.files (key_id, object_token, token) WHERE object_token IS NOT NULL;

-- reuse_from is what the request asked for; reused_files and reused_bytes are what of the set lies in objects of earlier generations.
ALTER TABLE pawl.receipts
    ADD COLUMN reuse_from bigint CONSTRAINT receipts_reuse_from CHECK (reuse_from < token),
    ADD COLUMN reused_files bigint NOT NULL DEFAULT 0,
    ADD COLUMN reused_bytes bigint NOT NULL DEFAULT 0,
    ADD CONSTRAINT receipts_reused CHECK (reused_files BETWEEN 0 AND files AND reused_bytes BETWEEN 0 AND bytes);

DROP FUNCTION pawl.publish, pawl.unmet, pawl.counting_set;

-- +goose StatementBegin
CREATE OR REPLACE FUNCTION pawl.receipt_json(k pawl.keys, g pawl.generations, r pawl.receipts) RETURNS jsonb LANGUAGE sql IMMUTABLE AS $$
    SELECT jsonb_build_object('key', (k).name, 'token', (r).token, 'revision', (r).revision,
        'manifest_digest', encode((r).manifest_digest, 'hex'), 'final', (r).final, 'primary', coalesce((r).primary_path, ''),
        'files', (r).files, 'bytes', (r).bytes, 'published_at', (r).published_at, 'publisher', (g).holder,
        'source_revision', (r).source_revision, 'metadata', (r).metadata,
        'previous', pawl.version((r).previous_token, (r).previous_revision), 'lease_expired', (r).lease_expired,
        'current', pawl.version((k).current_token, (k).current_revision))
        || CASE WHEN (r).reuse_from IS NOT NULL THEN jsonb_build_object('reuse_from', (r).reuse_from) ELSE '{}' END
        || CASE WHEN (r).reused_files > 0 THEN jsonb_build_object('reused_files', (r).reused_files,
            'reused_bytes', (r).reused_bytes) ELSE '{}' END
        || CASE WHEN (k).counter > (r).token THEN jsonb_build_object('superseded_by', (k).counter) ELSE '{}' END
$$;
-- +goose StatementEnd

-- carried gives the files of a generation's last published revision at paths that another generation hasn't touched: a path that
-- was uploaded, was tried to be uploaded or was deleted there is that generation's own matter. It sorts, whatever the planner
-- believes of the two sets; a join could become a loop over both when the statistics are older than the files.
-- +goose StatementBegin
CREATE FUNCTION pawl.carried(g pawl.generations, p_from pawl.generations) RETURNS pawl.files[] LANGUAGE sql STABLE AS $$
    SELECT array_agg(f) FROM (
        SELECT DISTINCT ON (path) own, f FROM (
            SELECT path, true AS own, NULL::pawl.files AS f FROM pawl.files
            WHERE key_id = (g).key_id AND token = (g).token
            UNION ALL
            SELECT f.path, false, f FROM pawl.files_of(p_from) f) paths
        ORDER BY path, own DESC) first
    WHERE NOT own
$$;
-- +goose StatementEnd

-- counting_set sums up the files that the next publish of a generation would name, with those that it carries over. Its digest
-- is publish.ManifestDigest.
-- +goose StatementBegin
CREATE FUNCTION pawl.counting_set(g pawl.generations, p_carried pawl.files[], OUT files bigint, OUT bytes bigint, OUT digest bytea,
    OUT only_path text, OUT reused_files bigint, OUT reused_bytes bigint) LANGUAGE sql STABLE AS $$
    SELECT count(*), coalesce(sum(size), 0)::bigint,
        sha256(convert_to('pawl-manifest-1' || E'\n' || coalesce(string_agg(
            encode(sha256, 'hex') || E'\t' || size || E'\t' || content_type || E'\t' || path || E'\n', '' ORDER BY path), ''), 'UTF8')),
        CASE WHEN count(*) = 1 THEN min(path) END,
        count(*) FILTER (WHERE reused), coalesce(sum(size) FILTER (WHERE reused), 0)::bigint
    FROM (
        SELECT path COLLATE "C" AS path, size, sha256, content_type, object_token IS NOT NULL AS reused FROM pawl.files
        WHERE key_id = (g).key_id AND token = (g).token AND state = 'stored' AND until_revision IS NULL
        UNION ALL
        SELECT path COLLATE "C", size, sha256, content_type, true FROM unnest(p_carried)) set_files
$$;
-- +goose StatementEnd

-- unmet holds what the next publish would name, with what it carries over, against the paths that a request expects: those that
-- aren't there, and those without a byte. EXCEPT and INTERSECT hash or sort, whatever the planner believes of the sets.
-- +goose StatementBegin
CREATE FUNCTION pawl.unmet(g pawl.generations, p_carried pawl.files[], p_expect text[], p_allow_empty boolean,
    OUT missing jsonb, OUT empty jsonb) LANGUAGE sql STABLE AS $$
    SELECT (SELECT jsonb_agg(path ORDER BY path) FROM (
            SELECT expected COLLATE "C" AS path FROM unnest(p_expect) expected
            EXCEPT (
                SELECT path FROM pawl.files
                WHERE key_id = (g).key_id AND token = (g).token AND state = 'stored' AND until_revision IS NULL
                UNION ALL SELECT path FROM unnest(p_carried))) absent),
        (SELECT jsonb_agg(path ORDER BY path) FROM (
            SELECT expected COLLATE "C" AS path FROM unnest(p_expect) expected
            INTERSECT (
                SELECT path FROM pawl.files
                WHERE key_id = (g).key_id AND token = (g).token AND state = 'stored' AND until_revision IS NULL
                    AND size = 0 AND NOT p_allow_empty
                UNION ALL SELECT path FROM unnest(p_carried) WHERE size = 0 AND NOT p_allow_empty)) hollow)
$$;
-- +goose StatementEnd

-- check_reuse returns the refusal of a publish that would carry files of a generation over, or null. That one must be what this
-- generation replaces: the current version, or before this generation's own first publish.
-- +goose StatementBegin
CREATE FUNCTION pawl.check_reuse(k pawl.keys, g pawl.generations, p_from pawl.generations, p_reuse_from bigint,
    p_stale boolean) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
    facts jsonb := jsonb_build_object('key', k.name, 'operation', 'publish', 'token', g.token, 'reuse_from', p_reuse_from,
        'current', pawl.version(k.current_token, k.current_revision));
    base  bigint := k.current_token;
BEGIN
    IF p_from.token IS NULL OR p_from.revision = 0 THEN
        RETURN pawl.refused('not-found', facts);
    ELSIF p_from.state IN ('condemned', 'collected') THEN
        RETURN pawl.refused('generation-collected', facts);
    END IF;
    IF base = g.token THEN
        SELECT previous_token INTO base FROM pawl.receipts WHERE key_id = k.id AND token = g.token AND revision = 1;
    END IF;
    IF NOT p_stale AND base IS DISTINCT FROM p_reuse_from THEN
        RETURN pawl.refused('precondition-failed', facts);
    END IF;
    RETURN NULL;
END $$;
-- +goose StatementEnd

-- publish locks the key, then the generation, and checks in the order of the API: existence, unknown token, lease id,
-- replay, stale, condemned, sealed, preconditions, completeness. Then it flips. The last two have defaults for servers of before
-- this migration, which call it without while they are restarted one by one.
-- +goose StatementBegin
CREATE FUNCTION pawl.publish(p_key text, p_token bigint, p_lease bytea, p_final boolean, p_primary text,
    p_source_revision bigint, p_metadata jsonb, p_manifest_digest bytea, p_release boolean,
    p_match_token bigint, p_match_revision bigint, p_create_only boolean,
    p_expect text[], p_allow_empty boolean, p_reuse_from bigint DEFAULT NULL, p_reuse_stale boolean DEFAULT false) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
    k            pawl.keys;
    g            pawl.generations;
    r            pawl.receipts;
    t            timestamptz;
    refusal      jsonb;
    reuse        pawl.generations;
    carried      pawl.files[];
    counting     record;
    failed       jsonb;
    pending      jsonb;
    missing      jsonb;
    empty        jsonb;
    primary_file pawl.files;
    facts        jsonb;
    mode         text;
BEGIN
    SELECT * INTO k FROM pawl.keys WHERE name = p_key FOR NO KEY UPDATE;
    SELECT * INTO g FROM pawl.generations WHERE key_id = k.id AND token = p_token FOR NO KEY UPDATE;
    t := clock_timestamp();
    refusal := pawl.check_grant(k, g, p_key, p_token, p_lease, 'publish', '');
    IF refusal IS NOT NULL THEN
        RETURN refusal;
    END IF;

    -- Replay: equal in body and manifest to the generation's latest revision. What is expected is a check, as the digest
    -- is, and not kept: a sealed set that doesn't pass it was published by another request.
    IF p_final AND cardinality(p_expect) > 0 THEN
        SELECT * INTO missing, empty FROM pawl.unmet(g, NULL, p_expect, p_allow_empty);
    END IF;
    SELECT * INTO r FROM pawl.receipts WHERE key_id = k.id AND token = p_token AND revision = g.revision;
    IF FOUND AND r.final = p_final AND r.requested_primary IS NOT DISTINCT FROM p_primary
        AND r.source_revision IS NOT DISTINCT FROM p_source_revision AND r.metadata = p_metadata
        AND r.reuse_from IS NOT DISTINCT FROM p_reuse_from
        AND (p_manifest_digest IS NULL OR p_manifest_digest = r.manifest_digest)
        AND (g.state <> 'open' OR (SELECT digest FROM pawl.counting_set(g, NULL)) = r.manifest_digest)
        AND (g.state <> 'sealed' OR coalesce(missing, empty) IS NULL) THEN
        IF p_release AND k.lease_sha256 = p_lease THEN
            PERFORM pawl.end_lease(k);
        END IF;
        RETURN jsonb_build_object('receipt', pawl.receipt_json(k, g, r) || '{"replayed": true}');
    END IF;

    refusal := pawl.check_fence(k, g, 'publish', '');
    IF refusal IS NOT NULL THEN
        RETURN refusal;
    END IF;

    facts := jsonb_build_object('key', p_key, 'operation', 'publish', 'token', p_token,
        'current', pawl.version(k.current_token, k.current_revision));
    IF p_create_only AND k.published OR p_match_token IS NOT NULL AND
        (p_match_token, p_match_revision) IS DISTINCT FROM (k.current_token, k.current_revision) THEN
        RETURN pawl.refused('precondition-failed', facts);
    END IF;
    IF p_source_revision < (SELECT source_revision FROM pawl.receipts
            WHERE key_id = k.id AND token = k.current_token AND revision = k.current_revision) THEN
        RETURN pawl.refused('older-source', facts);
    END IF;

    -- What a generation has carried over stays in its set, so it is carried only once: by then all of it is touched. The lock
    -- of the key keeps the other generation from being published or condemned meanwhile.
    IF p_reuse_from IS NOT NULL AND NOT EXISTS (SELECT FROM pawl.receipts
            WHERE key_id = k.id AND token = p_token AND reuse_from = p_reuse_from) THEN
        SELECT * INTO reuse FROM pawl.generations WHERE key_id = k.id AND token = p_reuse_from;
        refusal := pawl.check_reuse(k, g, reuse, p_reuse_from, p_reuse_stale);
        IF refusal IS NOT NULL THEN
            RETURN refusal;
        END IF;
        carried := pawl.carried(g, reuse);
        IF carried IS NOT NULL AND p_final AND cardinality(p_expect) > 0 THEN
            SELECT * INTO missing, empty FROM pawl.unmet(g, carried, p_expect, p_allow_empty);
        END IF;
    END IF;

    -- Complete or nothing. What isn't final publishes what is complete.
    IF p_final THEN
        SELECT jsonb_agg(path ORDER BY path) FILTER (WHERE state = 'failed'),
            jsonb_agg(path ORDER BY path) FILTER (WHERE state = 'pending')
        INTO failed, pending
        FROM (SELECT DISTINCT ON (path) path, state FROM pawl.files f
            WHERE key_id = k.id AND token = p_token AND state IN ('pending', 'failed')
                -- An upload that started before the one that counts blocks nothing, even where it was not seen when that one ended.
                AND NOT EXISTS (SELECT FROM pawl.files c WHERE c.key_id = f.key_id AND c.token = f.token AND c.path = f.path
                    AND c.state = 'stored' AND c.until_revision IS NULL AND c.upload_no > f.upload_no)
            ORDER BY path, upload_no DESC) blocking;
        IF coalesce(missing, empty, failed, pending) IS NOT NULL THEN
            RETURN pawl.refused('generation-incomplete', facts || jsonb_build_object('missing', missing,
                'empty', empty, 'failed', failed, 'pending', pending));
        END IF;
    END IF;
    SELECT * INTO counting FROM pawl.counting_set(g, carried);
    IF counting.files = 0 THEN
        RETURN pawl.refused('generation-incomplete', facts);
    END IF;
    SELECT * INTO primary_file FROM pawl.files
    WHERE key_id = k.id AND token = p_token AND path = coalesce(p_primary, counting.only_path)
        AND state = 'stored' AND until_revision IS NULL;
    IF NOT FOUND THEN
        SELECT c.* INTO primary_file FROM unnest(carried) c WHERE c.path = coalesce(p_primary, counting.only_path);
    END IF;
    IF p_primary IS NOT NULL AND primary_file.path IS NULL THEN
        RETURN pawl.refused('generation-incomplete', facts || jsonb_build_object('missing', jsonb_build_array(p_primary)));
    END IF;
    IF p_manifest_digest <> counting.digest THEN
        RETURN pawl.refused('digest-mismatch', facts || jsonb_build_object(
            'promised', encode(p_manifest_digest, 'hex'), 'came', encode(counting.digest, 'hex')));
    END IF;

    -- The flip compares once more, where the write is: whatever was decided above, an older token can't pass here.
    mode := pawl.fence_mode(p_key);
    UPDATE pawl.keys SET fence = p_token, published = true, current_token = p_token, current_revision = g.revision + 1
    WHERE id = k.id AND counter >= p_token AND (mode <> 'granted' OR counter = p_token)
        AND (fence < p_token OR fence = p_token AND current_token = p_token AND current_revision = g.revision);
    IF NOT FOUND THEN
        RETURN pawl.reject(k, g, p_token, 'publish', '');
    END IF;
    INSERT INTO pawl.files (key_id, token, path, upload_id, state, size, sha256, content_type, from_revision,
        started_at, ended_at, object_token)
    SELECT k.id, p_token, path, upload_id, 'stored', size, sha256, content_type, g.revision + 1, t, t, coalesce(object_token, token)
    FROM unnest(carried);
    UPDATE pawl.generations SET revision = g.revision + 1,
        state = CASE WHEN p_final THEN 'sealed' ELSE 'open' END, sealed_at = CASE WHEN p_final THEN t END
    WHERE key_id = k.id AND token = p_token AND state = 'open' RETURNING * INTO STRICT g;
    INSERT INTO pawl.receipts (key_id, token, revision, manifest_digest, final, requested_primary, primary_path,
        primary_type, files, bytes, published_at, source_revision, metadata, previous_token, previous_revision, lease_expired,
        reuse_from, reused_files, reused_bytes)
    VALUES (k.id, p_token, g.revision, counting.digest, p_final, p_primary, primary_file.path,
        primary_file.content_type, counting.files, counting.bytes, t, p_source_revision, p_metadata,
        k.current_token, k.current_revision,
        k.lease_sha256 IS DISTINCT FROM p_lease OR k.lease_expires_at <= t,
        p_reuse_from, counting.reused_files, counting.reused_bytes)
    RETURNING * INTO r;
    IF p_release AND k.lease_sha256 = p_lease THEN
        PERFORM pawl.end_lease(k);
    END IF;
    k.current_token := r.token;
    k.current_revision := r.revision;
    RETURN jsonb_build_object('receipt', pawl.receipt_json(k, g, r) || '{"replayed": false}');
END $$;
-- +goose StatementEnd

-- delete_file drops a path from an open generation. It is later than every upload that has started. A path that has no upload here but a
-- file in an earlier generation is kept from being carried over.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION pawl.delete_file(p_key text, p_token bigint, p_lease bytea, p_path text) RETURNS jsonb
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
        IF NOT EXISTS (SELECT FROM pawl.generations e, LATERAL pawl.files_of(e) f
                WHERE e.key_id = k.id AND e.token < p_token AND e.revision > 0 AND f.path = p_path) THEN
            RETURN pawl.refused('not-found', jsonb_build_object('key', p_key, 'token', p_token, 'path', p_path));
        END IF;
        -- The row of the deletion itself: reuse_from leaves the path out.
        INSERT INTO pawl.files (key_id, token, path, upload_id, state, ended_at, failure)
        VALUES (k.id, p_token, p_path, uuid_send(gen_random_uuid()), 'dropped', clock_timestamp(), 'deleted');
    END IF;
    PERFORM pawl.end_files(g, p_path, NULL);
    RETURN '{}';
END $$;
-- +goose StatementEnd

-- +goose Down
-- Without object_token the carried files would name objects that don't exist.
-- +goose StatementBegin
DO $$ BEGIN
    IF EXISTS (SELECT FROM pawl.files WHERE object_token IS NOT NULL) THEN
        RAISE EXCEPTION 'pawl: files were carried over by reuse_from; the schema before it can''t read them';
    END IF;
END $$;
-- +goose StatementEnd
DROP FUNCTION pawl.publish, pawl.check_reuse, pawl.unmet, pawl.counting_set, pawl.carried;

-- +goose StatementBegin
CREATE OR REPLACE FUNCTION pawl.delete_file(p_key text, p_token bigint, p_lease bytea, p_path text) RETURNS jsonb
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

-- +goose StatementBegin
CREATE OR REPLACE FUNCTION pawl.receipt_json(k pawl.keys, g pawl.generations, r pawl.receipts) RETURNS jsonb LANGUAGE sql IMMUTABLE AS $$
    SELECT jsonb_build_object('key', (k).name, 'token', (r).token, 'revision', (r).revision,
        'manifest_digest', encode((r).manifest_digest, 'hex'), 'final', (r).final, 'primary', coalesce((r).primary_path, ''),
        'files', (r).files, 'bytes', (r).bytes, 'published_at', (r).published_at, 'publisher', (g).holder,
        'source_revision', (r).source_revision, 'metadata', (r).metadata,
        'previous', pawl.version((r).previous_token, (r).previous_revision), 'lease_expired', (r).lease_expired,
        'current', pawl.version((k).current_token, (k).current_revision))
        || CASE WHEN (k).counter > (r).token THEN jsonb_build_object('superseded_by', (k).counter) ELSE '{}' END
$$;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE FUNCTION pawl.counting_set(g pawl.generations, OUT files bigint, OUT bytes bigint, OUT digest bytea, OUT only_path text)
LANGUAGE sql STABLE AS $$
    SELECT count(*), coalesce(sum(size), 0)::bigint,
        sha256(convert_to('pawl-manifest-1' || E'\n' || coalesce(string_agg(
            encode(sha256, 'hex') || E'\t' || size || E'\t' || content_type || E'\t' || path || E'\n', '' ORDER BY path), ''), 'UTF8')),
        CASE WHEN count(*) = 1 THEN min(path) END
    FROM pawl.files
    WHERE key_id = (g).key_id AND token = (g).token AND state = 'stored' AND until_revision IS NULL
$$;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE FUNCTION pawl.unmet(g pawl.generations, p_expect text[], p_allow_empty boolean, OUT missing jsonb, OUT empty jsonb)
LANGUAGE sql STABLE AS $$
    SELECT (SELECT jsonb_agg(path ORDER BY path) FROM (
            SELECT expected COLLATE "C" AS path FROM unnest(p_expect) expected
            EXCEPT SELECT path FROM pawl.files
            WHERE key_id = (g).key_id AND token = (g).token AND state = 'stored' AND until_revision IS NULL) absent),
        (SELECT jsonb_agg(path ORDER BY path) FROM (
            SELECT expected COLLATE "C" AS path FROM unnest(p_expect) expected
            INTERSECT SELECT path FROM pawl.files
            WHERE key_id = (g).key_id AND token = (g).token AND state = 'stored' AND until_revision IS NULL
                AND size = 0 AND NOT p_allow_empty) hollow)
$$;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE FUNCTION pawl.publish(p_key text, p_token bigint, p_lease bytea, p_final boolean, p_primary text,
    p_source_revision bigint, p_metadata jsonb, p_manifest_digest bytea, p_release boolean,
    p_match_token bigint, p_match_revision bigint, p_create_only boolean,
    p_expect text[], p_allow_empty boolean) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
    k            pawl.keys;
    g            pawl.generations;
    r            pawl.receipts;
    t            timestamptz;
    refusal      jsonb;
    counting     record;
    failed       jsonb;
    pending      jsonb;
    missing      jsonb;
    empty        jsonb;
    primary_file pawl.files;
    facts        jsonb;
    mode         text;
BEGIN
    SELECT * INTO k FROM pawl.keys WHERE name = p_key FOR NO KEY UPDATE;
    SELECT * INTO g FROM pawl.generations WHERE key_id = k.id AND token = p_token FOR NO KEY UPDATE;
    t := clock_timestamp();
    refusal := pawl.check_grant(k, g, p_key, p_token, p_lease, 'publish', '');
    IF refusal IS NOT NULL THEN
        RETURN refusal;
    END IF;

    -- Replay: equal in body and manifest to the generation's latest revision. What is expected is a check, as the digest
    -- is, and not kept: a sealed set that doesn't pass it was published by another request.
    IF p_final AND cardinality(p_expect) > 0 THEN
        SELECT * INTO missing, empty FROM pawl.unmet(g, p_expect, p_allow_empty);
    END IF;
    SELECT * INTO r FROM pawl.receipts WHERE key_id = k.id AND token = p_token AND revision = g.revision;
    IF FOUND AND r.final = p_final AND r.requested_primary IS NOT DISTINCT FROM p_primary
        AND r.source_revision IS NOT DISTINCT FROM p_source_revision AND r.metadata = p_metadata
        AND (p_manifest_digest IS NULL OR p_manifest_digest = r.manifest_digest)
        AND (g.state <> 'open' OR (SELECT digest FROM pawl.counting_set(g)) = r.manifest_digest)
        AND (g.state <> 'sealed' OR coalesce(missing, empty) IS NULL) THEN
        IF p_release AND k.lease_sha256 = p_lease THEN
            PERFORM pawl.end_lease(k);
        END IF;
        RETURN jsonb_build_object('receipt', pawl.receipt_json(k, g, r) || '{"replayed": true}');
    END IF;

    refusal := pawl.check_fence(k, g, 'publish', '');
    IF refusal IS NOT NULL THEN
        RETURN refusal;
    END IF;

    facts := jsonb_build_object('key', p_key, 'operation', 'publish', 'token', p_token,
        'current', pawl.version(k.current_token, k.current_revision));
    IF p_create_only AND k.published OR p_match_token IS NOT NULL AND
        (p_match_token, p_match_revision) IS DISTINCT FROM (k.current_token, k.current_revision) THEN
        RETURN pawl.refused('precondition-failed', facts);
    END IF;
    IF p_source_revision < (SELECT source_revision FROM pawl.receipts
            WHERE key_id = k.id AND token = k.current_token AND revision = k.current_revision) THEN
        RETURN pawl.refused('older-source', facts);
    END IF;

    -- Complete or nothing. What isn't final publishes what is complete.
    IF p_final THEN
        SELECT jsonb_agg(path ORDER BY path) FILTER (WHERE state = 'failed'),
            jsonb_agg(path ORDER BY path) FILTER (WHERE state = 'pending')
        INTO failed, pending
        FROM (SELECT DISTINCT ON (path) path, state FROM pawl.files f
            WHERE key_id = k.id AND token = p_token AND state IN ('pending', 'failed')
                -- An upload that started before the one that counts blocks nothing, even where it was not seen when that one ended.
                AND NOT EXISTS (SELECT FROM pawl.files c WHERE c.key_id = f.key_id AND c.token = f.token AND c.path = f.path
                    AND c.state = 'stored' AND c.until_revision IS NULL AND c.upload_no > f.upload_no)
            ORDER BY path, upload_no DESC) blocking;
        IF coalesce(missing, empty, failed, pending) IS NOT NULL THEN
            RETURN pawl.refused('generation-incomplete', facts || jsonb_build_object('missing', missing,
                'empty', empty, 'failed', failed, 'pending', pending));
        END IF;
    END IF;
    SELECT * INTO counting FROM pawl.counting_set(g);
    IF counting.files = 0 THEN
        RETURN pawl.refused('generation-incomplete', facts);
    END IF;
    SELECT * INTO primary_file FROM pawl.files
    WHERE key_id = k.id AND token = p_token AND path = coalesce(p_primary, counting.only_path)
        AND state = 'stored' AND until_revision IS NULL;
    IF p_primary IS NOT NULL AND primary_file.path IS NULL THEN
        RETURN pawl.refused('generation-incomplete', facts || jsonb_build_object('missing', jsonb_build_array(p_primary)));
    END IF;
    IF p_manifest_digest <> counting.digest THEN
        RETURN pawl.refused('digest-mismatch', facts || jsonb_build_object(
            'promised', encode(p_manifest_digest, 'hex'), 'came', encode(counting.digest, 'hex')));
    END IF;

    -- The flip compares once more, where the write is: whatever was decided above, an older token can't pass here.
    mode := pawl.fence_mode(p_key);
    UPDATE pawl.keys SET fence = p_token, published = true, current_token = p_token, current_revision = g.revision + 1
    WHERE id = k.id AND counter >= p_token AND (mode <> 'granted' OR counter = p_token)
        AND (fence < p_token OR fence = p_token AND current_token = p_token AND current_revision = g.revision);
    IF NOT FOUND THEN
        RETURN pawl.reject(k, g, p_token, 'publish', '');
    END IF;
    UPDATE pawl.generations SET revision = g.revision + 1,
        state = CASE WHEN p_final THEN 'sealed' ELSE 'open' END, sealed_at = CASE WHEN p_final THEN t END
    WHERE key_id = k.id AND token = p_token AND state = 'open' RETURNING * INTO STRICT g;
    INSERT INTO pawl.receipts (key_id, token, revision, manifest_digest, final, requested_primary, primary_path,
        primary_type, files, bytes, published_at, source_revision, metadata, previous_token, previous_revision, lease_expired)
    VALUES (k.id, p_token, g.revision, counting.digest, p_final, p_primary, primary_file.path,
        primary_file.content_type, counting.files, counting.bytes, t, p_source_revision, p_metadata,
        k.current_token, k.current_revision,
        k.lease_sha256 IS DISTINCT FROM p_lease OR k.lease_expires_at <= t)
    RETURNING * INTO r;
    IF p_release AND k.lease_sha256 = p_lease THEN
        PERFORM pawl.end_lease(k);
    END IF;
    k.current_token := r.token;
    k.current_revision := r.revision;
    RETURN jsonb_build_object('receipt', pawl.receipt_json(k, g, r) || '{"replayed": false}');
END $$;
-- +goose StatementEnd

DROP INDEX pawl.files_reused;
ALTER TABLE pawl.receipts DROP CONSTRAINT receipts_reused, DROP COLUMN reused_bytes, DROP COLUMN reused_files, DROP COLUMN reuse_from;
ALTER TABLE pawl.files DROP COLUMN object_token;
