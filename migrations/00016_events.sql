-- Events: what happened to keys, in one order that everybody sees.
--
-- An event is written in the transaction of its change, by triggers, into pawl.unnumbered_events. A number that is drawn there would be of no use to
-- readers: transactions commit in another order than they draw, so a reader would pass over some. So one sequencer at a time moves what is committed to
-- pawl.events and numbers it, one after another. Whoever reads by numbers reads a prefix.
--
-- The ids of unnumbered events are drawn by each insert. A transaction that has seen another's commit, as the next one under the lock of a key has, draws greater ones. So
-- the order of ids keeps that of commits wherever one followed from another, and a sequencer that sees an event sees all that it followed.
--
-- No transaction locks two tables that requests use. Every statement stands alone, and may be run again after a break.

-- +goose NO TRANSACTION
-- +goose Up

-- What isn't said here is looked up when the event is numbered, in rows that never change.
CREATE TABLE IF NOT EXISTS pawl.unnumbered_events (
    id       bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    kind     text NOT NULL,
    key_id   bigint NOT NULL,
    token    bigint,
    revision bigint,
    at       timestamptz NOT NULL,
    by       text,
    facts    jsonb
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000);

-- key is null for restored events alone.
CREATE TABLE IF NOT EXISTS pawl.events (
    epoch    bigint NOT NULL,
    n        bigint NOT NULL,
    kind     text NOT NULL,
    key      text COLLATE "C",
    token    bigint,
    revision bigint,
    at       timestamptz NOT NULL,
    by       text,
    facts    jsonb NOT NULL,
    PRIMARY KEY (epoch, n)
);

-- The newest event that was numbered, and the newest one that was trimmed. Its lock is what makes a process the sequencer: it belongs to a transaction, so
-- it also works through a pooler that shares sessions, and a killed sequencer holds up nobody.
CREATE TABLE IF NOT EXISTS pawl.event_feed (
    one           boolean PRIMARY KEY DEFAULT true CONSTRAINT event_feed_one CHECK (one),
    epoch         bigint NOT NULL,
    n             bigint NOT NULL DEFAULT 0,
    trimmed_epoch bigint NOT NULL DEFAULT 0,
    trimmed_n     bigint NOT NULL DEFAULT 0
);
INSERT INTO pawl.event_feed (epoch) SELECT max(epoch) FROM pawl.epochs ON CONFLICT DO NOTHING;

-- What a publish costs more for its event is this insert.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION pawl.tell_published() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO pawl.unnumbered_events (kind, key_id, token, revision, at)
    VALUES ('published', NEW.key_id, NEW.token, NEW.revision, NEW.published_at);
    RETURN NULL;
END $$;
-- +goose StatementEnd

-- tell_rejected leaves out tokens of a lost history beyond the first hundred of a key: anybody can make them up.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION pawl.tell_rejected() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.lost AND (SELECT count(*) FROM (SELECT FROM pawl.rejections WHERE key_id = NEW.key_id AND lost LIMIT 101) lost) > 100 THEN
        RETURN NULL;
    END IF;
    INSERT INTO pawl.unnumbered_events (kind, key_id, token, at, facts)
    VALUES ('rejected', NEW.key_id, NEW.token, NEW.first_at, jsonb_strip_nulls(jsonb_build_object(
        'operation', NEW.operation, 'path', nullif(NEW.path, ''), 'accepted_token', nullif(NEW.accepted_token, 0),
        'granted_token', NEW.granted_token, 'superseded_by', NEW.superseded_by, 'superseded_at', NEW.superseded_at,
        'overrun_ms', NEW.overrun_ms)));
    RETURN NULL;
END $$;
-- +goose StatementEnd

-- tell_taken_over runs at the commit, when the row of the grant that followed is there; a lease that ended without one was not taken over.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION pawl.tell_taken_over() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO pawl.unnumbered_events (kind, key_id, token, at, facts)
    SELECT 'taken-over', NEW.key_id, g.token, g.granted_at, jsonb_build_object('from', jsonb_build_object(
        'token', NEW.token, 'holder', NEW.holder, 'lease_ended_at', NEW.lease_ended_at))
    FROM pawl.generations g WHERE g.key_id = NEW.key_id AND g.token > NEW.token ORDER BY g.token LIMIT 1;
    RETURN NULL;
END $$;
-- +goose StatementEnd

