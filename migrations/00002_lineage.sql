-- Lineage and epoch: how a counter never goes back, not even when the database does.

-- +goose Up

-- lineage names the history that this database is on: system identifier, timeline, database, and the identity of the
-- keys table. A restored dump makes other tables (and a reloaded one another file), a promoted standby or a point-in-time recovery another timeline. The
-- timeline is read from the log's insertion point: the control file shows the new one only some time after a promotion.
-- +goose StatementBegin
CREATE FUNCTION pawl.lineage() RETURNS text LANGUAGE sql VOLATILE AS $$
    SELECT format('system=%s timeline=%s database=%s keys=%s.%s',
        (SELECT system_identifier FROM pg_control_system()),
        substr(pg_walfile_name(pg_current_wal_insert_lsn()), 1, 8),
        (SELECT oid FROM pg_database WHERE datname = current_database()),
        'pawl.keys'::regclass::oid, pg_relation_filenode('pawl.keys'))
$$;
-- +goose StatementEnd

-- next_epoch is the epoch that follows a recorded one. It counts five-minute slots since 2026, so that it doesn't rest on restored
-- data alone: the same dump restored twice, or restored after a failover that has raised an epoch of its own, comes to an epoch
-- above that of the other history. The range of epochs lasts for 85 years of slots.
-- +goose StatementBegin
CREATE FUNCTION pawl.next_epoch(recorded bigint) RETURNS bigint LANGUAGE sql VOLATILE AS $$
    SELECT greatest(coalesce(recorded, 0) + 1,
        floor(extract(epoch FROM clock_timestamp() - timestamptz '2026-01-01 00:00:00+00') / 300)::bigint)
$$;
-- +goose StatementEnd

-- epoch_now tells the epoch in force without writing: the next one when the lineage has changed.
-- +goose StatementBegin
CREATE FUNCTION pawl.epoch_now() RETURNS bigint LANGUAGE sql VOLATILE AS $$
    SELECT CASE WHEN e.lineage = pawl.lineage() THEN e.epoch ELSE pawl.next_epoch(e.epoch) END
    FROM pawl.epochs e ORDER BY e.epoch DESC LIMIT 1
$$;
-- +goose StatementEnd

-- raise_epoch returns the epoch in force and records it when the lineage has changed. Grants call it before they
-- lock a key. Of several that see the change at once, one records it and the others wait for that one.
-- +goose StatementBegin
CREATE FUNCTION pawl.raise_epoch() RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    recorded pawl.epochs;
    actual   text := pawl.lineage();
BEGIN
    LOOP
        SELECT * INTO recorded FROM pawl.epochs ORDER BY epoch DESC LIMIT 1;
        IF recorded.lineage = actual THEN
            RETURN recorded.epoch;
        END IF;
        INSERT INTO pawl.epochs (epoch, lineage, reason)
        VALUES (pawl.next_epoch(recorded.epoch), actual, CASE
            WHEN recorded.lineage IS NULL THEN 'the record of epochs was lost'
            WHEN split_part(recorded.lineage, ' ', 1) <> split_part(actual, ' ', 1) THEN 'restored into another server'
            WHEN split_part(recorded.lineage, ' ', 2) <> split_part(actual, ' ', 2) THEN 'promoted or recovered to a point in time'
            WHEN split_part(recorded.lineage, ' ', 3) <> split_part(actual, ' ', 3) THEN 'restored into another database'
            ELSE 'tables restored or rewritten' END)
        ON CONFLICT (epoch) DO NOTHING;
    END LOOP;
END $$;
-- +goose StatementEnd

INSERT INTO pawl.epochs (epoch, lineage, reason) VALUES (0, pawl.lineage(), 'created');

-- greatest_possible tells the greatest token that may ever have been granted for a key: its counter, or, when the
-- database has lost a part of its history since, far above. A lost history is taken to hold less than 10^9 grants of one key.
-- +goose StatementBegin
CREATE FUNCTION pawl.greatest_possible(k pawl.keys, epoch bigint) RETURNS bigint LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN (k).epoch < epoch
        THEN greatest(epoch * 1000000000, (k).counter + 1000000000)
        ELSE (k).counter END
$$;
-- +goose StatementEnd

-- +goose Down
DROP FUNCTION pawl.greatest_possible, pawl.raise_epoch, pawl.epoch_now, pawl.next_epoch, pawl.lineage;
