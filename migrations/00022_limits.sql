-- Limits of what one generation may hold. They are settings of the servers, so the functions here are told them; those of policies stand beside.
--
-- What a generation has uploaded is summed up as it comes, since counting 100,000 files at each of 100,000 uploads would be all that a database does.
-- The sum of a generation lies in several rows, by the session that adds to it, so that its uploads still run side by side.

-- +goose Up

-- A row may be negative, as where one session has stored a file and another has replaced it; their sum isn't. Generations that take no more uploads
-- have no rows.
CREATE TABLE IF NOT EXISTS pawl.generation_sums (
    key_id bigint NOT NULL,
    token  bigint NOT NULL,
    slot   smallint NOT NULL,
    files  bigint NOT NULL,
    bytes  bigint NOT NULL,
    PRIMARY KEY (key_id, token, slot)
) WITH (fillfactor = 50);

-- sum_file adds a file that begins to count to the sums of its generation, or takes one out that ends to count.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION pawl.sum_file() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    sign integer := CASE WHEN NEW.state = 'stored' AND NEW.until_revision IS NULL THEN 1 ELSE -1 END;
BEGIN
    INSERT INTO pawl.generation_sums AS had (key_id, token, slot, files, bytes)
    VALUES (NEW.key_id, NEW.token, pg_backend_pid() % 16, sign, sign * NEW.size)
    ON CONFLICT (key_id, token, slot) DO UPDATE SET files = had.files + excluded.files, bytes = had.bytes + excluded.bytes;
    RETURN NULL;
END $$;
-- +goose StatementEnd

-- A file of an earlier generation that is carried over is inserted as one that counts, and takes no space.
CREATE OR REPLACE TRIGGER files_summed AFTER UPDATE ON pawl.files FOR EACH ROW
    WHEN (NEW.object_token IS NULL
        AND (OLD.state = 'stored' AND OLD.until_revision IS NULL) <> (NEW.state = 'stored' AND NEW.until_revision IS NULL))
    EXECUTE FUNCTION pawl.sum_file();

-- +goose StatementBegin
CREATE OR REPLACE FUNCTION pawl.drop_sums() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM pawl.generation_sums WHERE key_id = NEW.key_id AND token = NEW.token;
    RETURN NULL;
END $$;
-- +goose StatementEnd

CREATE OR REPLACE TRIGGER generations_unsummed AFTER UPDATE ON pawl.generations FOR EACH ROW
    WHEN (OLD.state = 'open' AND NEW.state <> 'open') EXECUTE FUNCTION pawl.drop_sums();

INSERT INTO pawl.generation_sums (key_id, token, slot, files, bytes)
SELECT f.key_id, f.token, 0, count(*), sum(f.size)
FROM pawl.generations g JOIN pawl.files f ON f.key_id = g.key_id AND f.token = g.token
WHERE g.state = 'open' AND f.state = 'stored' AND f.until_revision IS NULL AND f.object_token IS NULL
    AND NOT EXISTS (SELECT FROM pawl.generation_sums s WHERE s.key_id = g.key_id AND s.token = g.token)
GROUP BY f.key_id, f.token;

-- refuse_set undoes the transaction, whose change is one too many, and tells the refusal by a state of its own.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION pawl.refuse_set(p_facts jsonb, p_unit text, p_came bigint, p_limit bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'pawl: a generation would have % %, more than %', p_came, p_unit, p_limit USING ERRCODE = 'PW413',
        DETAIL = (pawl.refused('too-large', p_facts || jsonb_build_object('limit', p_limit, 'came', p_came::text,
            'unit', nullif(p_unit, 'bytes')))->'refused')::text;
END $$;
-- +goose StatementEnd

-- upload_within takes the answer of complete_upload and gives it back, unless the generation has more files or bytes now than it may; null is no limit.
-- Uploads that end at the same moment don't see each other, so a few may get past; the publish doesn't.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION pawl.upload_within(p_answer jsonb, p_files bigint, p_bytes bigint) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
    u   jsonb := p_answer->'upload';
    has record;
BEGIN
    IF u IS NULL OR coalesce(p_files, p_bytes) IS NULL THEN
        RETURN p_answer;
    END IF;
    SELECT sum(files)::bigint AS files, sum(bytes)::bigint AS bytes INTO has FROM pawl.generation_sums
    WHERE key_id = (SELECT id FROM pawl.keys WHERE name = u->>'key') AND token = (u->>'token')::bigint;
    IF has.bytes > p_bytes THEN
        PERFORM pawl.refuse_set(jsonb_build_object('key', u->'key', 'token', u->'token', 'path', u->'path', 'operation', 'upload'), 'bytes', has.bytes, p_bytes);
    ELSIF has.files > p_files THEN
        PERFORM pawl.refuse_set(jsonb_build_object('key', u->'key', 'token', u->'token', 'path', u->'path', 'operation', 'upload'), 'files', has.files, p_files);
    END IF;
    RETURN p_answer;
END $$;
-- +goose StatementEnd

-- publish_within takes the answer of publish and gives it back, unless the set that it made current is larger than it may be; null is no limit. A
-- set's files are all of it, its bytes those that the generation has uploaded itself.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION pawl.publish_within(p_answer jsonb, p_files bigint, p_bytes bigint) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
    r     jsonb := p_answer->'receipt';
    facts jsonb;
    own   bigint;
BEGIN
    IF r->>'replayed' = 'false' THEN
        facts := jsonb_build_object('key', r->'key', 'token', r->'token', 'operation', 'publish');
        own := (r->>'bytes')::bigint - coalesce((r->>'reused_bytes')::bigint, 0);
        IF own > p_bytes THEN
            PERFORM pawl.refuse_set(facts, 'bytes', own, p_bytes);
        ELSIF (r->>'files')::bigint > p_files THEN
            PERFORM pawl.refuse_set(facts, 'files', (r->>'files')::bigint, p_files);
        END IF;
    END IF;
    RETURN p_answer;
END $$;
-- +goose StatementEnd

-- +goose Down
DROP FUNCTION IF EXISTS pawl.publish_within, pawl.upload_within, pawl.refuse_set;
DROP TRIGGER IF EXISTS generations_unsummed ON pawl.generations;
DROP TRIGGER IF EXISTS files_summed ON pawl.files;
DROP FUNCTION IF EXISTS pawl.drop_sums, pawl.sum_file;
DROP TABLE IF EXISTS pawl.generation_sums;
