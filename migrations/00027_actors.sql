-- Who really made a grant, a publish or a stale request, beside what the worker calls itself; and what a revocation ends of it.
--
-- The server tells each transaction whom it works for, and the columns take it from there by their defaults: so whatever function adds a row, the row has it, in the
-- same statement. A column is added without a default, which rewrites nothing; rows of before know nobody, as do those of servers that ask for no credential.
-- Every statement stands alone, and may be run again after a break.

-- +goose NO TRANSACTION
-- +goose Up

-- acting_caller is whom the transaction works for: the id of a credential, or what stands for an identity of another issuer; null for nobody who is known.
CREATE OR REPLACE FUNCTION pawl.acting_caller() RETURNS text LANGUAGE sql STABLE AS $$
    SELECT nullif(current_setting('pawl.caller', true), '')
$$;

-- acting_name is the name of that one, as the audit has it in actor.
CREATE OR REPLACE FUNCTION pawl.acting_name() RETURNS text LANGUAGE sql STABLE AS $$
    SELECT nullif(current_setting('pawl.caller_name', true), '')
$$;

-- acting_client is the address of that one. Of nobody known it is none.
CREATE OR REPLACE FUNCTION pawl.acting_client() RETURNS inet LANGUAGE sql STABLE AS $$
    SELECT CASE WHEN nullif(current_setting('pawl.caller', true), '') IS NOT NULL THEN nullif(current_setting('pawl.client_address', true), '')::inet END
$$;

-- caller is by whose revocation the lease id stops opening anything.
ALTER TABLE pawl.generations ADD COLUMN IF NOT EXISTS caller text, ADD COLUMN IF NOT EXISTS actor text, ADD COLUMN IF NOT EXISTS client inet;
ALTER TABLE pawl.generations ALTER COLUMN caller SET DEFAULT pawl.acting_caller(), ALTER COLUMN actor SET DEFAULT pawl.acting_name(),
    ALTER COLUMN client SET DEFAULT pawl.acting_client();
ALTER TABLE pawl.receipts ADD COLUMN IF NOT EXISTS actor text, ADD COLUMN IF NOT EXISTS client inet;
ALTER TABLE pawl.receipts ALTER COLUMN actor SET DEFAULT pawl.acting_name(), ALTER COLUMN client SET DEFAULT pawl.acting_client();
-- Of a request that came again, they are those of the first time.
ALTER TABLE pawl.rejections ADD COLUMN IF NOT EXISTS actor text, ADD COLUMN IF NOT EXISTS client inet;
ALTER TABLE pawl.rejections ALTER COLUMN actor SET DEFAULT pawl.acting_name(), ALTER COLUMN client SET DEFAULT pawl.acting_client();

-- A receipt is never changed, by the rights of the servers' role. A generation is, but not in whose it was, whatever program writes the row.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION pawl.refuse_other_grantee() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'pawl: who was granted a generation stays who was granted it'
        USING ERRCODE = 'integrity_constraint_violation', CONSTRAINT = 'generations_grantee';
END $$;
-- +goose StatementEnd
CREATE OR REPLACE TRIGGER generations_grantee BEFORE UPDATE OF caller, actor, client ON pawl.generations FOR EACH ROW
    WHEN ((OLD.caller, OLD.actor, OLD.client) IS DISTINCT FROM (NEW.caller, NEW.actor, NEW.client)) EXECUTE FUNCTION pawl.refuse_other_grantee();

-- actor_json tells who made something, as far as that is known.
CREATE OR REPLACE FUNCTION pawl.actor_json(p_actor text, p_client inet) RETURNS jsonb LANGUAGE sql IMMUTABLE AS $$
    SELECT jsonb_strip_nulls(jsonb_build_object('credential', p_actor, 'from', host(p_client)))
$$;

CREATE OR REPLACE FUNCTION pawl.receipt_json(k pawl.keys, g pawl.generations, r pawl.receipts) RETURNS jsonb LANGUAGE sql STABLE AS $$
    SELECT jsonb_build_object('key', (k).name, 'token', (r).token, 'revision', (r).revision,
        'manifest_digest', encode((r).manifest_digest, 'hex'), 'final', (r).final, 'primary', coalesce((r).primary_path, ''),
        'files', (r).files, 'bytes', (r).bytes, 'published_at', (r).published_at, 'publisher', (g).holder,
        'source_revision', (r).source_revision, 'metadata', (r).metadata,
        'previous', pawl.version((r).previous_token, (r).previous_revision), 'lease_expired', (r).lease_expired,
        'current', pawl.version((k).current_token, (k).current_revision))
        || pawl.actor_json((r).actor, (r).client)
        || CASE WHEN (r).reuse_from IS NOT NULL THEN jsonb_build_object('reuse_from', (r).reuse_from) ELSE '{}' END
        || CASE WHEN (g).kind = 'rollback' THEN jsonb_build_object('rollback_to', pawl.version((g).target_token, (g).target_revision),
            'reason', (g).reason) ELSE '{}' END
        || CASE WHEN (r).reused_files > 0 THEN jsonb_build_object('reused_files', (r).reused_files,
            'reused_bytes', (r).reused_bytes) ELSE '{}' END
        || CASE WHEN (k).counter > (r).token THEN jsonb_build_object('superseded_by', (k).counter) ELSE '{}' END
$$;

