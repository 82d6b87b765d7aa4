package pointer

import (
	"context"

	"github.com/pawlhq/pawl/publish"
)

const effectSQL = `SELECT pawl.effect($1, $2, $3, $4, $5, nullif($6, ''))`

// Effect records that a grant asks for an effect; see migration 00012.
func (s *Store) Effect(ctx context.Context, req publish.EffectRequest) (publish.Effect, error) {
	answer, err := s.change(ctx, effectSQL, string(req.Grant.Key), int64(req.Grant.Token), secret(req.Grant.LeaseID),
		string(req.Name), req.State == publish.EffectDone, req.Result)
	if err != nil {
		return publish.Effect{}, err
	}
	return *answer.Effect, nil
}

const effectsSQL = `
SELECT jsonb_build_object('effects', coalesce((
	SELECT jsonb_agg(pawl.effect_json(k, e) || jsonb_build_object('tokens', (
		SELECT jsonb_agg(jsonb_strip_nulls(jsonb_build_object('token', a.token, 'holder', g.holder,
			'asked_at', a.asked_at, 'done_at', a.done_at)) ORDER BY a.token DESC)
		FROM pawl.effect_tokens a JOIN pawl.generations g ON g.key_id = a.key_id AND g.token = a.token
		WHERE a.key_id = (e).key_id AND a.name = (e).name)) ORDER BY (e).name)
	FROM (SELECT * FROM pawl.effects WHERE key_id = k.id AND name > $2 ORDER BY name LIMIT $3) e), '[]'))
FROM pawl.keys k
WHERE k.name = $1`

// Effects returns one page of a key's effects.
func (s *Store) Effects(ctx context.Context, key publish.Key, after publish.EffectName, limit int) (publish.EffectPage, error) {
	var page publish.EffectPage
	found, err := s.read(ctx, &page, effectsSQL, string(key), string(after), limit+1)
	if err == nil && !found {
		err = &publish.Error{Code: publish.ErrNotFound, Key: key}
	}
	if err != nil {
		return publish.EffectPage{}, err
	}
	if len(page.Effects) > limit {
		page.Effects = page.Effects[:limit]
		page.Next = page.Effects[limit-1].Name
	}
	return page, nil
}
