package publishtest

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/pawlhq/pawl/publish"
)

// Blobs is a publish.BlobStore in memory: a double for tests that don't need real bytes on a disk or a server.
// It panics when it is called with a name that the domain should never make. TestBlobStore holds it to the same rules
// as the real stores.
type Blobs struct {
	// Faults make calls fail, before or after they were carried out. Operations are named as the methods; "Read" is
	// each read from what Open returned. An applied fault of List lets all objects come before the error.
	Faults Faults
	// ProvesSHA256 and ProvesCRC64NVME let Prove tell these sums of objects. They are set before the first call.
	ProvesSHA256, ProvesCRC64NVME bool
	// Counts, if set, tells which objects must not be discarded: doing so panics.
	Counts func(publish.ObjectName) bool
	// Keeps, if set, tells which objects must not be deleted or discarded: doing so panics.
	Keeps func(publish.ObjectName) bool

	mu         sync.Mutex
	objects    map[publish.ObjectName][]byte
	multiparts map[publish.PartsID]*multipart
	finished   map[publish.PartsID]publish.ObjectName
	begun      int // how many uploads in parts ever
}

var _ publish.BlobStore = (*Blobs)(nil)

// NewBlobs makes an empty store.
func NewBlobs() *Blobs { return &Blobs{objects: map[publish.ObjectName][]byte{}} }

// Names returns the names of all objects, sorted.
func (b *Blobs) Names() []publish.ObjectName {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Sorted(maps.Keys(b.objects))
}

// Object returns a copy of an object's bytes, and whether there is one of that name.
func (b *Blobs) Object(name publish.ObjectName) ([]byte, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	data, found := b.objects[name]
	return bytes.Clone(data), found
}

// Put keeps the body in memory.
func (b *Blobs) Put(ctx context.Context, name publish.ObjectName, body io.Reader, size int64, _ string) error {
	assertObjectName(name)
	return b.Faults.Do(ctx, "Put", func() error {
		data, err := readBody(ctx, body, size)
		if err != nil {
			return fmt.Errorf("putting %s: %w", name, err)
		}
		b.mu.Lock()
		defer b.mu.Unlock()
		if _, taken := b.objects[name]; taken {
			return fmt.Errorf("putting %s: %w", name, publish.ErrObjectExists)
		}
		b.objects[name] = data
		return nil
	})
}

// readBody reads all of a body that should have size bytes.
func readBody(ctx context.Context, body io.Reader, size int64) ([]byte, error) {
	var data bytes.Buffer
	chunk := make([]byte, 32<<10)
	for {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		n, err := body.Read(chunk)
		data.Write(chunk[:n])
		switch {
		case size >= 0 && int64(data.Len()) > size:
			return nil, &publish.Error{Code: publish.ErrLengthMismatch, Detail: "the body is longer than it was declared"}
		case err == io.EOF && int64(data.Len()) < size:
			return nil, io.ErrUnexpectedEOF
		case err == io.EOF:
			return data.Bytes(), nil
		case err != nil:
			return nil, err
		}
	}
}

