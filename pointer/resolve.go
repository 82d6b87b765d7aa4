package pointer

import (
	"context"

	"github.com/pawlhq/pawl/publish"
)

// One statement sees one snapshot, whatever is published while it runs.
const resolveSQL = `
SELECT coalesce(jsonb_agg(jsonb_build_object('key', asked.name) || coalesce((
	SELECT CASE WHEN k.published THEN jsonb_build_object('found', true, 'token', r.token, 'revision', r.revision,
		'manifest_digest', encode(r.manifest_digest, 'hex'), 'final', r.final, 'primary', coalesce(r.primary_path, ''))
		ELSE jsonb_build_object('retired', k.fence > 0) END
	FROM pawl.keys k
	LEFT JOIN pawl.receipts r ON r.key_id = k.id AND r.token = k.current_token AND r.revision = k.current_revision
	WHERE k.name = asked.name), '{}') ORDER BY asked.place), '[]')
FROM unnest($1::text[]) WITH ORDINALITY asked (name, place)`

// Resolve looks many keys up at one snapshot.
func (s *Store) Resolve(ctx context.Context, keys []publish.Key) ([]publish.Resolved, error) {
	names := make([]string, len(keys))
	for i, key := range keys {
		names[i] = string(key)
	}
	var resolved []publish.Resolved
	_, err := s.read(ctx, &resolved, resolveSQL, names)
	return resolved, err
}
