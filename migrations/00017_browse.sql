-- What people look at: keys in several orders and by several filters, rejections and leases of all keys, and one key with all that is around it.
--
-- No page costs more than its bound, whatever the tables hold. A page either walks an index in its own order and stops at the bound, or the set
-- that holds all that it can show is small enough to be sorted. The settings of the functions keep the planner from other ways: it takes a small limit
-- or a new index for a reason to read a whole table.
--
-- The indexes are built without keeping writers out, which can't be done in a transaction. So every statement may be run again
-- after a break.

-- +goose NO TRANSACTION
-- +goose Up

-- What a page by age walks: receipts never change, so this costs a publish one entry at the index's end.
DROP INDEX CONCURRENTLY IF EXISTS pawl.receipts_age;
CREATE INDEX CONCURRENTLY receipts_age ON pawl.receipts (published_at, key_id);

-- Leases that were neither given back nor taken over: those that run, and those that ran out since. A key has one at most.
DROP INDEX CONCURRENTLY IF EXISTS pawl.generations_held;
CREATE INDEX CONCURRENTLY generations_held ON pawl.generations (granted_at, key_id, token)
    WHERE released_at IS NULL AND lease_ended_at IS NULL;

DROP INDEX CONCURRENTLY IF EXISTS pawl.rejections_latest;
CREATE INDEX CONCURRENTLY rejections_latest ON pawl.rejections (last_at, key_id, token, operation, path);

-- Keys that have rejections, with how often one came, repeats included. It stands apart so that it costs the other keys nothing, and because a request that
-- is rejected may hold the lock of a generation, after which it must not ask for that of the key. A key's name never changes.
CREATE TABLE IF NOT EXISTS pawl.rejected_keys (
    key_id     bigint PRIMARY KEY,
    name       text COLLATE "C" NOT NULL,
    rejections bigint NOT NULL
) WITH (fillfactor = 80);
-- Not unique: of two requests that insert a key at once, the second is to find the first by its id alone.
CREATE INDEX IF NOT EXISTS rejected_keys_name ON pawl.rejected_keys (name);

-- +goose StatementBegin
CREATE OR REPLACE FUNCTION pawl.count_rejection() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO pawl.rejected_keys AS counted (key_id, name, rejections) SELECT id, name, 1 FROM pawl.keys WHERE id = NEW.key_id
    ON CONFLICT (key_id) DO UPDATE SET rejections = counted.rejections + 1;
    RETURN NULL;
END $$;
-- +goose StatementEnd

-- Stale requests wait while those of before are counted.
-- +goose StatementBegin
DO $$
BEGIN
    LOCK TABLE pawl.rejections IN SHARE ROW EXCLUSIVE MODE;
    DELETE FROM pawl.rejected_keys;
    INSERT INTO pawl.rejected_keys (key_id, name, rejections)
    SELECT k.id, k.name, r.rejections FROM (SELECT key_id, sum(repeat) AS rejections FROM pawl.rejections GROUP BY key_id) r
    JOIN pawl.keys k ON k.id = r.key_id;
    CREATE OR REPLACE TRIGGER rejections_counted AFTER INSERT OR UPDATE OF repeat ON pawl.rejections
        FOR EACH ROW EXECUTE FUNCTION pawl.count_rejection();
END $$;
-- +goose StatementEnd

-- A function in SQL becomes a part of the query that calls it only if it promises no more than what it calls does: jsonb_build_object is no more than
-- stable. As immutable ones these were called by themselves for each row, which cost more than to find the row.
ALTER FUNCTION pawl.pointer_json STABLE;
ALTER FUNCTION pawl.rejection_json STABLE;
ALTER FUNCTION pawl.receipt_json STABLE;
ALTER FUNCTION pawl.operator_json STABLE;
ALTER FUNCTION pawl.file_json STABLE;
ALTER FUNCTION pawl.version STABLE;
ALTER FUNCTION pawl.retirement_json STABLE;
ALTER FUNCTION pawl.retired STABLE;

