-- The fenced flip.

-- +goose Up

-- +goose StatementBegin
CREATE FUNCTION pawl.receipt_json(k pawl.keys, g pawl.generations, r pawl.receipts) RETURNS jsonb LANGUAGE sql IMMUTABLE AS $$
    SELECT jsonb_build_object('key', (k).name, 'token', (r).token, 'revision', (r).revision,
        'manifest_digest', encode((r).manifest_digest, 'hex'), 'final', (r).final, 'primary', coalesce((r).primary_path, ''),
        'files', (r).files, 'bytes', (r).bytes, 'published_at', (r).published_at, 'publisher', (g).holder,
        'source_revision', (r).source_revision, 'metadata', (r).metadata,
        'previous', pawl.version((r).previous_token, (r).previous_revision), 'lease_expired', (r).lease_expired,
        'current', pawl.version((k).current_token, (k).current_revision))
        || CASE WHEN (k).counter > (r).token THEN jsonb_build_object('superseded_by', (k).counter) ELSE '{}' END
$$;
-- +goose StatementEnd

-- counting_set sums up the files that the next publish of a generation would name. Its digest is publish.ManifestDigest.
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

-- unmet holds what the next publish would name against the paths that a request expects: those that aren't there, and those
-- without a byte. EXCEPT and INTERSECT hash or sort, whatever the planner believes of the two sets; a join could become a
-- loop over both when the statistics are older than the files.
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

-- publish locks the key, then the generation, and checks in the order of the API: existence, unknown token, lease id,
-- replay, stale, condemned, sealed, preconditions, completeness. Then it flips.
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

-- +goose Down
DROP FUNCTION pawl.publish, pawl.unmet, pawl.counting_set, pawl.receipt_json;
