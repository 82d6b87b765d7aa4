-- What lists show is bounded by ranges of names, so that each caller can be shown the keys of its reach alone. Range i begins with p_from[i] and ends before
-- p_to[i]; ranges are in byte order, and neither overlap nor touch. All keys are one range, and those of a prefix are one, too: a narrow reach is sought like
-- a prefix. A walk in the order of names reads nothing between the ranges. One in another order passes over what is in none of them, as it did over what had another
-- prefix, and stops at the same bound.
--
-- A page that stops at its bound may do so at a key outside the ranges. It tells its place by the key's number then, never by its name.
--
-- The functions of the same names that take a prefix stay: servers of before call them until they are restarted.

-- +goose Up

-- in_ranges tells whether a name is in one of the ranges. It is inlined into its caller's query.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION pawl.in_ranges(p_name text, p_from text[], p_to text[]) RETURNS boolean LANGUAGE sql IMMUTABLE AS $$
    SELECT coalesce(p_name COLLATE "C" < p_to[width_bucket(p_name COLLATE "C", p_from)], false)
$$;
-- +goose StatementEnd

-- list_names returns up to p_limit published keys and sub-prefixes behind p_after, in byte order. With p_delimiter, keys that go on after
-- the next slash behind p_prefix show as one sub-prefix, and the search leaps over all of them; the names in the ranges begin with p_prefix. It leaps over ranges
-- that hold nothing, too.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION pawl.list_names(p_from text[], p_to text[], p_prefix text, p_delimiter boolean, p_after text, p_limit integer)
RETURNS TABLE (name text, is_prefix boolean) LANGUAGE plpgsql STABLE AS $$
DECLARE
    -- The search goes on at names from seek on; behind skips seek itself.
    seek   text COLLATE "C" := p_prefix;
    behind boolean := false;
    found_name text COLLATE "C";
    at_range integer;
    listed integer := 0;
    cut    integer;
BEGIN
    IF p_after <> '' AND p_after >= p_prefix COLLATE "C" THEN
        seek := p_after;
        behind := true;
        IF p_delimiter AND right(p_after, 1) = '/' THEN
            seek := left(p_after, -1) || '0'; -- '0' is the byte after '/'.
            behind := false;
        END IF;
    END IF;
    WHILE listed < p_limit LOOP
        -- The first range that ends behind seek.
        at_range := width_bucket(seek, p_from);
        IF at_range = 0 OR seek >= p_to[at_range] THEN
            at_range := at_range + 1;
            EXIT WHEN at_range > cardinality(p_from);
            seek := p_from[at_range];
            behind := false;
        END IF;
        IF behind THEN
            SELECT k.name INTO found_name FROM pawl.keys k WHERE k.published AND k.name > seek ORDER BY k.name LIMIT 1;
        ELSE
            SELECT k.name INTO found_name FROM pawl.keys k WHERE k.published AND k.name >= seek ORDER BY k.name LIMIT 1;
        END IF;
        EXIT WHEN found_name IS NULL;
        IF found_name >= p_to[at_range] THEN
            seek := found_name;
            behind := false;
            CONTINUE;
        END IF;
        cut := CASE WHEN p_delimiter THEN position('/' IN substr(found_name, length(p_prefix) + 1)) ELSE 0 END;
        is_prefix := cut > 0;
        IF is_prefix THEN
            name := left(found_name, length(p_prefix) + cut);
            seek := left(name, -1) || '0';
        ELSE
            name := found_name;
            seek := found_name;
        END IF;
        behind := NOT is_prefix;
        listed := listed + 1;
        RETURN NEXT;
    END LOOP;
END $$;
-- +goose StatementEnd

-- holds_few tells whether the ranges hold at most so many keys with a pointer.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION pawl.holds_few(p_from text[], p_to text[], p_most integer) RETURNS boolean LANGUAGE plpgsql STABLE
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off AS $$
BEGIN
    RETURN (SELECT count(*) <= p_most FROM (
        SELECT FROM unnest(p_from, p_to) s(lower, upper) CROSS JOIN LATERAL (
            SELECT FROM pawl.keys WHERE published AND name >= s.lower AND name < s.upper LIMIT p_most + 1) k LIMIT p_most + 1) some_keys);
END $$;
-- +goose StatementEnd

