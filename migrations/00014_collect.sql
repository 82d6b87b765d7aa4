-- Collection of generations that nobody needs any more, in two phases. condemn gives one up under the locks that a publish takes: from then on
-- it can't be published, uploaded into, reused from or rolled back to, for ever. Only then its objects are deleted, outside of any transaction.
--
-- Whoever deletes may be late, or do it twice: a condemned generation stays condemned, names of objects are never used again, and which objects
-- of it kept generations reference can only become fewer, since nothing is reused from a condemned one. What was unreferenced once stays so.
--
-- The indexes are built without keeping writers out, which can't be done in a transaction. So every statement may be run again
-- after a break.

-- +goose NO TRANSACTION
-- +goose Up

-- empty_at is when the objects of a condemned generation are to be looked for (again), null when there is nothing more to be done. No other change of a row
-- touches these columns, so grants and publishes stay heap-only updates.
ALTER TABLE pawl.generations
    ADD COLUMN IF NOT EXISTS condemned_at timestamptz,
    ADD COLUMN IF NOT EXISTS collected_at timestamptz,
    ADD COLUMN IF NOT EXISTS empty_at timestamptz;

-- What may be condemned, without the history of what was; and what is to be emptied, which is a seek.
DROP INDEX CONCURRENTLY IF EXISTS pawl.generations_kept;
CREATE INDEX CONCURRENTLY generations_kept ON pawl.generations (key_id, token) WHERE condemned_at IS NULL;
DROP INDEX CONCURRENTLY IF EXISTS pawl.generations_due;
CREATE INDEX CONCURRENTLY generations_due ON pawl.generations (empty_at, key_id, token) WHERE empty_at IS NOT NULL;

-- Duties are what one process at a time is to do, such as collecting. They save work; nothing that is safe rests on them.
CREATE TABLE IF NOT EXISTS pawl.duties (
    name       text PRIMARY KEY,
    holder     text NOT NULL,
    expires_at timestamptz NOT NULL
);

-- kept_from is the token from which on published generations are kept for being among the newest: 0 keeps all, as without a policy.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION pawl.kept_from(k pawl.keys, p pawl.policies) RETURNS bigint LANGUAGE plpgsql STABLE
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off AS $$
BEGIN
    IF p.keep_generations IS NULL THEN
        RETURN CASE WHEN p.keep_for_ms IS NULL THEN 0 ELSE 9007199254740992 END;
    END IF;
    RETURN coalesce((SELECT token FROM pawl.generations
        WHERE key_id = k.id AND condemned_at IS NULL AND revision > 0 AND token IS DISTINCT FROM k.current_token
        ORDER BY token DESC OFFSET p.keep_generations - 1 LIMIT 1), 0);
END $$;
-- +goose StatementEnd

-- superseded_at is when a published generation stopped being current: when the next one was published, or the key was retired.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION pawl.superseded_at(k pawl.keys, g pawl.generations) RETURNS timestamptz LANGUAGE sql STABLE AS $$
    SELECT coalesce(
        (SELECT published_at FROM pawl.receipts WHERE key_id = (k).id AND token > (g).token ORDER BY token, revision LIMIT 1),
        (SELECT granted_at FROM pawl.generations WHERE key_id = (k).id AND token = (k).fence AND kind = 'retire'))
$$;
-- +goose StatementEnd

-- dispensable reports whether a generation may be condemned. It asks age alone, never whether a lease is alive: a published generation is as old as
-- its successor, another one as the last sign of work on it. What was never published is kept for 7 days where no policy says how long.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION pawl.dispensable(k pawl.keys, g pawl.generations, p pawl.policies, p_kept_from bigint, p_grace_ms bigint,
    t timestamptz) RETURNS boolean LANGUAGE plpgsql STABLE AS $$
DECLARE
    before timestamptz;
BEGIN
    IF g.token IS NULL OR g.token = k.current_token OR g.state NOT IN ('open', 'sealed') THEN
        RETURN false;
    ELSIF g.revision > 0 THEN
        RETURN g.token < p_kept_from
            AND coalesce(pawl.superseded_at(k, g) < t - greatest(p_grace_ms, p.keep_for_ms) * interval '1 millisecond', false);
    END IF;
    before := t - greatest(p_grace_ms, coalesce(p.keep_unpublished_for_ms, 604800000)) * interval '1 millisecond';
    RETURN g.granted_at < before AND NOT EXISTS (SELECT FROM pawl.files
        WHERE key_id = g.key_id AND token = g.token AND greatest(started_at, alive_at, ended_at) >= before);
END $$;
-- +goose StatementEnd

