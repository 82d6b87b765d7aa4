package blobstore

import (
	"bytes"
	"context"
	"fmt"
	"io"

	"github.com/pawlhq/pawl/publish"
)

// S3 wants parts of at least 5 MiB, all but the last, and at most maxParts of them.
const (
	// partSize is the size of parts, in bytes, unless the body needs larger ones: known to be above 156 GiB, or of
	// unknown length and above growAfter parts.
	partSize = 16 << 20
	maxParts = 10_000
	// growAfter is after how many parts a body of unknown length gets parts of twice the size.
	growAfter = 1000
	// parallelParts is how many parts of one upload are on their way at once.
	parallelParts = 4
	// leadSize is how much of a body of unknown length is read before it gets memory for a part, in bytes: so bodies that
	// are small, or of which nothing comes, take none.
	leadSize = 64 << 10
)

// partLength is how many bytes part number has, from 1, of a body of the given size, which is -1 if unknown.
func (s *S3) partLength(number int, size int64) int64 {
	if size >= 0 {
		const step = 1 << 20
		need := (size + maxParts - 1) / maxParts
		return max(s.memory.chunk, (need+step-1)/step*step)
	}
	length := s.memory.chunk << min((number-1)/growAfter, 9) // At most 8 GiB, above what S3 takes.
	for !s.memory.has(length) || length > maxPartSize {
		length /= 2
	}
	return length
}

// maxPartSize is the largest part that S3 takes, in bytes.
const maxPartSize = 5 << 30

// maxUnknown is how long a body of unknown length may be, in bytes.
func (s *S3) maxUnknown() int64 {
	total := int64(0)
	for number := 1; number <= maxParts; number++ {
		total += s.partLength(number, -1)
	}
	return total
}

// putParts sends the body in parts from memory, several at once, so that a part which fails can be sent again. A body
// that turns out to fit into one part goes as one request.
func (u *upload) putParts(ctx context.Context, b *body) error {
	var lead []byte
	if b.size < 0 {
		buffer := make([]byte, leadSize)
		n, err := fillPart(b, buffer)
		if err != nil {
			return err
		}
		if lead = buffer[:n]; n < leadSize {
			return u.putMemory(ctx, func() io.Reader { return bytes.NewReader(lead) }, int64(n))
		}
	}
	first, err := u.takePart(ctx, 1, b.size)
	if err != nil {
		return err
	}
	if first != nil {
		defer first.free()
		first.n = int64(copy(first.chunks[0], lead))
		if err := first.fill(b); err != nil {
			return err
		}
		if first.n < first.size {
			return u.putMemory(ctx, first.reader, first.n)
		}
	}
	m := &multipart{upload: u}
	tries, err := m.start(ctx)
	if err == nil {
		err = m.sendAll(ctx, b, first)
	}
	stored := false
	if err == nil {
		err = m.complete(ctx)
		stored = err == nil
	}
	return m.cleanUp(ctx, stored, tries, err)
}

// takePart takes memory for a part. A body of known length doesn't wait for it, so that slow bodies can't block it: if
// there is none now it gets nil, and sends the part as it comes.
func (u *upload) takePart(ctx context.Context, number int, size int64) (*part, error) {
	length := u.s.partLength(number, size)
	if size < 0 {
		return u.s.memory.take(ctx, length)
	}
	return u.s.memory.tryTake(length), nil
}

// sendAll sends the body in parts, first the one that is in memory already, if it isn't nil. It returns when no request
// is under way any more.
func (m *multipart) sendAll(ctx context.Context, b *body, first *part) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if first != nil {
		m.sendLater(ctx, cancel, 1, first)
	}
	err := m.sendRest(ctx, cancel, b, first != nil)
	if err != nil {
		cancel(err) // Unless a part has failed before.
	}
	m.sending.Wait()
	return context.Cause(ctx)
}

func (m *multipart) sendRest(ctx context.Context, cancel context.CancelCauseFunc, b *body, hasFirst bool) error {
	number := 1
	if hasFirst {
		number = 2
	}
	for ; ctx.Err() == nil; number++ {
		if b.size >= 0 && b.handedOver() == b.size {
			return nil
		}
		p, err := m.takePart(ctx, number, b.size)
		if err != nil {
			return err
		}
		if p == nil {
			// The parts that are under way may give their memory free.
			m.sending.Wait()
			p, err = m.takePart(ctx, number, b.size)
			if err != nil {
				return err
			}
		}
		if p == nil {
			length := min(m.s.partLength(number, b.size), b.size-b.handedOver())
			if err := m.sendStream(ctx, number, b, length); err != nil {
				return err
			}
			continue
		}
		err = p.fill(b)
		switch {
		case err != nil || p.n == 0:
			p.free()
			return err
		case number > maxParts:
			p.free()
			return m.tooLong()
		}
		m.sendLater(ctx, cancel, number, p)
	}
	return nil // The cause of ctx has the reason.
}

// sendStream sends a part as it comes. It can't be sent again.
func (m *multipart) sendStream(ctx context.Context, number int, b *body, length int64) error {
	from := &io.LimitedReader{R: b, N: length}
	if err := m.sendOnce(ctx, number, struct{ io.Reader }{from}, length); err != nil {
		return err
	}
	if from.N != 0 {
		return fmt.Errorf("the server said that it has stored part %d before it had all of it", number)
	}
	return nil
}

func (m *multipart) tooLong() error {
	limit := m.s.maxUnknown()
	return &publish.Error{
		Code:   publish.ErrTooLarge,
		Detail: fmt.Sprintf("a body of undeclared length may have at most %d bytes in this blob store; declare its length", limit),
		Limit:  limit,
	}
}

// sendLater sends a part of which the bytes are in memory, beside what the caller does next. It gives the memory back.
func (m *multipart) sendLater(ctx context.Context, cancel context.CancelCauseFunc, number int, p *part) {
	m.slots <- struct{}{}
	m.sending.Go(func() {
		defer func() { <-m.slots }()
		defer p.free()
		_, err := m.s.again(ctx, func() error { return m.sendOnce(ctx, number, p.reader(), p.n) })
		if err != nil {
			cancel(err)
		}
	})
}