-- behind_prefix is the least text above all names that start with a prefix: the prefix with its last character one higher. U+10FFFF has none above
-- it, and no name is as long as 101 of them.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION pawl.behind_prefix(p_prefix text) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN p = '' THEN repeat(chr(1114111), 101)
        ELSE left(p, -1) || chr(CASE ascii(right(p, 1)) WHEN 55295 THEN 57344 ELSE ascii(right(p, 1)) + 1 END) END
    FROM rtrim(p_prefix, chr(1114111)) p
$$;
-- +goose StatementEnd

-- holds_few tells whether a prefix holds at most so many keys with a pointer.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION pawl.holds_few(p_prefix text, p_most integer) RETURNS boolean LANGUAGE plpgsql STABLE
SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
DECLARE
    stop text COLLATE "C" := pawl.behind_prefix(p_prefix);
BEGIN
    RETURN (SELECT count(*) <= p_most FROM (
        SELECT FROM pawl.keys WHERE published AND name >= p_prefix AND name < stop LIMIT p_most + 1) some_keys);
END $$;
-- +goose StatementEnd

-- holding_json tells a grant whose lease was not given back, never its lease_id.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION pawl.holding_json(k pawl.keys, g pawl.generations, t timestamptz) RETURNS jsonb LANGUAGE sql STABLE AS $$
    SELECT jsonb_build_object('key', (k).name, 'token', (g).token, 'holder', (g).holder, 'labels', (g).labels, 'granted_at', (g).granted_at,
        'expires_at', (k).lease_expires_at, 'ttl_ms', (k).lease_ttl_ms, 'live', (k).lease_expires_at > t)
$$;
-- +goose StatementEnd

-- browse_rows tells keys that have a pointer, in the order of their ids in the list. One query for all of them: a function for each would cost
-- more than what it reads.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION pawl.browse_rows(p_ids bigint[], t timestamptz) RETURNS jsonb LANGUAGE plpgsql STABLE
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET plan_cache_mode = force_generic_plan SET jit = off AS $$
BEGIN
    RETURN coalesce((SELECT jsonb_agg(pawl.pointer_json(k, g, r::pawl.receipts)
            || jsonb_strip_nulls(jsonb_build_object('rejections', x.rejections, 'pinned', CASE WHEN p.key_id IS NOT NULL THEN pawl.pin_json(k.id) END))
            || jsonb_build_object('lease', CASE WHEN h.token IS NOT NULL THEN pawl.holding_json(k, h, t) END) ORDER BY s.place)
        FROM unnest(p_ids) WITH ORDINALITY s(id, place)
        JOIN pawl.keys k ON k.id = s.id
        -- Kept apart, so that it is sought by its whole primary key: not all receipts of a generation are read, which may have thousands.
        CROSS JOIN LATERAL (SELECT * FROM pawl.receipts
            WHERE key_id = k.id AND token = k.current_token AND revision = k.current_revision OFFSET 0) r
        JOIN pawl.generations g ON g.key_id = k.id AND g.token = k.current_token
        LEFT JOIN pawl.generations h ON h.key_id = k.id AND h.token = k.counter AND k.lease_expires_at > t
        LEFT JOIN pawl.rejected_keys x ON x.key_id = k.id
        LEFT JOIN pawl.pins p ON p.key_id = k.id), '[]');
END $$;
-- +goose StatementEnd

-- few_candidates gives the ids of keys among which are all that can pass the filters, of the first set that has at most p_bound: those with
-- rejections, with a lease, or published since a time. Null when none is that small.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION pawl.few_candidates(p_prefix text, p_leased boolean, p_rejected boolean, p_since timestamptz, p_bound integer) RETURNS bigint[]
LANGUAGE plpgsql STABLE SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET jit = off AS $$
DECLARE
    stop text COLLATE "C" := pawl.behind_prefix(p_prefix);
    ids  bigint[];
