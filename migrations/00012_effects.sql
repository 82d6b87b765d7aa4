-- Effects: idempotency keys for third parties that can't fence. Whoever works on a key sends the third party the same idempotency key for
-- the same effect, whatever its token, so that a stalled worker and its successor together have one effect there.

-- +goose Up

-- One row, made once: two installations that use one third party don't share idempotency keys. It is a part of the data, so it is in
-- every dump. It also stays when this migration is undone: what was sent to third parties rests on it.
CREATE TABLE IF NOT EXISTS pawl.installation (
    name            text PRIMARY KEY DEFAULT 'pawl',
    installation_id uuid NOT NULL DEFAULT gen_random_uuid(),
    made_at         timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT installation_one CHECK (name = 'pawl')
);
INSERT INTO pawl.installation DEFAULT VALUES ON CONFLICT DO NOTHING;

-- +goose StatementBegin
CREATE OR REPLACE FUNCTION pawl.refuse_another_installation() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'pawl: the idempotency keys that third parties have seen rest on the installation id'
        USING ERRCODE = 'integrity_constraint_violation', CONSTRAINT = 'installation_never_changes';
END $$;
-- +goose StatementEnd

CREATE OR REPLACE TRIGGER installation_never_changes BEFORE UPDATE OR DELETE ON pawl.installation
    FOR EACH ROW EXECUTE FUNCTION pawl.refuse_another_installation();

-- It becomes a part of a header of third parties.
CREATE DOMAIN pawl.effect_name AS text COLLATE "C"
    CONSTRAINT effect_name_characters CHECK (VALUE ~ '^[A-Za-z0-9._~:@+=,-]{1,128}$')
    CONSTRAINT effect_name_dots CHECK (VALUE NOT IN ('.', '..'));

-- One row an effect, for ever. The tables refer to generations alone, not to keys: to lock both for a moment could deadlock with grants.
CREATE TABLE pawl.effects (
    key_id      bigint NOT NULL,
    name        pawl.effect_name NOT NULL,
    -- The token that asked first, and the greatest one that asked.
    first_token pawl.token NOT NULL,
    first_at    timestamptz NOT NULL,
    token       pawl.token NOT NULL,
    asked_at    timestamptz NOT NULL,
    -- The token that said first that it is done. No token while it is pending.
    done_token  pawl.token,
    done_at     timestamptz,
    result      text,
    PRIMARY KEY (key_id, name),
    FOREIGN KEY (key_id, first_token) REFERENCES pawl.generations,
    CONSTRAINT effects_done_whole CHECK ((done_token IS NULL) = (done_at IS NULL)),
    CONSTRAINT effects_result CHECK (result IS NULL OR done_at IS NOT NULL AND octet_length(result) BETWEEN 1 AND 1024)
);

-- Which tokens asked: the greatest 20 for each effect.
CREATE TABLE pawl.effect_tokens (
    key_id   bigint NOT NULL,
    name     pawl.effect_name NOT NULL,
    token    pawl.token NOT NULL,
    asked_at timestamptz NOT NULL,
    done_at  timestamptz,
    PRIMARY KEY (key_id, name, token),
    FOREIGN KEY (key_id, name) REFERENCES pawl.effects,
    FOREIGN KEY (key_id, token) REFERENCES pawl.generations
);

-- effect_prefix is what every idempotency key of a key begins with, null when the installation id is gone. A key has no newline, so no two keys are hashed as one text.
-- +goose StatementBegin
CREATE FUNCTION pawl.effect_prefix(p_key text) RETURNS text LANGUAGE sql STABLE AS $$
    SELECT 'pawl-' || left(encode(sha256(convert_to(
        'pawl-effect-1' || E'\n' || installation_id || E'\n' || p_key || E'\n', 'UTF8')), 'hex'), 32) || '-'
    FROM pawl.installation
$$;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE OR REPLACE FUNCTION pawl.lease_json(k pawl.keys, g pawl.generations, t timestamptz, replayed boolean) RETURNS jsonb
LANGUAGE sql STABLE AS $$
    SELECT jsonb_build_object('lease', jsonb_build_object(
        'key', (k).name, 'token', (g).token, 'holder', (g).holder, 'labels', (g).labels,
        'held', coalesce((k).lease_expires_at > t, false), 'ttl_ms', (k).lease_ttl_ms,
        'expires_at', (k).lease_expires_at, 'server_time', t,
        'current', pawl.version((k).current_token, (k).current_revision), 'replayed', replayed,
        'effect_prefix', pawl.effect_prefix((k).name)))
