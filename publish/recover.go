package publish

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"
)

// markerLimit is how much of a marker is read, in bytes. A receipt's metadata is far smaller.
const markerLimit = 1 << 20

// LostGeneration is what the blob store has of a generation and Postgres doesn't know: it was uploaded in a history that the database has lost,
// by a restore or by a failover.
type LostGeneration struct {
	Key   Key   `json:"key"`
	Token Token `json:"token"`
	// Known is the generation's state when Postgres knows it, but not all of its uploads: it was granted before the history was lost.
	// "" when it knows nothing of it.
	Known State `json:"known,omitempty"`
	// Objects and Bytes count uploads that no row knows, markers not included.
	Objects int64 `json:"objects"`
	Bytes   int64 `json:"bytes"`
	// Marked says that there is a marker: the generation was published for good in the lost history. Receipt is what it says, if it
	// could be read.
	Marked  bool     `json:"marked"`
	Receipt *Receipt `json:"receipt,omitempty"`
	// Last is when the store took the newest of its objects, if it tells.
	Last time.Time `json:"last,omitzero"`
}

// Lost walks the blob store's list, as Verify does, and calls found with each generation of the key prefix and the keys below it that the
// database has lost, in the order of the list. It changes nothing.
func Lost(ctx context.Context, objects ObjectStore, blobs BlobStore, prefix Key, found func(LostGeneration) error) error {
	var lost LostGeneration
	flush := func() error {
		if lost.Objects == 0 && !lost.Marked {
			return nil
		}
		if lost.Marked {
			receipt, err := readMarker(ctx, blobs, lost.Key, lost.Token)
			if err != nil {
				return err
			}
			lost.Receipt = receipt
		}
		return found(lost)
	}
	walk := &objectWalk{
		objects: objects, blobs: blobs, prefix: prefix,
		agreed: func(walked) error { return nil }, missing: func(walked) error { return nil }, foreign: func(ObjectInfo) {},
		lost: func(w walked) error {
			if w.facts.Known {
				return nil // A leftover.
			}
			if w.parts.Key != lost.Key || w.parts.Token != lost.Token {
				if err := flush(); err != nil {
					return err
				}
				lost = LostGeneration{Key: w.parts.Key, Token: w.parts.Token, Known: w.facts.Generation}
			}
			if w.stored.Modified.After(lost.Last) {
				lost.Last = w.stored.Modified.UTC()
			}
			if w.parts.Marker {
				lost.Marked = true
				return nil
			}
			lost.Objects++
			lost.Bytes += w.stored.Size
			return nil
		},
	}
	if err := walk.run(ctx); err != nil {
		return err
	}
	return flush()
}

// readMarker returns the receipt in a marker, nil for none that can be read as one.
func readMarker(ctx context.Context, blobs BlobStore, key Key, token Token) (*Receipt, error) {
	body, err := blobs.Open(ctx, MarkerName(key, token), 0, -1)
	if errors.Is(err, ErrObjectNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer body.Close() //nolint:errcheck // It is only read.
	text, err := io.ReadAll(io.LimitReader(body, markerLimit))
	if err != nil {
		return nil, fmt.Errorf("reading the marker of %s, token %d: %w", key, token, err)
	}
	var receipt Receipt
	if json.Unmarshal(text, &receipt) != nil || receipt.Key != key || receipt.Token != token {
		return nil, nil
	}
	return &receipt, nil
}