BEGIN
    IF p_rejected THEN
        SELECT array_agg(key_id) INTO ids FROM (
            SELECT key_id FROM pawl.rejected_keys WHERE name >= p_prefix AND name < stop ORDER BY name LIMIT p_bound + 1) c;
        IF coalesce(cardinality(ids), 0) <= p_bound THEN
            RETURN coalesce(ids, '{}');
        END IF;
    END IF;
    IF p_leased THEN
        SELECT array_agg(key_id) INTO ids FROM (
            SELECT key_id FROM pawl.generations WHERE released_at IS NULL AND lease_ended_at IS NULL
            ORDER BY granted_at DESC LIMIT p_bound + 1) c;
        IF coalesce(cardinality(ids), 0) <= p_bound THEN
            RETURN coalesce(ids, '{}');
        END IF;
    END IF;
    IF p_since IS NOT NULL THEN
        SELECT array_agg(key_id) INTO ids FROM (
            SELECT key_id FROM pawl.receipts WHERE published_at >= p_since ORDER BY published_at LIMIT p_bound + 1) c;
        IF coalesce(cardinality(ids), 0) <= p_bound THEN
            RETURN ARRAY(SELECT DISTINCT id FROM unnest(ids) id);
        END IF;
    END IF;
    RETURN NULL;
END $$;
-- +goose StatementEnd

-- browse returns {rows, more, end, searched, sortable}: one page of keys. more tells that other rows follow the last one; end is where a search stopped
-- that has looked at p_bound keys. p_from is where the page before ended.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION pawl.browse(p_prefix text, p_text text, p_type text, p_leased boolean, p_rejected boolean, p_since timestamptz,
    p_sort text, p_from jsonb, p_limit integer, p_bound integer) RETURNS jsonb LANGUAGE plpgsql STABLE
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET enable_sort = off SET enable_memoize = off SET plan_cache_mode = force_generic_plan SET jit = off AS $$
DECLARE
    t        timestamptz := clock_timestamp();
    stop     text COLLATE "C" := pawl.behind_prefix(p_prefix);
    sortable boolean := pawl.holds_few(p_prefix, p_bound);
    by_name  boolean := p_sort IN ('name', '-name');
    by_receipt boolean := p_type <> '' OR p_since IS NOT NULL OR p_sort IN ('age', '-age', 'size', '-size');
    part     text := lower(p_text COLLATE "default");
    -- Where the search stands.
    at_name  text COLLATE "C" := p_from->>'n';
    at_time  timestamptz := p_from->>'t';
    at_id    bigint := (SELECT id FROM pawl.keys WHERE name = at_name);
    -- The same place as the values that rows are ordered by; see below.
    from_number bigint := CASE p_sort WHEN 'age' THEN -extract(epoch FROM at_time) * 1000000 WHEN '-age' THEN extract(epoch FROM at_time) * 1000000
        WHEN 'size' THEN coalesce((p_from->>'v')::bigint, 0) WHEN '-size' THEN -coalesce((p_from->>'v')::bigint, 0)
        WHEN 'rejections' THEN -coalesce((p_from->>'v')::bigint, 0) ELSE 0 END;
    from_text text COLLATE "C" := CASE WHEN by_name THEN at_name WHEN p_sort = 'publisher' THEN coalesce(p_from->>'p', '') ELSE '' END;
    from_id  bigint := CASE p_sort WHEN 'age' THEN -at_id ELSE at_id END;
    few      bigint[];
    all_of_prefix boolean; -- all keys of the prefix are sorted
    ids      bigint[];
    shown    bigint[] := '{}';
    looked   integer := 0;
    step     integer;
    came     integer;
    ended    boolean := false;
