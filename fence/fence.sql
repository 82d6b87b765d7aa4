-- The fence for rows of your own, for Postgres 14 and newer. It is one statement, which may be run any number of times, from any
-- number of processes at once, in a transaction or alone:
--
--     psql "$DATABASE_URL" -f fence.sql
--
-- It makes the table pawl_fences and two functions in the current schema, the first of the search_path that exists. Where the search_path
-- finds a fence already, in whichever of its schemas, that one is kept: a second one would know none of its tokens.
--
--     SELECT pawl_fence('billing/2026-10', 17);         -- passes while no token above 17 has passed
--     SELECT pawl_fence_once('billing/2026-10', 17);    -- passes once: while no token of 17 or above has passed
--
-- Call one of them in the transaction that writes what the resource stands for, in a statement of its own: Postgres doesn't run what a
-- statement doesn't need, such as WITH f AS (SELECT pawl_fence(…)) INSERT …. It locks the resource until that transaction ends.
-- A stale token raises SQLSTATE PWF01, after which Postgres commits nothing of the transaction:
--
--     MESSAGE     token 17 of billing/2026-10 is stale: token 18 has passed
--     DETAIL      {"resource" : "billing/2026-10", "token" : 17, "fence" : 18}
--     CONSTRAINT  pawl_fence, or pawl_fence_once, the function that refused; COLUMN is token and TABLE pawl_fences
--
-- A wrong argument raises 22023 (invalid_parameter_value), with COLUMN resource or token. Classes of SQLSTATE that begin with I to Z
-- are left to implementations by the SQL standard; Postgres itself uses P0 and XX of them, not PW.
--
-- The functions run with their caller's rights: GRANT SELECT, INSERT, UPDATE ON pawl_fences TO your_worker.
DO $install$
DECLARE
    -- Raised by one with every change of what stands below.
    version   CONSTANT integer := 2;
    -- The Go package names a schema by this setting; with psql, set the search_path.
    named     CONSTANT text := nullif(current_setting('pawl.fence_schema', true), '');
    signature CONSTANT text := 'pawl_fence(text, bigint, boolean)';
    before    CONSTANT text := current_setting('search_path');
    target    text := coalesce(named, current_schema());
    installed record;
    locked    boolean := false;
