-- How many direct uploads one caller has open, for a limit of them. Callers are known only where servers ask for credentials; without that, nothing is counted here.
--
-- One counts from its begin until it is completed, aborted, replaced or deleted, or failed by the sweep, which takes what nobody has spoken of for a day: its client
-- may be sending all that time, so nothing tells sooner that it is gone. Since a server's role removes no rows, a begin that is one too many undoes its transaction.
-- The index is built without keeping writers out. Every statement stands alone, and may be run again after a break.

-- +goose NO TRANSACTION
-- +goose Up

-- caller is who began a direct upload, null where that isn't known, and of every other upload. It is added without a default, which rewrites nothing.
ALTER TABLE pawl.files ADD COLUMN IF NOT EXISTS caller text;

-- +goose StatementBegin
CREATE OR REPLACE FUNCTION pawl.note_direct_caller() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.caller := pawl.acting_caller();
    RETURN NEW;
END $$;
-- +goose StatementEnd

-- A default of the column would be paid for by the rows of all other uploads.
CREATE OR REPLACE TRIGGER files_direct_caller BEFORE INSERT ON pawl.files FOR EACH ROW
    WHEN (NEW.part_size IS NOT NULL) EXECUTE FUNCTION pawl.note_direct_caller();

-- An upload leaves this index with its state. Nothing in it changes before, so it costs no other change of a row anything.
DROP INDEX CONCURRENTLY IF EXISTS pawl.files_open_direct;
CREATE INDEX CONCURRENTLY files_open_direct ON pawl.files (caller, upload_no) WHERE state = 'pending' AND caller IS NOT NULL;

-- open_direct counts the direct uploads of a caller that are open, up to p_most. It reads so many entries of the index and no more. The order is the index's own, so
-- that no other one is taken: the planner may think that nothing is pending.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION pawl.open_direct(p_caller text, p_most bigint) RETURNS bigint
LANGUAGE plpgsql STABLE SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET jit = off AS $$
BEGIN
    RETURN (SELECT count(*) FROM (SELECT FROM pawl.files WHERE caller = p_caller AND state = 'pending' ORDER BY upload_no LIMIT p_most) open);
END $$;
-- +goose StatementEnd

-- direct_within takes the answer of begin_direct and gives it back, unless that has begun one upload more than the p_most that its caller may have open; an unknown
-- caller has no limit, and a null is none. What is gone on with is no further one. Begins at the same moment don't see each other, so a few may get past.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION pawl.direct_within(p_answer jsonb, p_key text, p_token bigint, p_most bigint) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
    who text := pawl.acting_caller();
BEGIN
    IF who IS NULL OR p_most IS NULL OR p_answer->'direct' IS NULL OR (p_answer->>'resumed')::boolean THEN
        RETURN p_answer;
    END IF;
    IF pawl.open_direct(who, p_most + 1) > p_most THEN
        RAISE EXCEPTION 'pawl: a caller would have more than % direct uploads open', p_most USING ERRCODE = 'PW413',
            DETAIL = (pawl.refused('quota-exceeded', jsonb_build_object('key', p_key, 'token', p_token, 'path', p_answer->'direct'->'path',
                'operation', 'upload', 'limit', p_most, 'unit', 'uploads'))->'refused')::text;
    END IF;
    RETURN p_answer;
END $$;
-- +goose StatementEnd

-- +goose Down
DROP FUNCTION IF EXISTS pawl.direct_within, pawl.open_direct;
DROP INDEX CONCURRENTLY IF EXISTS pawl.files_open_direct;
DROP TRIGGER IF EXISTS files_direct_caller ON pawl.files;
DROP FUNCTION IF EXISTS pawl.note_direct_caller;
ALTER TABLE pawl.files DROP COLUMN IF EXISTS caller;
