package publish

import (
	"context"
	"fmt"
	"time"
)

// LostFile is one object of a lost generation as it is registered again.
type LostFile struct {
	File
	Upload UploadID
}

// Epoch is a stretch of the database's history; the greatest one is in force. Tokens of a raised epoch are above those of every epoch before.
type Epoch struct {
	Epoch    int64  `json:"epoch"`
	RaisedAt Time   `json:"raised_at"`
	Reason   string `json:"reason"`
	// Noticed is false when the database has come to another history and no grant has raised the epoch yet: the next one will, to this one.
	Noticed bool `json:"noticed"`
}

// RecoverStore is the side of Postgres for recovery. Nothing of it grants a token, changes a counter, a fence or a pointer. Its methods may be
// called from many goroutines and processes at once; their errors are those of PointerStore.
type RecoverStore interface {
	ObjectStore
	// RegisterLost makes the row of a lost generation, open and never published, and those of its files; nobody has its lease_id, so nobody can upload into
	// it or publish it. done is false when the generation is known by now: then nothing was changed. A token that this database can still
	// grant is refused as unknown-token. It is one transaction.
	RegisterLost(ctx context.Context, key Key, token Token, files []LostFile) (done bool, err error)
	// CurrentEpoch tells the epoch that the next grant will be in.
	CurrentEpoch(ctx context.Context) (Epoch, error)
	// BumpEpoch raises the epoch by hand: the next token of every key is above all that any earlier history can have granted.
	BumpEpoch(ctx context.Context, reason string) (Epoch, error)
}

// LostFiles reads what the blob store has of one generation that Postgres doesn't know: every object's SHA-256 is computed by reading it. Of several
// uploads of one path the one that the store took last counts; two of the same moment are refused as invalid-request, since nobody can tell
// which of them is meant. Superseded are those that don't count.
func LostFiles(ctx context.Context, blobs BlobStore, key Key, token Token) (files []LostFile, superseded int, err error) {
	type candidate struct {
		parts    ObjectParts
		size     int64
		modified time.Time
		tie      bool
	}
	newest := map[Path]candidate{}
	var order []Path
	for info, err := range blobs.List(ctx, fmt.Sprintf("%s/-/%d/", key, token)) {
		if err != nil {
			return nil, 0, err
		}
		parts, ok := ParseObjectName(info.Name)
		if !ok || parts.Marker {
			continue
		}
		other, twice := newest[parts.Path]
		if !twice {
			order = append(order, parts.Path)
		} else {
			superseded++
		}
		if tie := twice && info.Modified.Equal(other.modified); tie || !twice || info.Modified.After(other.modified) {
			newest[parts.Path] = candidate{parts, info.Size, info.Modified, tie}
		}
	}
	for _, path := range order {
		c := newest[path]
		if c.tie {
			return nil, 0, invalid("token", "the store has two uploads of %s and can't tell which one came last; fetch them with --out, and publish the right one", path)
		}
		digest, n, err := hashObject(ctx, blobs, c.parts.Name())
		if err != nil {
			return nil, 0, err
		}
		if n != c.size {
			return nil, 0, fmt.Errorf("reading %s: it has %d bytes and was listed with %d", c.parts.Name(), n, c.size)
		}
		files = append(files, LostFile{Upload: c.parts.Upload, File: File{Path: path, Size: n, SHA256: digest, ContentType: ContentType(path, "")}})
	}
	return files, superseded, nil
}

// Register makes Postgres know a lost generation again, as unpublished. done is false when it is known already.
func Register(ctx context.Context, store RecoverStore, blobs BlobStore, key Key, token Token) (done bool, files int, err error) {
	found, _, err := LostFiles(ctx, blobs, key, token)
	if err != nil {
		return false, 0, err
	}
	if len(found) == 0 {
		return false, 0, &Error{Code: ErrNotFound, Key: key, Token: token, Detail: "the blob store has no uploads of this generation"}
	}
	done, err = store.RegisterLost(ctx, key, token, found)
	return done, len(found), err
}
