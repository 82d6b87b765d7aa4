-- Tables of Pawl. One row of pawl.keys holds counter, lease, fence and pointer, so that one row lock orders
-- everything that happens to a key. Names compare byte by byte (COLLATE "C").

-- +goose Up

-- Domains, not checks on the tables: a domain is checked when a value is made, a table's check at every update of
-- the row, and the row of a key is updated at every grant, renewal and flip.
CREATE DOMAIN pawl.token AS bigint
    CONSTRAINT token_range CHECK (VALUE BETWEEN 1 AND 9007199254740991);

CREATE DOMAIN pawl.sha256 AS bytea
    CONSTRAINT sha256_length CHECK (octet_length(VALUE) = 32);

CREATE DOMAIN pawl.path_name AS text COLLATE "C"
    CONSTRAINT path_length CHECK (octet_length(VALUE) BETWEEN 1 AND 400)
    CONSTRAINT path_nfc CHECK (VALUE IS NFC NORMALIZED)
    CONSTRAINT path_segments CHECK (VALUE !~ '(^|/)(\.|\.\.)?(/|$)')
    CONSTRAINT path_characters CHECK (VALUE !~ '[\x01-\x1f\x7f\\]');

CREATE DOMAIN pawl.key_name AS text COLLATE "C"
    CONSTRAINT key_length CHECK (octet_length(VALUE) BETWEEN 1 AND 400)
    CONSTRAINT key_nfc CHECK (VALUE IS NFC NORMALIZED)
    CONSTRAINT key_segments CHECK (VALUE !~ '(^|/)(\.|\.\.|-)?(/|$)')
    CONSTRAINT key_characters CHECK (VALUE !~ '[\x01-\x1f\x7f\\]');

-- Every history of this database that a grant has seen. The greatest epoch is in force.
CREATE TABLE pawl.epochs (
    epoch     bigint PRIMARY KEY,
    lineage   text NOT NULL,
    raised_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    reason    text NOT NULL,
    CONSTRAINT epoch_range CHECK (epoch BETWEEN 0 AND 9007198)
);

CREATE TABLE pawl.keys (
    id               bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name             pawl.key_name NOT NULL,
    -- The epoch of the newest grant: when it is below the database's, the next grant leaps over what a lost history
    -- may have granted.
    epoch            bigint NOT NULL DEFAULT 0,
    -- counter is the greatest token granted, 0 before the first.
    counter          bigint NOT NULL DEFAULT 0,
    -- fence is the greatest token that the pointer has accepted, 0 before the first publish.
    fence            bigint NOT NULL DEFAULT 0,
    -- The lease of the newest grant; no sha256 and no expiry once it was released.
    lease_sha256     pawl.sha256,
    lease_ttl_ms     integer,
    lease_expires_at timestamptz,
    -- The pointer. published is apart so that the index of listings rests on a column that a flip doesn't
    -- change: flips stay heap-only updates.
    published        boolean NOT NULL DEFAULT false,
    current_token    bigint,
    current_revision bigint,
    CONSTRAINT keys_counter_range CHECK (counter BETWEEN 0 AND 9007199254740991),
    CONSTRAINT keys_fence_granted CHECK (fence BETWEEN 0 AND counter),
    CONSTRAINT keys_lease_whole CHECK ((lease_sha256 IS NULL) = (lease_expires_at IS NULL)),
    CONSTRAINT keys_pointer_whole CHECK (
        published = (current_token IS NOT NULL) AND published = (current_revision IS NOT NULL)),
    CONSTRAINT keys_pointer_fenced CHECK (current_token BETWEEN 1 AND fence AND current_revision >= 1)
) WITH (fillfactor = 80);

CREATE UNIQUE INDEX keys_name ON pawl.keys (name);
CREATE INDEX keys_published ON pawl.keys (name) WHERE published;

-- A counter never goes back. The condition costs nothing while it holds.
-- +goose StatementBegin
CREATE FUNCTION pawl.refuse_going_back() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'pawl: counter, fence or epoch of key % would go back', OLD.name
        USING ERRCODE = 'integrity_constraint_violation', CONSTRAINT = 'keys_never_back';
END $$;
-- +goose StatementEnd

CREATE TRIGGER keys_never_back BEFORE UPDATE ON pawl.keys FOR EACH ROW
    WHEN (NEW.counter < OLD.counter OR NEW.fence < OLD.fence OR NEW.epoch < OLD.epoch OR NEW.name <> OLD.name)
    EXECUTE FUNCTION pawl.refuse_going_back();

-- One row a grant, for ever: what is written under one token of one key.
CREATE TABLE pawl.generations (
    key_id         bigint NOT NULL REFERENCES pawl.keys,
    token          pawl.token NOT NULL,
    lease_sha256   pawl.sha256 NOT NULL,
    holder         text NOT NULL,
    labels         jsonb NOT NULL DEFAULT '{}',
    granted_at     timestamptz NOT NULL,
    released_at    timestamptz,
    -- When the lease had run out, if another grant followed without a release.
    lease_ended_at timestamptz,
    state          text NOT NULL DEFAULT 'open',
    revision       bigint NOT NULL DEFAULT 0,
    sealed_at      timestamptz,
    PRIMARY KEY (key_id, token),
    CONSTRAINT generations_lease_once UNIQUE (key_id, lease_sha256),
    CONSTRAINT generations_state CHECK (state IN ('open', 'sealed', 'condemned', 'collected')),
    CONSTRAINT generations_revision CHECK (revision >= 0),
    CONSTRAINT generations_open CHECK (state <> 'open' OR sealed_at IS NULL),
    CONSTRAINT generations_sealed CHECK (state <> 'sealed' OR sealed_at IS NOT NULL AND revision >= 1)
);

