-- Rejections of tokens from a lost history are bounded. Nothing is known of such a token, so anybody who reaches the server can make
-- them up: after an epoch was raised, about 10^9 tokens of each key are taken for lost ones, and each had a row for ever.

-- +goose Up

-- bound_lost keeps the newest 100 records of lost tokens of a key, which is what its history shows. Requests that are at it side by side
-- don't wait for one another; what one leaves the next removes.
-- +goose StatementBegin
CREATE FUNCTION pawl.bound_lost(p_key_id bigint) RETURNS void LANGUAGE sql VOLATILE AS $$
    DELETE FROM pawl.rejections r
    USING (SELECT old.key_id, old.token, old.operation, old.path FROM pawl.rejections old
        WHERE old.key_id = p_key_id AND old.lost AND (old.token, old.operation, old.path) IN (
            SELECT token, operation, path FROM pawl.rejections
            WHERE key_id = p_key_id AND lost ORDER BY last_at DESC, token DESC, operation, path OFFSET 100)
        FOR UPDATE SKIP LOCKED) surplus
    WHERE (r.key_id, r.token, r.operation, r.path) = (surplus.key_id, surplus.token, surplus.operation, surplus.path)
$$;
-- +goose StatementEnd

-- reject records a stale request and returns its refusal. g is the stale grant, all null when nothing is known of it.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION pawl.reject(k pawl.keys, g pawl.generations, p_token bigint, p_operation text, p_path text) RETURNS jsonb
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
    IF r.lost AND r.repeat = 1 THEN
        PERFORM pawl.bound_lost(k.id);
    END IF;
    RETURN pawl.refused('stale-token', jsonb_build_object('key', k.name, 'path', nullif(p_path, ''),
        'operation', p_operation, 'token', p_token, 'accepted_token', nullif(k.fence, 0), 'granted_token', k.counter,
        'holder', winner.holder, 'superseded_at', since, 'repeat', r.repeat, 'overrun_ms', r.overrun_ms,
        'next', 'acquire', 'worker', g.holder));
END $$;
-- +goose StatementEnd

-- +goose Down
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION pawl.reject(k pawl.keys, g pawl.generations, p_token bigint, p_operation text, p_path text) RETURNS jsonb
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

DROP FUNCTION pawl.bound_lost;
