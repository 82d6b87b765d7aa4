package pointer

import (
	"context"

	"github.com/pawlhq/pawl/publish"
)

const listSQL = `
SELECT jsonb_agg(jsonb_build_object('name', n.name, 'pointer', (
	SELECT pawl.pointer_json(k, g, r)
	FROM pawl.keys k
	JOIN pawl.receipts r ON r.key_id = k.id AND r.token = k.current_token AND r.revision = k.current_revision
	JOIN pawl.generations g ON g.key_id = k.id AND g.token = k.current_token
	WHERE k.name = n.name AND NOT n.is_prefix)) ORDER BY n.name COLLATE "C")
FROM pawl.list_names($1, $2, $3, $4) n`

// List returns one page of pointers and sub-prefixes.
func (s *Store) List(ctx context.Context, req publish.ListRequest) (publish.ListPage, error) {
	var entries []struct {
		Name    string           `json:"name"`
		Pointer *publish.Pointer `json:"pointer"`
	}
	// One entry more than the page has tells whether another page follows.
	if _, err := s.read(ctx, &entries, listSQL, req.Prefix, req.Delimiter != "", req.After, req.Limit+1); err != nil {
		return publish.ListPage{}, err
	}
	page := publish.ListPage{Keys: []publish.Pointer{}, Prefixes: []string{}}
	if len(entries) > req.Limit {
		entries = entries[:req.Limit]
		page.Next = entries[req.Limit-1].Name
	}
	for _, e := range entries {
		if e.Pointer != nil {
			page.Keys = append(page.Keys, *e.Pointer)
		} else {
			page.Prefixes = append(page.Prefixes, e.Name)
		}
	}
	return page, nil
}

const historySQL = `
SELECT jsonb_build_object('key', k.name,
	'generations', coalesce((SELECT jsonb_agg(pawl.generation_json(k, g) ORDER BY (g).token DESC)
		FROM (SELECT * FROM pawl.generations WHERE key_id = k.id AND ($2 = 0 OR token < $2)
			ORDER BY token DESC LIMIT $3) g), '[]'),
	'lost', CASE WHEN $2 = 0 THEN (SELECT jsonb_agg(pawl.rejection_json(r, NULL) ORDER BY (r).last_at DESC)
		FROM (SELECT * FROM pawl.rejections WHERE key_id = k.id AND lost ORDER BY last_at DESC LIMIT 100) r) END)
FROM pawl.keys k
WHERE k.name = $1`

// History returns one page of a key's generations, newest first.
func (s *Store) History(ctx context.Context, key publish.Key, before publish.Token, limit int) (publish.HistoryPage, error) {
	var page publish.HistoryPage
	found, err := s.read(ctx, &page, historySQL, string(key), int64(before), limit+1)
	if err == nil && !found {
		err = &publish.Error{Code: publish.ErrNotFound, Key: key}
	}
	if err != nil {
		return publish.HistoryPage{}, err
	}
	if len(page.Generations) > limit {
		page.Generations = page.Generations[:limit]
		page.Next = page.Generations[limit-1].Token
	}
	return page, nil
}

const generationSQL = `
SELECT pawl.generation_json(k, g)
FROM pawl.keys k JOIN pawl.generations g ON g.key_id = k.id AND g.token = $2
WHERE k.name = $1`

// Generation returns one generation.
func (s *Store) Generation(ctx context.Context, key publish.Key, token publish.Token) (publish.Generation, error) {
	var g publish.Generation
	found, err := s.read(ctx, &g, generationSQL, string(key), int64(token))
	if err == nil && !found {
		err = &publish.Error{Code: publish.ErrNotFound, Key: key, Token: token, Detail: "there is no such generation"}
	}
	return g, err
}

const filesSQL = `
SELECT jsonb_build_object('state', g.state, 'files', coalesce((SELECT jsonb_agg(pawl.file_json(f) ORDER BY (f).path)
	FROM (SELECT * FROM pawl.files_of(g) WHERE path > $3 ORDER BY path LIMIT $4) f), '[]'))
FROM pawl.keys k JOIN pawl.generations g ON g.key_id = k.id AND g.token = $2
WHERE k.name = $1`

// Files returns one page of a generation's published files.
func (s *Store) Files(ctx context.Context, key publish.Key, token publish.Token, after publish.Path, limit int) (publish.FilePage, error) {
	var page struct {
		publish.FilePage
		State publish.State `json:"state"`
	}
	found, err := s.read(ctx, &page, filesSQL, string(key), int64(token), string(after), limit+1)
	switch {
	case err != nil:
		return publish.FilePage{}, err
	case !found:
		return publish.FilePage{}, &publish.Error{Code: publish.ErrNotFound, Key: key, Token: token, Detail: "there is no such generation"}
	case page.State == publish.StateCondemned || page.State == publish.StateCollected:
		return publish.FilePage{}, &publish.Error{Code: publish.ErrGenerationCollected, Key: key, Token: token}
	}
	return cutPage(page.FilePage, limit), nil
}

// cutPage makes a page of at most limit files from one that may have one more, which tells that another page follows.
func cutPage(page publish.FilePage, limit int) publish.FilePage {
	if len(page.Files) > limit {
		page.Files = page.Files[:limit]
		page.Next = page.Files[limit-1].Path
	}
	return page
}
