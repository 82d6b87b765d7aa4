package pointer_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawlhq/pawl/internal/testenv"
	"github.com/pawlhq/pawl/migrations"
	"github.com/pawlhq/pawl/pointer"
	"github.com/pawlhq/pawl/publish"
	"github.com/pawlhq/pawl/publish/publishtest"
)

func TestStoreOnPostgres(t *testing.T) {
	t.Parallel()
	publishtest.TestPointerStore(t, func(t *testing.T) publishtest.PointerHarness {
		return harness(t, testenv.Postgres(t))
	})
}

func TestStoreOnPostgresInDocker(t *testing.T) {
	t.Parallel()
	publishtest.TestPointerStore(t, func(t *testing.T) publishtest.PointerHarness {
		return harness(t, testenv.DockerPostgres(t))
	})
}

// A server's role needs no more than migrations.Grant gives it: the owner of the schema may be somebody else, who isn't known to the servers.
func TestStoreOnPostgresAsItsOwnRole(t *testing.T) {
	t.Parallel()
	publishtest.TestPointerStore(t, func(t *testing.T) publishtest.PointerHarness {
		dsn := testenv.Postgres(t)
		harness := harness(t, dsn)
		harness.Store = openStore(t, granted(t, dsn))
		return harness
	})
}

// granted returns the address of a database for a role with the rights of a server.
func granted(t *testing.T, dsn string) (roleDSN string) {
	t.Helper()
	role, roleDSN := testenv.Role(t, dsn)
	if err := migrations.Grant(context.Background(), dsn, role); err != nil {
		t.Fatal(err)
	}
	return roleDSN
}

// harness moves time and policies by SQL, where the suite asks for it.
func harness(t *testing.T, dsn string) publishtest.PointerHarness {
	t.Helper()
	store := openStore(t, dsn)
	t.Cleanup(func() { checkSums(t, dsn) })
	return publishtest.PointerHarness{
		Store: store,
		Expire: func(t *testing.T, key publish.Key) {
			t.Helper()
			exec1(t, dsn, `WITH c AS (UPDATE pawl.caller_leases SET expires_at = clock_timestamp() - interval '1 ms'
				WHERE key_id = (SELECT id FROM pawl.keys WHERE name = $1))
				UPDATE pawl.keys SET lease_expires_at = clock_timestamp() - interval '1 ms'
				WHERE name = $1 AND lease_expires_at IS NOT NULL`, string(key))
		},
		Limit: func(t *testing.T, limits publish.GenerationLimits) publish.PointerStore {
			t.Helper()
			limited, err := pointer.Open(context.Background(), dsn, pointer.Options{MaxConns: 4, Limits: limits})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(limited.Close)
			return limited
		},
		RaiseEpoch: func(t *testing.T) {
			t.Helper()
			exec1(t, dsn, `UPDATE pawl.epochs SET lineage = 'of another server' WHERE epoch = (SELECT max(epoch) FROM pawl.epochs)`)
		},
		SetCounter: func(t *testing.T, key publish.Key, counter publish.Token) {
			t.Helper()
			exec1(t, dsn, `UPDATE pawl.keys SET counter = $2 WHERE name = $1`, string(key), int64(counter))
		},
		Age: func(t *testing.T, key publish.Key, by time.Duration) {
			t.Helper()
			exec1(t, dsn, `UPDATE pawl.files SET started_at = started_at - $2::interval, alive_at = alive_at - $2::interval,
				ended_at = ended_at - $2::interval, swept_at = swept_at - $2::interval
				WHERE key_id = (SELECT id FROM pawl.keys WHERE name = $1)`, string(key), by)
		},
		AgeCredential: func(t *testing.T, id publish.CredentialID, by time.Duration) {
			t.Helper()
			exec1(t, dsn, `UPDATE pawl.credentials SET created_at = created_at - $2::interval, expires_at = expires_at - $2::interval,
				last_used_at = last_used_at - $2::interval WHERE id = $1`, string(id), by)
		},
		AgeSession: func(t *testing.T, hash publish.Digest, by time.Duration) {
			t.Helper()
			exec1(t, dsn, `UPDATE pawl.sessions SET created_at = created_at - $2::interval, seen_at = seen_at - $2::interval, ends_at = ends_at - $2::interval
				WHERE hash = $1`, hash[:], by)
		},
		Antedate: func(t *testing.T, key publish.Key, by time.Duration) {
			t.Helper()
			antedate(t, dsn, string(key), by)
		},
		Condemn: func(t *testing.T, key publish.Key, token publish.Token) {
			t.Helper()
			exec1(t, dsn, `UPDATE pawl.generations SET state = 'condemned'
				WHERE key_id = (SELECT id FROM pawl.keys WHERE name = $1) AND token = $2`, string(key), int64(token))
		},
	}
}

// antedate lets time pass for the generations of a key.
func antedate(t *testing.T, dsn, key string, by time.Duration) {
	t.Helper()
	conn, err := pgx.Connect(context.Background(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background()) //nolint:errcheck // It has done its work.
	for _, sql := range []string{
		`UPDATE pawl.generations SET granted_at = granted_at - $2::interval, collected_at = collected_at - $2::interval, empty_at = empty_at - $2::interval`,
		`UPDATE pawl.receipts SET published_at = published_at - $2::interval`,
		`UPDATE pawl.files SET started_at = started_at - $2::interval, alive_at = alive_at - $2::interval,
			ended_at = ended_at - $2::interval, swept_at = swept_at - $2::interval`,
	} {
		if _, err := conn.Exec(context.Background(), sql+` WHERE key_id = (SELECT id FROM pawl.keys WHERE name = $1)`, key, by); err != nil {
			t.Fatal(err)
		}
	}
}
