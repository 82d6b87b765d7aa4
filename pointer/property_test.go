package pointer_test

import (
	"testing"

	"github.com/pawlhq/pawl/internal/testenv"
	"github.com/pawlhq/pawl/publish"
	"github.com/pawlhq/pawl/publish/publishtest"
)

// Random interleavings of workers over three replicas on one Postgres.
func TestRandomWorkersOnPostgres(t *testing.T) {
	t.Parallel()
	dsn := testenv.Postgres(t)
	expire := func(key publish.Key) {
		exec1(t, dsn, `UPDATE pawl.keys SET lease_expires_at = clock_timestamp() - interval '1 ms'
			WHERE name = $1 AND lease_expires_at IS NOT NULL`, string(key))
	}
	publishtest.PropertyTest(t, func(t *testing.T) []publish.PointerStore {
		return []publish.PointerStore{openStore(t, dsn), openStore(t, dsn), openStore(t, dsn)}
	}, publishtest.NewBlobs(), expire)
}
