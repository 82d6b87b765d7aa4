-- Direct uploads: bytes that a client sends to the blob store itself. Their row is written before the first
-- signed request is handed out, as that of every upload, and holds what the client promises until the bytes are verified.

-- +goose Up

-- Both are null but for direct uploads. part_size is 0 for a single request. Neither costs a row of another upload anything.
ALTER TABLE pawl.files
    ADD COLUMN part_size bigint CONSTRAINT files_part_size CHECK (part_size >= 0),
    ADD COLUMN crc64nvme bytea CONSTRAINT files_crc64nvme_length CHECK (octet_length(crc64nvme) = 8);

CREATE INDEX files_direct ON pawl.files (key_id, token, upload_id) WHERE part_size IS NOT NULL;

-- +goose StatementBegin
CREATE FUNCTION pawl.direct_json(f pawl.files) RETURNS jsonb LANGUAGE sql IMMUTABLE AS $$
    SELECT pawl.file_json(f) || jsonb_build_object('upload_no', (f).upload_no, 'upload_id', encode((f).upload_id, 'hex'),
        'state', (f).state, 'part_size', (f).part_size, 'crc64nvme', encode((f).crc64nvme, 'hex'))
$$;
-- +goose StatementEnd

-- begin_direct writes the pending row of a direct upload. When the promised file counts at the path already, it returns that one;
-- when the newest upload of the path is a direct one with the same promise that isn't over, it returns that one, to be gone on with.
-- +goose StatementBegin
CREATE FUNCTION pawl.begin_direct(p_key text, p_token bigint, p_lease bytea, p_path text, p_upload_id bytea,
    p_size bigint, p_sha256 bytea, p_content_type text, p_crc64nvme bytea, p_part_size bigint) RETURNS jsonb
LANGUAGE plpgsql AS $$
DECLARE
    s       record;
    k       pawl.keys;
    g       pawl.generations;
    f       pawl.files;
    refusal jsonb;
    resumed boolean := false;
BEGIN
    SELECT * INTO s FROM pawl.enter(p_key, p_token, p_lease, 'upload', p_path);
    k := s.k;
    g := s.g;
    refusal := coalesce(s.refusal, pawl.check_fence(k, g, 'upload', p_path));
    IF refusal IS NOT NULL THEN
        RETURN refusal;
    END IF;
    SELECT * INTO f FROM pawl.files
    WHERE key_id = k.id AND token = p_token AND path = p_path AND state <> 'dropped'
    ORDER BY upload_no DESC LIMIT 1;
    IF f.state = 'stored' AND f.until_revision IS NULL AND f.sha256 = p_sha256 AND f.content_type = p_content_type THEN
        RETURN jsonb_build_object('existing', pawl.file_json(f),
            'superseded_by', CASE WHEN k.counter > p_token THEN k.counter END);
    END IF;
    resumed := coalesce(f.state = 'pending' AND f.part_size = p_part_size AND f.size = p_size AND f.sha256 = p_sha256
        AND f.content_type = p_content_type AND f.crc64nvme IS NOT DISTINCT FROM p_crc64nvme, false);
    IF NOT resumed THEN
        INSERT INTO pawl.files (key_id, token, path, upload_id, size, sha256, content_type, crc64nvme, part_size)
        VALUES (k.id, p_token, p_path, p_upload_id, p_size, p_sha256, p_content_type, p_crc64nvme, p_part_size)
        RETURNING * INTO f;
    END IF;
    RETURN jsonb_build_object('direct', pawl.direct_json(f), 'resumed', resumed,
        'superseded_by', CASE WHEN k.counter > p_token THEN k.counter END);
END $$;
-- +goose StatementEnd

-- find_direct returns a direct upload by its id. The fence is asked only of one that isn't over, and not at all when p_fenced is
-- false: giving an upload up is open to every grant.
-- +goose StatementBegin
CREATE FUNCTION pawl.find_direct(p_key text, p_token bigint, p_lease bytea, p_upload_id bytea, p_fenced boolean) RETURNS jsonb
LANGUAGE plpgsql AS $$
DECLARE
    k       pawl.keys;
    g       pawl.generations;
    f       pawl.files;
    refusal jsonb;
BEGIN
    SELECT gen.* INTO g FROM pawl.generations gen
    WHERE gen.key_id = (SELECT id FROM pawl.keys WHERE name = p_key) AND gen.token = p_token FOR SHARE;
    SELECT * INTO k FROM pawl.keys WHERE name = p_key;
    SELECT * INTO f FROM pawl.files
    WHERE key_id = k.id AND token = p_token AND upload_id = p_upload_id AND part_size IS NOT NULL;
    refusal := pawl.check_grant(k, g, p_key, p_token, p_lease, 'upload', coalesce(f.path, ''));
    IF refusal IS NOT NULL THEN
        RETURN refusal;
    ELSIF f.path IS NULL THEN
        RETURN pawl.refused('not-found', jsonb_build_object('key', p_key, 'token', p_token));
    ELSIF p_fenced AND f.state <> 'stored' THEN
        refusal := pawl.check_fence(k, g, 'upload', f.path);
        IF refusal IS NOT NULL THEN
            RETURN refusal;
        END IF;
    END IF;
    RETURN jsonb_build_object('direct', pawl.direct_json(f),
        'superseded_by', CASE WHEN k.counter > p_token THEN k.counter END);
END $$;
-- +goose StatementEnd

-- +goose Down
DROP FUNCTION pawl.find_direct, pawl.begin_direct, pawl.direct_json;
DROP INDEX pawl.files_direct;
ALTER TABLE pawl.files DROP COLUMN crc64nvme, DROP COLUMN part_size;
