-- The audit tells from where a change was made, and with which token; it holds refusals, too; and no row of it changes any more.

-- +goose Up

-- client is null for what was done on the database itself, and before this migration. token is the fencing token that a change was made with or, of a pin or a broken
-- lease, the one that it was about. refused is the code of a request that changed nothing.
ALTER TABLE pawl.audit ADD COLUMN IF NOT EXISTS client inet, ADD COLUMN IF NOT EXISTS token bigint, ADD COLUMN IF NOT EXISTS refused text;

-- Whoever repeats what is refused fills no disk.
CREATE UNIQUE INDEX IF NOT EXISTS audit_refusals ON pawl.audit (actor, action, subject, date_trunc('minute', at AT TIME ZONE 'UTC')) WHERE refused IS NOT NULL;

-- audit_client is the address that the transaction works for, as its caller has set it.
CREATE OR REPLACE FUNCTION pawl.audit_client() RETURNS inet LANGUAGE sql STABLE AS $$
    SELECT nullif(current_setting('pawl.client_address', true), '')::inet
$$;

CREATE OR REPLACE FUNCTION pawl.note(p_actor text, p_action text, p_subject text, p_before jsonb, p_after jsonb) RETURNS void LANGUAGE sql AS $$
    INSERT INTO pawl.audit (actor, action, subject, before, after, client, token)
    VALUES (p_actor, p_action, p_subject, p_before, p_after, pawl.audit_client(), CASE p_action
        WHEN 'rollback' THEN p_after->>'token' WHEN 'retire' THEN p_after->>'token'
        WHEN 'pin' THEN p_after->'current'->>'token' WHEN 'break-lease' THEN p_before->>'token' END::bigint)
$$;

-- audit_refusal records that somebody was refused something: at most one row a minute for each actor, action and subject. It says whether it has made one.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION pawl.audit_refusal(p_actor text, p_action text, p_subject text, p_refused text) RETURNS jsonb LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO pawl.audit (actor, action, subject, refused, client)
    VALUES (p_actor, p_action, p_subject, p_refused, pawl.audit_client()) ON CONFLICT DO NOTHING;
    RETURN jsonb_build_object('done', FOUND);
END $$;
-- +goose StatementEnd

-- audit_json is an entry as it is answered.
CREATE OR REPLACE FUNCTION pawl.audit_json(a pawl.audit) RETURNS jsonb LANGUAGE sql STABLE AS $$
    SELECT jsonb_strip_nulls(jsonb_build_object('id', (a).id, 'at', (a).at, 'by', (a).actor, 'action', (a).action, 'subject', (a).subject,
        'before', (a).before, 'after', (a).after, 'from', host((a).client), 'token', (a).token, 'refused', (a).refused))
$$;

-- audit_page shows a refusal to whom its subject is shown.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION pawl.audit_page(p_from text[], p_to text[], p_all boolean, p_actions text[], p_before bigint, p_limit integer, p_search integer) RETURNS jsonb
LANGUAGE plpgsql STABLE SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET jit = off AS $$
BEGIN
    RETURN (WITH looked AS MATERIALIZED (
            SELECT * FROM pawl.audit WHERE id < p_before ORDER BY id DESC LIMIT p_search
        ), chosen AS (
            SELECT * FROM looked WHERE CASE WHEN refused IS NOT NULL OR action = ANY (p_actions) THEN pawl.in_ranges(subject, p_from, p_to)
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

-- A refused pin tells no one that the key is pinned.
CREATE OR REPLACE TRIGGER audit_tell_pin AFTER INSERT ON pawl.audit FOR EACH ROW
    WHEN (NEW.action IN ('pin', 'unpin') AND NEW.refused IS NULL) EXECUTE FUNCTION pawl.tell_pin();

-- Rights alone don't hold the owner of the table, which servers may run as; nobody changes the audit by mistake.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION pawl.refuse_audit_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF current_setting('pawl.change_audit', true) = 'on'
        AND pg_has_role(current_user, (SELECT relowner FROM pg_class WHERE oid = TG_RELID), 'USAGE') THEN
        RETURN NULL;
    END IF;
    RAISE EXCEPTION 'pawl: the audit is only ever added to'
        USING ERRCODE = 'integrity_constraint_violation', CONSTRAINT = 'audit_append_only',
            HINT = 'The owner of the table may change it after: SET pawl.change_audit = on';
END $$;
-- +goose StatementEnd

CREATE OR REPLACE TRIGGER audit_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON pawl.audit
    FOR EACH STATEMENT EXECUTE FUNCTION pawl.refuse_audit_change();

-- +goose Down
DROP TRIGGER IF EXISTS audit_append_only ON pawl.audit;
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
DROP FUNCTION IF EXISTS pawl.refuse_audit_change, pawl.audit_refusal, pawl.audit_json;
-- The schema before this one would take them for changes.
DELETE FROM pawl.audit WHERE refused IS NOT NULL;
CREATE OR REPLACE TRIGGER audit_tell_pin AFTER INSERT ON pawl.audit FOR EACH ROW
    WHEN (NEW.action IN ('pin', 'unpin')) EXECUTE FUNCTION pawl.tell_pin();
CREATE OR REPLACE FUNCTION pawl.note(p_actor text, p_action text, p_subject text, p_before jsonb, p_after jsonb) RETURNS void LANGUAGE sql AS $$
    INSERT INTO pawl.audit (actor, action, subject, before, after) VALUES (p_actor, p_action, p_subject, p_before, p_after)
$$;
DROP FUNCTION IF EXISTS pawl.audit_client;
DROP INDEX IF EXISTS pawl.audit_refusals;
ALTER TABLE pawl.audit DROP COLUMN IF EXISTS client, DROP COLUMN IF EXISTS token, DROP COLUMN IF EXISTS refused;
