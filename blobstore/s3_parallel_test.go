package blobstore

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"sync"
	"testing"

	"github.com/pawlhq/pawl/internal/testenv"
	"github.com/pawlhq/pawl/publish"
)

// TestS3Race lets 16 put under one name at once, in every way of upload: one wins, every time, and it is the winner's
// bytes that are there.
func TestS3Race(t *testing.T) {
	t.Parallel()
	const racers = 16
	for _, test := range []struct {
		size     int
		declared bool
		rounds   int
	}{
		{size: 64 << 10, declared: true, rounds: 20},
		{size: 64 << 10, rounds: 20},
		{size: 17 << 20, declared: true, rounds: 20},
		{size: 17 << 20, rounds: 20},
	} {
		t.Run(fmt.Sprintf("%d/declared=%t", test.size, test.declared), func(t *testing.T) {
			s := openS3(t, testenv.S3Bucket(t), "race")
			body := make([]byte, test.size)
			for round := range test.rounds {
				name := publish.ObjectName(fmt.Sprintf("a/-/1/u%d/file", round))
				errs := make([]error, racers)
				start := make(chan struct{})
				var group sync.WaitGroup
				for i := range racers {
					declared := int64(-1)
					if test.declared {
						declared = int64(test.size)
					}
					group.Go(func() {
						<-start
						// The last byte tells whose it is.
						from := io.MultiReader(bytes.NewReader(body[1:]), bytes.NewReader([]byte{byte(i)}))
						errs[i] = s.Put(t.Context(), name, from, declared, "")
					})
				}
				close(start)
				group.Wait()
				winner := -1
				for i, err := range errs {
					switch {
					case err == nil && winner >= 0:
						t.Fatalf("round %d: both %d and %d won", round, winner, i)
					case err == nil:
						winner = i
					case !errors.Is(err, publish.ErrObjectExists) && !errors.Is(err, publish.ErrUnavailable):
						t.Errorf("round %d: %d lost with %v", round, i, err)
					}
				}
				if winner < 0 {
					t.Fatalf("round %d: nobody won: %v", round, errs)
				}
				reader, err := s.Open(t.Context(), name, int64(test.size)-1, -1)
				if err != nil {
					t.Fatal(err)
				}
				last, err := io.ReadAll(reader)
				if err := errors.Join(err, reader.Close()); err != nil || !bytes.Equal(last, []byte{byte(winner)}) {
					t.Fatalf("round %d: %d won, and the object ends with %v, %v", round, winner, last, err)
				}
				if err := s.Delete(t.Context(), name); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// TestS3ManyUploads has more uploads at once than there is memory for parts, of all kinds: they all end, whole.
func TestS3ManyUploads(t *testing.T) {
	t.Parallel()
	s := openS3(t, testenv.S3Bucket(t), "many")
	s.memory = newPartMemory(2*smallParts, smallParts)
	const size = 3*smallParts + 7
	var group sync.WaitGroup
	for i := range 8 {
		group.Go(func() {
			declared := int64(-1)
			if i%2 == 0 {
				declared = size
			}
			name := publish.ObjectName(fmt.Sprintf("a/-/1/u%d/file", i))
			sent, got := sha256.New(), sha256.New()
			from := io.TeeReader(io.LimitReader(rand.NewChaCha8([32]byte{byte(i)}), size), sent)
			if err := s.Put(t.Context(), name, from, declared, ""); err != nil {
				t.Error(err)
				return
			}
			reader, err := s.Open(t.Context(), name, 0, -1)
			if err != nil {
				t.Error(err)
				return
			}
			_, err = io.Copy(got, reader)
			if err := errors.Join(err, reader.Close()); err != nil || !bytes.Equal(got.Sum(nil), sent.Sum(nil)) {
				t.Errorf("%s isn't what was sent: %v", name, err)
			}
		})
	}
	group.Wait()
	wantAllFree(t, s)
}

// TestS3PartsOverlap has a server that answers for the first part only after it has seen the second.
func TestS3PartsOverlap(t *testing.T) {
	t.Parallel()
	f := &s3Fault{}
	second := make(chan struct{})
	arrived := sync.OnceFunc(func() { close(second) })
	f.before = func(r *http.Request) {
		switch r.URL.Query().Get("partNumber") {
		case "1":
			<-second
		case "2":
			arrived()
		}
	}
	s := openFaulty(t, f)
	if err := s.Put(t.Context(), someName, io.LimitReader(zeros{}, 2*smallParts), -1, ""); err != nil {
		t.Error(err)
	}
	wantAllFree(t, s)
}

// TestS3BusyMemory has no memory for parts: bodies of unknown length wait until their context ends, while small ones
// and ones of known length go through.
func TestS3BusyMemory(t *testing.T) {
	t.Parallel()
	s := openS3(t, testenv.S3Bucket(t), "busy")
	s.memory = newPartMemory(smallParts, smallParts)
	held, err := s.memory.take(t.Context(), smallParts)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	waits := make(chan error, 1)
	go func() { waits <- s.Put(ctx, "a/-/1/u1/file", io.LimitReader(zeros{}, smallParts), -1, "") }()
	if err := s.Put(t.Context(), "a/-/1/u2/file", io.LimitReader(zeros{}, leadSize-1), -1, ""); err != nil {
		t.Error(err)
	}
	const size = 2*smallParts + 1
	if err := s.Put(t.Context(), "a/-/1/u3/file", io.LimitReader(zeros{}, size), size, ""); err != nil {
		t.Error(err)
	}
	if info, err := s.Stat(t.Context(), "a/-/1/u3/file"); err != nil || info.Size != size {
		t.Errorf("Stat gave %+v, %v", info, err)
	}
	cancel()
	if err := <-waits; !errors.Is(err, context.Canceled) {
		t.Errorf("the one that waited got %v", err)
	}
	held.free()
	wantAllFree(t, s)
}

// TestS3ClientGone ends the context in the middle of the parts, on a real server: nothing is left there (see openS3).
func TestS3ClientGone(t *testing.T) {
	t.Parallel()
	s := openS3(t, testenv.S3Bucket(t), "gone")
	s.memory = newPartMemory(4*smallParts, smallParts)
	for _, after := range []int64{leadSize, smallParts, smallParts + 1, 2*smallParts + 1, 3*smallParts - 1} {
		ctx, cancel := context.WithCancel(t.Context())
		body := io.MultiReader(io.LimitReader(zeros{}, after), readerFunc(func(p []byte) (int, error) {
			cancel()
			return len(p), nil
		}))
		if err := s.Put(ctx, someName, body, -1, ""); !errors.Is(err, context.Canceled) {
			t.Errorf("after %d bytes: Put gave %v", after, err)
		}
		cancel()
		wantAllFree(t, s)
	}
}

func wantAllFree(t *testing.T, s *S3) {
	t.Helper()
	if free := len(s.memory.chunks); free != cap(s.memory.chunks) {
		t.Errorf("%d of %d chunks are free at the end", free, cap(s.memory.chunks))
	}
}
