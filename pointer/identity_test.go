package pointer_test

import (
	"context"
	"errors"
	"path/filepath"
	"sync"
	"testing"

	"github.com/pawlhq/pawl/blobstore"
	"github.com/pawlhq/pawl/internal/testenv"
	"github.com/pawlhq/pawl/pointer"
	"github.com/pawlhq/pawl/publish"
)

// TestReplicasAgreeOnTheirStore starts 8 replicas at once on a new database and a new store, again and again.
func TestReplicasAgreeOnTheirStore(t *testing.T) {
	t.Parallel()
	for kind, fresh := range map[string]func(*testing.T) (string, blobstore.Options){
		"directory": func(t *testing.T) (string, blobstore.Options) {
			return "file://" + filepath.Join(t.TempDir(), "blobs"), blobstore.Options{}
		},
		"s3": func(t *testing.T) (string, blobstore.Options) {
			bucket := testenv.S3Bucket(t)
			return "s3://" + bucket.Bucket + "?path_style=true&endpoint=" + bucket.Endpoint, blobstore.Options{AccessKey: bucket.AccessKey, SecretKey: bucket.SecretKey}
		},
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			store, dsn := newStore(t)
			for round := range 10 {
				if round > 0 {
					exec1(t, dsn, `DELETE FROM pawl.stores`)
				}
				agree(t, store, fresh)
			}
		})
	}
}

func agree(t *testing.T, store *pointer.Store, fresh func(*testing.T) (string, blobstore.Options)) {
	t.Helper()
	address, opts := fresh(t)
	ids := make([]publish.StoreID, 8)
	errs := make([]error, len(ids))
	var all sync.WaitGroup
	for i := range ids {
		all.Go(func() {
			blobs, err := blobstore.Open(context.Background(), address, opts)
			if err != nil {
				errs[i] = err
				return
			}
			defer blobs.Close()
			ids[i], errs[i] = publish.MatchStore(context.Background(), store, blobs)
		})
	}
	all.Wait()
	for i, id := range ids {
		if errs[i] != nil || id != ids[0] || !id.Valid() {
			t.Fatalf("replica %d has store %q, %v; replica 0 has %q", i, id, errs[i], ids[0])
		}
	}
	record, err := store.RecordedStore(t.Context())
	if err != nil || record.ID != ids[0] || !record.Confirmed || record.RecordedAt.IsZero() {
		t.Fatalf("recorded %+v, %v", record, err)
	}
}

func TestStoreRecord(t *testing.T) {
	t.Parallel()
	store, _ := newStore(t)
	ctx := t.Context()
	if record, err := store.RecordedStore(ctx); err != nil || record != (publish.StoreRecord{}) {
		t.Fatalf("in a new database: %+v, %v", record, err)
	}
	first, second := publish.NewStoreID(), publish.NewStoreID()
	for _, id := range []publish.StoreID{first, second} {
		if record, err := store.ProposeStore(ctx, id); err != nil || record.ID != first || record.Confirmed {
			t.Errorf("proposed %s: %+v, %v", id, record, err)
		}
	}
	if err := store.ConfirmStore(ctx, second); !errors.Is(err, publish.ErrUnavailable) {
		t.Errorf("confirmed what isn't recorded: %v", err)
	}
	if err := store.ConfirmStore(ctx, first); err != nil {
		t.Error(err)
	}
	if err := store.AdoptStore(ctx, second); err != nil {
		t.Error(err)
	}
	if record, err := store.ProposeStore(ctx, first); err != nil || record.ID != second || !record.Confirmed {
		t.Errorf("after adopting: %+v, %v", record, err)
	}
	if err := store.AdoptStore(ctx, "nonsense"); err == nil {
		t.Error("an id that is none was recorded")
	}
}
