-- Rollback, pin and retire: what people do to a key's pointer without a worker. The first and the last are grants of their own: they take a new token,
-- so the fence knows them, and whoever works on the key is stale. With them come the other members of policies, and a record of who changed what.
-- No transaction locks two tables that requests use, which could deadlock with them: so every statement stands alone, and may be run again after a break.

-- +goose NO TRANSACTION
-- +goose Up

-- kind is null for the grant of a worker. The target of a rollback is the version that it brought back, that of a retirement the
-- one that it took away, if there was one. Rows of before have none of them, so nothing is to be verified.
ALTER TABLE pawl.generations
    ADD COLUMN IF NOT EXISTS kind text, ADD COLUMN IF NOT EXISTS reason text,
    ADD COLUMN IF NOT EXISTS target_token bigint, ADD COLUMN IF NOT EXISTS target_revision bigint;
ALTER TABLE pawl.generations DROP CONSTRAINT IF EXISTS generations_kind, ADD CONSTRAINT generations_kind CHECK (
    CASE WHEN kind IS NULL THEN reason IS NULL AND target_token IS NULL ELSE kind IN ('rollback', 'retire') AND reason IS NOT NULL END
    AND (target_token IS NULL) = (target_revision IS NULL) AND (target_token IS NULL OR target_token < token)) NOT VALID;

-- Pins are few, so they lie beside the keys and cost those that have none nothing. A row is changed under the lock of its key.
CREATE TABLE IF NOT EXISTS pawl.pins (
    key_id    bigint PRIMARY KEY,
    reason    text NOT NULL,
    pinned_by text NOT NULL,
    pinned_at timestamptz NOT NULL
);

-- One row for each change that a person made, for ever. Null in a policy is no limit.
CREATE TABLE IF NOT EXISTS pawl.audit (
    id      bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at      timestamptz NOT NULL DEFAULT clock_timestamp(),
    actor   text NOT NULL,
    action  text NOT NULL,
    subject text COLLATE "C" NOT NULL,
    before  jsonb,
    after   jsonb
);

ALTER TABLE pawl.policies
    ADD COLUMN IF NOT EXISTS keep_generations integer CONSTRAINT policies_keep_generations CHECK (keep_generations >= 1),
    ADD COLUMN IF NOT EXISTS keep_for_ms bigint CONSTRAINT policies_keep_for CHECK (keep_for_ms > 0),
    ADD COLUMN IF NOT EXISTS keep_unpublished_for_ms bigint CONSTRAINT policies_keep_unpublished_for CHECK (keep_unpublished_for_ms > 0),
    ADD COLUMN IF NOT EXISTS max_ttl_ms bigint CONSTRAINT policies_max_ttl CHECK (max_ttl_ms > 0),
    ADD COLUMN IF NOT EXISTS max_file_bytes bigint CONSTRAINT policies_max_file_bytes CHECK (max_file_bytes > 0),
    ADD COLUMN IF NOT EXISTS max_generation_bytes bigint CONSTRAINT policies_max_generation_bytes CHECK (max_generation_bytes > 0);

CREATE OR REPLACE FUNCTION pawl.note(p_actor text, p_action text, p_subject text, p_before jsonb, p_after jsonb) RETURNS void LANGUAGE sql AS $$
    INSERT INTO pawl.audit (actor, action, subject, before, after) VALUES (p_actor, p_action, p_subject, p_before, p_after)
$$;

CREATE OR REPLACE FUNCTION pawl.pin_json(p_key_id bigint) RETURNS jsonb LANGUAGE sql STABLE AS $$
    SELECT jsonb_build_object('reason', reason, 'by', pinned_by, 'at', pinned_at) FROM pawl.pins WHERE key_id = p_key_id
$$;

CREATE OR REPLACE FUNCTION pawl.retirement_json(k pawl.keys, g pawl.generations) RETURNS jsonb LANGUAGE sql IMMUTABLE AS $$
    SELECT jsonb_build_object('key', (k).name, 'token', (g).token, 'by', (g).holder, 'at', (g).granted_at, 'reason', (g).reason,
        'previous', pawl.version((g).target_token, (g).target_revision))
$$;

-- retired refuses to read a key whose pointer was taken away, null while it has one or never had. g is the generation of its fence.
CREATE OR REPLACE FUNCTION pawl.retired(k pawl.keys, g pawl.generations) RETURNS jsonb LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN NOT (k).published AND (g).kind = 'retire'
        THEN pawl.refused('retired', jsonb_build_object('key', (k).name, 'retired', pawl.retirement_json(k, g))) END