BEGIN
    IF NOT sortable AND p_sort NOT IN ('name', '-name', 'age', '-age') THEN
        RETURN jsonb_build_object('sortable', false, 'rows', '[]'::jsonb);
    END IF;
    -- Where a walk upwards begins: with both conditions an index is read from the lower one.
    IF p_sort = '-age' AND p_since > coalesce(at_time, '-infinity') THEN
        at_time := p_since;
        at_id := 0;
    END IF;
    few := pawl.few_candidates(p_prefix, p_leased, p_rejected, p_since, p_bound);
    all_of_prefix := few IS NULL AND sortable AND NOT by_name;
    -- Most pages are full soon; so the first step is short. Without a filter each key by name is a row.
    step := least(p_bound, CASE WHEN by_name AND part = '' AND p_type = '' AND p_since IS NULL AND NOT p_leased THEN p_limit + 1 ELSE 4 * p_limit END);
    LOOP
        -- Each walk leaves out what its own rows, or those of keys, tell to fail a filter; what is left is looked up below.
        IF all_of_prefix THEN
            came := (SELECT count(*) FROM pawl.keys WHERE published AND name >= p_prefix AND name < stop);
            ended := true;
        ELSIF few IS NOT NULL THEN
            ids := few;
            came := cardinality(few);
            ended := true;
        ELSIF p_sort = 'name' AND p_rejected THEN
            SELECT array_agg(key_id) FILTER (WHERE part = '' OR strpos(lower(name COLLATE "default"), part) > 0), coalesce(max(name), at_name), count(*)
            INTO ids, at_name, came FROM (
                SELECT key_id, name FROM pawl.rejected_keys WHERE name >= p_prefix AND name < stop AND name > coalesce(at_name, '')
                ORDER BY name LIMIT step) c;
        ELSIF p_rejected AND by_name THEN
            SELECT array_agg(key_id) FILTER (WHERE part = '' OR strpos(lower(name COLLATE "default"), part) > 0), coalesce(min(name), at_name), count(*)
            INTO ids, at_name, came FROM (
                SELECT key_id, name FROM pawl.rejected_keys WHERE name >= p_prefix AND name < least(stop, at_name)
                ORDER BY name DESC LIMIT step) c;
        ELSIF p_sort = 'name' THEN
            SELECT array_agg(id) FILTER (WHERE (part = '' OR strpos(lower(name COLLATE "default"), part) > 0) AND (NOT p_leased OR lease_expires_at > t)),
                coalesce(max(name::text COLLATE "C"), at_name), count(*) INTO ids, at_name, came FROM (
                SELECT id, name, lease_expires_at FROM pawl.keys WHERE published AND name >= p_prefix AND name < stop AND name > coalesce(at_name, '')
                ORDER BY name LIMIT step) c;
        ELSIF p_sort = '-name' THEN
            SELECT array_agg(id) FILTER (WHERE (part = '' OR strpos(lower(name COLLATE "default"), part) > 0) AND (NOT p_leased OR lease_expires_at > t)),
                coalesce(min(name::text COLLATE "C"), at_name), count(*) INTO ids, at_name, came FROM (
                SELECT id, name, lease_expires_at FROM pawl.keys WHERE published AND name >= p_prefix AND name < least(stop, at_name)
                ORDER BY name DESC LIMIT step) c;
        ELSIF p_sort = 'age' THEN
            SELECT array_agg(c.key_id) FILTER (WHERE k.may_pass), coalesce((array_agg(c.published_at))[count(*)], at_time),
                coalesce((array_agg(c.key_id))[count(*)], at_id), count(*) INTO ids, at_time, at_id, came
            FROM (SELECT key_id, token, revision, published_at FROM pawl.receipts
                WHERE (published_at, key_id) < (coalesce(at_time, 'infinity'), coalesce(at_id, 0)) AND published_at >= coalesce(p_since, '-infinity')
                ORDER BY published_at DESC, key_id DESC LIMIT step) c
            CROSS JOIN LATERAL (SELECT (current_token, current_revision) = (c.token, c.revision) AND name >= p_prefix AND name < stop
                AND (part = '' OR strpos(lower(name COLLATE "default"), part) > 0) AND (NOT p_leased OR lease_expires_at > t) AS may_pass
                FROM pawl.keys WHERE id = c.key_id OFFSET 0) k;
        ELSE
            SELECT array_agg(c.key_id) FILTER (WHERE k.may_pass), coalesce((array_agg(c.published_at))[count(*)], at_time),
                coalesce((array_agg(c.key_id))[count(*)], at_id), count(*) INTO ids, at_time, at_id, came
            FROM (SELECT key_id, token, revision, published_at FROM pawl.receipts
                WHERE (published_at, key_id) > (coalesce(at_time, '-infinity'), coalesce(at_id, 0))
                ORDER BY published_at, key_id LIMIT step) c
            CROSS JOIN LATERAL (SELECT (current_token, current_revision) = (c.token, c.revision) AND name >= p_prefix AND name < stop
                AND (part = '' OR strpos(lower(name COLLATE "default"), part) > 0) AND (NOT p_leased OR lease_expires_at > t) AS may_pass
                FROM pawl.keys WHERE id = c.key_id OFFSET 0) k;
        END IF;
        looked := looked + came;
        ended := ended OR came < step;

        -- The order is that of the walks: by number, text and id, all of them upwards, but for names that go down. The look-ups are kept apart from each
        -- other by OFFSET 0, so each is one seek.
        shown := shown || ARRAY(
            SELECT k.id FROM (
                SELECT k.* FROM unnest(ids) u(id) CROSS JOIN LATERAL (SELECT * FROM pawl.keys WHERE id = u.id OFFSET 0) k
                UNION ALL SELECT * FROM pawl.keys WHERE all_of_prefix AND published AND name >= p_prefix AND name < stop) k
            LEFT JOIN LATERAL (SELECT * FROM pawl.receipts
                WHERE by_receipt AND key_id = k.id AND token = k.current_token AND revision = k.current_revision OFFSET 0) r ON true
            LEFT JOIN LATERAL (SELECT rejections FROM pawl.rejected_keys WHERE (p_rejected OR p_sort = 'rejections') AND key_id = k.id OFFSET 0) x ON true
            LEFT JOIN LATERAL (SELECT holder FROM pawl.generations
                WHERE p_sort = 'publisher' AND key_id = k.id AND token = k.current_token OFFSET 0) g ON true
            CROSS JOIN LATERAL (SELECT
                CASE p_sort WHEN 'age' THEN -extract(epoch FROM r.published_at) * 1000000 WHEN '-age' THEN extract(epoch FROM r.published_at) * 1000000
                    WHEN 'size' THEN r.bytes WHEN '-size' THEN -r.bytes WHEN 'rejections' THEN -coalesce(x.rejections, 0) ELSE 0 END::bigint AS number,
                CASE WHEN by_name THEN k.name WHEN p_sort = 'publisher' THEN g.holder ELSE '' END COLLATE "C" AS text,
                CASE p_sort WHEN 'age' THEN -k.id ELSE k.id END AS id) o
            WHERE k.published AND k.name >= p_prefix AND k.name < stop AND (NOT p_leased OR k.lease_expires_at > t) AND (NOT p_rejected OR x.rejections > 0)
                AND (part = '' OR strpos(lower(k.name COLLATE "default"), part) > 0) AND (p_since IS NULL OR r.published_at >= p_since)
                AND (p_type = '' OR starts_with(lower(split_part(r.primary_type, ';', 1)) || '/', p_type || '/'))
                AND CASE WHEN p_from IS NULL THEN true WHEN p_sort = '-name' THEN o.text < from_text WHEN by_name THEN o.text > from_text
                    ELSE (o.number, o.text, o.id) > (from_number, from_text, from_id) END
            ORDER BY o.number, CASE WHEN p_sort <> '-name' THEN o.text END, CASE WHEN p_sort = '-name' THEN o.text END DESC, o.id
            LIMIT p_limit + 1 - cardinality(shown));
        EXIT WHEN ended OR cardinality(shown) > p_limit OR looked >= p_bound;
        step := p_bound - looked;
    END LOOP;
    RETURN jsonb_build_object('sortable', sortable, 'searched', looked, 'more', cardinality(shown) > p_limit,
        'rows', pawl.browse_rows(shown[1:p_limit], t),
        'end', CASE WHEN NOT ended THEN jsonb_strip_nulls(jsonb_build_object('s', p_sort, 't', CASE WHEN NOT by_name THEN at_time END,
            'n', CASE WHEN by_name THEN at_name ELSE (SELECT name FROM pawl.keys WHERE id = at_id) END)) END);
