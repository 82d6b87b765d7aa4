package blobstore

import (
	"bytes"
	"context"
	"io"
)

// partMemory is the memory that all uploads of one store share for their parts. Nothing is allocated before it is
// used for the first time, and nothing is given back to the garbage collector.
type partMemory struct {
	chunk  int64         // the unit in which it is given out, in bytes
	gate   chan struct{} // held while chunks are gathered, so that two who want several can't block each other
	chunks chan []byte   // those that are free; nil is one that wasn't allocated yet
}

func newPartMemory(size, chunk int64) *partMemory {
	n := max(1, size/chunk)
	m := &partMemory{chunk: chunk, gate: make(chan struct{}, 1), chunks: make(chan []byte, n)}
	for range n {
		m.chunks <- nil
	}
	return m
}

// has reports whether one part may be of the given size, in bytes.
func (m *partMemory) has(size int64) bool { return m.chunksFor(size) <= cap(m.chunks) }

func (m *partMemory) chunksFor(size int64) int { return int((size + m.chunk - 1) / m.chunk) }

// take waits until there is memory for a part of the given size.
func (m *partMemory) take(ctx context.Context, size int64) (*part, error) {
	select {
	case m.gate <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { <-m.gate }()
	p := &part{memory: m, size: size}
	for range m.chunksFor(size) {
		select {
		case chunk := <-m.chunks:
			p.add(chunk)
		case <-ctx.Done():
			p.free()
			return nil, ctx.Err()
		}
	}
	return p, nil
}

// tryTake returns nil if there is no memory now.
func (m *partMemory) tryTake(size int64) *part {
	select {
	case m.gate <- struct{}{}:
	default:
		return nil
	}
	defer func() { <-m.gate }()
	p := &part{memory: m, size: size}
	for range m.chunksFor(size) {
		select {
		case chunk := <-m.chunks:
			p.add(chunk)
		default:
			p.free()
			return nil
		}
	}
	return p
}

// part is the memory for one part, and then its bytes.
type part struct {
	memory *partMemory
	chunks [][]byte
	size   int64 // bytes that it may hold
	n      int64 // bytes that it holds
}

func (p *part) add(chunk []byte) {
	if chunk == nil {
		chunk = make([]byte, p.memory.chunk)
	}
	p.chunks = append(p.chunks, chunk)
}

// free gives the memory back. It may be called again.
func (p *part) free() {
	for _, chunk := range p.chunks {
		p.memory.chunks <- chunk
	}
	p.chunks = nil
}

// fill reads b until the part is full or b has ended.
func (p *part) fill(b *body) error {
	for p.n < p.size {
		within := p.n % p.memory.chunk
		rest := p.chunks[p.n/p.memory.chunk][within:min(p.memory.chunk, within+p.size-p.n)]
		n, err := fillPart(b, rest)
		p.n += int64(n)
		if err != nil || n < len(rest) {
			return err
		}
	}
	return nil
}

// reader reads the bytes from the start.
func (p *part) reader() io.Reader {
	var readers []io.Reader
	for i, left := 0, p.n; left > 0; i++ {
		n := min(left, p.memory.chunk)
		readers = append(readers, bytes.NewReader(p.chunks[i][:n]))
		left -= n
	}
	return io.MultiReader(readers...)
}
