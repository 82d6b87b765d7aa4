-- Recovery: generations that a bucket has and the database lost, an epoch that is raised by hand, and witnesses of how far the log has come.

-- +goose Up

-- register_lost makes the row of a generation that the database has lost, open and never published, and those of its files. It grants nothing: the
-- key's row stays as it is, and no lease_id has the digest that the generation gets. A token above what the lost history may have granted could
-- be granted yet, and is refused. p_files holds path, upload_id, size, sha256 and content_type of each.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION pawl.register_lost(p_key text, p_token bigint, p_files jsonb) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
    e bigint := pawl.raise_epoch();
    k pawl.keys;
    t timestamptz;
BEGIN
    LOOP
        SELECT * INTO k FROM pawl.keys WHERE name = p_key FOR NO KEY UPDATE;
        EXIT WHEN FOUND;
        INSERT INTO pawl.keys (name) VALUES (p_key) ON CONFLICT (name) DO NOTHING;
    END LOOP;
    t := clock_timestamp();
    IF EXISTS (SELECT FROM pawl.generations WHERE key_id = k.id AND token = p_token) THEN
        RETURN '{"uploads": 0}';
    END IF;
    IF p_token > pawl.greatest_possible(k, e) THEN
        RETURN pawl.refused('unknown-token', jsonb_build_object('key', p_key, 'token', p_token, 'granted_token', k.counter));
    END IF;
    INSERT INTO pawl.generations (key_id, token, lease_sha256, holder, labels, granted_at, released_at)
    VALUES (k.id, p_token, sha256(uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid())), 'recovered from the blob store',
        '{"recovered": "true"}', t, t);
    INSERT INTO pawl.files (key_id, token, path, upload_id, state, size, sha256, content_type, from_revision, started_at, ended_at)
    SELECT k.id, p_token, f.path, decode(f.upload_id, 'hex'), 'stored', f.size, decode(f.sha256, 'hex'), f.content_type, 1, t, t
    FROM jsonb_to_recordset(p_files) f (path text, upload_id text, size bigint, sha256 text, content_type text);
    RETURN jsonb_build_object('uploads', jsonb_array_length(p_files));
END $$;
-- +goose StatementEnd

-- bump_epoch raises the epoch although the lineage is the recorded one, as after a volume snapshot was put back: above p_least, which is an epoch that
-- the lost history is known to have reached.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION pawl.bump_epoch(p_reason text, p_least bigint) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    raised bigint;
BEGIN
    LOOP
        INSERT INTO pawl.epochs (epoch, lineage, reason)
        SELECT greatest(pawl.next_epoch(max(epoch)), p_least + 1), pawl.lineage(), p_reason FROM pawl.epochs
        ON CONFLICT (epoch) DO NOTHING RETURNING epoch INTO raised;
        IF raised IS NOT NULL THEN
            RETURN raised;
        END IF;
    END LOOP;
END $$;
-- +goose StatementEnd

-- Witnesses that servers have put into the bucket. The rows are there to be missing: the database of which an earlier state was put back lacks those that
-- were written since.
CREATE TABLE IF NOT EXISTS pawl.witnesses (
    id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    nonce      uuid NOT NULL UNIQUE,
    written_at timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- witness writes the row of a witness that will be put into the bucket after the commit. Old ones go; the bucket keeps only the newest few.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION pawl.witness(p_nonce uuid) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
    w pawl.witnesses;
BEGIN
    INSERT INTO pawl.witnesses (nonce) VALUES (p_nonce) RETURNING * INTO w;
    DELETE FROM pawl.witnesses WHERE id < w.id - 10000 AND written_at < w.written_at - interval '7 days';
    RETURN jsonb_build_object('witness', jsonb_build_object('epoch', pawl.raise_epoch(), 'lineage', pawl.lineage(),
        'log_position', pg_current_wal_flush_lsn()::text, 'nonce', p_nonce, 'written_at', w.written_at));
END $$;
-- +goose StatementEnd

-- check_witness raises the epoch above a witness that this database doesn't know of although its epoch is in force here, or is yet to come. It is of a
-- history that was lost: an earlier state of the server's volume was put back, or a dump was restored again before the clock had given restores another
-- epoch. A witness of an epoch before the one in force has done its work. The lock lets one of several servers that see it raise.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION pawl.check_witness(p_epoch bigint, p_lineage text, p_log_position text, p_nonce uuid, p_written_at text) RETURNS jsonb
LANGUAGE plpgsql AS $$
DECLARE
    e       bigint;
    known   boolean;
    reached pg_lsn;
BEGIN
    LOCK TABLE pawl.epochs IN SHARE ROW EXCLUSIVE MODE;
    e := pawl.raise_epoch();
    known := EXISTS (SELECT FROM pawl.witnesses WHERE nonce = p_nonce);
    reached := pg_current_wal_insert_lsn();
    IF p_epoch < e OR known AND (p_lineage <> pawl.lineage() OR p_log_position::pg_lsn <= reached) THEN
        RETURN '{}';
    ELSIF p_lineage = pawl.lineage() THEN
        PERFORM pawl.bump_epoch(format('an earlier state of the volume was put back: the witness of %s at log position %s is missing, and the log stands at %s',
            p_written_at, p_log_position, reached), p_epoch);
    ELSE
        PERFORM pawl.bump_epoch(format('another history of this database had reached epoch %s: its witness of %s is not known here',
            p_epoch, p_written_at), p_epoch);
    END IF;
    RETURN '{"uploads": 1}';
END $$;
-- +goose StatementEnd

-- +goose Down
DROP FUNCTION IF EXISTS pawl.check_witness, pawl.witness, pawl.bump_epoch, pawl.register_lost;
DROP TABLE IF EXISTS pawl.witnesses;
