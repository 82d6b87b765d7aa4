package pointer

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"github.com/pawlhq/pawl/publish"
)

var _ publish.IdentityStore = (*Store)(nil)

const recordedStoreSQL = `SELECT store_id, confirmed, recorded_at FROM pawl.stores`

// RecordedStore returns the id of the database's own blob store.
func (s *Store) RecordedStore(ctx context.Context) (publish.StoreRecord, error) {
	record, err := s.storeRecord(ctx, false, recordedStoreSQL)
	if errors.Is(err, pgx.ErrNoRows) {
		return publish.StoreRecord{}, nil
	}
	return record, err
}

// The update changes nothing: it is there to lock the row of another proposal and to return it.
const proposeStoreSQL = `INSERT INTO pawl.stores (store_id) VALUES ($1)
ON CONFLICT (name) DO UPDATE SET name = excluded.name RETURNING store_id, confirmed, recorded_at`

// ProposeStore records an id unless one is recorded.
func (s *Store) ProposeStore(ctx context.Context, id publish.StoreID) (publish.StoreRecord, error) {
	return s.storeRecord(ctx, true, proposeStoreSQL, string(id))
}

const confirmStoreSQL = `UPDATE pawl.stores SET confirmed = true WHERE store_id = $1 RETURNING store_id, confirmed, recorded_at`

// ConfirmStore confirms the record.
func (s *Store) ConfirmStore(ctx context.Context, id publish.StoreID) error {
	_, err := s.storeRecord(ctx, true, confirmStoreSQL, string(id))
	if errors.Is(err, pgx.ErrNoRows) {
		return publish.Unavailable("the record of the blob store (another one was adopted meanwhile)", nil)
	}
	return err
}

const adoptStoreSQL = `INSERT INTO pawl.stores (store_id, confirmed) VALUES ($1, true)
ON CONFLICT (name) DO UPDATE SET store_id = excluded.store_id, confirmed = true, recorded_at = clock_timestamp()
RETURNING store_id, confirmed, recorded_at`

// AdoptStore replaces the record.
func (s *Store) AdoptStore(ctx context.Context, id publish.StoreID) error {
	_, err := s.storeRecord(ctx, true, adoptStoreSQL, string(id))
	return err
}

// storeRecord runs one statement that yields the record, or pgx.ErrNoRows.
func (s *Store) storeRecord(ctx context.Context, changing bool, sql string, args ...any) (publish.StoreRecord, error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	var record publish.StoreRecord
	err := s.pool.QueryRow(ctx, sql, args...).Scan(&record.ID, &record.Confirmed, &record.RecordedAt.Time)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		err = translate(err, changing)
	}
	return record, err
}