-- tell_operator runs at the grants of rollbacks and retirements. That somebody was taken over by one comes before it.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION pawl.tell_operator() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    SET CONSTRAINTS pawl.generations_tell_taken_over IMMEDIATE;
    IF NEW.kind = 'retire' THEN
        INSERT INTO pawl.unnumbered_events (kind, key_id, token, at, facts)
        VALUES ('retired', NEW.key_id, NEW.token, NEW.granted_at, jsonb_strip_nulls(jsonb_build_object('reason', nullif(NEW.reason, ''),
            'previous', pawl.version(NEW.target_token, NEW.target_revision))));
    END IF;
    RETURN NULL;
END $$;
-- +goose StatementEnd

-- tell_pin rests on the audit, since the row of a pin that is gone doesn't say who took it away.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION pawl.tell_pin() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO pawl.unnumbered_events (kind, key_id, token, revision, at, by, facts)
    SELECT NEW.action || 'ned', k.id, k.current_token, k.current_revision, NEW.at, NEW.actor,
        jsonb_strip_nulls(jsonb_build_object('reason', NEW.after->>'reason'))
    FROM pawl.keys k WHERE k.name = NEW.subject;
    RETURN NULL;
END $$;
-- +goose StatementEnd

-- The sequencer -----------------------------------------------------------------------------------------------------

-- number_events numbers up to p_limit committed events. The scans are kept on indexes: the planner knows nothing of how many events there are just now.
--
-- It alone sends NOTIFY, once for all that it numbers. In the transactions of the changes NOTIFY would be costly: it takes a lock of the whole database cluster
-- until the commit is through, so all publishes would commit one after another.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION pawl.number_events(p_limit integer) RETURNS jsonb LANGUAGE plpgsql
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE
    e      bigint := pawl.raise_epoch();
    feed   pawl.event_feed;
    moved  bigint;
    told   bigint := 0;
    oldest timestamptz;
BEGIN
    -- Where there is nothing to do nothing is locked, which would be a write.
    IF NOT EXISTS (SELECT FROM pawl.unnumbered_events) AND NOT EXISTS (SELECT FROM pawl.event_feed WHERE epoch < e) THEN
        RETURN '{"numbered": {}}';
    END IF;
    SELECT * INTO feed FROM pawl.event_feed FOR NO KEY UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        RETURN '{"numbered": {"busy": true}}';
    END IF;
    IF feed.epoch < e THEN
        INSERT INTO pawl.events (epoch, n, kind, at, facts)
        SELECT e, feed.n + 1, 'restored', raised_at, jsonb_build_object('reason', reason) FROM pawl.epochs WHERE epoch = e;
        feed.epoch := e;
        feed.n := feed.n + 1;
        told := 1;
    END IF;
    WITH due AS (
        DELETE FROM pawl.unnumbered_events WHERE id IN (SELECT id FROM pawl.unnumbered_events ORDER BY id LIMIT p_limit) RETURNING *
    ), numbered AS (
        INSERT INTO pawl.events (epoch, n, kind, key, token, revision, at, by, facts)
        SELECT feed.epoch, feed.n + row_number() OVER (ORDER BY u.id),
            CASE WHEN u.kind = 'published' AND g.kind = 'rollback' THEN 'rolled-back' ELSE u.kind END,
            k.name, u.token, u.revision, u.at, coalesce(u.by, g.holder), CASE WHEN u.kind <> 'published' THEN coalesce(u.facts, '{}')
            ELSE jsonb_strip_nulls(jsonb_build_object('manifest_digest', encode(r.manifest_digest, 'hex'), 'final', r.final,
                'primary', r.primary_path, 'content_type', r.primary_type, 'files', r.files, 'bytes', r.bytes,
                'previous', pawl.version(r.previous_token, r.previous_revision), 'lease_expired', r.lease_expired,
                'rollback_to', pawl.version(g.target_token, g.target_revision), 'reason', g.reason)) END
        FROM due u
        LEFT JOIN pawl.keys k ON k.id = u.key_id
        LEFT JOIN pawl.generations g ON g.key_id = u.key_id AND g.token = u.token
        LEFT JOIN pawl.receipts r ON u.kind = 'published' AND r.key_id = u.key_id AND r.token = u.token AND r.revision = u.revision
    ) SELECT count(*), min(at) INTO moved, oldest FROM due;
    UPDATE pawl.event_feed SET epoch = feed.epoch, n = feed.n + moved;
    PERFORM pg_notify('pawl_events', '');
    RETURN jsonb_build_object('numbered', jsonb_build_object('count', told + moved, 'more', moved >= p_limit,
        'waited_ms', greatest(0, coalesce(extract(epoch FROM clock_timestamp() - oldest) * 1000, 0))::bigint));
