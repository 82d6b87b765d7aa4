package publish

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// WitnessPrefix begins the names of witnesses. A volume snapshot of Postgres that is put back leaves the database no sign of what it has lost: it is the same server, on the same timeline. So the
// blob store keeps a witness of how far the log had come. No key's objects have such names, which lack the "/-/".
const WitnessPrefix = "-witness/"

// witnessesKept is how many witnesses stay. Objects are never overwritten, so each is a new one, and several servers write them.
const witnessesKept = 4

// witnessLimit is how much of a witness is read, in bytes.
const witnessLimit = 64 << 10

// Witness says how far the log of one history has come.
type Witness struct {
	Epoch       int64  `json:"epoch"`
	Lineage     string `json:"lineage"`
	LogPosition string `json:"log_position"` // what the disk has of it, as Postgres writes it, such as 0/16B3748
	Nonce       string `json:"nonce"`        // a UUID that stands in a row of the database, too
	WrittenAt   string `json:"written_at"`
}

// WitnessedStore is the side of Postgres for witnesses.
type WitnessedStore interface {
	// Witness writes the row of a new witness, which is durable when it returns. It notices a restore as a grant does.
	Witness(ctx context.Context) (Witness, error)
	// CheckWitness raises the epoch above that of a witness that the database lacks, or that its log is behind, unless it is above it already. It
	// notices a restore as a grant does.
	CheckWitness(ctx context.Context, w Witness) (raised bool, err error)
}

// CheckWitnesses holds the database against all witnesses in the blob store, and then writes a new one. raised tells that the database lacks a
// witness of its epoch or a later one, and that the epoch was raised above it: an earlier state of its volume was put back, or a dump was restored more than once. As long as it fails, nothing is known.
//
// A crash before older witnesses are removed leaves some more of them. What can't be read is no witness.
func CheckWitnesses(ctx context.Context, store WitnessedStore, blobs BlobStore) (raised bool, err error) {
	var names []ObjectName
	for info, err := range blobs.List(ctx, WitnessPrefix) {
		if err != nil {
			return raised, err
		}
		names = append(names, info.Name)
		w, err := readWitness(ctx, blobs, info.Name)
		if err != nil {
			return raised, err
		}
		if w.Lineage == "" {
			continue
		}
		now, err := store.CheckWitness(ctx, w)
		if err != nil {
			return raised, fmt.Errorf("comparing with a witness: %w", err)
		}
		raised = raised || now
	}
	w, err := store.Witness(ctx)
	if err != nil {
		return raised, fmt.Errorf("reading the log's position: %w", err)
	}
	text, err := json.Marshal(w)
	if err != nil {
		return raised, fmt.Errorf("writing a witness: %w", err)
	}
	if err := blobs.Put(ctx, witnessName(w), bytes.NewReader(text), int64(len(text)), "application/json"); err != nil {
		return raised, fmt.Errorf("writing a witness: %w", err)
	}
	// The new one stays besides.
	for i := 0; i < len(names)-(witnessesKept-1); i++ {
		if err := blobs.Delete(ctx, names[i]); err != nil && !errors.Is(err, ErrObjectNotFound) {
			return raised, fmt.Errorf("removing an old witness: %w", err)
		}
	}
	return raised, nil
}

// witnessName sorts witnesses by epoch and position.
func witnessName(w Witness) ObjectName {
	high, low, _ := strings.Cut(w.LogPosition, "/")
	pad := func(digits string) string { return strings.Repeat("0", max(0, 8-len(digits))) + digits }
	return ObjectName(fmt.Sprintf("%s%08d-%s-%s-%s.json", WitnessPrefix, w.Epoch, pad(high), pad(low), w.Nonce))
}

// readWitness returns the zero Witness for one that is gone or isn't whole.
func readWitness(ctx context.Context, blobs BlobStore, name ObjectName) (w Witness, err error) {
	body, err := blobs.Open(ctx, name, 0, -1)
	if errors.Is(err, ErrObjectNotFound) {
		return w, nil
	}
	if err != nil {
		return w, err
	}
	defer body.Close() //nolint:errcheck // It is only read.
	text, err := io.ReadAll(io.LimitReader(body, witnessLimit))
	if err != nil {
		return w, fmt.Errorf("reading %s: %w", name, err)
	}
	if json.Unmarshal(text, &w) != nil {
		return Witness{}, nil
	}
	return w, nil
}
