package pointer

import (
	"context"

	"github.com/pawlhq/pawl/publish"
)

const rollbackSQL = `
SELECT coalesce(pawl.unless_moved($1, $2, 'rollback', $9, $10, $11, $5, $6),
	pawl.unless_reused(pawl.rollback($1, $2, $3, nullif($4::bigint, 0), $5, $6, pawl.may_break($1, $7, nullif($12::bigint, 0)), $8),
	$1, $2, 'rollback', $3, nullif($4::bigint, 0), $5, $8))`

// Rollback publishes an earlier version's files again; see migration 00013.
func (s *Store) Rollback(ctx context.Context, req publish.RollbackRequest) (publish.Receipt, error) {
	if err := s.checkSynchronous(ctx); err != nil {
		return publish.Receipt{}, err
	}
	token, revision := versionOrNull(req.Current)
	answer, err := s.change(ctx, rollbackSQL, string(req.Key), secret(req.RequestID), int64(req.To.Token), req.To.Revision,
		req.Reason, string(req.By), req.BreakLease, req.Pin, token, revision, pinnedOrNull(req.PinnedAt), int64(req.Lease))
	if err != nil {
		return publish.Receipt{}, err
	}
	return *answer.Receipt, nil
}

const retireSQL = `
SELECT coalesce(pawl.unless_moved($1, $2, 'retire', $6, $7, NULL, NULL, NULL),
	pawl.unless_reused(pawl.retire($1, $2, $3, $4, pawl.may_break($1, $5, nullif($8::bigint, 0))), $1, $2, 'retire', NULL, NULL, $3, NULL))`

// Retire takes a key's pointer away.
func (s *Store) Retire(ctx context.Context, req publish.RetireRequest) (publish.Retirement, error) {
	if err := s.checkSynchronous(ctx); err != nil {
		return publish.Retirement{}, err
	}
	token, revision := versionOrNull(req.Current)
	answer, err := s.change(ctx, retireSQL, string(req.Key), secret(req.RequestID), req.Reason, string(req.By), req.BreakLease, token, revision, int64(req.Lease))
	if err != nil {
		return publish.Retirement{}, err
	}
	return *answer.Retired, nil
}

const pinSQL = `SELECT coalesce(pawl.unless_moved($1, NULL, 'pin', $4, $5, $6, $2, $3), pawl.pin($1, $2, $3, nullif($4::bigint, 0), $5))`

// Pin keeps a key's pointer where it is.
func (s *Store) Pin(ctx context.Context, req publish.PinRequest) (publish.PinnedKey, error) {
	token, revision := versionOrNull(req.Current)
	answer, err := s.change(ctx, pinSQL, string(req.Key), req.Reason, string(req.By), token, revision, pinnedOrNull(req.PinnedAt))
	if err != nil {
		return publish.PinnedKey{}, err
	}
	return *answer.Pin, nil
}

const unpinSQL = `SELECT coalesce(pawl.unless_moved($1, NULL, 'unpin', NULL, NULL, $3, NULL, NULL), pawl.unpin($1, $2))`

// Unpin lets a key's pointer move again.
func (s *Store) Unpin(ctx context.Context, req publish.UnpinRequest) error {
	_, err := s.change(ctx, unpinSQL, string(req.Key), string(req.By), pinnedOrNull(req.PinnedAt))
	return err
}

const breakLeaseSQL = `SELECT pawl.break_lease($1, $2, $3, $4)`

// BreakLease ends the lease of one grant; see migration 00018.
func (s *Store) BreakLease(ctx context.Context, req publish.BreakLeaseRequest) (publish.BrokenLease, error) {
	answer, err := s.change(ctx, breakLeaseSQL, string(req.Key), int64(req.Token), req.Reason, string(req.By))
	if err != nil {
		return publish.BrokenLease{}, err
	}
	return *answer.Broken, nil
}

func versionOrNull(version *publish.Version) (token, revision *int64) {
	if version == nil {
		return nil, nil
	}
	t := int64(version.Token)
	return &t, &version.Revision
}

// pinnedOrNull writes the time of a pin as the API does; "" is that of none.
func pinnedOrNull(at *publish.Time) *string {
	if at == nil {
		return nil
	}
	return new(at.Text())
}
