package publish

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
)

// StoreID names one blob store for good: 128 random bits as 32 hex digits. It stands in the store, as its mark, and in Postgres, so that a
// server that was pointed at another bucket or folder, or at another database, notices before it does any harm. It is no secret.
type StoreID string

// NewStoreID draws an id.
func NewStoreID() StoreID {
	var id [16]byte
	_, _ = rand.Read(id[:]) // crypto/rand.Read never fails: it ends the program instead.
	return StoreID(hex.EncodeToString(id[:]))
}

// Valid reports whether the id has the form of one.
func (id StoreID) Valid() bool {
	raw, err := hex.DecodeString(string(id))
	return err == nil && len(raw) == 16
}

// StoreRecord is what Postgres knows of the blob store.
type StoreRecord struct {
	ID StoreID
	// Confirmed says that a store was seen to bear the id as its mark.
	Confirmed  bool
	RecordedAt Time
}

// IdentityStore is the side of Postgres that knows which blob store is its own. Its methods may be called from many goroutines
// and processes at once; their errors are those of PointerStore.
type IdentityStore interface {
	// RecordedStore returns what is recorded; the zero record if nothing is.
	RecordedStore(ctx context.Context) (StoreRecord, error)
	// ProposeStore records id, not confirmed, unless something is recorded already, and returns what is recorded then. Of several
	// proposals at once exactly one is recorded, and all callers get it.
	ProposeStore(ctx context.Context, id StoreID) (StoreRecord, error)
	// ConfirmStore confirms the record, unless another id is recorded by now: then it fails as unavailable.
	ConfirmStore(ctx context.Context, id StoreID) error
	// AdoptStore records id, confirmed, instead of whatever is recorded.
	AdoptStore(ctx context.Context, id StoreID) error
}

// MarkedStore is the side of a BlobStore that bears a mark. Its methods may be called from many goroutines and processes at once.
type MarkedStore interface {
	// Mark returns the store's id, or ErrObjectNotFound when it bears none.
	Mark(ctx context.Context) (StoreID, error)
	// SetMark marks the store, durably, unless it bears a mark (ErrObjectExists). On a store that doesn't know create-only
	// requests the last one of several at once may win: read the mark again.
	SetMark(ctx context.Context, id StoreID) error
}

// OtherStoreError reports a blob store that isn't the database's own.
type OtherStoreError struct {
	Found    StoreID // "" when the store bears no mark
	Recorded StoreRecord
}

// Error says what was found and what is recorded.
func (e *OtherStoreError) Error() string {
	switch {
	case e.Found == "":
		return fmt.Sprintf("the blob store bears no mark, but the database has recorded store %s at %s", e.Recorded.ID, e.Recorded.RecordedAt)
	case !e.Recorded.Confirmed:
		return fmt.Sprintf("the blob store bears the mark %s of another database, and this database has no store of its own yet", e.Found)
	}
	return fmt.Sprintf("the blob store bears the mark %s, but the database has recorded store %s at %s", e.Found, e.Recorded.ID, e.Recorded.RecordedAt)
}

// CompareStore looks whether the blob store is the database's own, and changes nothing. It returns an *OtherStoreError if it isn't,
// and "" if neither knows of the other yet.
func CompareStore(ctx context.Context, ids IdentityStore, blobs MarkedStore) (StoreID, error) {
	record, err := ids.RecordedStore(ctx)
	if err != nil {
		return "", err
	}
	mark, err := readMark(ctx, blobs)
	switch {
	case err != nil:
		return "", err
	case mark == "" && !record.Confirmed:
		return "", nil
	case mark != record.ID:
		return "", &OtherStoreError{Found: mark, Recorded: record}
	}
	return mark, nil
}

// MatchStore makes sure that the blob store is the database's own, or returns an *OtherStoreError. The first time, it makes them
// each other's. Any number of replicas may do so at once.
//
// The id is recorded before the store is marked with it, and confirmed after. So a crash at any step leaves what the next start
// goes on with, and a mark that isn't the recorded one is never a start's own.
func MatchStore(ctx context.Context, ids IdentityStore, blobs MarkedStore) (StoreID, error) {
	record, err := ids.ProposeStore(ctx, NewStoreID())
	if err != nil {
		return "", err
	}
	mark, err := readMark(ctx, blobs)
	if err != nil {
		return "", err
	}
	if mark == "" && !record.Confirmed {
		// Whatever becomes of it, what counts is the mark that is there afterwards.
		failed := blobs.SetMark(ctx, record.ID)
		if mark, err = readMark(ctx, blobs); err != nil || mark == "" {
			return "", errors.Join(failed, err)
		}
	}
	if mark != record.ID {
		return "", &OtherStoreError{Found: mark, Recorded: record}
	}
	if !record.Confirmed {
		err = ids.ConfirmStore(ctx, record.ID)
	}
	return mark, err
}

// AdoptStore makes the blob store the database's own, whatever they were before. It is for people who know that the objects were moved,
// or that no other database lives on them.
func AdoptStore(ctx context.Context, ids IdentityStore, blobs MarkedStore) (StoreID, error) {
	mark, err := readMark(ctx, blobs)
	if err == nil && mark == "" {
		failed := blobs.SetMark(ctx, NewStoreID())
		if mark, err = readMark(ctx, blobs); err == nil && mark == "" {
			err = failed
		}
	}
	if err != nil {
		return "", err
	}
	return mark, ids.AdoptStore(ctx, mark)
}

// readMark returns the mark, "" for none.
func readMark(ctx context.Context, blobs MarkedStore) (StoreID, error) {
	mark, err := blobs.Mark(ctx)
	if errors.Is(err, ErrObjectNotFound) {
		return "", nil
	}
	return mark, err
}
