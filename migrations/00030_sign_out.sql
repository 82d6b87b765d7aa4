-- Whoever has the database signs a person out of all browsers, and is told how many sessions that ended: an id that is mistaken ends none.

-- +goose Up

-- sign_out ends all sessions of a subject that haven't ended yet, and leaves an entry in the audit if there were any. p_by is what the audit calls who does it.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION pawl.sign_out(p_subject text, p_by text DEFAULT session_user) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
    t     timestamptz := clock_timestamp();
    ended bigint;
BEGIN
    WITH running AS (
        UPDATE pawl.sessions SET revoked_at = t
        WHERE subject = p_subject AND revoked_at IS NULL AND least(ends_at, seen_at + idle) > t RETURNING 1
    ) SELECT count(*) INTO ended FROM running;
    IF ended > 0 THEN
        PERFORM pawl.note(p_by, 'sign-out', p_subject, NULL, jsonb_build_object('ended', ended));
    END IF;
    RETURN jsonb_build_object('ended', ended);
END $$;
-- +goose StatementEnd

-- +goose Down
DROP FUNCTION IF EXISTS pawl.sign_out;