-- collectable walks the keys in the order of their names and returns generations that may be condemned, from a place on; next is where to
-- go on, null at the end. It looks at p_limit keys and generations, and locks nothing: condemn decides.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION pawl.collectable(p_prefix text, p_key text, p_token bigint, p_grace_ms bigint, p_limit integer) RETURNS jsonb
LANGUAGE plpgsql STABLE SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off AS $$
DECLARE
    t        timestamptz := clock_timestamp();
    most     text := CASE WHEN p_prefix = '' THEN repeat(chr(1114111), 100) ELSE p_prefix || '0' END; -- "0" follows "/"
    k        pawl.keys;
    g        pawl.generations;
    p        pawl.policies;
    kept     bigint;
    behind   bigint;
    looked   integer := 0;
    found    jsonb[] := '{}';
BEGIN
    FOR k IN
        SELECT * FROM pawl.keys WHERE name >= greatest(p_prefix COLLATE "C", p_key COLLATE "C") AND name < most COLLATE "C"
            AND (p_prefix = '' OR name = p_prefix OR starts_with(name, p_prefix || '/')) ORDER BY name LIMIT p_limit + 1
    LOOP
        behind := CASE WHEN k.name = p_key THEN p_token ELSE 0 END;
        IF looked >= p_limit THEN
            RETURN jsonb_build_object('found', to_jsonb(found), 'next', jsonb_build_object('key', k.name, 'token', behind));
        END IF;
        looked := looked + 1;
        kept := NULL;
        FOR g IN
            SELECT * FROM pawl.generations
            WHERE key_id = k.id AND condemned_at IS NULL AND token > behind AND token IS DISTINCT FROM k.current_token
            ORDER BY token LIMIT p_limit - looked + 1
        LOOP
            IF looked >= p_limit THEN
                RETURN jsonb_build_object('found', to_jsonb(found), 'next', jsonb_build_object('key', k.name, 'token', behind));
            END IF;
            looked := looked + 1;
            behind := g.token;
            IF kept IS NULL THEN
                p := pawl.policy(k.name);
                kept := pawl.kept_from(k, p);
            END IF;
            IF pawl.dispensable(k, g, p, kept, p_grace_ms, t) THEN
                found := found || jsonb_build_object('key', k.name, 'token', g.token);
            END IF;
        END LOOP;
    END LOOP;
    RETURN jsonb_build_object('found', to_jsonb(found));
END $$;
-- +goose StatementEnd

-- condemn gives a generation up, if it still may be. It locks the key and then the generation, as publish does; an upload holds the generation's lock.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION pawl.condemn(p_key text, p_token bigint, p_grace_ms bigint) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
    k pawl.keys;
    g pawl.generations;
    p pawl.policies;
    t timestamptz;
BEGIN
    SELECT * INTO k FROM pawl.keys WHERE name = p_key FOR NO KEY UPDATE;
    SELECT * INTO g FROM pawl.generations WHERE key_id = k.id AND token = p_token FOR NO KEY UPDATE;
    t := clock_timestamp();
    p := pawl.policy(p_key);
    IF NOT pawl.dispensable(k, g, p, pawl.kept_from(k, p), p_grace_ms, t) THEN
        RETURN '{"done": false}';
    END IF;
    UPDATE pawl.generations SET state = 'condemned', condemned_at = t, empty_at = t
    WHERE key_id = k.id AND token = p_token AND state IN ('open', 'sealed')
        AND NOT EXISTS (SELECT FROM pawl.keys WHERE id = k.id AND current_token = p_token);
    RETURN jsonb_build_object('done', FOUND);
END $$;
-- +goose StatementEnd

-- due_generations returns condemned generations whose objects are to be deleted, oldest first, behind a place (p_since null: from the beginning).
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION pawl.due_generations(p_since timestamptz, p_key text, p_token bigint, p_limit integer) RETURNS jsonb
LANGUAGE plpgsql STABLE SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off AS $$
DECLARE
    t    timestamptz := clock_timestamp();
    k_id bigint := coalesce((SELECT id FROM pawl.keys WHERE name = p_key), 0);
BEGIN
    p_since := coalesce(p_since, '-infinity');
    RETURN (
        SELECT coalesce(jsonb_agg(jsonb_build_object('key', k.name, 'token', due.token, 'since', due.empty_at)
            ORDER BY due.empty_at, due.key_id, due.token), '[]')
        FROM (
            SELECT key_id, token, empty_at FROM pawl.generations
            WHERE empty_at <= t AND (empty_at, key_id, token) > (p_since, k_id, p_token)
            ORDER BY empty_at, key_id, token LIMIT p_limit
        ) due JOIN pawl.keys k ON k.id = due.key_id);
END $$;
-- +goose StatementEnd

-- referenced returns the places, from 1, of those objects of a condemned generation that a kept generation names in any of its revisions. It
-- looks from one generation that references it to the next, then for each path in those that are kept.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION pawl.referenced(p_key text, p_token bigint, p_upload_ids bytea[], p_paths text[]) RETURNS jsonb
LANGUAGE plpgsql STABLE SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE
    k_id   bigint := (SELECT id FROM pawl.keys WHERE name = p_key);
    behind bigint := 0;
    kept   bigint[] := '{}';
