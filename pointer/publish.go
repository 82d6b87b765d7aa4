package pointer

import (
	"context"

	"github.com/pawlhq/pawl/publish"
)

const publishSQL = `SELECT pawl.publish_within(pawl.publish($1, $2, $3, $4, nullif($5, ''), $6, $7::jsonb, $8, $9, $10, $11, $12, $13::text[], $14, nullif($15::bigint, 0), $16),
	nullif($17::bigint, 0), nullif($18::bigint, 0))`

// Publish flips the pointer; see migrations 00005, 00008 and 00022.
func (s *Store) Publish(ctx context.Context, req publish.PublishRequest) (publish.Receipt, error) {
	metadata, err := jsonObject(req.Metadata)
	if err != nil {
		return publish.Receipt{}, err
	}
	matchToken, matchRevision := versionOrNull(req.IfMatch)
	expected, err := publish.ExpandExpect(req.Expect)
	if err != nil {
		return publish.Receipt{}, err
	}
	var manifest []byte
	if req.ManifestDigest != nil {
		manifest = req.ManifestDigest[:]
	}
	answer, err := s.change(ctx, publishSQL, string(req.Grant.Key), int64(req.Grant.Token), secret(req.Grant.LeaseID),
		req.Final, string(req.Primary), req.SourceRevision, metadata, manifest, req.Release,
		matchToken, matchRevision, req.IfNoneMatch, expected, req.AllowEmpty, int64(req.ReuseFrom), req.ReuseStale,
		s.limits.Files, s.limits.Bytes)
	if err != nil {
		return publish.Receipt{}, err
	}
	return *answer.Receipt, nil
}
