package publish

import (
	"context"
	"errors"
	"io"
	"iter"
	"time"
)

// ObjectName is the full name of one object in the blob store:
//
//	<key>/-/<token>/<upload>/<path>
//
// A key has no "-" segment, so the parts can always be told apart. The random <upload> part makes every
// name new, so that a stale upload, or a retry, can't meet the object of another.
type ObjectName string

// ErrObjectExists is returned by BlobStore.Put when an object of that name is already there.
var ErrObjectExists = errors.New("object already exists")

// ErrObjectNotFound is returned by BlobStore.Open, Stat and Delete when there is no object of that name.
var ErrObjectNotFound = errors.New("object not found")

// ObjectInfo describes one stored object.
type ObjectInfo struct {
	Name ObjectName
	Size int64 // bytes
	// Modified is when the store took the object, by its own clock; only List tells it, and only where the store does.
	Modified time.Time
}

// BlobStore keeps immutable objects. It knows nothing of tokens or pointers: an object becomes visible only
// when a manifest that names it is published, so a stale or half-known object is harmless.
//
// All methods may be called from many goroutines at once. They return an Error of kind unavailable when the
// store can't be reached and of kind quota-exceeded when it is full; other failures are returned wrapped.
// A canceled context ends every call soon, with the context's error in the chain.
type BlobStore interface {
	// Put stores all of body as a new object and returns when it is durable: it survives a crash of the
	// store's machine, as far as the store promises that. size is the number of bytes that body will give,
	// or -1 when that is unknown. Put never overwrites: if the name is taken it returns ErrObjectExists and
	// leaves the other object as it is.
	//
	// If body returns an error other than io.EOF, or gives another number of bytes than size, no object
	// appears and Put returns that error (io.ErrUnexpectedEOF for too few bytes) in its chain. After any
	// other error the object may or may not exist (the answer was lost); it is never partial, and the
	// caller gives the name up. Put reads body as a stream: its memory use doesn't depend on size.
	Put(ctx context.Context, name ObjectName, body io.Reader, size int64, contentType string) error

	// Open returns a reader of length bytes from offset on; length -1 means to the end. The caller closes it.
	// A break in the middle shows as a read error, never as an early io.EOF.
	Open(ctx context.Context, name ObjectName, offset, length int64) (io.ReadCloser, error)

	// Stat returns the object's size.
	Stat(ctx context.Context, name ObjectName) (ObjectInfo, error)

	// Delete removes the object for good. It returns ErrObjectNotFound, or nil where the store can't tell,
	// when there is none.
	Delete(ctx context.Context, name ObjectName) error

	// Discard removes whatever uploads have left under the name: the object, and parts of an object that was never finished.
	// It returns nil when there is nothing. The caller knows that no manifest names the object.
	Discard(ctx context.Context, name ObjectName) error

	// List yields all objects whose names start with prefix (a plain string prefix), in byte order of their names.
	// Objects put or deleted meanwhile may or may not show. It stops at the first error.
	List(ctx context.Context, prefix string) iter.Seq2[ObjectInfo, error]

	// Unfinished yields the names, starting with prefix, under which there are parts of an object that was never finished, in no
	// order and each once or more. What is begun or discarded meanwhile may or may not show. It stops at the first error.
	Unfinished(ctx context.Context, prefix string) iter.Seq2[ObjectName, error]

	// Check tells whether the store can serve requests now; it is called by the readiness probe.
	Check(ctx context.Context) error
}