-- few_candidates gives the ids of keys among which are all that can pass the filters, of the first set that has at most p_bound: those in the ranges with
-- rejections, those with a lease, or those published since a time. Null when none is that small.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION pawl.few_candidates(p_from text[], p_to text[], p_leased boolean, p_rejected boolean, p_since timestamptz, p_bound integer) RETURNS bigint[]
LANGUAGE plpgsql STABLE SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET enable_sort = off SET jit = off AS $$
DECLARE
    ids bigint[];
BEGIN
    IF p_rejected THEN
        SELECT array_agg(key_id) INTO ids FROM (
            SELECT r.key_id FROM unnest(p_from, p_to) s(lower, upper) CROSS JOIN LATERAL (
                SELECT key_id FROM pawl.rejected_keys WHERE name >= s.lower AND name < s.upper ORDER BY name LIMIT p_bound + 1) r
            LIMIT p_bound + 1) c;
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
-- that has looked at p_bound keys. p_place is where the page before ended.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION pawl.browse(p_from text[], p_to text[], p_text text, p_type text, p_leased boolean, p_rejected boolean, p_since timestamptz,
    p_sort text, p_place jsonb, p_limit integer, p_bound integer) RETURNS jsonb LANGUAGE plpgsql STABLE
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET enable_sort = off SET enable_memoize = off SET plan_cache_mode = force_generic_plan SET jit = off AS $$
DECLARE
    t        timestamptz := clock_timestamp();
    sortable boolean := pawl.holds_few(p_from, p_to, p_bound);
    by_name  boolean := p_sort IN ('name', '-name');
    by_receipt boolean := p_type <> '' OR p_since IS NOT NULL OR p_sort IN ('age', '-age', 'size', '-size');
    part     text := lower(p_text COLLATE "default");
    -- Where the search stands.
    at_name  text COLLATE "C" := p_place->>'n';
    at_time  timestamptz := p_place->>'t';
    at_id    bigint := coalesce((p_place->>'i')::bigint, (SELECT id FROM pawl.keys WHERE name = at_name));
    -- The same place as the values that rows are ordered by; see below.
    from_number bigint := CASE p_sort WHEN 'age' THEN -extract(epoch FROM at_time) * 1000000 WHEN '-age' THEN extract(epoch FROM at_time) * 1000000
        WHEN 'size' THEN coalesce((p_place->>'v')::bigint, 0) WHEN '-size' THEN -coalesce((p_place->>'v')::bigint, 0)
        WHEN 'rejections' THEN -coalesce((p_place->>'v')::bigint, 0) ELSE 0 END;
    from_text text COLLATE "C" := CASE WHEN by_name THEN at_name WHEN p_sort = 'publisher' THEN coalesce(p_place->>'p', '') ELSE '' END;
    from_id  bigint := CASE p_sort WHEN 'age' THEN -at_id ELSE at_id END;
    few      bigint[];
    all_of_ranges boolean; -- all keys of the ranges are sorted
    ids      bigint[];
    shown    bigint[] := '{}';
    -- The ranges from the last one on.
    down_from text[];
    down_to  text[];
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
    IF p_sort = '-name' THEN
        SELECT array_agg(lower ORDER BY place DESC), array_agg(upper ORDER BY place DESC) INTO down_from, down_to
        FROM unnest(p_from, p_to) WITH ORDINALITY s(lower, upper, place);
    END IF;
    few := pawl.few_candidates(p_from, p_to, p_leased, p_rejected, p_since, p_bound);
    all_of_ranges := few IS NULL AND sortable AND NOT by_name;
    -- Most pages are full soon; so the first step is short. Without a filter each key by name is a row.
    step := least(p_bound, CASE WHEN by_name AND part = '' AND p_type = '' AND p_since IS NULL AND NOT p_leased THEN p_limit + 1 ELSE 4 * p_limit END);
    LOOP
        -- A walk by name takes range after range, and ends where it has enough: the loops keep the order. Each walk leaves out what its own rows, or those of keys,
        -- tell to fail a filter; what is left is looked up below.
        IF all_of_ranges THEN
            came := (SELECT count(*) FROM unnest(p_from, p_to) s(lower, upper) CROSS JOIN LATERAL (
                SELECT FROM pawl.keys WHERE published AND name >= s.lower AND name < s.upper OFFSET 0) k);
            ended := true;
        ELSIF few IS NOT NULL THEN
            ids := few;
            came := cardinality(few);
            ended := true;
        ELSIF p_sort = 'name' AND p_rejected THEN
            SELECT array_agg(key_id) FILTER (WHERE part = '' OR strpos(lower(name COLLATE "default"), part) > 0), coalesce(max(name), at_name), count(*)
            INTO ids, at_name, came FROM (
                SELECT r.* FROM unnest(p_from, p_to) s(lower, upper) CROSS JOIN LATERAL (
                    SELECT key_id, name FROM pawl.rejected_keys WHERE name >= s.lower AND name < s.upper AND name > coalesce(at_name, '')
                    ORDER BY name LIMIT step) r LIMIT step) c;
        ELSIF p_rejected AND by_name THEN
            SELECT array_agg(key_id) FILTER (WHERE part = '' OR strpos(lower(name COLLATE "default"), part) > 0), coalesce(min(name), at_name), count(*)
            INTO ids, at_name, came FROM (
                SELECT r.* FROM unnest(down_from, down_to) s(lower, upper) CROSS JOIN LATERAL (
                    SELECT key_id, name FROM pawl.rejected_keys WHERE name >= s.lower AND name < least(s.upper, at_name)
                    ORDER BY name DESC LIMIT step) r LIMIT step) c;
        ELSIF p_sort = 'name' THEN
            SELECT array_agg(id) FILTER (WHERE (part = '' OR strpos(lower(name COLLATE "default"), part) > 0) AND (NOT p_leased OR lease_expires_at > t)),
                coalesce(max(name::text COLLATE "C"), at_name), count(*) INTO ids, at_name, came FROM (
                SELECT k.* FROM unnest(p_from, p_to) s(lower, upper) CROSS JOIN LATERAL (
                    SELECT id, name, lease_expires_at FROM pawl.keys WHERE published AND name >= s.lower AND name < s.upper AND name > coalesce(at_name, '')
                    ORDER BY name LIMIT step) k LIMIT step) c;
        ELSIF p_sort = '-name' THEN
            SELECT array_agg(id) FILTER (WHERE (part = '' OR strpos(lower(name COLLATE "default"), part) > 0) AND (NOT p_leased OR lease_expires_at > t)),
                coalesce(min(name::text COLLATE "C"), at_name), count(*) INTO ids, at_name, came FROM (
                SELECT k.* FROM unnest(down_from, down_to) s(lower, upper) CROSS JOIN LATERAL (
                    SELECT id, name, lease_expires_at FROM pawl.keys WHERE published AND name >= s.lower AND name < least(s.upper, at_name)
                    ORDER BY name DESC LIMIT step) k LIMIT step) c;
        ELSIF p_sort = 'age' THEN
            SELECT array_agg(c.key_id) FILTER (WHERE k.may_pass), coalesce((array_agg(c.published_at))[count(*)], at_time),
                coalesce((array_agg(c.key_id))[count(*)], at_id), count(*) INTO ids, at_time, at_id, came
            FROM (SELECT key_id, token, revision, published_at FROM pawl.receipts
                WHERE (published_at, key_id) < (coalesce(at_time, 'infinity'), coalesce(at_id, 0)) AND published_at >= coalesce(p_since, '-infinity')
                ORDER BY published_at DESC, key_id DESC LIMIT step) c
            CROSS JOIN LATERAL (SELECT (current_token, current_revision) = (c.token, c.revision) AND pawl.in_ranges(name, p_from, p_to)
                AND (part = '' OR strpos(lower(name COLLATE "default"), part) > 0) AND (NOT p_leased OR lease_expires_at > t) AS may_pass
                FROM pawl.keys WHERE id = c.key_id OFFSET 0) k;
        ELSE
            SELECT array_agg(c.key_id) FILTER (WHERE k.may_pass), coalesce((array_agg(c.published_at))[count(*)], at_time),
                coalesce((array_agg(c.key_id))[count(*)], at_id), count(*) INTO ids, at_time, at_id, came
            FROM (SELECT key_id, token, revision, published_at FROM pawl.receipts
                WHERE (published_at, key_id) > (coalesce(at_time, '-infinity'), coalesce(at_id, 0))
                ORDER BY published_at, key_id LIMIT step) c
            CROSS JOIN LATERAL (SELECT (current_token, current_revision) = (c.token, c.revision) AND pawl.in_ranges(name, p_from, p_to)
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
                UNION ALL SELECT k.* FROM unnest(CASE WHEN all_of_ranges THEN p_from END, CASE WHEN all_of_ranges THEN p_to END) s(lower, upper)
                    CROSS JOIN LATERAL (SELECT * FROM pawl.keys WHERE published AND name >= s.lower AND name < s.upper OFFSET 0) k) k
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
            WHERE k.published AND pawl.in_ranges(k.name, p_from, p_to) AND (NOT p_leased OR k.lease_expires_at > t) AND (NOT p_rejected OR x.rejections > 0)
                AND (part = '' OR strpos(lower(k.name COLLATE "default"), part) > 0) AND (p_since IS NULL OR r.published_at >= p_since)
                AND (p_type = '' OR starts_with(lower(split_part(r.primary_type, ';', 1)) || '/', p_type || '/'))
                AND CASE WHEN p_place IS NULL THEN true WHEN p_sort = '-name' THEN o.text < from_text WHEN by_name THEN o.text > from_text
                    ELSE (o.number, o.text, o.id) > (from_number, from_text, from_id) END
            ORDER BY o.number, CASE WHEN p_sort <> '-name' THEN o.text END, CASE WHEN p_sort = '-name' THEN o.text END DESC, o.id
            LIMIT p_limit + 1 - cardinality(shown));
        EXIT WHEN ended OR cardinality(shown) > p_limit OR looked >= p_bound;
        step := p_bound - looked;
    END LOOP;
    RETURN jsonb_build_object('sortable', sortable, 'searched', looked, 'more', cardinality(shown) > p_limit,
        'rows', pawl.browse_rows(shown[1:p_limit], t),
        'end', CASE WHEN NOT ended THEN jsonb_strip_nulls(jsonb_build_object('s', p_sort, 't', CASE WHEN NOT by_name THEN at_time END,
            'n', CASE WHEN by_name THEN at_name END, 'i', CASE WHEN NOT by_name THEN at_id END)) END);
