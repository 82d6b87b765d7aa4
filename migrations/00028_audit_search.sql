-- The audit can be asked for what is about some keys, and for refusals or changes alone.

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

-- +goose Down
DROP FUNCTION IF EXISTS pawl.audit_page(text[], text[], boolean, text[], text, boolean, bigint, integer, integer);
