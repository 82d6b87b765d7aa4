package pointer_test

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/pawlhq/pawl/publish"
)

// After an epoch was raised, tokens of the lost history can be made up by the million. They leave 100 rows a key, also
// when many requests are at it at once, and none of them waits for another or fails.
func TestLostRowsAreBounded(t *testing.T) {
	t.Parallel()
	store, dsn := newStore(t)
	known := grant(t, store, "k", "a")
	exec1(t, dsn, `UPDATE pawl.epochs SET lineage = 'of another server' WHERE epoch = (SELECT max(epoch) FROM pawl.epochs)`)
	other := grant(t, store, "other", "a") // It raises the epoch.
	forge := func(key publish.Key, token publish.Token, path publish.Path) {
		forged := publish.Grant{Key: key, Token: token, LeaseID: publish.NewLeaseID()}
		_, err := store.BeginUpload(context.Background(), publish.BeginUploadRequest{Grant: forged, Path: path})
		if !errors.Is(err, publish.ErrStaleToken) {
			t.Errorf("token %d: %v", token, err)
		}
	}
	const side, each = 8, 60
	var group sync.WaitGroup
	for i := range side {
		group.Go(func() {
			for j := range each {
				forge("k", publish.Token(2+j), publish.Path(string(rune('a'+i)))) // one token by many paths, too
			}
		})
	}
	group.Wait()
	forge("other", other.lease.Token-1, "f")
	forge("k", 1_000, "f")
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx) //nolint:errcheck // The test is over.
	var ofKey, ofOther, newest int
	const count = `SELECT count(*) FILTER (WHERE k.name = 'k'), count(*) FILTER (WHERE k.name = 'other'), count(*) FILTER (WHERE r.token = 1000)
		FROM pawl.rejections r JOIN pawl.keys k ON k.id = r.key_id`
	if err := conn.QueryRow(ctx, count).Scan(&ofKey, &ofOther, &newest); err != nil || ofKey != 100 || ofOther != 1 || newest != 1 {
		t.Errorf("%d rows of the key, %d of the other, %d of the newest token, %v; want 100, 1 and 1", ofKey, ofOther, newest, err)
	}
	// The records of grants that are known are their holders' own, and stay.
	if err := known.upload(store, "out"); err != nil {
		t.Error(err)
	}
}
