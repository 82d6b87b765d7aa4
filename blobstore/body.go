package blobstore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/pawlhq/pawl/publish"
)

// errStopped is what a reader gets that goes on reading a body after its Put has returned.
var errStopped = errors.New("the upload has ended")

// maxEmptyReads is how many reads in a row may give neither bytes nor an error before a body counts as broken.
const maxEmptyReads = 100

// body stands between the caller's reader and a store. It holds the promises that Put makes about its body:
//
//   - The last bytes are handed over only after the end was seen behind them, so a body that is too long, or that
//     ends with an error, can't become a complete object.
//   - The first fault of the body is remembered, and is told apart from a fault of the store.
//   - The caller's reader is never touched after stop: an HTTP transport may go on reading in its own goroutine
//     after the request has failed.
type body struct {
	ctx  context.Context // of the one Put call that this body belongs to
	from io.Reader
	size int64 // bytes, -1 if unknown

	mu      sync.Mutex
	n       int64 // bytes handed over so far
	ended   bool  // the end was seen, where it was expected
	stopped bool
	fault   error
}

func newBody(ctx context.Context, from io.Reader, size int64) *body {
	return &body{ctx: ctx, from: from, size: size}
}

// Read reads the caller's reader, up to the expected end.
func (b *body) Read(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.stopped:
		return 0, errStopped
	case b.fault != nil:
		return 0, b.fault
	case b.ended:
		return 0, io.EOF
	case len(p) == 0:
		return 0, nil
	}
	n, err := b.next(p)
	b.n += int64(n)
	if b.size >= 0 && b.n == b.size && err == nil {
		err = b.end()
	}
	switch {
	case err == nil:
		return n, nil
	case errors.Is(err, io.EOF) && b.size >= 0 && b.n < b.size:
		b.fault = b.lengthMismatch(io.ErrUnexpectedEOF)
	case errors.Is(err, io.EOF):
		b.ended = true
		return n, nil // The next call gives io.EOF.
	default:
		b.fault = err
	}
	return 0, b.fault
}

// next reads once, never past the expected end.
func (b *body) next(p []byte) (int, error) {
	if err := b.ctx.Err(); err != nil {
		return 0, err
	}
	if b.size >= 0 {
		p = p[:min(int64(len(p)), b.size-b.n)]
	}
	if len(p) == 0 {
		return 0, nil
	}
	return b.from.Read(p)
}

// end looks behind the last expected byte. It returns io.EOF if nothing is there.
func (b *body) end() error {
	var one [1]byte
	for range maxEmptyReads {
		if err := b.ctx.Err(); err != nil {
			return err
		}
		n, err := b.from.Read(one[:])
		if n > 0 {
			return b.lengthMismatch(nil)
		}
		if err != nil {
			return err
		}
	}
	return io.ErrNoProgress
}

func (b *body) lengthMismatch(cause error) error {
	detail := "the body ended before its declared length; nothing was stored"
	if cause == nil {
		detail = "the body goes on after its declared length; nothing was stored"
	}
	return &publish.Error{Code: publish.ErrLengthMismatch, Detail: detail, Promised: fmt.Sprint(b.size), Came: fmt.Sprint(b.n), Cause: cause}
}

// handedOver returns how many bytes have been read so far.
func (b *body) handedOver() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.n
}

// stop ends all reading of the caller's reader. It waits for a read that is under way, so a caller whose reader
// blocks must end that read itself, as an HTTP server does when its client is gone. It returns the body's fault,
// and whether the body was read to its end.
func (b *body) stop() (whole bool, fault error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.stopped = true
	return b.ended, b.fault
}
