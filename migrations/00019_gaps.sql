-- What answers of earlier functions left out. Each function here takes such an answer and gives it back, or a clearer refusal: the transaction still
-- holds the key's lock, and sees what the function before has done.

-- +goose Up

-- unless_collected refuses acquire and renew for the newest grant of a key whose generation was given up: nothing comes of it any more. Its
-- lease ends with that, so that the holder can acquire the key again at once. A new grant needs no look.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION pawl.unless_collected(p_answer jsonb, p_operation text, p_key text, p_lease bytea) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
    k pawl.keys;
    g pawl.generations;
BEGIN
    IF p_answer->'refused'->>'code' <> 'lease-lost' OR p_operation = 'acquire' AND p_answer->'lease'->>'replayed' = 'false' THEN
        RETURN p_answer;
    END IF;
    SELECT * INTO k FROM pawl.keys WHERE name = p_key;
    SELECT * INTO g FROM pawl.generations WHERE key_id = k.id AND token = k.counter;
    IF g.lease_sha256 IS DISTINCT FROM p_lease OR g.kind IS NOT NULL OR g.state NOT IN ('condemned', 'collected') THEN
        RETURN p_answer;
    END IF;
    IF k.lease_sha256 = p_lease THEN
        PERFORM pawl.end_lease(k);
    END IF;
    RETURN pawl.refused('generation-collected', jsonb_build_object('key', p_key, 'operation', p_operation, 'token', g.token));
END $$;
-- +goose StatementEnd

-- What else a rollback was asked for stands with its generation. Null is for those of before, and for all other generations.
ALTER TABLE pawl.generations ADD COLUMN IF NOT EXISTS pinned boolean;

-- unless_reused refuses a rollback or retirement under the id of another request, which the functions answer with what that one has done. How hard it tries,
-- p_break, makes it no other request, nor does who asks. p_to_revision null is the last one of its generation, which is fenced: it gets no further ones.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION pawl.unless_reused(p_answer jsonb, p_key text, p_request bytea, p_kind text, p_to_token bigint, p_to_revision bigint,
    p_reason text, p_pin boolean) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
    g pawl.generations;
BEGIN
    IF p_answer->'refused'->>'code' <> 'lease-lost' THEN
        RETURN p_answer;
    END IF;
    SELECT * INTO g FROM pawl.generations
    WHERE key_id = (SELECT id FROM pawl.keys WHERE name = p_key) AND lease_sha256 = p_request;
    IF NOT FOUND THEN
        RETURN p_answer; -- The key had been retired by another request.
    ELSIF coalesce(p_answer->'receipt', p_answer->'retired')->>'replayed' = 'false' THEN
        UPDATE pawl.generations SET pinned = p_pin WHERE key_id = g.key_id AND token = g.token AND p_pin IS NOT NULL;
        RETURN p_answer;
    ELSIF g.kind = p_kind AND g.reason = p_reason AND (p_kind = 'retire' OR g.target_token = p_to_token
            AND g.target_revision = coalesce(p_to_revision, g.target_revision) AND p_pin = coalesce(g.pinned, p_pin)) THEN
        RETURN p_answer;
    END IF;
    RETURN pawl.refused('invalid-request', jsonb_build_object('key', p_key, 'errors', jsonb_build_array(jsonb_build_object(
        'pointer', 'Idempotency-Key', 'detail', format('is that of %s under token %s, which was another request; send a new one, and the same one only to repeat the same request',
            CASE g.kind WHEN 'rollback' THEN format('the rollback to %s.%s', g.target_token, g.target_revision)
                WHEN 'retire' THEN 'the retirement' ELSE 'the grant' END, g.token)))));
END $$;
-- +goose StatementEnd

-- +goose Down
DROP FUNCTION IF EXISTS pawl.unless_reused, pawl.unless_collected;
ALTER TABLE pawl.generations DROP COLUMN IF EXISTS pinned;