END $$;
-- +goose StatementEnd

-- key_rejection_json tells a rejection and its key. A key that was never granted here has no token to tell.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION pawl.key_rejection_json(k pawl.keys, r pawl.rejections, p_holder text) RETURNS jsonb LANGUAGE sql STABLE AS $$
    SELECT jsonb_strip_nulls(pawl.rejection_json(r, p_holder) || jsonb_build_object('key', (k).name, 'granted_token', nullif((r).granted_token, 0)))
$$;
-- +goose StatementEnd

-- rejections_page returns {rows, more, end, now}: one page of rejections, the one that came last first. Those of a prefix that has few are sorted; else the
-- index is walked.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION pawl.rejections_page(p_prefix text, p_from jsonb, p_limit integer, p_bound integer) RETURNS jsonb LANGUAGE plpgsql STABLE
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET enable_sort = off SET plan_cache_mode = force_generic_plan SET jit = off AS $$
DECLARE
    t       timestamptz := clock_timestamp();
    stop    text COLLATE "C" := pawl.behind_prefix(p_prefix);
    -- Above all rows on the first page.
    at_time timestamptz := coalesce((p_from->>'t')::timestamptz, 'infinity');
    at_id   bigint := coalesce((SELECT id FROM pawl.keys WHERE name = p_from->>'k'), 0);
    at_token bigint := coalesce((p_from->>'n')::bigint, 0);
    at_operation text := coalesce(p_from->>'o', '');
    at_path text COLLATE "C" := coalesce(p_from->>'p', '');
    keys    bigint[];
    few     pawl.rejections[];
    page    pawl.rejections[];
    bound_row pawl.rejections; -- the last one that a page may look at