-- One row an upload, written before its first byte is read. upload_no orders uploads by their start. A stored
-- file counts in the revisions from from_revision to until_revision (no end while that is null).
CREATE TABLE pawl.files (
    key_id         bigint NOT NULL,
    token          pawl.token NOT NULL,
    path           pawl.path_name NOT NULL,
    upload_no      bigint GENERATED ALWAYS AS IDENTITY,
    upload_id      bytea NOT NULL,
    -- pending, then stored or failed; dropped when a later upload or a deletion took its place before any
    -- revision named it.
    state          text NOT NULL DEFAULT 'pending',
    size           bigint,
    sha256         pawl.sha256,
    content_type   text,
    from_revision  bigint,
    until_revision bigint,
    started_at     timestamptz NOT NULL DEFAULT clock_timestamp(),
    ended_at       timestamptz,
    failure        text,
    PRIMARY KEY (key_id, token, path, upload_no),
    FOREIGN KEY (key_id, token) REFERENCES pawl.generations,
    CONSTRAINT files_upload_id_length CHECK (octet_length(upload_id) = 16),
    CONSTRAINT files_state CHECK (state IN ('pending', 'stored', 'failed', 'dropped')),
    CONSTRAINT files_stored_whole CHECK (state <> 'stored' OR size >= 0 AND sha256 IS NOT NULL
        AND content_type IS NOT NULL AND from_revision >= 1),
    CONSTRAINT files_revisions CHECK (until_revision >= from_revision)
);

-- At most one file counts at a path. What was replaced or dropped since is in neither index, so a playlist that was uploaded
-- 50,000 times costs no more than one that was uploaded once.
CREATE UNIQUE INDEX files_counting ON pawl.files (key_id, token, path) WHERE state = 'stored' AND until_revision IS NULL;

-- The file that a revision named at a path is the newest one that begins to count at or before it.
CREATE INDEX files_published ON pawl.files (key_id, token, path, from_revision DESC) WHERE state = 'stored';

-- What keeps a generation from its final publish.
CREATE INDEX files_blocking ON pawl.files (key_id, token, path) WHERE state IN ('pending', 'failed');

-- One row a publish, for ever.
CREATE TABLE pawl.receipts (
    key_id            bigint NOT NULL,
    token             pawl.token NOT NULL,
    revision          bigint NOT NULL,
    manifest_digest   pawl.sha256 NOT NULL,
    final             boolean NOT NULL,
    -- What the request asked for, by which a repeat is known, and what it came to.
    requested_primary text,
    primary_path      text,
    primary_type      text,
    files             bigint NOT NULL,
    bytes             bigint NOT NULL,
    published_at      timestamptz NOT NULL,
    source_revision   bigint,
    metadata          jsonb NOT NULL,
    previous_token    bigint,
    previous_revision bigint,
    lease_expired     boolean NOT NULL,
    PRIMARY KEY (key_id, token, revision),
    FOREIGN KEY (key_id, token) REFERENCES pawl.generations,
    CONSTRAINT receipts_counts CHECK (revision >= 1 AND files >= 1 AND bytes >= 0)
);

-- One row for each stale request that was refused; the same request again counts repeat up.
CREATE TABLE pawl.rejections (
    key_id         bigint NOT NULL REFERENCES pawl.keys,
    token          pawl.token NOT NULL,
    operation      text NOT NULL,
    path           text COLLATE "C" NOT NULL DEFAULT '',
    -- lost: nothing is known of the token, it was granted in a history that this database has lost.
    lost           boolean NOT NULL,
    accepted_token bigint NOT NULL,
    granted_token  bigint NOT NULL,
    superseded_by  text NOT NULL,
    superseded_at  timestamptz,
    first_at       timestamptz NOT NULL,
    last_at        timestamptz NOT NULL,
    repeat         integer NOT NULL DEFAULT 1,
    overrun_ms     bigint NOT NULL,
    PRIMARY KEY (key_id, token, operation, path),
    CONSTRAINT rejections_repeat CHECK (repeat >= 1)
);

CREATE INDEX rejections_newest ON pawl.rejections (key_id, token, last_at);
CREATE INDEX rejections_lost ON pawl.rejections (key_id, token) WHERE lost;

-- Policies by key prefix on segment borders; the longest that matches wins. A prefix has no trailing slash.
CREATE TABLE pawl.policies (
    prefix     text COLLATE "C" PRIMARY KEY,
    fence_mode text NOT NULL DEFAULT 'accepted',
    CONSTRAINT policies_prefix CHECK (prefix = '' OR prefix !~ '(^|/)(\.|\.\.|-)?(/|$)'),
    CONSTRAINT policies_fence_mode CHECK (fence_mode IN ('accepted', 'granted'))
);

-- +goose Down
DROP SCHEMA pawl CASCADE;