END $$;
-- +goose StatementEnd

-- rejections_page returns {rows, more, end, now}: one page of rejections, the one that came last first. Those of ranges that have few are sorted; else the
-- index is walked. An end outside the ranges leaves the rest of that key's rows of the same time out: none of them is shown.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION pawl.rejections_page(p_from text[], p_to text[], p_place jsonb, p_limit integer, p_bound integer) RETURNS jsonb LANGUAGE plpgsql STABLE
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET enable_sort = off SET plan_cache_mode = force_generic_plan SET jit = off AS $$
DECLARE
    t       timestamptz := clock_timestamp();
    -- Above all rows on the first page.
    at_time timestamptz := coalesce((p_place->>'t')::timestamptz, 'infinity');
    at_id   bigint := coalesce((p_place->>'i')::bigint, (SELECT id FROM pawl.keys WHERE name = p_place->>'k'), 0);
    at_token bigint := coalesce((p_place->>'n')::bigint, 0);
    at_operation text := coalesce(p_place->>'o', '');
    at_path text COLLATE "C" := coalesce(p_place->>'p', '');
    keys    bigint[];
    few     pawl.rejections[];
    page    pawl.rejections[];
    bound_row pawl.rejections; -- the last one that a page may look at
BEGIN
    IF NOT pawl.in_ranges('', p_from, p_to) THEN
        keys := ARRAY(SELECT r.key_id FROM unnest(p_from, p_to) s(lower, upper) CROSS JOIN LATERAL (
            SELECT key_id FROM pawl.rejected_keys WHERE name >= s.lower AND name < s.upper ORDER BY name LIMIT p_bound + 1) r LIMIT p_bound + 1);
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
            WHERE pawl.in_ranges(k.name, p_from, p_to) LIMIT p_limit + 1);
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
        'end', (SELECT CASE WHEN pawl.in_ranges(name, p_from, p_to) THEN jsonb_build_object('t', bound_row.last_at, 'k', name,
                'n', bound_row.token, 'o', bound_row.operation, 'p', bound_row.path)
            ELSE jsonb_build_object('t', bound_row.last_at, 'i', id) END FROM pawl.keys WHERE id = bound_row.key_id));
