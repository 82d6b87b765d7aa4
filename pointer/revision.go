package pointer

import (
	"context"

	"github.com/pawlhq/pawl/publish"
)

const fileAtSQL = `
SELECT jsonb_build_object('file', pawl.file_json(f), 'token', g.token, 'upload_id', encode(f.upload_id, 'hex'),
	'object_token', coalesce(f.object_token, g.token), 'state', g.state, 'published', true, 'revision', g.revision)
FROM pawl.keys k
JOIN pawl.generations g ON g.key_id = k.id AND g.token = $2
LEFT JOIN LATERAL (
	SELECT * FROM pawl.files f
	WHERE f.key_id = k.id AND f.token = $2 AND f.path = $3 AND f.state = 'stored' AND f.from_revision <= $4
	ORDER BY f.from_revision DESC LIMIT 1
	) f ON coalesce(f.until_revision >= $4, true)
WHERE k.name = $1`

// FileAt finds a file of a published revision.
func (s *Store) FileAt(ctx context.Context, key publish.Key, version publish.Version, path publish.Path) (publish.StoredFile, error) {
	var f foundFile
	found, err := s.read(ctx, &f, fileAtSQL, string(key), int64(version.Token), string(path), version.Revision)
	if err == nil {
		err = unknownRevision(key, version, found, f.State, f.Revision)
	}
	if err != nil {
		return publish.StoredFile{}, err
	}
	file, err := f.stored(key, path)
	file.Sealed = err == nil
	return file, err
}

const filesAtSQL = `
SELECT jsonb_build_object('state', g.state, 'revision', g.revision, 'files', coalesce((SELECT jsonb_agg(pawl.file_json(f) ORDER BY (f).path)
	FROM (SELECT * FROM pawl.files f
		WHERE f.key_id = k.id AND f.token = $2 AND f.path > $3 AND f.state = 'stored' AND f.from_revision <= $5
			AND (f.until_revision IS NULL OR f.until_revision >= $5)
		ORDER BY path LIMIT $4) f), '[]'))
FROM pawl.keys k JOIN pawl.generations g ON g.key_id = k.id AND g.token = $2
WHERE k.name = $1`

// FilesAt returns one page of the files of a published revision.
func (s *Store) FilesAt(ctx context.Context, key publish.Key, version publish.Version, after publish.Path, limit int) (publish.FilePage, error) {
	var page struct {
		publish.FilePage
		State    publish.State `json:"state"`
		Revision int64         `json:"revision"`
	}
	found, err := s.read(ctx, &page, filesAtSQL, string(key), int64(version.Token), string(after), limit+1, version.Revision)
	if err == nil {
		err = unknownRevision(key, version, found, page.State, page.Revision)
	}
	if err != nil {
		return publish.FilePage{}, err
	}
	return cutPage(page.FilePage, limit), nil
}

// unknownRevision is why a revision can't be read, or nil. newest is the last one that the generation has published.
func unknownRevision(key publish.Key, version publish.Version, found bool, state publish.State, newest int64) error {
	switch {
	case !found:
		return &publish.Error{Code: publish.ErrNotFound, Key: key, Token: version.Token}
	case state == publish.StateCondemned || state == publish.StateCollected:
		return &publish.Error{Code: publish.ErrGenerationCollected, Key: key, Token: version.Token}
	case version.Revision < 1 || version.Revision > newest:
		return &publish.Error{Code: publish.ErrNotFound, Key: key, Token: version.Token, Revision: version.Revision}
	}
	return nil
}