BEGIN
    IF p_prefix <> '' THEN
        keys := ARRAY(SELECT key_id FROM pawl.rejected_keys WHERE name >= p_prefix AND name < stop ORDER BY name LIMIT p_bound + 1);
        IF cardinality(keys) <= p_bound THEN
            few := ARRAY(SELECT r FROM unnest(keys) k(id) CROSS JOIN LATERAL (SELECT * FROM pawl.rejections WHERE key_id = k.id OFFSET 0) r LIMIT p_bound + 1);
        END IF;
    END IF;
    IF cardinality(few) <= p_bound THEN
        page := ARRAY(SELECT r::pawl.rejections FROM unnest(few) r
            WHERE (r.last_at, r.key_id, r.token, r.operation, r.path) < (at_time, at_id, at_token, at_operation, at_path)
            ORDER BY r.last_at DESC, r.key_id DESC, r.token DESC, r.operation DESC, r.path DESC LIMIT p_limit + 1);
    ELSE
        -- The loops keep the order of the walk, and end with the page.
        page := ARRAY(SELECT c::pawl.rejections FROM (SELECT * FROM pawl.rejections
                WHERE (last_at, key_id, token, operation, path) < (at_time, at_id, at_token, at_operation, at_path)
                ORDER BY last_at DESC, key_id DESC, token DESC, operation DESC, path DESC LIMIT p_bound) c
            CROSS JOIN LATERAL (SELECT name FROM pawl.keys WHERE id = c.key_id OFFSET 0) k
            WHERE k.name >= p_prefix AND k.name < stop LIMIT p_limit + 1);
        IF cardinality(page) <= p_limit THEN
            SELECT last_at, key_id, token, operation, path INTO bound_row.last_at, bound_row.key_id, bound_row.token, bound_row.operation, bound_row.path FROM pawl.rejections
            WHERE (last_at, key_id, token, operation, path) < (at_time, at_id, at_token, at_operation, at_path)
            ORDER BY last_at DESC, key_id DESC, token DESC, operation DESC, path DESC OFFSET p_bound - 1 LIMIT 1;
        END IF;
    END IF;
    RETURN jsonb_build_object('now', t, 'more', cardinality(page) > p_limit,
        'rows', coalesce((SELECT jsonb_agg(pawl.key_rejection_json(k, r, g.holder) ORDER BY p.ordinality)
            FROM unnest(page[1:p_limit]) WITH ORDINALITY p
            JOIN pawl.keys k ON k.id = p.key_id
            JOIN pawl.rejections r ON (r.key_id, r.token, r.operation, r.path) = (p.key_id, p.token, p.operation, p.path)
            LEFT JOIN pawl.generations g ON g.key_id = p.key_id AND g.token = p.token), '[]'),
        'end', CASE WHEN bound_row.key_id IS NOT NULL THEN jsonb_build_object('t', bound_row.last_at, 'k', (SELECT name FROM pawl.keys WHERE id = bound_row.key_id),
            'n', bound_row.token, 'o', bound_row.operation, 'p', bound_row.path) END);