$$;

CREATE OR REPLACE FUNCTION pawl.pinned(k pawl.keys, p_operation text, p_token bigint) RETURNS jsonb LANGUAGE sql STABLE AS $$
    SELECT pawl.refused('pinned', jsonb_build_object('key', (k).name, 'operation', p_operation, 'token', p_token,
        'current', pawl.version((k).current_token, (k).current_revision), 'pinned', pawl.pin_json(key_id)))
    FROM pawl.pins WHERE key_id = (k).id
$$;

-- policy finds the policy of a key as fence_mode does, all null when no prefix of it has one.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION pawl.policy(p_key text) RETURNS pawl.policies LANGUAGE plpgsql STABLE AS $$
DECLARE
    segments text[] := string_to_array(p_key, '/');
    found_policy pawl.policies;
BEGIN
    SELECT * INTO found_policy FROM pawl.policies p
    WHERE p.prefix = ANY (ARRAY(
        SELECT array_to_string(segments[1:n], '/') FROM generate_series(0, cardinality(segments)) n))
    ORDER BY length(p.prefix) DESC LIMIT 1;
    RETURN found_policy;
END $$;
-- +goose StatementEnd

-- check_ttl returns the refusal of a lease that the key's policy finds too long, or null.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION pawl.check_ttl(p_key text, p_ttl_ms integer) RETURNS jsonb LANGUAGE sql STABLE AS $$
    SELECT pawl.refused('invalid-request', jsonb_build_object('key', p_key, 'limit', max_ttl_ms, 'errors', jsonb_build_array(
        jsonb_build_object('pointer', '/ttl', 'detail', format('is longer than the %s ms that the policy of prefix "%s" allows; ask for less, and renew', max_ttl_ms, prefix)))))
    FROM pawl.policy(p_key) WHERE p_ttl_ms > max_ttl_ms
$$;
-- +goose StatementEnd

-- check_size returns the refusal of a file that the key's policy finds too large, or null.
CREATE OR REPLACE FUNCTION pawl.check_size(p_key text, p_path text, p_size bigint) RETURNS jsonb LANGUAGE sql STABLE AS $$
    SELECT pawl.refused('too-large', jsonb_build_object('key', p_key, 'path', p_path, 'limit', max_file_bytes))
    FROM pawl.policy(p_key) WHERE p_size > max_file_bytes
$$;

-- check_set returns the refusal of a publish whose generation has more bytes of its own than the key's policy allows, or null. Files that it
-- carries over take no space.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION pawl.check_set(k pawl.keys, g pawl.generations) RETURNS jsonb LANGUAGE plpgsql STABLE AS $$
DECLARE
    most bigint := (pawl.policy(k.name)).max_generation_bytes;
    has  bigint;
BEGIN
    IF most IS NOT NULL THEN
        SELECT sum(size) INTO has FROM pawl.files
        WHERE key_id = g.key_id AND token = g.token AND state = 'stored' AND until_revision IS NULL AND object_token IS NULL;
    END IF;
    RETURN CASE WHEN has > most THEN pawl.refused('too-large', jsonb_build_object('key', k.name, 'operation', 'publish',
        'token', g.token, 'limit', most, 'came', has::text)) END;
END $$;
-- +goose StatementEnd

-- check_fence returns the refusal of a grant that was fenced, whose generation is closed, or whose publish a pin or a policy keeps out; or null.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION pawl.check_fence(k pawl.keys, g pawl.generations, p_operation text, p_path text) RETURNS jsonb
LANGUAGE plpgsql AS $$
BEGIN
    IF g.token < k.fence OR pawl.fenced_by_grant(k, g.token) THEN
        RETURN pawl.reject(k, g, g.token, p_operation, p_path);
    ELSIF g.state IN ('condemned', 'collected') THEN
        RETURN pawl.refused('generation-collected', jsonb_build_object('key', k.name, 'operation', p_operation, 'token', g.token));
    ELSIF g.state = 'sealed' THEN
        RETURN pawl.refused('generation-sealed', jsonb_build_object('key', k.name, 'operation', p_operation, 'token', g.token,
            'current', pawl.version(k.current_token, k.current_revision)));
    ELSIF p_operation = 'publish' THEN
        RETURN coalesce(pawl.pinned(k, p_operation, g.token), pawl.check_set(k, g));
    END IF;
    RETURN NULL;
