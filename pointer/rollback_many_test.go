package pointer_test

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawlhq/pawl/publish"
)

// A set of 100,000 files is brought back by reference, in one transaction that ends well within the time of a call.
// It isn't parallel: it is about time.
func TestRollbackOfManyFiles(t *testing.T) {
	const files = 100_000
	store, dsn := newStore(t)
	ctx := t.Context()
	id := publish.NewLeaseID()
	lease, err := store.Acquire(ctx, publish.AcquireRequest{Key: raceKey, Holder: "A", TTL: time.Hour, LeaseID: id})
	if err != nil {
		t.Fatal(err)
	}
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx) //nolint:errcheck // The test is over.
	if _, err := conn.Exec(ctx, `INSERT INTO pawl.files (key_id, token, path, upload_id, state, size, sha256, content_type, from_revision, ended_at)
		SELECT k.id, 1, 'frames/beauty.' || n || '.exr', decode(md5(n::text), 'hex'), 'stored', n, sha256(n::text::bytea), 'image/x-exr', 1, clock_timestamp()
		FROM pawl.keys k, generate_series(1, $1) n`, files); err != nil {
		t.Fatal(err)
	}
	grant := publish.Grant{Key: raceKey, Token: lease.Token, LeaseID: id}
	first, err := store.Publish(ctx, publish.PublishRequest{Grant: grant, Final: true, Release: true})
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	receipt, err := store.Rollback(ctx, publish.RollbackRequest{
		Key: raceKey, To: publish.Version{Token: lease.Token}, Reason: "r", By: "ops", RequestID: publish.NewLeaseID(),
	})
	took := time.Since(began)
	t.Logf("rolled %d files back in %v", files, took)
	if err != nil || receipt.ManifestDigest != first.ManifestDigest || receipt.Files != files || receipt.ReusedFiles != files {
		t.Fatalf("rolled back: %+v, %v", receipt, err)
	}
}
