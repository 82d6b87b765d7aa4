package pointer

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/pawlhq/pawl/publish"
)

const acquireSQL = `
SELECT pawl.with_caller(pawl.with_break(pawl.unless_collected(coalesce(pawl.check_ttl($1, $4),
	pawl.acquire_as($1, $2, $3, $4, $5::jsonb, nullif($6, ''), nullif($7::bigint, 0))), 'acquire', $1, $2), $1, $2), $1, nullif($6, ''))`

// Acquire grants a key: one update of one row, after its lock; see migrations 00003, 00026 and 00027.
func (s *Store) Acquire(ctx context.Context, req publish.AcquireRequest) (publish.Lease, error) {
	if err := s.checkSynchronous(ctx); err != nil {
		return publish.Lease{}, err
	}
	labels, err := jsonObject(req.Labels)
	if err != nil {
		return publish.Lease{}, err
	}
	answer, err := s.change(ctx, acquireSQL, string(req.Key), secret(req.LeaseID), req.Holder, req.TTL.Milliseconds(), labels,
		string(publish.CallerOf(ctx).Credential), req.MaxLeases)
	if err != nil {
		return publish.Lease{}, err
	}
	answer.Lease.LeaseID = req.LeaseID
	return *answer.Lease, nil
}

const renewSQL = `SELECT pawl.with_renewal(pawl.unless_collected(coalesce(pawl.check_ttl($1, $3), pawl.renew($1, $2, $3)), 'renew', $1, $2), $1)`

// Renew extends a lease.
func (s *Store) Renew(ctx context.Context, key publish.Key, id publish.LeaseID, ttl time.Duration) (publish.Lease, error) {
	var millis *int64
	if ttl != 0 {
		n := ttl.Milliseconds()
		millis = &n
	}
	answer, err := s.change(ctx, renewSQL, string(key), secret(id), millis)
	if err != nil {
		return publish.Lease{}, err
	}
	answer.Lease.LeaseID = id
	return *answer.Lease, nil
}

const releaseSQL = `SELECT pawl.release($1, $2)`

// Release gives a lease back.
func (s *Store) Release(ctx context.Context, key publish.Key, id publish.LeaseID) error {
	_, err := s.change(ctx, releaseSQL, string(key), secret(id))
	return err
}

const leaseSQL = `
SELECT pawl.lease_json(k, g, clock_timestamp(), false) -> 'lease'
FROM pawl.keys k JOIN pawl.generations g ON g.key_id = k.id AND g.token = k.counter
WHERE k.name = $1`

// Lease tells the newest grant of a key.
func (s *Store) Lease(ctx context.Context, key publish.Key) (publish.Lease, error) {
	var lease publish.Lease
	found, err := s.read(ctx, &lease, leaseSQL, string(key))
	if err == nil && !found {
		err = &publish.Error{Code: publish.ErrNotFound, Key: key}
	}
	return lease, err
}

const opensSQL = `
SELECT jsonb_build_object('granted', true, 'caller', coalesce(g.caller, ''), 'open', g.state = 'open' AND g.token >= k.fence AND NOT pawl.fenced_by_grant(k, g.token))
FROM pawl.keys k JOIN pawl.generations g ON g.key_id = k.id AND g.token = $2
WHERE k.name = $1 AND g.lease_sha256 = $3 AND NOT pawl.credential_revoked(g.caller)`

// Opens tells what a lease id is good for by itself.
func (s *Store) Opens(ctx context.Context, grant publish.Grant) (publish.Opening, error) {
	var opening publish.Opening
	_, err := s.read(ctx, &opening, opensSQL, string(grant.Key), int64(grant.Token), secret(grant.LeaseID))
	return opening, err
}

// secret gives what Postgres keeps of a lease id.
func secret(id publish.LeaseID) []byte {
	sum := id.SHA256()
	return sum[:]
}

// jsonObject writes names and values as JSON text, which every mode of the driver can send.
func jsonObject(values map[string]string) (string, error) {
	if values == nil {
		return "{}", nil
	}
	text, err := json.Marshal(values)
	if err != nil {
		return "", fmt.Errorf("writing names and values: %w", err)
	}
	return string(text), nil
}