END $$;
-- +goose StatementEnd

-- leases_page returns {rows, more, end, now}: one page of leases, the newest grant first, with p_expired also those that ran out. Those of a prefix
-- that has few keys are sorted; else the index is walked.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION pawl.leases_page(p_prefix text, p_expired boolean, p_from jsonb, p_limit integer, p_bound integer) RETURNS jsonb LANGUAGE plpgsql STABLE
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET enable_sort = off SET plan_cache_mode = force_generic_plan SET jit = off AS $$
DECLARE
    t        timestamptz := clock_timestamp();
    stop     text COLLATE "C" := pawl.behind_prefix(p_prefix);
    at_time  timestamptz := coalesce((p_from->>'t')::timestamptz, 'infinity');
    at_id    bigint := coalesce((SELECT id FROM pawl.keys WHERE name = p_from->>'k'), 0);
    few      bigint[];
    page     pawl.generations[];
    bound_row pawl.generations; -- the last one that a page may look at
BEGIN
    IF p_prefix <> '' THEN
        few := ARRAY(SELECT id FROM pawl.keys WHERE name >= p_prefix AND name < stop ORDER BY name LIMIT p_bound + 1);
    END IF;
    IF cardinality(few) <= p_bound THEN
        page := ARRAY(SELECT g::pawl.generations FROM unnest(few) u(id)
            CROSS JOIN LATERAL (SELECT * FROM pawl.keys WHERE id = u.id OFFSET 0) k
            CROSS JOIN LATERAL (SELECT * FROM pawl.generations WHERE key_id = k.id AND token = k.counter OFFSET 0) g
            WHERE (k.lease_expires_at > t OR p_expired AND k.lease_expires_at IS NOT NULL) AND (g.granted_at, g.key_id) < (at_time, at_id)
            ORDER BY g.granted_at DESC, g.key_id DESC LIMIT p_limit + 1);
    ELSE
        -- The loops keep the order of the walk, and end with the page.
        page := ARRAY(SELECT c::pawl.generations FROM (SELECT * FROM pawl.generations
                WHERE released_at IS NULL AND lease_ended_at IS NULL AND (granted_at, key_id) < (at_time, at_id)
                ORDER BY granted_at DESC, key_id DESC LIMIT p_bound) c
            CROSS JOIN LATERAL (SELECT * FROM pawl.keys WHERE id = c.key_id OFFSET 0) k
            WHERE k.name >= p_prefix AND k.name < stop AND k.counter = c.token
                AND (k.lease_expires_at > t OR p_expired AND k.lease_expires_at IS NOT NULL) LIMIT p_limit + 1);
        IF cardinality(page) <= p_limit THEN
            SELECT granted_at, key_id, token INTO bound_row.granted_at, bound_row.key_id, bound_row.token FROM pawl.generations
            WHERE released_at IS NULL AND lease_ended_at IS NULL AND (granted_at, key_id) < (at_time, at_id)
            ORDER BY granted_at DESC, key_id DESC OFFSET p_bound - 1 LIMIT 1;
        END IF;
    END IF;
    RETURN jsonb_build_object('now', t, 'more', cardinality(page) > p_limit,
        'rows', coalesce((SELECT jsonb_agg(pawl.holding_json(k, g, t) ORDER BY p.ordinality)
            FROM unnest(page[1:p_limit]) WITH ORDINALITY p
            JOIN pawl.keys k ON k.id = p.key_id JOIN pawl.generations g ON g.key_id = p.key_id AND g.token = p.token), '[]'),
        'end', CASE WHEN bound_row.key_id IS NOT NULL THEN jsonb_build_object('t', bound_row.granted_at, 'k', (SELECT name FROM pawl.keys WHERE id = bound_row.key_id),
            'n', bound_row.token) END);