END $$;
-- +goose StatementEnd

-- reject records a stale request and returns its refusal. g is the stale grant, all null when nothing is known of it. A retirement
-- has no receipt: it fences from its grant on.
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
    IF k.fence > p_token AND winner.kind IS DISTINCT FROM 'retire' THEN
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

CREATE OR REPLACE FUNCTION pawl.receipt_json(k pawl.keys, g pawl.generations, r pawl.receipts) RETURNS jsonb LANGUAGE sql IMMUTABLE AS $$
    SELECT jsonb_build_object('key', (k).name, 'token', (r).token, 'revision', (r).revision,
        'manifest_digest', encode((r).manifest_digest, 'hex'), 'final', (r).final, 'primary', coalesce((r).primary_path, ''),
        'files', (r).files, 'bytes', (r).bytes, 'published_at', (r).published_at, 'publisher', (g).holder,
        'source_revision', (r).source_revision, 'metadata', (r).metadata,
        'previous', pawl.version((r).previous_token, (r).previous_revision), 'lease_expired', (r).lease_expired,
        'current', pawl.version((k).current_token, (k).current_revision))
        || CASE WHEN (r).reuse_from IS NOT NULL THEN jsonb_build_object('reuse_from', (r).reuse_from) ELSE '{}' END
        || CASE WHEN (g).kind = 'rollback' THEN jsonb_build_object('rollback_to', pawl.version((g).target_token, (g).target_revision),
            'reason', (g).reason) ELSE '{}' END
        || CASE WHEN (r).reused_files > 0 THEN jsonb_build_object('reused_files', (r).reused_files,
            'reused_bytes', (r).reused_bytes) ELSE '{}' END
        || CASE WHEN (k).counter > (r).token THEN jsonb_build_object('superseded_by', (k).counter) ELSE '{}' END
$$;

-- operator_json tells what is particular about a generation that no worker was granted.
CREATE OR REPLACE FUNCTION pawl.operator_json(g pawl.generations) RETURNS jsonb LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN (g).kind IS NULL THEN '{}' ELSE jsonb_build_object('kind', (g).kind, 'reason', (g).reason,
        'target', pawl.version((g).target_token, (g).target_revision)) END
$$;

-- take_over grants the key to somebody who changes its pointer himself. The lease of whoever works on the key ends; while it runs that is
-- refused unless p_break says otherwise. The new grant has no lease, only a token. The caller holds the key's lock.
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

-- rollback publishes the files of an earlier version again, under a new token. It copies no bytes. p_to_revision null is the last one that
-- the generation has published. p_request names the request: its repeat is a replay.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION pawl.rollback(p_key text, p_request bytea, p_to_token bigint, p_to_revision bigint, p_reason text, p_by text,
    p_break boolean, p_pin boolean) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
    e      bigint := pawl.raise_epoch();
    k      pawl.keys;
    g      pawl.generations;
    t      timestamptz;
    target pawl.generations;
    source pawl.receipts;
    r      pawl.receipts;
    s      record;
    facts  jsonb;
    copied bigint;
