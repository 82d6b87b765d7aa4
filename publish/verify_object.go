package publish

import (
	"context"
	"encoding/hex"
	"iter"
	"strings"
)

// ObjectParts are what the name of an object is made of.
type ObjectParts struct {
	Key   Key
	Token Token
	// Upload is zero in the parts of a marker, whose path is receipt.json.
	Upload UploadID
	Path   Path
	Marker bool
}

// Name is the name again.
func (p ObjectParts) Name() ObjectName {
	if p.Marker {
		return MarkerName(p.Key, p.Token)
	}
	return objectName(p.Key, p.Token, p.Upload, p.Path)
}

// ParseObjectName takes a name apart. ok is false when no upload or marker of Pawl can have it.
func ParseObjectName(name ObjectName) (parts ObjectParts, ok bool) {
	key, rest, found := strings.Cut(string(name), "/-/")
	token, rest, hasToken := strings.Cut(rest, "/")
	upload, path, hasUpload := strings.Cut(rest, "/")
	if !found || !hasToken || !hasUpload {
		return parts, false
	}
	var err error
	if parts.Key, err = ParseKey(key); err != nil {
		return parts, false
	}
	if parts.Token, err = ParseToken(token); err != nil {
		return parts, false
	}
	if parts.Path, err = ParsePath(path); err != nil {
		return parts, false
	}
	if name == MarkerName(parts.Key, parts.Token) {
		parts.Marker = true
		return parts, true
	}
	raw, err := hex.DecodeString(upload)
	if err != nil || len(raw) != len(parts.Upload) || upload != strings.ToLower(upload) {
		return parts, false
	}
	parts.Upload = UploadID(raw)
	return parts, true
}

// ObjectFacts are what Postgres knows of one object.
type ObjectFacts struct {
	// Known says that there is a row of its upload.
	Known bool
	// Needed says that a file of a kept generation names it, so it must be there.
	Needed bool
	// Excused says that it may be there although nothing needs it: its upload runs, or what it left wasn't swept yet, or its generation is being
	// collected.
	Excused bool
	// Size in bytes and SHA256 are those of the file, if it is needed.
	Size   int64
	SHA256 Digest
	// Generation is the state of the generation that it was uploaded into, "" for one that isn't known.
	Generation State
}

// KnownObject is an object that Postgres knows.
type KnownObject struct {
	ObjectParts
	ObjectFacts
}

// PointerState is one current pointer and what is wrong with it, as far as Postgres alone can tell.
type PointerState struct {
	Key     Key
	Version Version
	// Fault is "" when the version that it names has its receipt, is kept, and has as many files as the receipt says.
	Fault string
}

// ObjectStore is the side of Postgres that knows which objects there should be. Its methods only read, so they also work on a standby.
// They may be called from many goroutines at once; their errors are those of PointerStore.
type ObjectStore interface {
	// KnownObjects yields the objects of all uploads into the key prefix and the keys below it ("" for all keys), in the byte order of their names,
	// which is that of BlobStore.List. It keeps a bounded number of them in memory, however many there are. It is no snapshot: what is
	// begun or removed meanwhile may or may not show. It stops at the first error.
	KnownObjects(ctx context.Context, prefix Key) iter.Seq2[KnownObject, error]
	// LookUp tells what is known now of some objects, in their order.
	LookUp(ctx context.Context, objects []ObjectParts) ([]ObjectFacts, error)
	// Pointers yields all current pointers of the key prefix and the keys below it, ordered as KnownObjects orders keys.
	Pointers(ctx context.Context, prefix Key) iter.Seq2[PointerState, error]
}

// listPrefix is what the names of all objects of a key and of those below it begin with.
func listPrefix(prefix Key) string {
	if prefix == "" {
		return ""
	}
	return string(prefix) + "/"
}