END $$;
-- +goose StatementEnd

-- leases_page returns {rows, more, end, now}: one page of leases, the newest grant first, with p_expired also those that ran out. Those of ranges
-- that have few keys are sorted; else the index is walked.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION pawl.leases_page(p_from text[], p_to text[], p_expired boolean, p_place jsonb, p_limit integer, p_bound integer) RETURNS jsonb LANGUAGE plpgsql STABLE
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET enable_sort = off SET plan_cache_mode = force_generic_plan SET jit = off AS $$
DECLARE
    t        timestamptz := clock_timestamp();
    at_time  timestamptz := coalesce((p_place->>'t')::timestamptz, 'infinity');
    at_id    bigint := coalesce((p_place->>'i')::bigint, (SELECT id FROM pawl.keys WHERE name = p_place->>'k'), 0);
    few      bigint[];
    page     pawl.generations[];
    bound_row pawl.generations; -- the last one that a page may look at
BEGIN
    IF NOT pawl.in_ranges('', p_from, p_to) THEN
        few := ARRAY(SELECT k.id FROM unnest(p_from, p_to) s(lower, upper) CROSS JOIN LATERAL (
            SELECT id FROM pawl.keys WHERE name >= s.lower AND name < s.upper ORDER BY name LIMIT p_bound + 1) k LIMIT p_bound + 1);
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
            WHERE pawl.in_ranges(k.name, p_from, p_to) AND k.counter = c.token
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
        'end', (SELECT CASE WHEN pawl.in_ranges(name, p_from, p_to) THEN jsonb_build_object('t', bound_row.granted_at, 'k', name, 'n', bound_row.token)
            ELSE jsonb_build_object('t', bound_row.granted_at, 'i', id) END FROM pawl.keys WHERE id = bound_row.key_id));