BEGIN
    IF to_regnamespace(quote_ident(target)) IS NULL THEN
        RAISE 'pawl: there is no schema % to install the fence in', coalesce(quote_ident(target), 'of the search_path')
            USING ERRCODE = 'invalid_schema_name', HINT = 'Create the schema first, or set another search_path.';
    END IF;

    -- What is there already, or newer, is left alone, so that a role that owns nothing may run this too, and an older program next to a
    -- newer one does no harm. The lock makes the rest wait for the first; they look again then.
    LOOP
        SELECT nspname AS schema, proowner AS owner, substring(obj_description(f.oid, 'pg_proc') FROM '^Fencing .* version (\d+)$')::integer AS version
        INTO installed
        FROM pg_proc f JOIN pg_namespace n ON n.oid = pronamespace
        WHERE f.oid = to_regprocedure(coalesce(quote_ident(named) || '.', '') || signature);
        IF installed.version >= version THEN
            RETURN;
        ELSIF installed.version IS NOT NULL THEN
            IF NOT pg_has_role(installed.owner, 'USAGE') THEN
                -- The older one fences as well; its owner brings it up to date.
                RAISE WARNING 'pawl: the fence in schema % is of version %, not %, and only its owner can replace it',
                    quote_ident(installed.schema), installed.version, version;
                RETURN;
            END IF;
            target := installed.schema;
        END IF;
        EXIT WHEN locked;
        PERFORM pg_advisory_xact_lock(482671553638); -- "pawlf" in ASCII
        locked := true;
    END LOOP;

    -- The functions keep this search_path, so they find their table whatever their caller's is.
    PERFORM set_config('search_path', quote_ident(target) || ', pg_temp', true);

    -- One row a resource, for ever: a row that is deleted forgets that its tokens are stale.
    CREATE TABLE IF NOT EXISTS pawl_fences (
        resource text COLLATE "C" PRIMARY KEY,
        -- token is the fence: the greatest token that has passed.
        token    bigint NOT NULL,
        -- at is when a token passed last.
        at       timestamptz NOT NULL
    ) WITH (fillfactor = 80);

    CREATE OR REPLACE FUNCTION pawl_fence(resource text, token bigint, once boolean DEFAULT false) RETURNS void
    LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
    #variable_conflict use_column
    DECLARE
        rule  CONSTANT text := CASE WHEN pawl_fence.once THEN 'pawl_fence_once' ELSE 'pawl_fence' END;
        most  bigint; -- the greatest fence that the token passes
        fence bigint;
    BEGIN
        IF (octet_length(pawl_fence.resource) BETWEEN 1 AND 400) IS NOT TRUE THEN
            RAISE '%: wrong resource', rule USING ERRCODE = 'invalid_parameter_value', COLUMN = 'resource',
                DETAIL = format('must be 1 to 400 bytes of text, such as the key''s name; it has %s',
                    coalesce(octet_length(pawl_fence.resource)::text, 'none, being NULL'));
        ELSIF current_setting('server_encoding') = 'UTF8' THEN
            -- In a statement of its own, which other encodings never reach: they don't know it. Two spellings would be two resources.
            IF pawl_fence.resource IS NOT NFC NORMALIZED THEN
                RAISE '%: wrong resource', rule USING ERRCODE = 'invalid_parameter_value', COLUMN = 'resource',
                    DETAIL = 'must be in Unicode''s form NFC, as every key of Pawl is; take the key from the lease, or normalize() it';
            END IF;
        END IF;
        IF (pawl_fence.token BETWEEN 1 AND 9007199254740991) IS NOT TRUE THEN
            RAISE '%: wrong token', rule USING ERRCODE = 'invalid_parameter_value', COLUMN = 'token',
                DETAIL = format('must be an integer from 1 to 9007199254740991, as it was granted; it is %s',
                    coalesce(pawl_fence.token::text, 'NULL'));
        END IF;
        most := CASE WHEN pawl_fence.once THEN pawl_fence.token - 1 ELSE pawl_fence.token END;

        -- The row is locked before it is compared: by its unique index while it is new, by the update afterwards. The clock is
        -- read under that lock.
        INSERT INTO pawl_fences AS f (resource, token, at)
        VALUES (pawl_fence.resource, pawl_fence.token, clock_timestamp())
        ON CONFLICT (resource) DO UPDATE SET token = excluded.token, at = clock_timestamp() WHERE f.token <= most;
        IF NOT FOUND THEN
            -- The row stays locked, also when it is refused, so this is what it was compared with.
            SELECT f.token INTO STRICT fence FROM pawl_fences f WHERE f.resource = pawl_fence.resource COLLATE "C";
            RAISE 'token % of % is stale: token % has passed', pawl_fence.token, pawl_fence.resource, fence
                USING ERRCODE = 'PWF01', CONSTRAINT = rule, COLUMN = 'token', TABLE = 'pawl_fences',
                DETAIL = json_build_object('resource', pawl_fence.resource, 'token', pawl_fence.token, 'fence', fence)::text,
                HINT = 'This is expected of a worker that was paused. Roll back and drop this result; acquire the key again to work on it again.';
        END IF;
    END $$;

    CREATE OR REPLACE FUNCTION pawl_fence_once(resource text, token bigint) RETURNS void
    LANGUAGE sql SET search_path FROM CURRENT AS $$
        SELECT pawl_fence($1, $2, once => true)
    $$;

    EXECUTE format('COMMENT ON FUNCTION pawl_fence(text, bigint, boolean) IS %L', 'Fencing tokens of Pawl, version ' || version);
    PERFORM set_config('search_path', before, true);
END $install$;
