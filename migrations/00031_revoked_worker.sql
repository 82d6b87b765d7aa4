-- The lease of a revoked credential keeps operators waiting no more than workers: rolling back and retiring end it, as acquiring does since 00027.

-- +goose Up

-- take_over grants the key to somebody who changes its pointer himself. The lease of whoever works on the key ends; while it runs that is refused unless p_break says
-- otherwise, or its credential was revoked. The new grant has no lease, only a token. The caller holds the key's lock.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION pawl.take_over(INOUT k pawl.keys, p_epoch bigint, t timestamptz, p_request bytea, p_by text, p_break boolean,
    p_kind text, p_reason text, p_target_token bigint, p_target_revision bigint, OUT g pawl.generations, OUT refusal jsonb)
LANGUAGE plpgsql AS $$
DECLARE
    next bigint := pawl.greatest_possible(k, p_epoch) + 1;
BEGIN
    IF k.lease_expires_at > t AND NOT p_break AND NOT EXISTS (SELECT FROM pawl.generations w
        WHERE w.key_id = k.id AND w.token = k.counter AND pawl.credential_revoked(w.caller)) THEN
        refusal := pawl.refused('lease-held', jsonb_build_object('key', k.name, 'operation', p_kind,
            'holder', (SELECT holder FROM pawl.generations WHERE key_id = k.id AND token = k.counter), 'token', k.counter,
            'granted_token', k.counter, 'expires_at', k.lease_expires_at,
            'retry_after_ms', ceil(extract(epoch FROM k.lease_expires_at - t) * 1000)::bigint));
        RETURN;
    ELSIF next > 9007199254740991 THEN
        refusal := pawl.refused('token-exhausted', jsonb_build_object('key', k.name, 'granted_token', k.counter));
        RETURN;
    END IF;
    UPDATE pawl.generations SET lease_ended_at = least(k.lease_expires_at, t)
    WHERE key_id = k.id AND token = k.counter AND k.lease_expires_at IS NOT NULL;
    UPDATE pawl.keys SET counter = next, epoch = greatest(k.epoch, p_epoch), lease_sha256 = NULL, lease_expires_at = NULL
    WHERE id = k.id AND counter < next RETURNING * INTO STRICT k;
    INSERT INTO pawl.generations (key_id, token, lease_sha256, holder, granted_at, released_at, kind, reason, target_token, target_revision)
    VALUES (k.id, next, p_request, p_by, t, t, p_kind, p_reason, p_target_token, p_target_revision) RETURNING * INTO g;
END $$;
-- +goose StatementEnd

-- +goose Down
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION pawl.take_over(INOUT k pawl.keys, p_epoch bigint, t timestamptz, p_request bytea, p_by text, p_break boolean,
    p_kind text, p_reason text, p_target_token bigint, p_target_revision bigint, OUT g pawl.generations, OUT refusal jsonb)
LANGUAGE plpgsql AS $$
DECLARE
    next bigint := pawl.greatest_possible(k, p_epoch) + 1;
BEGIN
    IF k.lease_expires_at > t AND NOT p_break THEN
        refusal := pawl.refused('lease-held', jsonb_build_object('key', k.name, 'operation', p_kind,
            'holder', (SELECT holder FROM pawl.generations WHERE key_id = k.id AND token = k.counter), 'token', k.counter,
            'granted_token', k.counter, 'expires_at', k.lease_expires_at,
            'retry_after_ms', ceil(extract(epoch FROM k.lease_expires_at - t) * 1000)::bigint));
        RETURN;
    ELSIF next > 9007199254740991 THEN
        refusal := pawl.refused('token-exhausted', jsonb_build_object('key', k.name, 'granted_token', k.counter));
        RETURN;
    END IF;
    UPDATE pawl.generations SET lease_ended_at = least(k.lease_expires_at, t)
    WHERE key_id = k.id AND token = k.counter AND k.lease_expires_at IS NOT NULL;
    UPDATE pawl.keys SET counter = next, epoch = greatest(k.epoch, p_epoch), lease_sha256 = NULL, lease_expires_at = NULL
    WHERE id = k.id AND counter < next RETURNING * INTO STRICT k;
    INSERT INTO pawl.generations (key_id, token, lease_sha256, holder, granted_at, released_at, kind, reason, target_token, target_revision)
    VALUES (k.id, next, p_request, p_by, t, t, p_kind, p_reason, p_target_token, p_target_revision) RETURNING * INTO g;
END $$;
-- +goose StatementEnd
