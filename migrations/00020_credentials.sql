-- Credentials: who may do what to which keys. Of a credential's text only the SHA-256 is kept; a row stays for ever, so that the audit's ids mean something.

-- +goose Up

CREATE TABLE IF NOT EXISTS pawl.credentials (
    id             text COLLATE "C" PRIMARY KEY CONSTRAINT credentials_id CHECK (id ~ '^[0-9a-f]{16}$'),
    name           text COLLATE "C" NOT NULL CONSTRAINT credentials_name CHECK (octet_length(name) BETWEEN 1 AND 100 AND name !~ '[\x01-\x1f\x7f]'),
    hash           pawl.sha256 NOT NULL CONSTRAINT credentials_hash UNIQUE,
    -- As publish.Scope writes them, e.g. publish:renders/.
    scopes         text[] NOT NULL CONSTRAINT credentials_scopes CHECK (cardinality(scopes) BETWEEN 1 AND 100 AND array_position(scopes, NULL) IS NULL),
    created_at     timestamptz NOT NULL,
    created_by     text NOT NULL,
    -- What was asked for; null is for ever. An overlap moves the end, but not this.
    lifetime_ms    bigint CONSTRAINT credentials_lifetime CHECK (lifetime_ms > 0),
    expires_at     timestamptz,
    last_used_at   timestamptz,
    revoked_at     timestamptz,
    revoked_by     text,
    -- The one that it was made in the place of: a credential has one successor.
    replaces       text COLLATE "C" CONSTRAINT credentials_replaces UNIQUE REFERENCES pawl.credentials,
    -- The name of the request that has made it.
    request_sha256 pawl.sha256 NOT NULL CONSTRAINT credentials_request UNIQUE,
    -- Whether the name is its own. It is given up by a revocation and to a successor, and taken from one that has expired.
    holds_name     boolean NOT NULL DEFAULT true,
    CONSTRAINT credentials_revoked_whole CHECK ((revoked_at IS NULL) = (revoked_by IS NULL) AND (revoked_at IS NULL OR NOT holds_name))
) WITH (fillfactor = 90);
CREATE UNIQUE INDEX IF NOT EXISTS credentials_one_name ON pawl.credentials (name) WHERE holds_name;
CREATE INDEX IF NOT EXISTS credentials_list ON pawl.credentials (name, created_at, id);

-- A credential is neither made longer than it was nor good again once it was revoked, whatever program writes the row.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION pawl.refuse_longer_credential() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'pawl: a credential stays what it was made as, and revoked'
        USING ERRCODE = 'integrity_constraint_violation', CONSTRAINT = 'credentials_never_more';
END $$;
-- +goose StatementEnd
CREATE OR REPLACE TRIGGER credentials_never_more BEFORE UPDATE ON pawl.credentials FOR EACH ROW
    WHEN (OLD.revoked_at IS NOT NULL AND NEW.revoked_at IS DISTINCT FROM OLD.revoked_at
        OR OLD.expires_at IS NOT NULL AND (NEW.expires_at IS NULL OR NEW.expires_at > OLD.expires_at)
        OR NEW.id <> OLD.id OR NEW.scopes <> OLD.scopes)
    EXECUTE FUNCTION pawl.refuse_longer_credential();

-- credential_good reports whether it opens anything at a time.
CREATE OR REPLACE FUNCTION pawl.credential_good(c pawl.credentials, t timestamptz) RETURNS boolean LANGUAGE sql IMMUTABLE AS $$
    SELECT (c).revoked_at IS NULL AND ((c).expires_at IS NULL OR (c).expires_at > t)
$$;

-- credential_json is all but the hash.
CREATE OR REPLACE FUNCTION pawl.credential_json(c pawl.credentials) RETURNS jsonb LANGUAGE sql VOLATILE AS $$
    SELECT jsonb_strip_nulls(jsonb_build_object('id', (c).id, 'name', (c).name, 'scopes', (c).scopes, 'created_at', (c).created_at, 'created_by', (c).created_by,
        'state', CASE WHEN (c).revoked_at IS NOT NULL THEN 'revoked' WHEN pawl.credential_good(c, clock_timestamp()) THEN 'active' ELSE 'expired' END,
        'expires_at', (c).expires_at, 'last_used_at', (c).last_used_at, 'revoked_at', (c).revoked_at, 'revoked_by', (c).revoked_by, 'replaces', (c).replaces,
        'replaced_by', (SELECT n.id FROM pawl.credentials n WHERE n.replaces = (c).id)))
