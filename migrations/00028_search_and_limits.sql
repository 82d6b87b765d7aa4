-- The audit can be asked for what is about some keys, and for refusals or changes alone. A limit of a policy holds below its prefix, whatever longer prefixes say.

-- +goose Up

-- audit_page is that of 00021 and 00023, which servers of before go on calling, for entries whose subject begins with p_prefix and, unless p_refused is null, that are
-- refusals or are none. The index of ids gives the p_search newest, whatever is chosen of them: so a page costs the same however few there are.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION pawl.audit_page(
    p_from text[], p_to text[], p_all boolean, p_actions text[], p_prefix text, p_refused boolean, p_before bigint, p_limit integer, p_search integer
) RETURNS jsonb
LANGUAGE plpgsql STABLE SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET jit = off AS $$
BEGIN
    RETURN (WITH looked AS MATERIALIZED (
            SELECT * FROM pawl.audit WHERE id < p_before ORDER BY id DESC LIMIT p_search
        ), chosen AS (
            SELECT * FROM looked WHERE starts_with(subject, p_prefix) AND coalesce((refused IS NOT NULL) = p_refused, true)
                AND CASE WHEN refused IS NOT NULL OR action = ANY (p_actions) THEN pawl.in_ranges(subject, p_from, p_to)
                WHEN jsonb_typeof(coalesce(after, before)->'scopes') = 'array' THEN NOT EXISTS (
                    SELECT FROM jsonb_array_elements_text(coalesce(after, before)->'scopes') scope
                    -- The keys under the prefix behind the colon are in the ranges when the prefix is, as a text. Without a colon it is empty: all keys.
                    WHERE NOT pawl.in_ranges(coalesce(substring(scope FROM ':(.*)'), ''), p_from, p_to))
                ELSE p_all END
            ORDER BY id DESC LIMIT p_limit
        ) SELECT jsonb_build_object('entries', coalesce((SELECT jsonb_agg(pawl.audit_json(ROW(a.*)::pawl.audit) ORDER BY a.id DESC) FROM chosen a), '[]'),
            'last', (SELECT min(id) FROM looked), 'looked', (SELECT count(*) FROM looked)));
END $$;
-- +goose StatementEnd

-- policy_prefixes are the prefixes that may have a policy for a key: those that end at one of its segment borders.
CREATE OR REPLACE FUNCTION pawl.policy_prefixes(p_key text) RETURNS text[] LANGUAGE sql IMMUTABLE AS $$
    SELECT array_agg(array_to_string((string_to_array(p_key, '/'))[1:n], '/')) FROM generate_series(0, cardinality(string_to_array(p_key, '/'))) n
$$;

-- policy is that of the longest prefix of a key which has one, as fence_mode finds it, all null when none has. Its limits are the least of all prefixes: else who
-- may set policies for some keys would lift what was set for those and others.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION pawl.policy(p_key text) RETURNS pawl.policies LANGUAGE plpgsql STABLE AS $$
DECLARE
    found_policy pawl.policies;
    p            pawl.policies;
BEGIN
    FOR p IN SELECT * FROM pawl.policies WHERE prefix = ANY (pawl.policy_prefixes(p_key)) ORDER BY length(prefix) DESC LOOP
        IF found_policy.prefix IS NULL THEN
            found_policy := p;
        END IF;
        found_policy.max_ttl_ms := least(found_policy.max_ttl_ms, p.max_ttl_ms); -- null is no limit
        found_policy.max_file_bytes := least(found_policy.max_file_bytes, p.max_file_bytes);
        found_policy.max_generation_bytes := least(found_policy.max_generation_bytes, p.max_generation_bytes);
    END LOOP;
    RETURN found_policy;
END $$;
-- +goose StatementEnd

-- check_ttl names the policy that allows the least.
CREATE OR REPLACE FUNCTION pawl.check_ttl(p_key text, p_ttl_ms integer) RETURNS jsonb LANGUAGE sql STABLE AS $$
    SELECT pawl.refused('invalid-request', jsonb_build_object('key', p_key, 'limit', max_ttl_ms, 'errors', jsonb_build_array(
        jsonb_build_object('pointer', '/ttl', 'detail', format('is longer than the %s ms that the policy of prefix "%s" allows; ask for less, and renew', max_ttl_ms, prefix)))))
    FROM pawl.policies WHERE prefix = ANY (pawl.policy_prefixes(p_key)) AND p_ttl_ms > max_ttl_ms ORDER BY max_ttl_ms LIMIT 1
$$;

-- +goose Down
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
CREATE OR REPLACE FUNCTION pawl.check_ttl(p_key text, p_ttl_ms integer) RETURNS jsonb LANGUAGE sql STABLE AS $$
    SELECT pawl.refused('invalid-request', jsonb_build_object('key', p_key, 'limit', max_ttl_ms, 'errors', jsonb_build_array(
        jsonb_build_object('pointer', '/ttl', 'detail', format('is longer than the %s ms that the policy of prefix "%s" allows; ask for less, and renew', max_ttl_ms, prefix)))))
    FROM pawl.policy(p_key) WHERE p_ttl_ms > max_ttl_ms
$$;
DROP FUNCTION IF EXISTS pawl.policy_prefixes;
DROP FUNCTION IF EXISTS pawl.audit_page(text[], text[], boolean, text[], text, boolean, bigint, integer, integer);