BEGIN
    SELECT * INTO k FROM pawl.keys WHERE name = p_key FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        RETURN pawl.refused('not-found', jsonb_build_object('key', p_key));
    END IF;
    t := clock_timestamp();
    SELECT * INTO g FROM pawl.generations WHERE key_id = k.id AND lease_sha256 = p_request;
    IF g.kind = 'rollback' THEN
        SELECT * INTO r FROM pawl.receipts WHERE key_id = k.id AND token = g.token AND revision = 1;
        RETURN jsonb_build_object('receipt', pawl.receipt_json(k, g, r) || '{"replayed": true}');
    ELSIF FOUND THEN
        RETURN pawl.refused('lease-lost', jsonb_build_object('key', p_key, 'token', g.token, 'granted_token', k.counter));
    END IF;

    -- The key's lock keeps the generation from being published or condemned meanwhile.
    facts := jsonb_build_object('key', p_key, 'operation', 'rollback', 'token', p_to_token, 'revision', p_to_revision);
    SELECT * INTO target FROM pawl.generations WHERE key_id = k.id AND token = p_to_token;
    IF target.state IN ('condemned', 'collected') THEN
        RETURN pawl.refused('generation-collected', facts);
    END IF;
    SELECT * INTO source FROM pawl.receipts
    WHERE key_id = k.id AND token = p_to_token AND revision = coalesce(p_to_revision, target.revision);
    IF NOT FOUND THEN
        RETURN pawl.refused('not-found', facts);
    END IF;
    IF NOT p_pin AND EXISTS (SELECT FROM pawl.pins WHERE key_id = k.id) THEN
        RETURN pawl.pinned(k, 'rollback', NULL);
    END IF;
    source.previous_token := k.current_token;
    source.previous_revision := k.current_revision;
    SELECT * INTO s FROM pawl.take_over(k, e, t, p_request, p_by, p_break, 'rollback', p_reason, p_to_token, source.revision);
    IF s.refusal IS NOT NULL THEN
        RETURN s.refusal;
    END IF;
    g := s.g;

    UPDATE pawl.keys SET fence = g.token, published = true, current_token = g.token, current_revision = 1
    WHERE id = k.id AND counter = g.token AND fence < g.token RETURNING * INTO STRICT k;
    INSERT INTO pawl.files (key_id, token, path, upload_id, state, size, sha256, content_type, from_revision,
        started_at, ended_at, object_token)
    SELECT k.id, g.token, path, upload_id, 'stored', size, sha256, content_type, 1, t, t, coalesce(object_token, token)
    FROM pawl.files WHERE key_id = k.id AND token = p_to_token AND state = 'stored' AND from_revision <= source.revision
        AND (until_revision IS NULL OR until_revision >= source.revision);
    GET DIAGNOSTICS copied = ROW_COUNT;
    IF copied <> source.files THEN
        RAISE EXCEPTION 'pawl: version %.% of key % has % files, its receipt says %', p_to_token, source.revision, p_key, copied, source.files;
    END IF;
    UPDATE pawl.generations SET revision = 1, state = 'sealed', sealed_at = t WHERE key_id = k.id AND token = g.token RETURNING * INTO g;
    INSERT INTO pawl.receipts (key_id, token, revision, manifest_digest, final, requested_primary, primary_path,
        primary_type, files, bytes, published_at, source_revision, metadata, previous_token, previous_revision, lease_expired,
        reused_files, reused_bytes)
    VALUES (k.id, g.token, 1, source.manifest_digest, true, source.requested_primary, source.primary_path,
        source.primary_type, source.files, source.bytes, t, source.source_revision, source.metadata,
        source.previous_token, source.previous_revision, false, source.files, source.bytes)
    RETURNING * INTO r;
    PERFORM pawl.note(p_by, 'rollback', p_key, pawl.version(r.previous_token, r.previous_revision),
        pawl.version(r.token, r.revision) || pawl.operator_json(g));
    IF p_pin THEN
        PERFORM pawl.set_pin(k, p_reason, p_by, t);
    END IF;
    RETURN jsonb_build_object('receipt', pawl.receipt_json(k, g, r) || '{"replayed": false}');
END $$;
-- +goose StatementEnd

-- retire takes the pointer away, under a new token. Counter, history and files stay. A key that is retired and was granted to nobody
-- since stays as it is: the answer is that retirement.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION pawl.retire(p_key text, p_request bytea, p_reason text, p_by text, p_break boolean) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
    e bigint := pawl.raise_epoch();
    k pawl.keys;
    g pawl.generations;
    t timestamptz;
    s record;
