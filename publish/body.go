package publish

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
)

// measuredBody counts and hashes a body while the store reads it, and ends it with an error when it isn't what
// was promised. Bytes are verified here, once, above all stores: a store never completes an object whose body
// ended with an error.
type measuredBody struct {
	from     io.Reader
	hash     hash.Hash
	n        int64 // bytes read so far
	size     int64 // declared length, -1 if unknown
	limit    int64 // bytes
	promised Digest
	ended    bool
	err      error // the first fault, never io.EOF
}

func measure(req UploadRequest, limit int64) *measuredBody {
	return &measuredBody{from: req.Body, hash: sha256.New(), size: req.Size, limit: limit, promised: req.Digest}
}

// Read passes the body on. The end is checked as soon as the declared length is reached, before the last
// bytes are handed over: a store that knows the length may never ask for the io.EOF behind it. So the body is asked for
// one byte more then: whether it goes on must not depend on how its bytes happened to be cut.
func (b *measuredBody) Read(p []byte) (int, error) {
	if b.err != nil {
		return 0, b.err
	}
	if b.ended {
		return 0, io.EOF
	}
	n, err := b.from.Read(p)
	b.n += int64(n)
	_, _ = b.hash.Write(p[:n]) // hash.Hash.Write never returns an error.
	switch {
	case b.n > b.limit:
		b.err = b.tooLarge()
	case b.size >= 0 && b.n > b.size:
		b.err = b.lengthMismatch(nil)
	case err != nil && !errors.Is(err, io.EOF):
		b.err = b.lengthMismatch(err)
	case err == nil && b.n == b.size:
		b.err = b.nothingMore()
	case err != nil:
		b.err = b.atEnd()
	}
	if b.err != nil {
		return 0, b.err
	}
	return n, err
}

// nothingMore checks that a body of declared length ends where it should.
func (b *measuredBody) nothingMore() error {
	switch n, err := io.ReadFull(b.from, make([]byte, 1)); {
	case n > 0:
		b.n++
		return b.lengthMismatch(nil)
	case !errors.Is(err, io.EOF):
		return b.lengthMismatch(err)
	}
	return b.atEnd()
}

// atEnd compares what came with what was promised.
func (b *measuredBody) atEnd() error {
	b.ended = true
	switch {
	case b.size >= 0 && b.n != b.size:
		return b.lengthMismatch(io.ErrUnexpectedEOF)
	case !b.promised.IsZero() && b.sum() != b.promised:
		return &Error{
			Code: ErrDigestMismatch, Detail: "the body's SHA-256 is not the promised one; nothing was stored",
			Promised: b.promised.String(), Came: b.sum().String(),
		}
	}
	return nil
}

func (b *measuredBody) tooLarge() error {
	return &Error{Code: ErrTooLarge, Detail: fmt.Sprintf("a file may have at most %d bytes; nothing was stored", b.limit), Limit: b.limit}
}

func (b *measuredBody) lengthMismatch(cause error) error {
	promised := "a complete body"
	if b.size >= 0 {
		promised = fmt.Sprint(b.size)
	}
	return &Error{
		Code: ErrLengthMismatch, Detail: "the body is not complete; nothing was stored, send it again",
		Promised: promised, Came: fmt.Sprint(b.n), Cause: cause,
	}
}

// finish reads the end of a body that the store has taken without a Read: an empty one of known length.
func (b *measuredBody) finish() {
	if b.err == nil && !b.ended && b.n == b.size {
		b.err = b.nothingMore()
	}
}

// whole reports whether the body was read to its end and found good.
func (b *measuredBody) whole() bool { return b.err == nil && b.ended }

func (b *measuredBody) sum() Digest { return Digest(b.hash.Sum(nil)) }
