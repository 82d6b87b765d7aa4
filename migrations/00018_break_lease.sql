-- Breaking a lease: what people do when whoever holds a key will not give it back, and others shouldn't wait for the end of the lease. It takes no token and fences
-- nobody: the holder's generation stays as it is, and the next grant is what gets ahead of it.
-- Every statement stands alone, and may be run again after a break.

-- +goose NO TRANSACTION
-- +goose Up

-- Broken leases are few, so they lie beside the generations, as pins beside the keys. A row is written under the lock of its key, once, and stays for ever.
CREATE TABLE IF NOT EXISTS pawl.broken_leases (
    key_id    bigint NOT NULL,
    token     bigint NOT NULL,
    reason    text NOT NULL,
    broken_by text NOT NULL,
    broken_at timestamptz NOT NULL,
    PRIMARY KEY (key_id, token)
);

-- broken_json tells who broke the lease of a grant, null if nobody did.
CREATE OR REPLACE FUNCTION pawl.broken_json(p_key_id bigint, p_token bigint) RETURNS jsonb LANGUAGE sql STABLE AS $$
    SELECT jsonb_build_object('reason', reason, 'by', broken_by, 'at', broken_at) FROM pawl.broken_leases
    WHERE key_id = p_key_id AND token = p_token
$$;

-- lease_lost refuses a lease id that isn't the newest grant's. Whose lease was broken learns by whom, and why.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION pawl.lease_lost(k pawl.keys, p_lease bytea) RETURNS jsonb LANGUAGE sql STABLE AS $$
    SELECT pawl.refused('lease-lost', jsonb_build_object('key', (k).name, 'granted_token', (k).counter, 'token', own.token,
        'holder', (SELECT holder FROM pawl.generations WHERE key_id = (k).id AND token = (k).counter),
        'broken', pawl.broken_json((k).id, own.token)))
    FROM (SELECT (SELECT token FROM pawl.generations WHERE key_id = (k).id AND lease_sha256 = p_lease) AS token) own
$$;
-- +goose StatementEnd

-- break_lease ends the lease of one grant, running or run out. Of a grant whose lease is over it changes nothing: that is no error, unless another
-- grant's lease runs, which somebody who looked at an old page might take for the one that he has broken.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION pawl.break_lease(p_key text, p_token bigint, p_reason text, p_by text) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
    k      pawl.keys;
    g      pawl.generations;
    t      timestamptz;
    broken jsonb;
    facts  jsonb := jsonb_build_object('key', p_key, 'operation', 'break-lease', 'token', p_token);
BEGIN
    SELECT * INTO k FROM pawl.keys WHERE name = p_key FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        RETURN pawl.refused('not-found', jsonb_build_object('key', p_key));
    END IF;
    t := clock_timestamp();
    SELECT * INTO g FROM pawl.generations WHERE key_id = k.id AND token = p_token;
    IF NOT FOUND THEN
        RETURN pawl.refused(CASE WHEN p_token > k.counter THEN 'unknown-token' ELSE 'not-found' END,
            facts || jsonb_build_object('granted_token', k.counter));
    END IF;
    broken := pawl.broken_json(k.id, p_token);
    IF p_token = k.counter AND k.lease_sha256 IS NOT NULL THEN
        INSERT INTO pawl.broken_leases (key_id, token, reason, broken_by, broken_at) VALUES (k.id, p_token, p_reason, p_by, t);
        PERFORM pawl.end_lease(k), pawl.note(p_by, 'break-lease', p_key,
            jsonb_build_object('token', p_token, 'holder', g.holder, 'expires_at', k.lease_expires_at), jsonb_build_object('reason', p_reason));
        INSERT INTO pawl.unnumbered_events (kind, key_id, token, at, by, facts)
        VALUES ('lease-broken', k.id, p_token, t, p_by, jsonb_build_object('reason', p_reason, 'from', jsonb_build_object(
            'token', p_token, 'holder', g.holder, 'lease_ended_at', least(k.lease_expires_at, t))));
        RETURN jsonb_build_object('broken', jsonb_build_object('key', p_key, 'token', p_token, 'holder', g.holder,
            'broken', pawl.broken_json(k.id, p_token)));
    ELSIF broken IS NULL AND k.lease_expires_at > t THEN
        RETURN pawl.refused('precondition-failed', facts || jsonb_build_object('granted_token', k.counter, 'expires_at', k.lease_expires_at,
            'holder', (SELECT holder FROM pawl.generations WHERE key_id = k.id AND token = k.counter)));
    END IF;
    RETURN jsonb_build_object('broken', jsonb_build_object('key', p_key, 'token', p_token, 'holder', g.holder, 'broken', broken,
        'replayed', true));
END $$;
-- +goose StatementEnd