BEGIN
    SELECT * INTO k FROM pawl.keys WHERE name = p_key FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        RETURN pawl.refused('not-found', jsonb_build_object('key', p_key));
    END IF;
    t := clock_timestamp();
    SELECT * INTO g FROM pawl.generations WHERE key_id = k.id AND lease_sha256 = p_request;
    IF FOUND AND g.kind IS DISTINCT FROM 'retire' THEN
        RETURN pawl.refused('lease-lost', jsonb_build_object('key', p_key, 'token', g.token, 'granted_token', k.counter));
    ELSIF NOT FOUND AND NOT k.published AND k.counter = k.fence THEN
        SELECT * INTO g FROM pawl.generations WHERE key_id = k.id AND token = k.fence;
    END IF;
    IF g.token IS NOT NULL THEN
        RETURN jsonb_build_object('retired', pawl.retirement_json(k, g) || '{"replayed": true}');
    END IF;
    IF EXISTS (SELECT FROM pawl.pins WHERE key_id = k.id) THEN
        RETURN pawl.pinned(k, 'retire', NULL);
    END IF;
    SELECT * INTO s FROM pawl.take_over(k, e, t, p_request, p_by, p_break, 'retire', p_reason, k.current_token, k.current_revision);
    IF s.refusal IS NOT NULL THEN
        RETURN s.refusal;
    END IF;
    g := s.g;
    UPDATE pawl.keys SET fence = g.token, published = false, current_token = NULL, current_revision = NULL
    WHERE id = k.id AND counter = g.token AND fence < g.token RETURNING * INTO STRICT k;
    -- It holds no files and never will: there is nothing of it to collect.
    UPDATE pawl.generations SET state = 'collected' WHERE key_id = k.id AND token = g.token;
    PERFORM pawl.note(p_by, 'retire', p_key, pawl.version(g.target_token, g.target_revision),
        jsonb_build_object('token', g.token) || pawl.operator_json(g));
    RETURN jsonb_build_object('retired', pawl.retirement_json(k, g) || '{"replayed": false}');
END $$;
-- +goose StatementEnd

-- set_pin pins a key whose lock the caller holds. The same reason again changes nothing.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION pawl.set_pin(k pawl.keys, p_reason text, p_by text, t timestamptz) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    earlier jsonb := pawl.pin_json(k.id);
BEGIN
    IF earlier->>'reason' IS DISTINCT FROM p_reason THEN
        INSERT INTO pawl.pins AS old (key_id, reason, pinned_by, pinned_at) VALUES (k.id, p_reason, p_by, t)
        ON CONFLICT (key_id) DO UPDATE SET reason = excluded.reason, pinned_by = excluded.pinned_by, pinned_at = excluded.pinned_at;
        PERFORM pawl.note(p_by, 'pin', k.name, earlier,
            pawl.pin_json(k.id) || jsonb_build_object('current', pawl.version(k.current_token, k.current_revision)));
    END IF;
END $$;
-- +goose StatementEnd

-- pin keeps the pointer where it is. It takes no token: whoever works on the key keeps the lease, and may publish once the pin is gone.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION pawl.pin(p_key text, p_reason text, p_by text, p_match_token bigint, p_match_revision bigint) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
    k       pawl.keys;
    g       pawl.generations;
    current jsonb;
BEGIN
    SELECT * INTO k FROM pawl.keys WHERE name = p_key FOR NO KEY UPDATE;
    SELECT * INTO g FROM pawl.generations WHERE key_id = k.id AND token = k.fence;
    IF NOT coalesce(k.published, false) THEN
        RETURN coalesce(pawl.retired(k, g), pawl.refused('not-found', jsonb_build_object('key', p_key, 'operation', 'pin')));
    END IF;
    current := pawl.version(k.current_token, k.current_revision);
    IF p_match_token IS NOT NULL AND (p_match_token, p_match_revision) IS DISTINCT FROM (k.current_token, k.current_revision) THEN
        RETURN pawl.refused('precondition-failed', jsonb_build_object('key', p_key, 'operation', 'pin', 'current', current));
    END IF;
    PERFORM pawl.set_pin(k, p_reason, p_by, clock_timestamp());
    RETURN jsonb_build_object('pin', pawl.pin_json(k.id) || jsonb_build_object('key', p_key, 'current', current));
END $$;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE OR REPLACE FUNCTION pawl.unpin(p_key text, p_by text) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
    k       pawl.keys;
    earlier jsonb;
BEGIN
    SELECT * INTO k FROM pawl.keys WHERE name = p_key FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        RETURN pawl.refused('not-found', jsonb_build_object('key', p_key));
    END IF;
    earlier := pawl.pin_json(k.id);
    DELETE FROM pawl.pins WHERE key_id = k.id;
    IF FOUND THEN
        PERFORM pawl.note(p_by, 'unpin', p_key, earlier, NULL);
    END IF;
    RETURN '{}';
END $$;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE OR REPLACE FUNCTION pawl.set_policy(p pawl.policies, p_by text) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
    earlier jsonb;
