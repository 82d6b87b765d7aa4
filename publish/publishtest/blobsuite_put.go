package publishtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"testing/iotest"
	"time"

	"github.com/pawlhq/pawl/publish"
)

// putThenOpen stores bodies of sizes around every limit, of known and of unknown length.
func (s *blobSuite) putThenOpen() {
	for _, size := range []int{0, 1, 64 << 10, blobPart - 1, blobPart, blobPart + 1, 2*blobPart + 3} {
		data := pattern(byte(size), size)
		for _, declared := range []int64{int64(size), -1} {
			name := s.name(fmt.Sprintf("%d-of-%s", size, sizeName(declared)))
			if err := s.store.Put(s.Context(), name, onlyReader{bytes.NewReader(data)}, declared, "image/png"); err != nil {
				s.Fatalf("putting %d bytes, declared as %d: %v", size, declared, err)
			}
			s.wantObject(name, data)
		}
	}
	// A reader may give its last bytes together with io.EOF, or one byte at a time.
	for kind, wrap := range map[string]func(io.Reader) io.Reader{"data-err": iotest.DataErrReader, "one-byte": iotest.OneByteReader} {
		data := pattern(7, 3000)
		for _, declared := range []int64{3000, -1} {
			name := s.name(kind + sizeName(declared))
			if err := s.store.Put(s.Context(), name, wrap(bytes.NewReader(data)), declared, ""); err != nil {
				s.Fatalf("putting from a %s reader: %v", kind, err)
			}
			s.wantObject(name, data)
		}
	}
}

// putNeverOverwrites puts twice under one name.
func (s *blobSuite) putNeverOverwrites() {
	for _, size := range []int{10, blobPart + 1} {
		name, first := s.name("file"), pattern(1, size)
		s.put(name, first)
		for _, declared := range []int64{int64(size), -1} {
			err := s.store.Put(s.Context(), name, onlyReader{bytes.NewReader(pattern(2, size))}, declared, "")
			if !errors.Is(err, publish.ErrObjectExists) {
				s.Fatalf("the second put of %d bytes gave %v; want %v", size, err, publish.ErrObjectExists)
			}
		}
		s.wantObject(name, first)
	}
}

// putRace lets many put under one name at once: one wins, and it is the winner's bytes that are there. Losers
// may see a broken connection in the place of ErrObjectExists, since a server may refuse a body while it comes.
func (s *blobSuite) putRace() {
	for _, size := range []int{100, 1 << 20, blobPart} {
		const racers = 16
		name := s.name("file")
		errs := make([]error, racers)
		start := make(chan struct{})
		var group sync.WaitGroup
		for i := range racers {
			group.Go(func() {
				<-start
				errs[i] = s.store.Put(s.Context(), name, onlyReader{bytes.NewReader(pattern(byte(i), size))}, int64(size), "")
			})
		}
		close(start)
		group.Wait()
		winner, winners := 0, 0
		for i, err := range errs {
			if err == nil {
				winner = i
				winners++
			}
		}
		if winners != 1 {
			s.Fatalf("%d of %d racers for %d bytes won: %v", winners, racers, size, errs)
		}
		s.wantObject(name, pattern(byte(winner), size))
	}
}

// putManyAtOnce puts different names in the same folders.
func (s *blobSuite) putManyAtOnce() {
	var group sync.WaitGroup
	names := make([]publish.ObjectName, 32)
	for i := range names {
		names[i] = s.nameIn("deep/down/key", fmt.Sprintf("frames/%d", i))
		group.Go(func() {
			if err := s.store.Put(s.Context(), names[i], bytes.NewReader(pattern(byte(i), 5000)), 5000, ""); err != nil {
				s.Errorf("putting %s: %v", names[i], err)
			}
		})
	}
	group.Wait()
	for i, name := range names {
		s.wantObject(name, pattern(byte(i), 5000))
	}
}

// putBesideDelete puts and deletes next to each other, so that what a store keeps above its objects comes and goes. A
// server that gets into its own way there may say so, as a fault that another try helps against.
func (s *blobSuite) putBesideDelete() {
	var group sync.WaitGroup
	for i := range 4 {
		group.Go(func() {
			for round := range 25 {
				var name publish.ObjectName
				err := error(publish.ErrUnavailable)
				for try := 0; try < 10 && errors.Is(err, publish.ErrUnavailable); try++ {
					name = publish.ObjectName(fmt.Sprintf("%s/key/-/1/upload/%d/%d-%d", s.prefix, i, round, try))
					err = s.store.Put(s.Context(), name, bytes.NewReader([]byte("x")), 1, "")
				}
				if err != nil {
					s.Errorf("putting %s: %v", name, err)
				} else if err := s.store.Delete(s.Context(), name); err != nil {
					s.Errorf("deleting %s: %v", name, err)
				}
			}
		})
	}
	group.Wait()
	if left := s.list(s.prefix + "/"); len(left) != 0 {
		s.Errorf("left: %q", left)
	}
}

