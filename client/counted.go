package client

import (
	"errors"
	"io"
	"sync"
)

// reader reads a piece of the file and tells of it.
func (f FileUpload) reader(offset, length int64) io.ReadSeeker {
	return &countedReader{from: io.NewSectionReader(f.Source, offset, length), file: f}
}

func (f FileUpload) sent(n int64) {
	if f.Sent != nil && n != 0 {
		f.Sent(n)
	}
}

// countedReader counts what is read of a piece. The transport may go on reading when its request is over: what comes
// after undo doesn't count.
type countedReader struct {
	from *io.SectionReader
	file FileUpload

	mu   sync.Mutex
	n    int64
	over bool
	err  error
}

func (r *countedReader) Read(p []byte) (int, error) {
	n, err := r.from.Read(p)
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil && !errors.Is(err, io.EOF) {
		r.err = err
	}
	if !r.over {
		r.n += int64(n)
		r.file.sent(int64(n))
	}
	return n, err
}

// Seek goes back to the start, to send it all again.
func (r *countedReader) Seek(offset int64, whence int) (int64, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	at, err := r.from.Seek(offset, whence)
	if err == nil && at < r.n {
		r.file.sent(at - r.n)
		r.n = at
	}
	return at, err
}

// undo takes back what was counted.
func (r *countedReader) undo() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.over = true
	r.file.sent(-r.n)
	r.n = 0
}

func (r *countedReader) fault() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}