// Open returns a reader of the bytes as they are now.
func (b *Blobs) Open(ctx context.Context, name publish.ObjectName, offset, length int64) (io.ReadCloser, error) {
	assertObjectName(name)
	var reader io.ReadCloser
	err := b.Faults.Do(ctx, "Open", func() error {
		b.mu.Lock()
		data, found := b.objects[name]
		b.mu.Unlock()
		size := int64(len(data))
		switch {
		case !found:
			return fmt.Errorf("opening %s: %w", name, publish.ErrObjectNotFound)
		case offset < 0 || length < -1:
			return fmt.Errorf("opening %s: no such range: offset %d, length %d", name, offset, length)
		case offset > size || length > size-offset:
			return fmt.Errorf("opening %s: it has only %d bytes: %w", name, size, io.ErrUnexpectedEOF)
		case length < 0:
			length = size - offset
		}
		reader = &blobReader{ctx: ctx, faults: &b.Faults, from: bytes.NewReader(data[offset : offset+length])}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return reader, nil
}

// blobReader reads an object; each read may have a fault.
type blobReader struct {
	ctx    context.Context // of the Open call, which bounds the reading
	faults *Faults
	from   io.Reader
}

func (r *blobReader) Read(p []byte) (n int, err error) {
	faultErr := r.faults.Do(r.ctx, "Read", func() error {
		n, err = r.from.Read(p)
		return nil
	})
	if faultErr != nil {
		return 0, faultErr
	}
	return n, err
}

func (r *blobReader) Close() error { return nil }

// Stat returns the object's size.
func (b *Blobs) Stat(ctx context.Context, name publish.ObjectName) (publish.ObjectInfo, error) {
	assertObjectName(name)
	var info publish.ObjectInfo
	err := b.Faults.Do(ctx, "Stat", func() error {
		data, found := b.Object(name)
		if !found {
			return fmt.Errorf("looking at %s: %w", name, publish.ErrObjectNotFound)
		}
		info = publish.ObjectInfo{Name: name, Size: int64(len(data))}
		return nil
	})
	if err != nil {
		return publish.ObjectInfo{}, err
	}
	return info, nil
}

// Delete removes the object.
func (b *Blobs) Delete(ctx context.Context, name publish.ObjectName) error {
	assertObjectName(name)
	return b.Faults.Do(ctx, "Delete", func() error {
		b.assertDispensable(name)
		b.mu.Lock()
		defer b.mu.Unlock()
		if _, found := b.objects[name]; !found {
			return fmt.Errorf("deleting %s: %w", name, publish.ErrObjectNotFound)
		}
		delete(b.objects, name)
		return nil
	})
}

// assertDispensable panics when an object that must be kept is about to go.
func (b *Blobs) assertDispensable(name publish.ObjectName) {
	if b.Keeps != nil && b.Keeps(name) {
		panic(fmt.Sprintf("publishtest: %s is deleted, and a kept generation names it", name))
	}
}

// Discard removes the object and unfinished uploads of that name.
func (b *Blobs) Discard(ctx context.Context, name publish.ObjectName) error {
	assertObjectName(name)
	if b.Counts != nil && b.Counts(name) {
		panic(fmt.Sprintf("publishtest: %s is discarded, and a stored file names it", name))
	}
	return b.Faults.Do(ctx, "Discard", func() error {
		b.assertDispensable(name)
		b.mu.Lock()
		defer b.mu.Unlock()
		delete(b.objects, name)
		maps.DeleteFunc(b.multiparts, func(_ publish.PartsID, m *multipart) bool { return m.name == name })
		return nil
	})
}

// List yields the objects as they are when it is ranged over.
func (b *Blobs) List(ctx context.Context, prefix string) iter.Seq2[publish.ObjectInfo, error] {
	return func(yield func(publish.ObjectInfo, error) bool) {
		stopped := false
		err := b.Faults.Do(ctx, "List", func() error {
			for _, name := range b.Names() {
				data, found := b.Object(name)
				if !found || !strings.HasPrefix(string(name), prefix) {
					continue
				}
				if err := ctx.Err(); err != nil {
					return err
				}
				if stopped = !yield(publish.ObjectInfo{Name: name, Size: int64(len(data))}, nil); stopped {
					return nil
				}
			}
			return nil
		})
		if err != nil && !stopped {
			yield(publish.ObjectInfo{}, err)
		}
	}
}

// Unfinished yields the names of unfinished uploads as they are when it is ranged over.
func (b *Blobs) Unfinished(ctx context.Context, prefix string) iter.Seq2[publish.ObjectName, error] {
	return func(yield func(publish.ObjectName, error) bool) {
		var names []publish.ObjectName
		err := b.Faults.Do(ctx, "Unfinished", func() error {
			b.mu.Lock()
			defer b.mu.Unlock()
			for _, m := range b.multiparts {
				if strings.HasPrefix(string(m.name), prefix) {
					names = append(names, m.name)
				}
			}
			return nil
		})
		if err != nil {
			yield("", err)
			return
		}
		for _, name := range names {
			if !yield(name, nil) {
				return
			}
		}
	}
}

// Check reports that the store can serve requests, unless a fault says otherwise.
func (b *Blobs) Check(ctx context.Context) error {
	return b.Faults.Do(ctx, "Check", func() error { return nil })
}

// assertObjectName panics when name is neither <key>/-/<token>/<upload>/<path>, with nothing in it that a store could take for
// another name, nor that of a witness: a fault of the caller.
func assertObjectName(name publish.ObjectName) {
	if witness, ok := strings.CutPrefix(string(name), publish.WitnessPrefix); ok && !strings.Contains(witness, "/") {
		return
	}
	key, rest, found := strings.Cut(string(name), "/-/")
	if !fs.ValidPath(string(name)) || !found || key == "-" || strings.HasPrefix(key, "-/") || strings.Count(rest, "/") < 2 {
		panic(fmt.Sprintf("publishtest: %q is no object's name", name))
	}
}
