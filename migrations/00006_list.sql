-- Listings that seek: each page costs as many look-ups as it has entries, whatever lies between them.

-- +goose Up

-- list_names returns up to p_limit published keys and sub-prefixes behind p_after, in byte order. With p_delimiter, keys that go on after
-- the next slash show as one sub-prefix, and the search leaps over all of them.
-- +goose StatementBegin
CREATE FUNCTION pawl.list_names(p_prefix text, p_delimiter boolean, p_after text, p_limit integer)
RETURNS TABLE (name text, is_prefix boolean) LANGUAGE plpgsql STABLE AS $$
DECLARE
    -- The search goes on at names from seek on; behind skips seek itself.
    seek   text COLLATE "C" := p_prefix;
    behind boolean := false;
    found_name text COLLATE "C";
    cut    integer;
BEGIN
    IF p_after <> '' AND p_after >= p_prefix COLLATE "C" THEN
        seek := p_after;
        behind := true;
        IF p_delimiter AND right(p_after, 1) = '/' THEN
            seek := left(p_after, -1) || '0'; -- '0' is the byte after '/'.
            behind := false;
        END IF;
    END IF;
    FOR n IN 1 .. p_limit LOOP
        IF behind THEN
            SELECT k.name INTO found_name FROM pawl.keys k WHERE k.published AND k.name > seek ORDER BY k.name LIMIT 1;
        ELSE
            SELECT k.name INTO found_name FROM pawl.keys k WHERE k.published AND k.name >= seek ORDER BY k.name LIMIT 1;
        END IF;
        EXIT WHEN found_name IS NULL OR NOT starts_with(found_name, p_prefix);
        cut := CASE WHEN p_delimiter THEN position('/' IN substr(found_name, length(p_prefix) + 1)) ELSE 0 END;
        is_prefix := cut > 0;
        IF is_prefix THEN
            name := left(found_name, length(p_prefix) + cut);
            seek := left(name, -1) || '0';
        ELSE
            name := found_name;
            seek := found_name;
        END IF;
        behind := NOT is_prefix;
        RETURN NEXT;
    END LOOP;
END $$;
-- +goose StatementEnd

-- +goose Down
DROP FUNCTION pawl.list_names;