-- +goose StatementBegin
CREATE OR REPLACE FUNCTION pawl.rejection_json(r pawl.rejections, p_holder text) RETURNS jsonb LANGUAGE sql STABLE AS $$
    SELECT jsonb_build_object('token', (r).token, 'operation', (r).operation, 'code', 'stale-token', 'path', (r).path,
        'holder', coalesce(p_holder, ''), 'granted_token', (r).granted_token,
        'superseded_by', (r).superseded_by, 'superseded_at', (r).superseded_at, 'first_at', (r).first_at,
        'last_at', (r).last_at, 'repeat', (r).repeat, 'overrun_ms', (r).overrun_ms)
        || pawl.actor_json((r).actor, (r).client)
        || CASE WHEN (r).accepted_token > 0 THEN jsonb_build_object('accepted_token', (r).accepted_token) ELSE '{}' END
$$;
-- +goose StatementEnd

-- credential_revoked reports whether a caller is a credential that was revoked. It is false of one that has expired, and of an identity of another issuer.
CREATE OR REPLACE FUNCTION pawl.credential_revoked(p_caller text) RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT EXISTS (SELECT FROM pawl.credentials WHERE id = p_caller AND revoked_at IS NOT NULL)
$$;

-- acquire_as is acquire for one caller, within its limit. A lease whose credential was revoked keeps nobody waiting: it ends when the next one asks for the key, so a
-- revocation needs no lock of any key, however many its leases are. The fence stays where it is. Between the two calls of acquire the transaction holds the key's lock.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION pawl.acquire_as(p_key text, p_lease bytea, p_holder text, p_ttl_ms integer, p_labels jsonb, p_caller text, p_most bigint) RETURNS jsonb
LANGUAGE plpgsql AS $$
DECLARE
    answer jsonb := coalesce(pawl.acquire_within(p_key, p_lease, p_caller, p_most), pawl.acquire(p_key, p_lease, p_holder, p_ttl_ms, p_labels));
BEGIN
    IF answer->'refused'->>'code' IS DISTINCT FROM 'lease-held' THEN
        RETURN answer;
    END IF;
    UPDATE pawl.keys k SET lease_expires_at = clock_timestamp() FROM pawl.generations g
    WHERE k.name = p_key AND g.key_id = k.id AND g.token = k.counter AND pawl.credential_revoked(g.caller);
    IF NOT FOUND THEN
        RETURN answer;
    END IF;
    RETURN coalesce(pawl.acquire_within(p_key, p_lease, p_caller, p_most), pawl.acquire(p_key, p_lease, p_holder, p_ttl_ms, p_labels));
END $$;
-- +goose StatementEnd

-- +goose Down
DROP FUNCTION IF EXISTS pawl.acquire_as, pawl.credential_revoked;
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION pawl.rejection_json(r pawl.rejections, p_holder text) RETURNS jsonb LANGUAGE sql STABLE AS $$
    SELECT jsonb_build_object('token', (r).token, 'operation', (r).operation, 'code', 'stale-token', 'path', (r).path,
        'holder', coalesce(p_holder, ''), 'granted_token', (r).granted_token,
        'superseded_by', (r).superseded_by, 'superseded_at', (r).superseded_at, 'first_at', (r).first_at,
        'last_at', (r).last_at, 'repeat', (r).repeat, 'overrun_ms', (r).overrun_ms)
        || CASE WHEN (r).accepted_token > 0 THEN jsonb_build_object('accepted_token', (r).accepted_token) ELSE '{}' END
$$;
-- +goose StatementEnd
CREATE OR REPLACE FUNCTION pawl.receipt_json(k pawl.keys, g pawl.generations, r pawl.receipts) RETURNS jsonb LANGUAGE sql STABLE AS $$
    SELECT jsonb_build_object('key', (k).name, 'token', (r).token, 'revision', (r).revision,
        'manifest_digest', encode((r).manifest_digest, 'hex'), 'final', (r).final, 'primary', coalesce((r).primary_path, ''),
        'files', (r).files, 'bytes', (r).bytes, 'published_at', (r).published_at, 'publisher', (g).holder,
        'source_revision', (r).source_revision, 'metadata', (r).metadata,
        'previous', pawl.version((r).previous_token, (r).previous_revision), 'lease_expired', (r).lease_expired,
        'current', pawl.version((k).current_token, (k).current_revision))
        || CASE WHEN (r).reuse_from IS NOT NULL THEN jsonb_build_object('reuse_from', (r).reuse_from) ELSE '{}' END
        || CASE WHEN (g).kind = 'rollback' THEN jsonb_build_object('rollback_to', pawl.version((g).target_token, (g).target_revision),
            'reason', (g).reason) ELSE '{}' END
        || CASE WHEN (r).reused_files > 0 THEN jsonb_build_object('reused_files', (r).reused_files,
            'reused_bytes', (r).reused_bytes) ELSE '{}' END
        || CASE WHEN (k).counter > (r).token THEN jsonb_build_object('superseded_by', (k).counter) ELSE '{}' END
$$;
DROP TRIGGER IF EXISTS generations_grantee ON pawl.generations;
ALTER TABLE pawl.rejections DROP COLUMN IF EXISTS actor, DROP COLUMN IF EXISTS client;
ALTER TABLE pawl.receipts DROP COLUMN IF EXISTS actor, DROP COLUMN IF EXISTS client;
ALTER TABLE pawl.generations DROP COLUMN IF EXISTS caller, DROP COLUMN IF EXISTS actor, DROP COLUMN IF EXISTS client;
DROP FUNCTION IF EXISTS pawl.actor_json, pawl.refuse_other_grantee, pawl.acting_client, pawl.acting_name, pawl.acting_caller;
