-- What all replicas must know, and nobody else: each a row that is made once.

-- +goose Up

-- 'content' is what the addresses of PAWL_CONTENT_ORIGIN are signed with. To make all that are in use worthless, replace it by another one of 32 bytes, and start the servers anew.
CREATE TABLE IF NOT EXISTS pawl.secrets (
    name text PRIMARY KEY,
    secret bytea NOT NULL,
    made_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT secrets_long CHECK (octet_length(secret) >= 32)
);
-- Postgres itself has no function for random bytes, but each of these has 122 random bits.
INSERT INTO pawl.secrets (name, secret)
VALUES ('content', sha256(uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid()))) ON CONFLICT DO NOTHING;

-- +goose Down
DROP TABLE IF EXISTS pawl.secrets;
