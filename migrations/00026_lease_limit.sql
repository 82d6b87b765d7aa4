-- How many leases one caller holds open, for a limit of them. Callers are known only where servers ask for credentials; without that, nothing is written here.
--
-- The leases of a caller stand in a table of their own: an index on pawl.keys with the end of the lease in it would make every grant and every renewal
-- write all indexes of that table. A row here belongs to its key and is changed under the key's lock, so no two keys ever wait for each other.
-- Every statement may be run again after a break.

-- +goose Up

-- One row a key that a known caller was granted last, until that lease is given back or broken. Of a lease that has run out the row stays, and counts no more.
CREATE TABLE IF NOT EXISTS pawl.caller_leases (
    key_id     bigint PRIMARY KEY,
    token      bigint NOT NULL,
    caller     text NOT NULL,
    expires_at timestamptz NOT NULL
) WITH (fillfactor = 70);

CREATE INDEX IF NOT EXISTS caller_leases_open ON pawl.caller_leases (caller, expires_at);

-- open_leases counts the leases of a caller that run, up to p_most. It reads so many entries of an index and no more, whatever has run out.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION pawl.open_leases(p_caller text, p_most bigint) RETURNS bigint
LANGUAGE plpgsql STABLE SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
DECLARE
    t timestamptz := clock_timestamp(); -- As a call in the condition it would be no bound for the index.
BEGIN
    RETURN (SELECT count(*) FROM (SELECT FROM pawl.caller_leases WHERE caller = p_caller AND expires_at > t LIMIT p_most) open);
END $$;
-- +goose StatementEnd

-- acquire_within refuses a caller who holds p_most leases already, or returns null; a null caller or limit is none. It locks nothing, so grants of several
-- keys that come at the same moment don't see each other, and a few may get past. Who asks for a key that is held, or repeats an id, is left to acquire.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION pawl.acquire_within(p_key text, p_lease bytea, p_caller text, p_most bigint) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
    has bigint;
BEGIN
    IF p_caller IS NULL OR p_most IS NULL THEN
        RETURN NULL;
    END IF;
    has := pawl.open_leases(p_caller, p_most);
    IF has < p_most OR EXISTS (SELECT FROM pawl.keys k WHERE k.name = p_key AND (k.lease_expires_at > clock_timestamp()
            OR EXISTS (SELECT FROM pawl.generations g WHERE g.key_id = k.id AND g.lease_sha256 = p_lease))) THEN
        RETURN NULL;
    END IF;
    RETURN pawl.refused('quota-exceeded', jsonb_build_object('key', p_key, 'operation', 'acquire', 'limit', p_most, 'unit', 'leases'));
END $$;
-- +goose StatementEnd

-- with_caller takes the answer of acquire and gives it back, after it has noted whose lease that is. The transaction still holds the key's lock.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION pawl.with_caller(p_answer jsonb, p_key text, p_caller text) RETURNS jsonb LANGUAGE plpgsql AS $$
BEGIN
    IF p_caller IS NOT NULL AND p_answer->'lease' IS NOT NULL THEN
        INSERT INTO pawl.caller_leases (key_id, token, caller, expires_at)
        SELECT id, counter, p_caller, lease_expires_at FROM pawl.keys WHERE name = p_key
        ON CONFLICT (key_id) DO UPDATE SET token = excluded.token, caller = excluded.caller, expires_at = excluded.expires_at;
    END IF;
    RETURN p_answer;
END $$;
-- +goose StatementEnd

-- with_renewal takes the answer of renew and gives it back, after it has noted until when the lease runs now, if its caller is known.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION pawl.with_renewal(p_answer jsonb, p_key text) RETURNS jsonb LANGUAGE plpgsql AS $$
BEGIN
    IF p_answer->'lease' IS NOT NULL THEN
        UPDATE pawl.caller_leases c SET expires_at = k.lease_expires_at FROM pawl.keys k
        WHERE k.name = p_key AND c.key_id = k.id AND c.token = k.counter;
    END IF;
    RETURN p_answer;
END $$;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE OR REPLACE FUNCTION pawl.drop_caller_lease() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM pawl.caller_leases WHERE key_id = NEW.id;
    RETURN NULL;
END $$;
-- +goose StatementEnd

-- However a lease is given back: by its holder, by an operator, or with its generation.
CREATE OR REPLACE TRIGGER keys_lease_ended AFTER UPDATE ON pawl.keys FOR EACH ROW
    WHEN (OLD.lease_sha256 IS NOT NULL AND NEW.lease_sha256 IS NULL) EXECUTE FUNCTION pawl.drop_caller_lease();

-- +goose Down
DROP TRIGGER IF EXISTS keys_lease_ended ON pawl.keys;
DROP FUNCTION IF EXISTS pawl.drop_caller_lease, pawl.with_renewal, pawl.with_caller, pawl.acquire_within, pawl.open_leases;
DROP TABLE IF EXISTS pawl.caller_leases;
