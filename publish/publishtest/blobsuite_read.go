package publishtest

import (
	"bytes"
	"context"
	"errors"
	"io"

	"github.com/pawlhq/pawl/publish"
)

// openRanges reads parts of an object.
func (s *blobSuite) openRanges() {
	data := pattern(6, 100_000)
	name := s.name("file")
	s.put(name, data)
	for _, r := range []struct{ offset, length int64 }{
		{0, -1},
		{0, 0},
		{0, 1},
		{0, 100_000},
		{1, -1},
		{1, 1},
		{1, 99_999},
		{99_999, 1},
		{99_999, -1},
		{50_000, 0},
		{50_000, 25_000},
		{100_000, 0},
		{100_000, -1},
	} {
		end := r.offset + r.length
		if r.length < 0 {
			end = int64(len(data))
		}
		got, err := s.read(name, r.offset, r.length)
		if err != nil || !bytes.Equal(got, data[r.offset:end]) {
			s.Errorf("offset %d, length %d gave %d bytes, %v", r.offset, r.length, len(got), err)
		}
	}
	empty := s.name("empty")
	s.put(empty, nil)
	for _, length := range []int64{0, -1} {
		if got, err := s.read(empty, 0, length); err != nil || len(got) != 0 {
			s.Errorf("length %d of an empty object gave %q, %v", length, got, err)
		}
	}
}

// openBeyondEnd asks for bytes that the object doesn't have. Those who ask know its size, so this is a loss of
// bytes and not the end of them.
func (s *blobSuite) openBeyondEnd() {
	name := s.name("file")
	s.put(name, pattern(7, 1000))
	for _, r := range []struct{ offset, length int64 }{{0, 1001}, {999, 2}, {1000, 1}, {1001, 0}, {1001, -1}, {5000, 10}} {
		if _, err := s.read(name, r.offset, r.length); !errors.Is(err, io.ErrUnexpectedEOF) {
			s.Errorf("offset %d, length %d of 1000 gave %v; want %v", r.offset, r.length, err, io.ErrUnexpectedEOF)
		}
	}
	for _, r := range []struct{ offset, length int64 }{{-1, 1}, {0, -2}} {
		if _, err := s.read(name, r.offset, r.length); err == nil {
			s.Errorf("offset %d, length %d was read", r.offset, r.length)
		}
	}
}

// openThenDelete deletes an object that is being read: whoever reads gets all of it, or an error.
func (s *blobSuite) openThenDelete() {
	data := pattern(8, 8<<20)
	name := s.name("file")
	s.put(name, data)
	reader, err := s.store.Open(s.Context(), name, 0, -1)
	if err != nil {
		s.Fatal(err)
	}
	head := make([]byte, 1000)
	if _, err := io.ReadFull(reader, head); err != nil {
		s.Fatal(err)
	}
	if err := s.store.Delete(s.Context(), name); err != nil {
		s.Fatal(err)
	}
	rest, err := io.ReadAll(reader)
	if err == nil && !bytes.Equal(append(head, rest...), data) {
		s.Errorf("%d of %d bytes came, and then a clean end", len(head)+len(rest), len(data))
	}
	if err := reader.Close(); err != nil {
		s.Errorf("closing: %v", err)
	}
	s.wantNothing(name)
}

// openCanceled ends the context of a reader.
func (s *blobSuite) openCanceled() {
	name := s.name("file")
	s.put(name, pattern(9, 8<<20))
	ctx, cancel := context.WithCancel(s.Context())
	reader, err := s.store.Open(ctx, name, 0, -1)
	if err != nil {
		cancel()
		s.Fatal(err)
	}
	cancel()
	if _, err := io.ReadAll(reader); !errors.Is(err, context.Canceled) {
		s.Errorf("reading gave %v; want %v", err, context.Canceled)
	}
	_ = reader.Close() // What it returns after a broken read says nothing.
}

// notFound asks for objects that aren't there, also beside and below one that is.
func (s *blobSuite) notFound() {
	name := s.name("a/file")
	s.put(name, []byte("x"))
	parent := name[:len(name)-len("/file")]
	for _, absent := range []publish.ObjectName{s.name("file"), name + ".more", name + "/below", parent} {
		s.wantNothingAt(absent)
	}
	s.wantObject(name, []byte("x"))
}

// wantNothingAt is wantNothing for names that may be the beginning of others.
func (s *blobSuite) wantNothingAt(name publish.ObjectName) {
	s.Helper()
	if _, err := s.store.Stat(s.Context(), name); !errors.Is(err, publish.ErrObjectNotFound) {
		s.Errorf("Stat of %q gave %v", name, err)
	}
	for _, length := range []int64{-1, 0, 1} {
		if _, err := s.read(name, 0, length); !errors.Is(err, publish.ErrObjectNotFound) {
			s.Errorf("opening %q for %d bytes gave %v", name, length, err)
		}
	}
	if err := s.store.Delete(s.Context(), name); err != nil && !errors.Is(err, publish.ErrObjectNotFound) {
		s.Errorf("deleting %q gave %v", name, err)
	}
}

// deleteTwice deletes an object and puts another under its name.
func (s *blobSuite) deleteTwice() {
	name := s.name("file")
	s.put(name, []byte("first"))
	if err := s.store.Delete(s.Context(), name); err != nil {
		s.Fatalf("deleting: %v", err)
	}
	s.wantNothing(name)
	if err := s.store.Delete(s.Context(), name); err != nil && !errors.Is(err, publish.ErrObjectNotFound) {
		s.Fatalf("deleting again gave %v", err)
	}
	s.put(name, []byte("second"))
	s.wantObject(name, []byte("second"))
}

// deleteLeavesOthers deletes one object among those beside, above and below it.
func (s *blobSuite) deleteLeavesOthers() {
	others := []publish.ObjectName{s.nameIn("shot", "a"), s.nameIn("shot", "a/b"), s.nameIn("shot/010", "a"), s.nameIn("shot.x", "a")}
	for _, name := range others {
		s.put(name, []byte(name))
	}
	gone := s.nameIn("shot", "a")
	s.put(gone, []byte("x"))
	if err := s.store.Delete(s.Context(), gone); err != nil {
		s.Fatal(err)
	}
	for _, name := range others {
		s.wantObject(name, []byte(name))
	}
}

// discard discards one object among those beside, above and below it, again, and one that never was.
func (s *blobSuite) discard() {
	others := []publish.ObjectName{s.nameIn("shot", "a/b"), s.nameIn("shot/010", "a"), s.nameIn("shot", "ab")}
	for _, name := range others {
		s.put(name, []byte(name))
	}
	gone := s.nameIn("shot", "a")
	s.put(gone, []byte("x"))
	for _, name := range []publish.ObjectName{gone, gone, s.name("never")} {
		if err := s.store.Discard(s.Context(), name); err != nil {
			s.Fatalf("discarding %s: %v", name, err)
		}
	}
	s.wantNothing(gone)
	for _, name := range others {
		s.wantObject(name, []byte(name))
	}
}
