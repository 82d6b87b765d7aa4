-- Sessions: browsers whose people have signed in. Of a session's id only the SHA-256 is kept; rows of sessions that have ended go when somebody signs in.

-- +goose Up

CREATE TABLE IF NOT EXISTS pawl.sessions (
    hash       pawl.sha256 PRIMARY KEY,
    -- The credential that was shown, or what callers of another issuer are known by.
    subject    text COLLATE "C" NOT NULL CONSTRAINT sessions_subject CHECK (octet_length(subject) BETWEEN 1 AND 100),
    credential text COLLATE "C" REFERENCES pawl.credentials,
    -- Of an identity of another issuer alone: a credential has its own.
    name       text COLLATE "C",
    scopes     text[],
    created_at timestamptz NOT NULL,
    seen_at    timestamptz NOT NULL,
    -- When it ends even if it is used, and how long it may be without a use.
    ends_at    timestamptz NOT NULL,
    idle       interval NOT NULL CONSTRAINT sessions_idle CHECK (idle > interval '0'),
    revoked_at timestamptz,
    CONSTRAINT sessions_whose CHECK (CASE WHEN credential IS NULL THEN name IS NOT NULL AND cardinality(scopes) > 0
        ELSE subject = credential AND name IS NULL AND scopes IS NULL END)
) WITH (fillfactor = 70);
CREATE INDEX IF NOT EXISTS sessions_by_subject ON pawl.sessions (subject);
CREATE INDEX IF NOT EXISTS sessions_by_end ON pawl.sessions (ends_at);

-- A session neither lasts longer than it was to nor is good again once it was revoked, and never is somebody else's, whatever program writes the row.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION pawl.refuse_longer_session() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'pawl: a session stays whose it is, and revoked'
        USING ERRCODE = 'integrity_constraint_violation', CONSTRAINT = 'sessions_never_more';
END $$;
-- +goose StatementEnd
CREATE OR REPLACE TRIGGER sessions_never_more BEFORE UPDATE ON pawl.sessions FOR EACH ROW
    WHEN (OLD.revoked_at IS NOT NULL AND NEW.revoked_at IS DISTINCT FROM OLD.revoked_at
        OR NEW.ends_at > OLD.ends_at OR NEW.idle > OLD.idle OR NEW.hash <> OLD.hash OR NEW.subject <> OLD.subject
        OR NEW.credential IS DISTINCT FROM OLD.credential OR NEW.scopes IS DISTINCT FROM OLD.scopes)
    EXECUTE FUNCTION pawl.refuse_longer_session();

-- session_left is how long a session is good if it isn't used; null is for ever ago. c is its credential, null of none.
CREATE OR REPLACE FUNCTION pawl.session_left(s pawl.sessions, c pawl.credentials, t timestamptz) RETURNS interval LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN (s).revoked_at IS NULL AND ((s).credential IS NULL OR pawl.credential_good(c, t))
        THEN least((s).ends_at, (s).seen_at + (s).idle, (c).expires_at) - t END
$$;

-- +goose StatementBegin
CREATE OR REPLACE FUNCTION pawl.create_session(p_hash bytea, p_subject text, p_name text, p_scopes text[], p_lifetime_ms bigint, p_idle_ms bigint, p_replaces bytea) RETURNS jsonb
LANGUAGE plpgsql AS $$
DECLARE
    t timestamptz := clock_timestamp();
BEGIN
    IF p_name IS NULL THEN
        -- A revocation that comes meanwhile ends the session: who looks for one looks at its credential too.
        PERFORM FROM pawl.credentials c WHERE c.id = p_subject AND pawl.credential_good(c, t);
        IF NOT FOUND THEN
            RETURN pawl.refused('unauthorized', '{}');
        END IF;
    END IF;
    -- A few at a time, and none that somebody else is at: a sign-in waits for nobody.
    DELETE FROM pawl.sessions WHERE hash IN (SELECT hash FROM pawl.sessions WHERE ends_at <= t ORDER BY ends_at LIMIT 20 FOR UPDATE SKIP LOCKED);
    UPDATE pawl.sessions SET revoked_at = t WHERE hash = p_replaces AND revoked_at IS NULL;
    INSERT INTO pawl.sessions (hash, subject, credential, name, scopes, created_at, seen_at, ends_at, idle)
    VALUES (p_hash, p_subject, CASE WHEN p_name IS NULL THEN p_subject END, p_name, p_scopes, t, t, t + p_lifetime_ms * interval '1 ms', p_idle_ms * interval '1 ms');
    RETURN '{}';
END $$;
-- +goose StatementEnd

-- session_unnoted reports whether a use at a time is to be noted.
CREATE OR REPLACE FUNCTION pawl.session_unnoted(s pawl.sessions, t timestamptz) RETURNS boolean LANGUAGE sql IMMUTABLE AS $$
    SELECT (s).seen_at <= t - interval '1 minute'
$$;

-- A use that is noted late doesn't bring a session back that was idle for too long.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION pawl.use_session(p_hash bytea) RETURNS jsonb LANGUAGE sql AS $$
    UPDATE pawl.sessions s SET seen_at = clock_timestamp()
    WHERE hash = p_hash AND revoked_at IS NULL AND pawl.session_unnoted(s, clock_timestamp()) AND least(ends_at, seen_at + idle) > clock_timestamp();
    SELECT '{}'::jsonb
$$;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE OR REPLACE FUNCTION pawl.end_session(p_hash bytea) RETURNS jsonb LANGUAGE sql AS $$
    UPDATE pawl.sessions SET revoked_at = clock_timestamp() WHERE hash = p_hash AND revoked_at IS NULL;
    SELECT '{}'::jsonb
$$;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE OR REPLACE FUNCTION pawl.end_sessions(p_subject text) RETURNS jsonb LANGUAGE sql AS $$
    UPDATE pawl.sessions SET revoked_at = clock_timestamp() WHERE subject = p_subject AND revoked_at IS NULL;
    SELECT '{}'::jsonb
$$;
-- +goose StatementEnd

-- +goose Down
DROP FUNCTION IF EXISTS pawl.end_sessions, pawl.end_session, pawl.use_session, pawl.session_unnoted, pawl.create_session, pawl.session_left;
DROP TABLE IF EXISTS pawl.sessions;
DROP FUNCTION IF EXISTS pawl.refuse_longer_session;