// putBrokenBody ends bodies with an error, at the start, in the middle, and behind the last byte.
func (s *blobSuite) putBrokenBody() {
	broken := errors.New("the client is gone")
	for _, size := range []int{1000, blobPart, blobPart + 1000} {
		for _, came := range []int{0, size / 2, size - 1, size} {
			for _, declared := range []int64{int64(size), -1} {
				name := s.name("file")
				body := io.MultiReader(bytes.NewReader(pattern(3, came)), iotest.ErrReader(broken))
				if err := s.store.Put(s.Context(), name, body, declared, ""); !errors.Is(err, broken) {
					s.Fatalf("a body that breaks after %d of %d bytes (declared %d) gave %v", came, size, declared, err)
				}
				s.wantNothing(name)
			}
		}
	}
}

// putWrongLength puts bodies that are not as long as was declared.
func (s *blobSuite) putWrongLength() {
	for _, size := range []int{0, 1, 1000, blobPart, blobPart + 1} {
		if size > 0 {
			name := s.name("short")
			err := s.store.Put(s.Context(), name, onlyReader{bytes.NewReader(pattern(4, size-1))}, int64(size), "")
			if !errors.Is(err, io.ErrUnexpectedEOF) {
				s.Fatalf("a body of %d bytes, one too few, gave %v; want %v", size-1, err, io.ErrUnexpectedEOF)
			}
			s.wantNothing(name)
		}
		name := s.name("long")
		if err := s.store.Put(s.Context(), name, onlyReader{bytes.NewReader(pattern(4, size+1))}, int64(size), ""); err == nil {
			s.Fatalf("a body of %d bytes, one too many, was stored", size+1)
		}
		s.wantNothing(name)
	}
}

// putLeavesBodyAlone checks that nobody reads a body after its Put has returned: its reader is the caller's again.
func (s *blobSuite) putLeavesBodyAlone() {
	taken := s.name("taken")
	s.put(taken, []byte("first"))
	for name, declared := range map[publish.ObjectName]int64{taken: 8 << 20, s.name("new"): 8 << 20, s.name("unknown"): -1} {
		ctx, cancel := context.WithCancel(s.Context())
		body := &watchedBody{left: 8 << 20, cancelAt: 6 << 20, cancel: cancel}
		if err := s.store.Put(ctx, name, body, declared, ""); err == nil {
			s.Errorf("putting %s succeeded, although its context ended", name)
		}
		body.returned.Store(true)
		cancel()
		if body.left == 0 {
			s.Errorf("all of the body of %s was read, although its context ended in the middle", name)
		}
		time.Sleep(20 * time.Millisecond) // Nothing can be awaited where nothing is to happen.
		if body.readLate.Load() {
			s.Errorf("the body of %s was read after Put had returned", name)
		}
	}
}

// watchedBody ends its own context on the way, and sees whether it is read once it shouldn't be.
type watchedBody struct {
	left, cancelAt int // bytes
	cancel         context.CancelFunc
	returned       atomic.Bool
	readLate       atomic.Bool
}

func (b *watchedBody) Read(p []byte) (int, error) {
	if b.returned.Load() {
		b.readLate.Store(true)
	}
	if b.left == 0 {
		return 0, io.EOF
	}
	n := min(len(p), b.left, 64<<10)
	if b.left -= n; b.left <= b.cancelAt {
		b.cancel()
	}
	return n, nil
}

// putCanceled ends the context while the body comes.
func (s *blobSuite) putCanceled() {
	for _, declared := range []int64{1 << 20, -1} {
		name := s.name("file")
		ctx, cancel := context.WithCancel(s.Context())
		reader, writer := io.Pipe()
		done := make(chan error, 1)
		go func() { done <- s.store.Put(ctx, name, reader, declared, "") }()
		if _, err := writer.Write(pattern(5, 1000)); err != nil {
			s.Fatal(err)
		}
		cancel()
		// As an HTTP server does when its client is gone: the read that is under way ends.
		_ = writer.CloseWithError(context.Canceled) // Never fails.
		if err := <-done; !errors.Is(err, context.Canceled) {
			s.Errorf("Put gave %v; want %v", err, context.Canceled)
		}
		s.wantNothing(name)
	}
}