BEGIN
    LOOP
        SELECT token INTO behind FROM pawl.files
        WHERE key_id = k_id AND object_token = p_token AND token > behind ORDER BY token LIMIT 1;
        EXIT WHEN NOT FOUND;
        IF EXISTS (SELECT FROM pawl.generations WHERE key_id = k_id AND token = behind AND state NOT IN ('condemned', 'collected')) THEN
            kept := kept || behind;
        END IF;
    END LOOP;
    IF cardinality(kept) = 0 THEN
        RETURN '[]';
    END IF;
    RETURN (
        SELECT coalesce(jsonb_agg(n ORDER BY n), '[]') FROM unnest(p_upload_ids, p_paths) WITH ORDINALITY object (upload_id, path, n)
        -- One look by path for each object: a join, or the index that the other condition fits, would go over all rows of those generations.
        WHERE (SELECT true FROM pawl.files f WHERE f.key_id = k_id AND f.token = ANY (kept) AND f.path = object.path COLLATE "C"
            AND f.upload_id = object.upload_id AND coalesce(f.object_token, 0) = p_token AND f.state = 'stored' LIMIT 1));
END $$;
-- +goose StatementEnd

-- emptied notes that the objects of a condemned generation are deleted, but for those that were referenced, unless it has become due again since it was
-- found due at p_seen. It is due once more when all that was signed for it has expired, so that late arrivals go, too. And what
-- it referenced of others may be referenced by nobody now: condemned ones among those are due again.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION pawl.emptied(p_key text, p_token bigint, p_seen timestamptz, p_late_ms bigint) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
    k       pawl.keys;
    g       pawl.generations;
    t       timestamptz;
    objects bigint[] := ARRAY(SELECT DISTINCT f.object_token FROM pawl.keys named JOIN pawl.files f ON f.key_id = named.id
        WHERE named.name = p_key AND f.token = p_token AND f.object_token IS NOT NULL); -- It is condemned: they stay as they are.
BEGIN
    SELECT * INTO k FROM pawl.keys WHERE name = p_key FOR NO KEY UPDATE;
    SELECT * INTO g FROM pawl.generations WHERE key_id = k.id AND token = p_token FOR NO KEY UPDATE;
    t := clock_timestamp();
    IF g.empty_at IS DISTINCT FROM p_seen OR g.state NOT IN ('condemned', 'collected') THEN
        RETURN '{"done": false}';
    END IF;
    UPDATE pawl.generations SET state = 'collected', collected_at = coalesce(collected_at, t),
        empty_at = nullif(greatest(coalesce(collected_at, t) + p_late_ms * interval '1 millisecond', t), t)
    WHERE key_id = k.id AND token = p_token;
    IF g.collected_at IS NULL THEN
        UPDATE pawl.generations SET empty_at = t
        WHERE key_id = k.id AND token = ANY (objects) AND condemned_at IS NOT NULL;
    END IF;
    RETURN '{"done": true}';
END $$;
-- +goose StatementEnd

-- take_duty gives a duty to a process, or renews it, unless another one has it.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION pawl.take_duty(p_name text, p_holder text, p_ttl_ms bigint) RETURNS jsonb LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO pawl.duties AS duty (name, holder, expires_at)
    VALUES (p_name, p_holder, clock_timestamp() + p_ttl_ms * interval '1 millisecond')
    ON CONFLICT (name) DO UPDATE SET holder = p_holder, expires_at = clock_timestamp() + p_ttl_ms * interval '1 millisecond'
        WHERE duty.holder = p_holder OR duty.expires_at <= clock_timestamp();
    RETURN jsonb_build_object('done', FOUND);
END $$;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE OR REPLACE FUNCTION pawl.leave_duty(p_name text, p_holder text) RETURNS jsonb LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM pawl.duties WHERE name = p_name AND holder = p_holder;
    RETURN jsonb_build_object('done', FOUND);
END $$;
-- +goose StatementEnd

-- +goose Down
DROP FUNCTION IF EXISTS pawl.leave_duty, pawl.take_duty, pawl.emptied, pawl.referenced, pawl.due_generations, pawl.condemn, pawl.collectable,
    pawl.dispensable, pawl.superseded_at, pawl.kept_from;
DROP TABLE IF EXISTS pawl.duties;
DROP INDEX CONCURRENTLY IF EXISTS pawl.generations_due;
DROP INDEX CONCURRENTLY IF EXISTS pawl.generations_kept;
ALTER TABLE pawl.generations DROP COLUMN IF EXISTS empty_at, DROP COLUMN IF EXISTS collected_at, DROP COLUMN IF EXISTS condemned_at;