$$;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE FUNCTION pawl.effect_json(k pawl.keys, e pawl.effects) RETURNS jsonb LANGUAGE sql STABLE AS $$
    SELECT jsonb_strip_nulls(jsonb_build_object('key', (k).name, 'name', (e).name,
        'idempotency_key', pawl.effect_prefix((k).name) || (e).name,
        'state', CASE WHEN (e).done_at IS NULL THEN 'pending' ELSE 'done' END,
        'first_token', (e).first_token, 'first_at', (e).first_at, 'token', (e).token, 'asked_at', (e).asked_at,
        'done_token', (e).done_token, 'done_at', (e).done_at, 'result', (e).result))
$$;
-- +goose StatementEnd

-- effect records that a token asks for an effect, or says that it is done. It locks the key, so it comes before a publish or grant that fences the token,
-- or after it. A sealed generation may ask: a worker may publish first and charge then, and what it says afterwards to be done is true.
-- +goose StatementBegin
CREATE FUNCTION pawl.effect(p_key text, p_token bigint, p_lease bytea, p_name text, p_done boolean, p_result text) RETURNS jsonb
LANGUAGE plpgsql AS $$
DECLARE
    k       pawl.keys;
    g       pawl.generations;
    e       pawl.effects;
    t       timestamptz;
    refusal jsonb;
BEGIN
    SELECT * INTO k FROM pawl.keys WHERE name = p_key FOR NO KEY UPDATE;
    SELECT * INTO g FROM pawl.generations WHERE key_id = k.id AND token = p_token;
    t := clock_timestamp();
    refusal := pawl.check_grant(k, g, p_key, p_token, p_lease, 'effect', p_name);
    IF refusal IS NULL THEN
        refusal := pawl.check_fence(k, g, 'effect', p_name); -- Sealed is the last of its refusals.
    END IF;
    IF refusal->'refused'->>'code' <> 'generation-sealed' THEN
        RETURN refusal;
    END IF;
    IF pawl.effect_prefix(p_key) IS NULL THEN
        RAISE EXCEPTION 'pawl: the installation id is gone; put the row of pawl.installation back from a backup';
    END IF;

    SELECT * INTO e FROM pawl.effects WHERE key_id = k.id AND name = p_name;
    IF NOT FOUND THEN
        INSERT INTO pawl.effects (key_id, name, first_token, first_at, token, asked_at)
        VALUES (k.id, p_name, p_token, t, p_token, t) RETURNING * INTO e;
    ELSIF e.token < p_token THEN
        UPDATE pawl.effects SET token = p_token, asked_at = t WHERE key_id = k.id AND name = p_name RETURNING * INTO e;
    END IF;
    IF p_done AND e.done_at IS NULL THEN
        UPDATE pawl.effects SET done_token = p_token, done_at = t, result = p_result
        WHERE key_id = k.id AND name = p_name RETURNING * INTO e;
    END IF;
    INSERT INTO pawl.effect_tokens AS old (key_id, name, token, asked_at, done_at)
    VALUES (k.id, p_name, p_token, t, CASE WHEN p_done THEN t END)
    ON CONFLICT (key_id, name, token) DO UPDATE SET done_at = excluded.done_at
        WHERE old.done_at IS NULL AND excluded.done_at IS NOT NULL;
    DELETE FROM pawl.effect_tokens WHERE key_id = k.id AND name = p_name AND token < (
        SELECT token FROM pawl.effect_tokens WHERE key_id = k.id AND name = p_name ORDER BY token DESC OFFSET 19 LIMIT 1);
    RETURN jsonb_build_object('effect', pawl.effect_json(k, e) || jsonb_strip_nulls(jsonb_build_object(
        'superseded_by', CASE WHEN k.counter > p_token THEN k.counter END)));
END $$;
-- +goose StatementEnd

-- +goose Down
-- Nobody would know any more which effects are done.
-- +goose StatementBegin
DO $$ BEGIN
    IF EXISTS (SELECT FROM pawl.effects) THEN
        RAISE EXCEPTION 'pawl: effects were asked for; the schema before this one would forget which of them are done';
    END IF;
END $$;
-- +goose StatementEnd
DROP FUNCTION pawl.effect, pawl.effect_json;

-- +goose StatementBegin
CREATE OR REPLACE FUNCTION pawl.lease_json(k pawl.keys, g pawl.generations, t timestamptz, replayed boolean) RETURNS jsonb
LANGUAGE sql IMMUTABLE AS $$
    SELECT jsonb_build_object('lease', jsonb_build_object(
        'key', (k).name, 'token', (g).token, 'holder', (g).holder, 'labels', (g).labels,
        'held', coalesce((k).lease_expires_at > t, false), 'ttl_ms', (k).lease_ttl_ms,
        'expires_at', (k).lease_expires_at, 'server_time', t,
        'current', pawl.version((k).current_token, (k).current_revision), 'replayed', replayed))
$$;
-- +goose StatementEnd

DROP FUNCTION pawl.effect_prefix;
DROP TABLE pawl.effect_tokens, pawl.effects;
DROP DOMAIN pawl.effect_name;