$$;

-- credential_grants is what the audit says of one.
CREATE OR REPLACE FUNCTION pawl.credential_grants(c pawl.credentials) RETURNS jsonb LANGUAGE sql IMMUTABLE AS $$
    SELECT jsonb_strip_nulls(jsonb_build_object('name', (c).name, 'scopes', (c).scopes, 'expires_at', (c).expires_at))
$$;

CREATE OR REPLACE FUNCTION pawl.refuse_credential(p_code text, p_pointer text, p_detail text) RETURNS jsonb LANGUAGE sql IMMUTABLE AS $$
    SELECT pawl.refused(p_code, jsonb_build_object('operation', CASE WHEN p_code <> 'invalid-request' THEN 'credential' END,
        'errors', CASE WHEN p_pointer IS NOT NULL THEN jsonb_build_array(jsonb_build_object('pointer', p_pointer, 'detail', p_detail)) END))
$$;

-- Changes of credentials are rare: each has the table to itself, but for readers. So what it decides by can't move.

-- repeat_credential answers a request that has made a credential before, null if it hasn't. The text went with the lost answer, so the credential gets another one.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION pawl.repeat_credential(p_request bytea, p_hash bytea, p_name text, p_scopes text[], p_lifetime_ms bigint, p_replaces text) RETURNS jsonb
LANGUAGE plpgsql AS $$
DECLARE
    c   pawl.credentials;
    why text;
BEGIN
    SELECT * INTO c FROM pawl.credentials WHERE request_sha256 = p_request;
    IF NOT FOUND THEN
        RETURN NULL;
    ELSIF c.name <> p_name OR c.scopes <> p_scopes OR c.lifetime_ms IS DISTINCT FROM p_lifetime_ms OR c.replaces IS DISTINCT FROM p_replaces THEN
        why := 'which was another request; send a new one, and the same one only to repeat the same request';
    ELSIF NOT pawl.credential_good(c, clock_timestamp()) OR c.last_used_at IS NOT NULL
            OR EXISTS (SELECT FROM pawl.credentials n WHERE n.replaces = c.id) THEN
        why := 'which was used or has ended since; send a new one';
    ELSE
        UPDATE pawl.credentials SET hash = p_hash WHERE id = c.id RETURNING * INTO c;
        RETURN jsonb_build_object('credential', pawl.credential_json(c));
    END IF;
    RETURN pawl.refuse_credential('invalid-request', 'Idempotency-Key', 'is that of a credential that was made before, ' || why); -- Which one isn't everybody's to know.
END $$;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE OR REPLACE FUNCTION pawl.create_credential(p_id text, p_request bytea, p_hash bytea, p_name text, p_scopes text[], p_lifetime_ms bigint, p_by text) RETURNS jsonb
LANGUAGE plpgsql AS $$
DECLARE
    t      timestamptz;
    c      pawl.credentials;
    answer jsonb;
BEGIN
    LOCK TABLE pawl.credentials IN SHARE ROW EXCLUSIVE MODE;
    t := clock_timestamp();
    answer := pawl.repeat_credential(p_request, p_hash, p_name, p_scopes, p_lifetime_ms, NULL);
    IF answer IS NOT NULL THEN
        RETURN answer;
    END IF;
    SELECT * INTO c FROM pawl.credentials WHERE name = p_name AND holds_name;
    IF FOUND AND pawl.credential_good(c, t) THEN
        RETURN pawl.refuse_credential('credential-conflict', '/name', 'is that of another credential; rotate or revoke that one, or choose another name');
    END IF;
    UPDATE pawl.credentials SET holds_name = false WHERE id = c.id;
    INSERT INTO pawl.credentials (id, name, hash, scopes, created_at, created_by, lifetime_ms, expires_at, request_sha256)
    VALUES (p_id, p_name, p_hash, p_scopes, t, p_by, p_lifetime_ms, t + p_lifetime_ms * interval '1 ms', p_request) RETURNING * INTO c;
    PERFORM pawl.note(p_by, 'create-credential', c.id, NULL, pawl.credential_grants(c));
    RETURN jsonb_build_object('credential', pawl.credential_json(c));