END $$;
-- +goose StatementEnd

-- trim_events removes up to p_limit of the oldest events, as long as they happened before p_keep_ms ago.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION pawl.trim_events(p_keep_ms bigint, p_limit integer) RETURNS jsonb LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off AS $$
DECLARE
    e    pawl.events;
    last pawl.events;
    gone bigint := 0;
BEGIN
    PERFORM FROM pawl.event_feed FOR NO KEY UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        RETURN '{"trimmed": 0}';
    END IF;
    FOR e IN SELECT * FROM pawl.events ORDER BY epoch, n LIMIT p_limit LOOP
        EXIT WHEN e.at >= clock_timestamp() - p_keep_ms * interval '1 millisecond';
        last := e;
        gone := gone + 1;
    END LOOP;
    IF gone > 0 THEN
        DELETE FROM pawl.events WHERE (epoch, n) <= (last.epoch, last.n);
        UPDATE pawl.event_feed SET trimmed_epoch = last.epoch, trimmed_n = last.n;
    END IF;
    RETURN jsonb_build_object('trimmed', gone);
END $$;
-- +goose StatementEnd

-- event_json is an event as it is answered.
CREATE OR REPLACE FUNCTION pawl.event_json(e pawl.events) RETURNS jsonb LANGUAGE sql STABLE AS $$
    SELECT jsonb_strip_nulls(jsonb_build_object('cursor', (e).epoch || '-' || (e).n, 'kind', (e).kind, 'key', (e).key, 'token', (e).token,
        'revision', (e).revision, 'at', (e).at, 'by', (e).by)) || (e).facts
$$;

-- The triggers come last: what they call is there.

CREATE OR REPLACE TRIGGER receipts_tell AFTER INSERT ON pawl.receipts FOR EACH ROW EXECUTE FUNCTION pawl.tell_published();

CREATE OR REPLACE TRIGGER rejections_tell AFTER INSERT ON pawl.rejections FOR EACH ROW EXECUTE FUNCTION pawl.tell_rejected();

-- +goose StatementBegin
DO $$
BEGIN
    -- There is no "OR REPLACE" of deferred triggers.
    IF NOT EXISTS (SELECT FROM pg_trigger WHERE tgrelid = 'pawl.generations'::regclass AND tgname = 'generations_tell_taken_over') THEN
        CREATE CONSTRAINT TRIGGER generations_tell_taken_over AFTER UPDATE OF lease_ended_at ON pawl.generations
            DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
            WHEN (OLD.lease_ended_at IS NULL AND NEW.lease_ended_at IS NOT NULL) EXECUTE FUNCTION pawl.tell_taken_over();
    END IF;
END $$;
-- +goose StatementEnd

CREATE OR REPLACE TRIGGER generations_tell_operator AFTER INSERT ON pawl.generations FOR EACH ROW
    WHEN (NEW.kind IS NOT NULL) EXECUTE FUNCTION pawl.tell_operator();

CREATE OR REPLACE TRIGGER audit_tell_pin AFTER INSERT ON pawl.audit FOR EACH ROW
    WHEN (NEW.action IN ('pin', 'unpin')) EXECUTE FUNCTION pawl.tell_pin();

-- +goose Down
DROP TRIGGER IF EXISTS audit_tell_pin ON pawl.audit;
DROP TRIGGER IF EXISTS generations_tell_operator ON pawl.generations;
DROP TRIGGER IF EXISTS generations_tell_taken_over ON pawl.generations;
DROP TRIGGER IF EXISTS rejections_tell ON pawl.rejections;
DROP TRIGGER IF EXISTS receipts_tell ON pawl.receipts;
DROP FUNCTION IF EXISTS pawl.event_json, pawl.trim_events, pawl.number_events, pawl.tell_pin, pawl.tell_operator, pawl.tell_taken_over, pawl.tell_rejected, pawl.tell_published;
DROP TABLE IF EXISTS pawl.event_feed, pawl.events, pawl.unnumbered_events;
