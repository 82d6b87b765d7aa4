package publishtest

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/pawlhq/pawl/publish"
)

// blobPart is the size up to which stores send a body in one piece, in bytes; the suite looks at both sides of it.
const blobPart = 16 << 20

// TestBlobStore holds a store to the contract of publish.BlobStore. open is called once for each subtest, which run
// at the same time, and may give the same store each time: each subtest uses names of its own.
func TestBlobStore(t *testing.T, open func(t *testing.T) publish.BlobStore) {
	for name, test := range map[string]func(*blobSuite){
		"PutThenOpen":         (*blobSuite).putThenOpen,
		"PutNeverOverwrites":  (*blobSuite).putNeverOverwrites,
		"PutRace":             (*blobSuite).putRace,
		"PutManyAtOnce":       (*blobSuite).putManyAtOnce,
		"PutBesideDelete":     (*blobSuite).putBesideDelete,
		"PutBrokenBody":       (*blobSuite).putBrokenBody,
		"PutWrongLength":      (*blobSuite).putWrongLength,
		"PutLeavesBodyAlone":  (*blobSuite).putLeavesBodyAlone,
		"PutCanceled":         (*blobSuite).putCanceled,
		"OpenRanges":          (*blobSuite).openRanges,
		"OpenBeyondEnd":       (*blobSuite).openBeyondEnd,
		"OpenThenDelete":      (*blobSuite).openThenDelete,
		"OpenCanceled":        (*blobSuite).openCanceled,
		"NotFound":            (*blobSuite).notFound,
		"Delete":              (*blobSuite).deleteTwice,
		"DeleteLeavesOthers":  (*blobSuite).deleteLeavesOthers,
		"Discard":             (*blobSuite).discard,
		"UnfinishedNothing":   (*blobSuite).unfinishedNothing,
		"ListOrder":           (*blobSuite).listOrder,
		"ListPrefix":          (*blobSuite).listPrefix,
		"ListMany":            (*blobSuite).listMany,
		"ListStopsEarly":      (*blobSuite).listStopsEarly,
		"ListCanceled":        (*blobSuite).listCanceled,
		"Check":               (*blobSuite).check,
		"CanceledBeforehand":  (*blobSuite).canceledBeforehand,
		"NamesAreByteForByte": (*blobSuite).namesAreByteForByte,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(&blobSuite{T: t, store: open(t), prefix: "suite-" + strings.ToLower(rand.Text()[:12])})
		})
	}
}

// blobSuite is one subtest: its store, its names, and the steps that tests are made of. Steps end the test when
// they fail.
type blobSuite struct {
	*testing.T
	store  publish.BlobStore
	prefix string
}

// name makes the name of an object that only this subtest uses; each call gives another upload.
func (s *blobSuite) name(path string) publish.ObjectName { return s.nameIn("key", path) }

func (s *blobSuite) nameIn(key, path string) publish.ObjectName {
	return publish.ObjectName(s.prefix + "/" + key + "/-/1/" + strings.ToLower(rand.Text()[:12]) + "/" + path)
}

// put stores data, with its length declared.
func (s *blobSuite) put(name publish.ObjectName, data []byte) {
	s.Helper()
	if err := s.store.Put(s.Context(), name, onlyReader{bytes.NewReader(data)}, int64(len(data)), "application/octet-stream"); err != nil {
		s.Fatalf("putting %q: %v", name, err)
	}
}

// read returns a range of an object.
func (s *blobSuite) read(name publish.ObjectName, offset, length int64) ([]byte, error) {
	return s.readInto(nil, name, offset, length)
}

// readInto is read into a buffer whose capacity is used as far as it goes.
func (s *blobSuite) readInto(buffer []byte, name publish.ObjectName, offset, length int64) ([]byte, error) {
	reader, err := s.store.Open(s.Context(), name, offset, length)
	if err != nil {
		return nil, err
	}
	data := bytes.NewBuffer(buffer)
	_, err = data.ReadFrom(reader)
	return data.Bytes(), errors.Join(err, reader.Close())
}

// wantObject checks an object's bytes and size.
func (s *blobSuite) wantObject(name publish.ObjectName, want []byte) {
	s.Helper()
	got, err := s.readInto(make([]byte, 0, len(want)+bytes.MinRead), name, 0, -1)
	if err != nil {
		s.Fatalf("reading %q: %v", name, err)
	}
	if !bytes.Equal(got, want) {
		s.Fatalf("%q has %d bytes that aren't the %d that were put", name, len(got), len(want))
	}
	info, err := s.store.Stat(s.Context(), name)
	if err != nil || info != (publish.ObjectInfo{Name: name, Size: int64(len(want))}) {
		s.Fatalf("Stat of %q gave %+v, %v; want %d bytes", name, info, err, len(want))
	}
}

// wantNothing checks that there is no such object, in any view of the store.
func (s *blobSuite) wantNothing(name publish.ObjectName) {
	s.Helper()
	if info, err := s.store.Stat(s.Context(), name); !errors.Is(err, publish.ErrObjectNotFound) {
		s.Fatalf("Stat of %q gave %+v, %v; want %v", name, info, err, publish.ErrObjectNotFound)
	}
	if _, err := s.read(name, 0, -1); !errors.Is(err, publish.ErrObjectNotFound) {
		s.Fatalf("opening %q gave %v; want %v", name, err, publish.ErrObjectNotFound)
	}
	if names := s.list(string(name)); len(names) != 0 {
		s.Fatalf("List shows %q", names)
	}
}

// list returns the names of all objects with the prefix.
func (s *blobSuite) list(prefix string) []string {
	s.Helper()
	var names []string
	for info, err := range s.store.List(s.Context(), prefix) {
		if err != nil {
			s.Fatalf("listing %q: %v", prefix, err)
		}
		names = append(names, string(info.Name))
	}
	return names
}

// check is the probe of a store that works.
func (s *blobSuite) check() {
	if err := s.store.Check(s.Context()); err != nil {
		s.Errorf("Check: %v", err)
	}
}

// canceledBeforehand calls everything with a context that has ended.
func (s *blobSuite) canceledBeforehand() {
	name := s.name("file")
	s.put(name, []byte("whole"))
	ctx, cancel := context.WithCancel(s.Context())
	cancel()
	_, openErr := s.store.Open(ctx, name, 0, -1)
	_, statErr := s.store.Stat(ctx, name)
	for call, err := range map[string]error{
		"Put":     s.store.Put(ctx, s.name("other"), strings.NewReader("x"), 1, ""),
		"Open":    openErr,
		"Stat":    statErr,
		"Delete":  s.store.Delete(ctx, name),
		"Discard": s.store.Discard(ctx, name),
		"Check":   s.store.Check(ctx),
	} {
		if !errors.Is(err, context.Canceled) {
			s.Errorf("%s gave %v; want %v", call, err, context.Canceled)
		}
	}
	s.wantObject(name, []byte("whole"))
}

// pattern makes size bytes that differ from place to place and from seed to seed.
func pattern(seed byte, size int) []byte {
	const period = 65521 // A prime, so that parts of round sizes never look alike.
	block := make([]byte, period)
	state := uint32(seed) + 1
	for i := range block {
		state = state*1664525 + 1013904223
		block[i] = byte(state >> 24)
	}
	return bytes.Repeat(block, size/period+1)[:size]
}

// onlyReader hides what else a reader can do, such as seek: a body is a stream.
type onlyReader struct{ io.Reader }

// sizeName says how many bytes an amount is, for names.
func sizeName(size int64) string {
	if size < 0 {
		return "unknown"
	}
	return fmt.Sprint(size)
}
