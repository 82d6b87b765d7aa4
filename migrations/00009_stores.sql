-- Which blob store is this database's own.

-- +goose Up

-- One row. The id is proposed by the first start, and confirmed once the store bears it as its mark.
CREATE TABLE pawl.stores (
    name        text PRIMARY KEY DEFAULT 'blobs',
    store_id    text NOT NULL,
    confirmed   boolean NOT NULL DEFAULT false,
    recorded_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT stores_one CHECK (name = 'blobs'),
    CONSTRAINT stores_id CHECK (store_id ~ '^[0-9a-f]{32}$')
);

-- +goose Down
DROP TABLE pawl.stores;