END $$;
-- +goose StatementEnd

-- overview tells one key with what is around it, null when nothing is known of it. It counts up to p_most generations.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION pawl.overview(p_key text, p_most integer) RETURNS jsonb LANGUAGE plpgsql STABLE AS $$
DECLARE
    t timestamptz := clock_timestamp();
    k pawl.keys;
BEGIN
    SELECT * INTO k FROM pawl.keys WHERE name = p_key;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    RETURN jsonb_build_object('key', k.name, 'server_time', t,
        'pointer', (SELECT pawl.pointer_json(k, g, r) || jsonb_strip_nulls(jsonb_build_object('pinned', pawl.pin_json(k.id)))
            FROM pawl.receipts r JOIN pawl.generations g ON g.key_id = r.key_id AND g.token = r.token
            WHERE r.key_id = k.id AND r.token = k.current_token AND r.revision = k.current_revision),
        'lease', (SELECT pawl.holding_json(k, g, t) FROM pawl.generations g
            WHERE g.key_id = k.id AND g.token = k.counter AND k.lease_expires_at IS NOT NULL),
        'generations', (SELECT count(*) FROM (SELECT FROM pawl.generations WHERE key_id = k.id LIMIT p_most) g),
        'rejections', coalesce((SELECT rejections FROM pawl.rejected_keys WHERE key_id = k.id), 0),
        'last_rejection', (SELECT pawl.key_rejection_json(k, r, g.holder)
            FROM (SELECT * FROM pawl.rejections WHERE key_id = k.id ORDER BY last_at DESC LIMIT 1) r
            LEFT JOIN pawl.generations g ON g.key_id = r.key_id AND g.token = r.token))
        || jsonb_strip_nulls(jsonb_build_object('counter', nullif(k.counter, 0), 'fence', nullif(k.fence, 0), 'pinned', pawl.pin_json(k.id),
            'retired', (SELECT pawl.retired(k, g) #> '{refused,retired}' FROM pawl.generations g WHERE g.key_id = k.id AND g.token = k.fence),
            'policy', (SELECT to_jsonb(p) FROM pawl.policy(p_key) p WHERE p.prefix IS NOT NULL)));
END $$;
-- +goose StatementEnd

-- +goose Down
DROP FUNCTION IF EXISTS pawl.overview, pawl.leases_page, pawl.rejections_page, pawl.key_rejection_json, pawl.browse, pawl.few_candidates, pawl.browse_rows, pawl.holding_json, pawl.holds_few, pawl.behind_prefix;
ALTER FUNCTION pawl.retired IMMUTABLE;
ALTER FUNCTION pawl.retirement_json IMMUTABLE;
ALTER FUNCTION pawl.version IMMUTABLE;
ALTER FUNCTION pawl.file_json IMMUTABLE;
ALTER FUNCTION pawl.operator_json IMMUTABLE;
ALTER FUNCTION pawl.receipt_json IMMUTABLE;
ALTER FUNCTION pawl.rejection_json IMMUTABLE;
ALTER FUNCTION pawl.pointer_json IMMUTABLE;
DROP TRIGGER IF EXISTS rejections_counted ON pawl.rejections;
DROP FUNCTION IF EXISTS pawl.count_rejection;
DROP TABLE IF EXISTS pawl.rejected_keys;
DROP INDEX CONCURRENTLY IF EXISTS pawl.rejections_latest;
DROP INDEX CONCURRENTLY IF EXISTS pawl.generations_held;
DROP INDEX CONCURRENTLY IF EXISTS pawl.receipts_age;
