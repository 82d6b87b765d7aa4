package pointer

import (
	"context"

	"github.com/pawlhq/pawl/publish"
)

const listSQL = `
SELECT jsonb_agg(jsonb_build_object('name', n.name, 'pointer', (
	SELECT pawl.pointer_json(k, g, r) || jsonb_strip_nulls(jsonb_build_object('pinned', pawl.pin_json(k.id)))
	FROM pawl.keys k
	JOIN pawl.receipts r ON r.key_id = k.id AND r.token = k.current_token AND r.revision = k.current_revision
	JOIN pawl.generations g ON g.key_id = k.id AND g.token = k.current_token
	WHERE k.name = n.name AND NOT n.is_prefix)) ORDER BY n.name COLLATE "C")
FROM pawl.list_names($1, $2, $3, $4, $5, $6) n`

// List returns one page of pointers and sub-prefixes.
func (s *Store) List(ctx context.Context, req publish.ListRequest) (publish.ListPage, error) {
	var entries []struct {
		Name    string           `json:"name"`
		Pointer *publish.Pointer `json:"pointer"`
	}
	from, to := ranges(req.Reach, req.Prefix)
	// One entry more than the page has tells whether another page follows.
	if _, err := s.read(ctx, &entries, listSQL, from, to, req.Prefix, req.Delimiter != "", req.After, req.Limit+1); err != nil {
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

// generationJSON tells a generation g of a key k. Its rejections are summed up where generation_json leaves some out, which a seek by their index tells; the sums
// are of the newest publish.MaxRefusedCounted.
const generationJSON = `pawl.generation_json(k, g) || pawl.operator_json(g) || pawl.actor_json(g.actor, g.client) || jsonb_build_object('broken', pawl.broken_json(k.id, g.token), 'refused',
	CASE WHEN EXISTS (SELECT FROM pawl.rejections WHERE key_id = k.id AND token = g.token OFFSET 100) THEN (
		SELECT jsonb_agg(pawl.rejection_json(newest, g.holder) || jsonb_build_object('first_at', first_at, 'repeat', requests, 'count', count)
			ORDER BY (newest).last_at DESC)
		FROM (SELECT (array_agg(r::pawl.rejections ORDER BY r.last_at DESC))[1] AS newest, min(r.first_at) AS first_at, sum(r.repeat) AS requests, count(*) AS count
			FROM (SELECT * FROM pawl.rejections WHERE key_id = k.id AND token = g.token ORDER BY last_at DESC LIMIT 1000) r
			GROUP BY r.operation, r.accepted_token, r.granted_token) sums) END)`

// A page ends behind the generation whose receipts fill it: a stream publishes thousands in one. That is told by their revisions.
const historySQL = `
SELECT jsonb_build_object('key', k.name,
	'generations', coalesce((SELECT jsonb_agg(` + generationJSON + ` ORDER BY (g).token DESC)
		FROM (SELECT * FROM pawl.generations WHERE key_id = k.id AND token >= page.last AND token < coalesce(nullif($2::bigint, 0), 9007199254740992)
			ORDER BY token DESC LIMIT $3) g), '[]'),
	'more', EXISTS (SELECT FROM pawl.generations WHERE key_id = k.id AND token < page.last),
	'pinned', pawl.pin_json(k.id), 'retired', (SELECT pawl.retired(k, g) #> '{refused,retired}' FROM pawl.generations g
		WHERE g.key_id = k.id AND g.token = k.fence),
	'lost', CASE WHEN $2::bigint = 0 THEN (SELECT jsonb_agg(pawl.rejection_json(r, NULL) ORDER BY (r).last_at DESC)
		FROM (SELECT * FROM pawl.rejections WHERE key_id = k.id AND lost ORDER BY last_at DESC LIMIT 100) r) END)
FROM pawl.keys k
CROSS JOIN LATERAL (SELECT min(token)::bigint AS last FROM (
	SELECT token, sum(least(revision, 100)) OVER (ORDER BY token DESC) - least(revision, 100) AS receipts
	FROM (SELECT token, revision FROM pawl.generations WHERE key_id = k.id AND token < coalesce(nullif($2::bigint, 0), 9007199254740992)
		ORDER BY token DESC LIMIT $3) g) g WHERE receipts < $4) page
WHERE k.name = $1`

// History returns one page of a key's generations, newest first.
func (s *Store) History(ctx context.Context, key publish.Key, before publish.Token, limit int) (publish.HistoryPage, error) {
	var answer struct {
		publish.HistoryPage
		More bool `json:"more"`
	}
	found, err := s.read(ctx, &answer, historySQL, string(key), int64(before), limit+1, publish.HistoryReceipts)
	if err == nil && !found {
		err = &publish.Error{Code: publish.ErrNotFound, Key: key}
	}
	if err != nil {
		return publish.HistoryPage{}, err
	}
	page := answer.HistoryPage
	if len(page.Generations) > limit {
		page.Generations, answer.More = page.Generations[:limit], true
	}
	if answer.More {
		page.Next = page.Generations[len(page.Generations)-1].Token
	}
	return page, nil
}

const generationSQL = `
SELECT ` + generationJSON + `
FROM pawl.keys k JOIN pawl.generations g ON g.key_id = k.id AND g.token = $2
WHERE k.name = $1`

// Generation returns one generation.
func (s *Store) Generation(ctx context.Context, key publish.Key, token publish.Token) (publish.Generation, error) {
	var g publish.Generation
	found, err := s.read(ctx, &g, generationSQL, string(key), int64(token))
	if err == nil && !found {
		err = &publish.Error{Code: publish.ErrNotFound, Key: key, Token: token}
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
		return publish.FilePage{}, &publish.Error{Code: publish.ErrNotFound, Key: key, Token: token}
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
