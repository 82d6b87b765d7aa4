-- Leases. Each function is one transaction on one key: it locks the key's row in a statement of its own, reads the
-- clock after that, and decides in later statements. (A cleverer single statement over several tables sees the other tables as
-- they were before it waited for the lock.) Each returns either its result or {"refused": {...}}, under the names of the API.

-- +goose Up

-- +goose StatementBegin
CREATE FUNCTION pawl.refused(code text, facts jsonb) RETURNS jsonb LANGUAGE sql IMMUTABLE AS $$
    SELECT jsonb_build_object('refused', jsonb_strip_nulls(facts) || jsonb_build_object('code', code))
$$;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE FUNCTION pawl.version(token bigint, revision bigint) RETURNS jsonb LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN token IS NOT NULL THEN jsonb_build_object('token', token, 'revision', revision) END
$$;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE FUNCTION pawl.lease_json(k pawl.keys, g pawl.generations, t timestamptz, replayed boolean) RETURNS jsonb
LANGUAGE sql IMMUTABLE AS $$
    SELECT jsonb_build_object('lease', jsonb_build_object(
        'key', (k).name, 'token', (g).token, 'holder', (g).holder, 'labels', (g).labels,
        'held', coalesce((k).lease_expires_at > t, false), 'ttl_ms', (k).lease_ttl_ms,
        'expires_at', (k).lease_expires_at, 'server_time', t,
        'current', pawl.version((k).current_token, (k).current_revision), 'replayed', replayed))
$$;
-- +goose StatementEnd

-- fence_mode finds the policy of a key: of the prefixes that end at one of its segment borders, the longest that has one.
-- +goose StatementBegin
CREATE FUNCTION pawl.fence_mode(p_key text) RETURNS text LANGUAGE plpgsql STABLE AS $$
DECLARE
    segments text[] := string_to_array(p_key, '/');
    mode     text;
BEGIN
    SELECT p.fence_mode INTO mode FROM pawl.policies p
    WHERE p.prefix = ANY (ARRAY(
        SELECT array_to_string(segments[1:n], '/') FROM generate_series(0, cardinality(segments)) n))
    ORDER BY length(p.prefix) DESC LIMIT 1;
    RETURN coalesce(mode, 'accepted');
END $$;
-- +goose StatementEnd

-- fenced_by_grant tells that a grant of a key in mode granted is fenced although nothing newer was published: by a newer grant, or by one
-- that the database may have lost with a part of its history. The mode is asked first, since most keys have the other one.
-- +goose StatementBegin
CREATE FUNCTION pawl.fenced_by_grant(k pawl.keys, p_token bigint) RETURNS boolean LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    IF pawl.fence_mode(k.name) <> 'granted' THEN
        RETURN false;
    END IF;
    RETURN p_token < k.counter OR k.epoch < pawl.epoch_now();
END $$;
-- +goose StatementEnd

-- acquire grants the key: the counter and the lease are one update of one row.
-- +goose StatementBegin
CREATE FUNCTION pawl.acquire(p_key text, p_lease bytea, p_holder text, p_ttl_ms integer, p_labels jsonb) RETURNS jsonb
LANGUAGE plpgsql AS $$
DECLARE
    e bigint := pawl.raise_epoch();
    k pawl.keys;
    g pawl.generations;
    t timestamptz;
    next bigint;
BEGIN
    LOOP
        SELECT * INTO k FROM pawl.keys WHERE name = p_key FOR NO KEY UPDATE;
        EXIT WHEN FOUND;
        -- Its epoch is 0: a key that the database doesn't know may have been granted in a lost history.
        INSERT INTO pawl.keys (name) VALUES (p_key) ON CONFLICT (name) DO NOTHING;
    END LOOP;
    t := clock_timestamp();

    SELECT * INTO g FROM pawl.generations WHERE key_id = k.id AND lease_sha256 = p_lease;
    IF FOUND AND k.lease_sha256 = p_lease AND NOT pawl.fenced_by_grant(k, g.token) THEN
        -- The answer to this very request was lost. The client counts the TTL from its repeat, so it is whole again.
        UPDATE pawl.keys SET lease_ttl_ms = p_ttl_ms, lease_expires_at = t + p_ttl_ms * interval '1 millisecond'
        WHERE id = k.id RETURNING * INTO k;
        RETURN pawl.lease_json(k, g, t, true);
    ELSIF FOUND THEN
        RETURN pawl.refused('lease-lost', jsonb_build_object('key', p_key, 'token', g.token, 'granted_token', k.counter));
    END IF;

    IF k.lease_expires_at > t THEN
        SELECT * INTO g FROM pawl.generations WHERE key_id = k.id AND token = k.counter;
        RETURN pawl.refused('lease-held', jsonb_build_object('key', p_key, 'holder', g.holder, 'token', g.token,
            'granted_token', k.counter, 'expires_at', k.lease_expires_at,
            'retry_after_ms', ceil(extract(epoch FROM k.lease_expires_at - t) * 1000)::bigint));
    END IF;

    next := pawl.greatest_possible(k, e) + 1;
    IF next > 9007199254740991 THEN
        RETURN pawl.refused('token-exhausted', jsonb_build_object('key', p_key, 'granted_token', k.counter));
    END IF;

    UPDATE pawl.generations SET lease_ended_at = k.lease_expires_at
    WHERE key_id = k.id AND token = k.counter AND k.lease_expires_at IS NOT NULL;

    UPDATE pawl.keys SET counter = next, epoch = greatest(k.epoch, e), lease_sha256 = p_lease, lease_ttl_ms = p_ttl_ms,
        lease_expires_at = t + p_ttl_ms * interval '1 millisecond'
    WHERE id = k.id AND counter < next RETURNING * INTO STRICT k;

    INSERT INTO pawl.generations (key_id, token, lease_sha256, holder, labels, granted_at)
    VALUES (k.id, next, p_lease, p_holder, p_labels, t) RETURNING * INTO g;
    RETURN pawl.lease_json(k, g, t, false);