END $$;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE OR REPLACE FUNCTION pawl.replace_credential(p_old text, p_id text, p_request bytea, p_hash bytea, p_lifetime_ms bigint, p_overlap_ms bigint, p_by text) RETURNS jsonb
LANGUAGE plpgsql AS $$
DECLARE
    t      timestamptz;
    old    pawl.credentials;
    c      pawl.credentials;
    next   text;
    before jsonb;
    answer jsonb;
BEGIN
    LOCK TABLE pawl.credentials IN SHARE ROW EXCLUSIVE MODE;
    t := clock_timestamp();
    SELECT * INTO old FROM pawl.credentials WHERE id = p_old;
    IF NOT FOUND THEN
        RETURN pawl.refuse_credential('not-found', NULL, NULL);
    END IF;
    answer := pawl.repeat_credential(p_request, p_hash, old.name, old.scopes, p_lifetime_ms, p_old);
    IF answer IS NOT NULL THEN
        RETURN answer;
    END IF;
    SELECT id INTO next FROM pawl.credentials WHERE replaces = p_old;
    IF old.revoked_at IS NOT NULL THEN
        RETURN pawl.refuse_credential('credential-conflict', 'id', 'is that of a revoked credential; make a new one');
    ELSIF next IS NOT NULL THEN
        RETURN pawl.refuse_credential('credential-conflict', 'id', format('is that of a credential which was replaced already, by %s; rotate that one', next));
    ELSIF NOT pawl.credential_good(old, t) THEN
        RETURN pawl.refuse_credential('credential-conflict', 'id', 'is that of an expired credential; make a new one');
    END IF;
    before := pawl.credential_grants(old);
    UPDATE pawl.credentials SET holds_name = false, expires_at = least(expires_at, t + p_overlap_ms * interval '1 ms')
    WHERE id = p_old RETURNING * INTO old;
    INSERT INTO pawl.credentials (id, name, hash, scopes, created_at, created_by, lifetime_ms, expires_at, replaces, request_sha256)
    VALUES (p_id, old.name, p_hash, old.scopes, t, p_by, p_lifetime_ms, t + p_lifetime_ms * interval '1 ms', p_old, p_request) RETURNING * INTO c;
    PERFORM pawl.note(p_by, 'rotate-credential', p_old, before,
        pawl.credential_grants(c) || jsonb_build_object('replaced_by', c.id, 'overlap_until', old.expires_at));
    RETURN jsonb_build_object('credential', pawl.credential_json(c));
END $$;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE OR REPLACE FUNCTION pawl.revoke_credential(p_id text, p_by text) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
    c pawl.credentials;
BEGIN
    LOCK TABLE pawl.credentials IN SHARE ROW EXCLUSIVE MODE;
    SELECT * INTO c FROM pawl.credentials WHERE id = p_id;
    IF NOT FOUND THEN
        RETURN pawl.refuse_credential('not-found', NULL, NULL);
    ELSIF c.revoked_at IS NULL THEN
        PERFORM pawl.note(p_by, 'revoke-credential', p_id, pawl.credential_grants(c), NULL);
        UPDATE pawl.credentials SET revoked_at = clock_timestamp(), revoked_by = p_by, holds_name = false WHERE id = p_id RETURNING * INTO c;
    END IF;
    RETURN jsonb_build_object('credential', pawl.credential_json(c));
END $$;
-- +goose StatementEnd

-- credential_unnoted reports whether a use at a time is to be noted.
CREATE OR REPLACE FUNCTION pawl.credential_unnoted(c pawl.credentials, t timestamptz) RETURNS boolean LANGUAGE sql IMMUTABLE AS $$
    SELECT coalesce((c).last_used_at <= t - interval '1 minute', true)
$$;

-- +goose StatementBegin
CREATE OR REPLACE FUNCTION pawl.use_credential(p_id text) RETURNS jsonb LANGUAGE sql AS $$
    UPDATE pawl.credentials SET last_used_at = clock_timestamp()
    WHERE id = p_id AND pawl.credential_unnoted(credentials, clock_timestamp());
    SELECT '{}'::jsonb
$$;
-- +goose StatementEnd

-- +goose Down
DROP FUNCTION IF EXISTS pawl.use_credential, pawl.credential_unnoted, pawl.revoke_credential, pawl.replace_credential, pawl.create_credential, pawl.repeat_credential, pawl.refuse_credential,
    pawl.credential_grants, pawl.credential_json, pawl.credential_good;
DROP TABLE IF EXISTS pawl.credentials;
DROP FUNCTION IF EXISTS pawl.refuse_longer_credential;
