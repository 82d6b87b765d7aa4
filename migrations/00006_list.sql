-- What readers and listings ask for. Listings seek: each page costs as many look-ups as it has entries, whatever lies between them.

-- +goose Up

-- list_names returns up to p_limit published keys and sub-prefixes behind p_after, in byte order. With p_delimiter, keys that go on after
-- the next slash show as one sub-prefix, and the search leaps over all of them.
-- +goose StatementBegin
CREATE FUNCTION pawl.list_names(p_prefix text, p_delimiter boolean, p_after text, p_limit integer)
RETURNS TABLE (name text, is_prefix boolean) LANGUAGE plpgsql STABLE AS $$
DECLARE
    -- The search goes on at names from seek on; behind skips seek itself.
    seek   text COLLATE "C" := p_prefix;
    behind boolean := false;
    found_name text COLLATE "C";
    cut    integer;
BEGIN
    IF p_after <> '' AND p_after >= p_prefix COLLATE "C" THEN
        seek := p_after;
        behind := true;
        IF p_delimiter AND right(p_after, 1) = '/' THEN
            seek := left(p_after, -1) || '0'; -- '0' is the byte after '/'.
            behind := false;
        END IF;
    END IF;
    FOR n IN 1 .. p_limit LOOP
        IF behind THEN
            SELECT k.name INTO found_name FROM pawl.keys k WHERE k.published AND k.name > seek ORDER BY k.name LIMIT 1;
        ELSE
            SELECT k.name INTO found_name FROM pawl.keys k WHERE k.published AND k.name >= seek ORDER BY k.name LIMIT 1;
        END IF;
        EXIT WHEN found_name IS NULL OR NOT starts_with(found_name, p_prefix);
        cut := CASE WHEN p_delimiter THEN position('/' IN substr(found_name, length(p_prefix) + 1)) ELSE 0 END;
        is_prefix := cut > 0;
        IF is_prefix THEN
            name := left(found_name, length(p_prefix) + cut);
            seek := left(name, -1) || '0';
        ELSE
            name := found_name;
            seek := found_name;
        END IF;
        behind := NOT is_prefix;
        RETURN NEXT;
    END LOOP;
END $$;
-- +goose StatementEnd

-- files_of gives the files that a generation's last published revision names. It is inlined into its caller's query.
-- +goose StatementBegin
CREATE FUNCTION pawl.files_of(g pawl.generations) RETURNS SETOF pawl.files LANGUAGE sql STABLE AS $$
    SELECT * FROM pawl.files f
    WHERE f.key_id = (g).key_id AND f.token = (g).token AND f.state = 'stored' AND f.from_revision <= (g).revision
        AND (f.until_revision IS NULL OR f.until_revision >= (g).revision)
$$;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE FUNCTION pawl.pointer_json(k pawl.keys, g pawl.generations, r pawl.receipts) RETURNS jsonb LANGUAGE sql IMMUTABLE AS $$
    SELECT jsonb_build_object('key', (k).name, 'token', (r).token, 'revision', (r).revision,
        'manifest_digest', encode((r).manifest_digest, 'hex'), 'final', (r).final,
        'primary', coalesce((r).primary_path, ''), 'content_type', coalesce((r).primary_type, ''),
        'files', (r).files, 'bytes', (r).bytes, 'published_at', (r).published_at, 'publisher', (g).holder,
        'source_revision', (r).source_revision, 'metadata', (r).metadata)
$$;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE FUNCTION pawl.rejection_json(r pawl.rejections, p_holder text) RETURNS jsonb LANGUAGE sql IMMUTABLE AS $$
    SELECT jsonb_build_object('token', (r).token, 'operation', (r).operation, 'code', 'stale-token', 'path', (r).path,
        'holder', coalesce(p_holder, ''), 'granted_token', (r).granted_token,
        'superseded_by', (r).superseded_by, 'superseded_at', (r).superseded_at, 'first_at', (r).first_at,
        'last_at', (r).last_at, 'repeat', (r).repeat, 'overrun_ms', (r).overrun_ms)
        || CASE WHEN (r).accepted_token > 0 THEN jsonb_build_object('accepted_token', (r).accepted_token) ELSE '{}' END
$$;
-- +goose StatementEnd

-- generation_json tells one generation, with its newest receipts and rejections, at most 100 of each.
-- +goose StatementBegin
CREATE FUNCTION pawl.generation_json(k pawl.keys, g pawl.generations) RETURNS jsonb LANGUAGE sql STABLE AS $$
    SELECT jsonb_build_object('key', (k).name, 'token', (g).token, 'state', (g).state, 'holder', (g).holder,
        'labels', (g).labels, 'granted_at', (g).granted_at, 'released_at', (g).released_at,
        'lease_ended_at', (g).lease_ended_at, 'sealed_at', (g).sealed_at, 'revision', (g).revision,
        'current', coalesce((k).current_token = (g).token, false),
        'uploads', jsonb_build_object(
            'pending', (SELECT count(*) FROM pawl.files f
                WHERE f.key_id = (g).key_id AND f.token = (g).token AND f.state = 'pending'),
            'failed', (SELECT count(*) FROM pawl.files f
                WHERE f.key_id = (g).key_id AND f.token = (g).token AND f.state = 'failed'),
            'unpublished', CASE WHEN (g).state = 'sealed' THEN 0 ELSE (SELECT count(*) FROM pawl.files f
                WHERE f.key_id = (g).key_id AND f.token = (g).token AND f.state = 'stored'
                    AND f.until_revision IS NULL AND f.from_revision > (g).revision) END),
        'receipts', coalesce((SELECT jsonb_agg(pawl.receipt_json(k, g, r) || '{"replayed": false}' ORDER BY (r).revision DESC)
            FROM (SELECT * FROM pawl.receipts WHERE key_id = (g).key_id AND token = (g).token
                ORDER BY revision DESC LIMIT 100) r), '[]'),
        'rejections', coalesce((SELECT jsonb_agg(pawl.rejection_json(r, (g).holder) ORDER BY (r).last_at DESC)
            FROM (SELECT * FROM pawl.rejections WHERE key_id = (g).key_id AND token = (g).token
                ORDER BY last_at DESC LIMIT 100) r), '[]'))
$$;
-- +goose StatementEnd

-- +goose Down
DROP FUNCTION pawl.generation_json, pawl.rejection_json, pawl.pointer_json, pawl.files_of, pawl.list_names;