-- unless_moved refuses whoever looked at something else than what is there now, or returns null: at another current version (p_token 0 is none) or, where there
-- is a pin, at another one than the pin of p_pinned ('' is none). Null of either compares nothing. A repeat of a request that was made is let through, to be
-- answered as such, and so is a pin that is there already as it is asked for. It takes the locks of the function that is called behind it, in the same order.
-- Times are compared by the millisecond, as the API gives them.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION pawl.unless_moved(p_key text, p_request bytea, p_operation text, p_token bigint, p_revision bigint, p_pinned text,
    p_reason text, p_by text) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
    k     pawl.keys;
    facts jsonb;
BEGIN
    IF p_token IS NULL AND p_pinned IS NULL THEN
        RETURN NULL;
    END IF;
    IF p_request IS NOT NULL THEN
        PERFORM pawl.raise_epoch();
    END IF;
    SELECT * INTO k FROM pawl.keys WHERE name = p_key FOR NO KEY UPDATE;
    IF NOT FOUND OR p_operation = 'pin' AND k.current_token IS NULL
        OR EXISTS (SELECT FROM pawl.generations WHERE key_id = k.id AND lease_sha256 = p_request) THEN
        RETURN NULL; -- The function behind it says what there is to say.
    END IF;
    facts := jsonb_build_object('key', p_key, 'operation', p_operation, 'current', pawl.version(k.current_token, k.current_revision));
    IF p_token IS NOT NULL AND (p_token, p_revision) <> (coalesce(k.current_token, 0), coalesce(k.current_revision, 0)) THEN
        RETURN pawl.refused('precondition-failed', facts);
    ELSIF p_pinned IS NOT NULL AND EXISTS (SELECT FROM pawl.pins WHERE key_id = k.id
            AND date_trunc('milliseconds', pinned_at) IS DISTINCT FROM nullif(p_pinned, '')::timestamptz
            AND (reason, pinned_by) IS DISTINCT FROM (p_reason, p_by)) THEN
        RETURN pawl.refused('precondition-failed', facts || jsonb_build_object('pinned', pawl.pin_json(k.id)));
    END IF;
    RETURN NULL;
END $$;
-- +goose StatementEnd

-- may_break tells whether somebody who agreed to end the lease of one grant, p_lease, may end the one that the key has now. Null agrees to any. It takes the
-- locks of the function that is called behind it, as unless_moved does.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION pawl.may_break(p_key text, p_break boolean, p_lease bigint) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    newest bigint;
BEGIN
    IF NOT p_break OR p_lease IS NULL THEN
        RETURN p_break;
    END IF;
    PERFORM pawl.raise_epoch();
    SELECT counter INTO newest FROM pawl.keys WHERE name = p_key FOR NO KEY UPDATE;
    RETURN coalesce(newest = p_lease, false);
END $$;
-- +goose StatementEnd

-- with_break gives an answer to acquire back, or a clearer refusal: whose lease was broken learns by whom and why, as from renew, and the id of a
-- rollback or a retirement is that of no lease. The transaction still holds the key's lock.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION pawl.with_break(p_answer jsonb, p_key text, p_lease bytea) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
    k pawl.keys;
    g pawl.generations;
BEGIN
    IF p_answer->'refused'->>'code' IS NULL OR p_answer->'refused'->>'code' NOT IN ('lease-lost', 'generation-collected') THEN
        RETURN p_answer;
    END IF;
    SELECT * INTO k FROM pawl.keys WHERE name = p_key;
    SELECT * INTO g FROM pawl.generations WHERE key_id = k.id AND lease_sha256 = p_lease;
    IF g.kind IS NOT NULL THEN
        RETURN pawl.refused('invalid-request', jsonb_build_object('key', p_key, 'errors', jsonb_build_array(jsonb_build_object('pointer', '/lease_id',
            'detail', format('is that of the request that made token %s, which has no lease; draw a new one', g.token)))));
    ELSIF p_answer->'refused'->>'code' = 'lease-lost' AND pawl.broken_json(k.id, g.token) IS NOT NULL THEN
        RETURN pawl.lease_lost(k, p_lease);
    END IF;
    RETURN p_answer;
END $$;
-- +goose StatementEnd

-- +goose Down
DROP FUNCTION IF EXISTS pawl.with_break, pawl.may_break, pawl.unless_moved, pawl.break_lease;
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION pawl.lease_lost(k pawl.keys, p_lease bytea) RETURNS jsonb LANGUAGE sql STABLE AS $$
    SELECT pawl.refused('lease-lost', jsonb_build_object('key', (k).name, 'granted_token', (k).counter,
        'token', (SELECT token FROM pawl.generations WHERE key_id = (k).id AND lease_sha256 = p_lease),
        'holder', (SELECT holder FROM pawl.generations WHERE key_id = (k).id AND token = (k).counter)))
$$;
-- +goose StatementEnd
DROP FUNCTION IF EXISTS pawl.broken_json;
DROP TABLE IF EXISTS pawl.broken_leases;