END $$;
-- +goose StatementEnd

-- audit_page returns {entries, last, looked}: up to p_limit entries with ids below p_before, newest first, of those p_search that it looks at; last is the
-- oldest one of these. p_actions are those whose subject is a key or a prefix. An entry about something that has scopes is shown when the keys of all of them are
-- in the ranges, and any other one with p_all.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION pawl.audit_page(p_from text[], p_to text[], p_all boolean, p_actions text[], p_before bigint, p_limit integer, p_search integer) RETURNS jsonb
LANGUAGE plpgsql STABLE SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET jit = off AS $$
BEGIN
    RETURN (WITH looked AS MATERIALIZED (
            SELECT * FROM pawl.audit WHERE id < p_before ORDER BY id DESC LIMIT p_search
        ), chosen AS (
            SELECT * FROM looked WHERE CASE WHEN action = ANY (p_actions) THEN pawl.in_ranges(subject, p_from, p_to)
                WHEN jsonb_typeof(coalesce(after, before)->'scopes') = 'array' THEN NOT EXISTS (
                    SELECT FROM jsonb_array_elements_text(coalesce(after, before)->'scopes') scope
                    -- The keys under the prefix behind the colon are in the ranges when the prefix is, as a text. Without a colon it is empty: all keys.
                    WHERE NOT pawl.in_ranges(coalesce(substring(scope FROM ':(.*)'), ''), p_from, p_to))
                ELSE p_all END
            ORDER BY id DESC LIMIT p_limit
        ) SELECT jsonb_build_object('entries', coalesce((SELECT jsonb_agg(jsonb_strip_nulls(jsonb_build_object('id', a.id, 'at', a.at, 'by', a.actor,
                'action', a.action, 'subject', a.subject, 'before', a.before, 'after', a.after)) ORDER BY a.id DESC) FROM chosen a), '[]'),
            'last', (SELECT min(id) FROM looked), 'looked', (SELECT count(*) FROM looked)));
END $$;
-- +goose StatementEnd

-- +goose Down
DROP FUNCTION IF EXISTS pawl.audit_page, pawl.leases_page(text[], text[], boolean, jsonb, integer, integer), pawl.rejections_page(text[], text[], jsonb, integer, integer),
    pawl.browse(text[], text[], text, text, boolean, boolean, timestamptz, text, jsonb, integer, integer),
    pawl.few_candidates(text[], text[], boolean, boolean, timestamptz, integer), pawl.holds_few(text[], text[], integer),
    pawl.list_names(text[], text[], text, boolean, text, integer), pawl.in_ranges(text, text[], text[]);
