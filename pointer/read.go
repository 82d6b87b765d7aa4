package pointer

import (
	"context"
	"encoding/hex"
	"fmt"

	"github.com/pawlhq/pawl/publish"
)

// The generation of the fence is the current one, or that of the retirement.
const pointerSQL = `
SELECT coalesce(pawl.retired(k, g), pawl.pointer_json(k, g, r) || jsonb_strip_nulls(jsonb_build_object('pinned', pawl.pin_json(k.id))))
FROM pawl.keys k
JOIN pawl.generations g ON g.key_id = k.id AND g.token = k.fence
LEFT JOIN pawl.receipts r ON r.key_id = k.id AND r.token = k.current_token AND r.revision = k.current_revision
WHERE k.name = $1`

// Pointer returns what a key resolves to.
func (s *Store) Pointer(ctx context.Context, key publish.Key) (publish.Pointer, error) {
	var p struct {
		publish.Pointer
		Refused *publish.Error `json:"refused"`
	}
	found, err := s.read(ctx, &p, pointerSQL, string(key))
	return p.Pointer, noPointer(key, found, p.Refused, err)
}

// noPointer is why a key's current version can't be read, or nil.
func noPointer(key publish.Key, found bool, refused *publish.Error, err error) error {
	switch {
	case err != nil:
		return err
	case !found:
		return &publish.Error{Code: publish.ErrNotFound, Key: key}
	case refused != nil:
		return refused
	}
	return nil
}

// foundFile is a row of pawl.files with what its generation says.
type foundFile struct {
	File     *publish.File `json:"file"`
	Token    publish.Token `json:"token"`
	UploadID string        `json:"upload_id"`
	// ObjectToken is the token under which the bytes were uploaded: another one for a file that was carried over.
	ObjectToken publish.Token `json:"object_token"`
	State       publish.State `json:"state"`
	Published   bool          `json:"published"`
	// Revision is the last one that the generation has published, where that was asked for.
	Revision int64 `json:"revision"`
	// Paths are those of a set without a primary file.
	Paths []publish.Path `json:"paths"`
	// Refused is why there is none, where that is more than not-found.
	Refused *publish.Error `json:"refused"`
}

func (f foundFile) stored(key publish.Key, path publish.Path) (publish.StoredFile, error) {
	switch {
	case f.State == publish.StateCondemned || f.State == publish.StateCollected:
		return publish.StoredFile{}, &publish.Error{Code: publish.ErrGenerationCollected, Key: key, Token: f.Token}
	case f.File == nil && f.Paths != nil:
		return publish.StoredFile{}, &publish.Error{
			Code: publish.ErrNotFound, Key: key, Token: f.Token, Paths: f.Paths,
			Detail: "the set has no primary file; name one of its paths",
		}
	case f.File == nil:
		return publish.StoredFile{}, &publish.Error{Code: publish.ErrNotFound, Key: key, Token: f.Token, Path: path}
	}
	upload := publish.Upload{Grant: publish.Grant{Key: key, Token: f.ObjectToken}, Path: f.File.Path}
	if n, err := hex.Decode(upload.ID[:], []byte(f.UploadID)); err != nil || n != len(upload.ID) {
		return publish.StoredFile{}, fmt.Errorf("reading the id of the upload of %s: %q", f.File.Path, f.UploadID)
	}
	return publish.StoredFile{
		File: *f.File, Token: f.Token, Object: upload.Object(),
		Sealed: f.State == publish.StateSealed, Published: f.Published,
	}, nil
}

const currentFileSQL = `
SELECT coalesce(pawl.retired(k, g), jsonb_build_object('file', pawl.file_json(f), 'token', g.token, 'upload_id', encode(f.upload_id, 'hex'),
	'object_token', coalesce(f.object_token, g.token), 'state', g.state, 'published', true,
	'paths', CASE WHEN f.path IS NULL AND $2 = '' THEN (
		SELECT jsonb_agg(path ORDER BY path) FROM (SELECT path FROM pawl.files_of(g) ORDER BY path LIMIT 1000) set_paths) END))
FROM pawl.keys k
JOIN pawl.generations g ON g.key_id = k.id AND g.token = k.fence
LEFT JOIN pawl.receipts r ON r.key_id = k.id AND r.token = k.current_token AND r.revision = k.current_revision
LEFT JOIN LATERAL (
	SELECT * FROM pawl.files f
	WHERE f.key_id = k.id AND f.token = k.current_token AND f.path = coalesce(nullif($2, ''), r.primary_path)
		AND f.state = 'stored' AND f.from_revision <= k.current_revision
	ORDER BY f.from_revision DESC LIMIT 1
	) f ON coalesce(f.until_revision >= k.current_revision, true)
WHERE k.name = $1`

// CurrentFile finds a file of the current version.
func (s *Store) CurrentFile(ctx context.Context, key publish.Key, path publish.Path) (publish.StoredFile, error) {
	var f foundFile
	found, err := s.read(ctx, &f, currentFileSQL, string(key), string(path))
	if err := noPointer(key, found, f.Refused, err); err != nil {
		return publish.StoredFile{}, err
	}
	return f.stored(key, path)
}

const fileSQL = `
SELECT jsonb_build_object('file', pawl.file_json(f), 'token', g.token, 'upload_id', encode(f.upload_id, 'hex'),
	'object_token', coalesce(f.object_token, g.token), 'state', g.state, 'published', f.from_revision <= g.revision)
FROM pawl.keys k
JOIN pawl.generations g ON g.key_id = k.id AND g.token = $2
LEFT JOIN LATERAL (
	-- The set that would be published next, for its publisher; else the latest that was.
	SELECT * FROM pawl.files f
	WHERE f.key_id = k.id AND f.token = $2 AND f.path = $3 AND f.state = 'stored'
		AND (g.lease_sha256 = $4 OR f.from_revision <= g.revision)
	ORDER BY f.from_revision DESC LIMIT 1
	) f ON CASE WHEN g.lease_sha256 = $4 THEN f.until_revision IS NULL
		ELSE coalesce(f.until_revision >= g.revision, true) END
WHERE k.name = $1`

// File finds a file of a generation.
func (s *Store) File(ctx context.Context, key publish.Key, token publish.Token, path publish.Path, id publish.LeaseID) (publish.StoredFile, error) {
	var lease []byte
	if !id.IsZero() {
		lease = secret(id)
	}
	var f foundFile
	found, err := s.read(ctx, &f, fileSQL, string(key), int64(token), string(path), lease)
	if err == nil && !found {
		err = &publish.Error{Code: publish.ErrNotFound, Key: key, Token: token}
	}
	if err != nil {
		return publish.StoredFile{}, err
	}
	return f.stored(key, path)
}