END $$;
-- +goose StatementEnd

-- lease_lost refuses a lease id that isn't the newest grant's.
-- +goose StatementBegin
CREATE FUNCTION pawl.lease_lost(k pawl.keys, p_lease bytea) RETURNS jsonb LANGUAGE sql STABLE AS $$
    SELECT pawl.refused('lease-lost', jsonb_build_object('key', (k).name, 'granted_token', (k).counter,
        'token', (SELECT token FROM pawl.generations WHERE key_id = (k).id AND lease_sha256 = p_lease),
        'holder', (SELECT holder FROM pawl.generations WHERE key_id = (k).id AND token = (k).counter)))
$$;
-- +goose StatementEnd

-- renew extends the newest grant, also when it has run out: nobody was granted the key since, or it wouldn't be the newest.
-- +goose StatementBegin
CREATE FUNCTION pawl.renew(p_key text, p_lease bytea, p_ttl_ms integer) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
    k pawl.keys;
    g pawl.generations;
    t timestamptz;
BEGIN
    SELECT * INTO k FROM pawl.keys WHERE name = p_key FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        RETURN pawl.refused('not-found', jsonb_build_object('key', p_key));
    END IF;
    IF k.lease_sha256 IS DISTINCT FROM p_lease OR pawl.fenced_by_grant(k, k.counter) THEN
        RETURN pawl.lease_lost(k, p_lease);
    END IF;
    t := clock_timestamp();
    UPDATE pawl.keys SET lease_ttl_ms = coalesce(p_ttl_ms, lease_ttl_ms),
        lease_expires_at = t + coalesce(p_ttl_ms, lease_ttl_ms) * interval '1 millisecond'
    WHERE id = k.id RETURNING * INTO k;
    SELECT * INTO g FROM pawl.generations WHERE key_id = k.id AND token = k.counter;
    RETURN pawl.lease_json(k, g, t, false);
END $$;
-- +goose StatementEnd

-- end_lease gives the newest grant's lease back. The caller holds the key's lock.
-- +goose StatementBegin
CREATE FUNCTION pawl.end_lease(k pawl.keys) RETURNS void LANGUAGE sql AS $$
    UPDATE pawl.keys SET lease_sha256 = NULL, lease_expires_at = NULL WHERE id = (k).id;
    UPDATE pawl.generations SET released_at = clock_timestamp() WHERE key_id = (k).id AND token = (k).counter;
$$;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE FUNCTION pawl.release(p_key text, p_lease bytea) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
    k pawl.keys;
BEGIN
    SELECT * INTO k FROM pawl.keys WHERE name = p_key FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        RETURN pawl.refused('not-found', jsonb_build_object('key', p_key));
    END IF;
    IF k.lease_sha256 = p_lease THEN
        PERFORM pawl.end_lease(k);
        RETURN '{}';
    END IF;
    IF EXISTS (SELECT FROM pawl.generations WHERE key_id = k.id AND lease_sha256 = p_lease) THEN
        RETURN '{}'; -- Released or superseded before: there is nothing left to give back.
    END IF;
    RETURN pawl.lease_lost(k, p_lease);
END $$;
-- +goose StatementEnd

-- +goose Down
DROP FUNCTION pawl.release, pawl.end_lease, pawl.renew, pawl.lease_lost, pawl.acquire, pawl.fenced_by_grant, pawl.fence_mode, pawl.lease_json, pawl.version, pawl.refused;