BEGIN
    LOCK TABLE pawl.policies IN SHARE ROW EXCLUSIVE MODE; -- Readers go on; the next change sees this one.
    SELECT to_jsonb(old) - 'prefix' INTO earlier FROM pawl.policies old WHERE prefix = p.prefix;
    IF earlier IS DISTINCT FROM to_jsonb(p) - 'prefix' THEN
        DELETE FROM pawl.policies WHERE prefix = p.prefix;
        INSERT INTO pawl.policies SELECT p.*;
        PERFORM pawl.note(p_by, 'policy', p.prefix, jsonb_strip_nulls(earlier), jsonb_strip_nulls(to_jsonb(p) - 'prefix'));
    END IF;
    RETURN '{}';
END $$;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE OR REPLACE FUNCTION pawl.unset_policy(p_prefix text, p_by text) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
    earlier pawl.policies;
BEGIN
    DELETE FROM pawl.policies WHERE prefix = p_prefix RETURNING * INTO earlier;
    IF FOUND THEN
        PERFORM pawl.note(p_by, 'policy', p_prefix, jsonb_strip_nulls(to_jsonb(earlier) - 'prefix'), NULL);
    END IF;
    RETURN '{}';
END $$;
-- +goose StatementEnd

-- +goose Down
DROP FUNCTION IF EXISTS pawl.unset_policy, pawl.set_policy, pawl.unpin, pawl.pin, pawl.set_pin, pawl.retire, pawl.rollback, pawl.take_over, pawl.check_ttl, pawl.check_size;

-- +goose StatementBegin
CREATE OR REPLACE FUNCTION pawl.check_fence(k pawl.keys, g pawl.generations, p_operation text, p_path text) RETURNS jsonb
LANGUAGE plpgsql AS $$
BEGIN
    IF g.token < k.fence OR pawl.fenced_by_grant(k, g.token) THEN
        RETURN pawl.reject(k, g, g.token, p_operation, p_path);
    ELSIF g.state IN ('condemned', 'collected') THEN
        RETURN pawl.refused('generation-collected', jsonb_build_object('key', k.name, 'operation', p_operation, 'token', g.token));
    ELSIF g.state = 'sealed' THEN
        RETURN pawl.refused('generation-sealed', jsonb_build_object('key', k.name, 'operation', p_operation, 'token', g.token,
            'current', pawl.version(k.current_token, k.current_revision)));
    END IF;
    RETURN NULL;
END $$;
-- +goose StatementEnd

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

CREATE OR REPLACE FUNCTION pawl.receipt_json(k pawl.keys, g pawl.generations, r pawl.receipts) RETURNS jsonb LANGUAGE sql IMMUTABLE AS $$
    SELECT jsonb_build_object('key', (k).name, 'token', (r).token, 'revision', (r).revision,
        'manifest_digest', encode((r).manifest_digest, 'hex'), 'final', (r).final, 'primary', coalesce((r).primary_path, ''),
        'files', (r).files, 'bytes', (r).bytes, 'published_at', (r).published_at, 'publisher', (g).holder,
        'source_revision', (r).source_revision, 'metadata', (r).metadata,
        'previous', pawl.version((r).previous_token, (r).previous_revision), 'lease_expired', (r).lease_expired,
        'current', pawl.version((k).current_token, (k).current_revision))
        || CASE WHEN (r).reuse_from IS NOT NULL THEN jsonb_build_object('reuse_from', (r).reuse_from) ELSE '{}' END
        || CASE WHEN (r).reused_files > 0 THEN jsonb_build_object('reused_files', (r).reused_files,
            'reused_bytes', (r).reused_bytes) ELSE '{}' END
        || CASE WHEN (k).counter > (r).token THEN jsonb_build_object('superseded_by', (k).counter) ELSE '{}' END
$$;

DROP FUNCTION IF EXISTS pawl.operator_json, pawl.check_set, pawl.policy, pawl.pinned, pawl.retired, pawl.retirement_json, pawl.pin_json, pawl.note;
ALTER TABLE pawl.policies DROP COLUMN IF EXISTS max_generation_bytes, DROP COLUMN IF EXISTS max_file_bytes, DROP COLUMN IF EXISTS max_ttl_ms,
    DROP COLUMN IF EXISTS keep_unpublished_for_ms, DROP COLUMN IF EXISTS keep_for_ms, DROP COLUMN IF EXISTS keep_generations;
DROP TABLE IF EXISTS pawl.audit, pawl.pins;
ALTER TABLE pawl.generations DROP COLUMN IF EXISTS target_revision, DROP COLUMN IF EXISTS target_token, DROP COLUMN IF EXISTS reason, DROP COLUMN IF EXISTS kind;
