package blobstore

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"

	"github.com/pawlhq/pawl/publish"
)

// Open opens the object's file at offset. A file that is deleted while it is read stays readable to its end.
func (d *Dir) Open(ctx context.Context, name publish.ObjectName, offset, length int64) (io.ReadCloser, error) {
	if err := errors.Join(ctx.Err(), checkName(name), checkRange(offset, length)); err != nil {
		return nil, err
	}
	file, err := d.root.Open(string(name))
	if err != nil {
		return nil, dirError("opening", name, missing(err))
	}
	left, err := d.seek(file, offset, length)
	if err != nil {
		_ = file.Close() //nolint:errcheck // It was only read.
		return nil, dirError("opening", name, missing(err))
	}
	return &fileReader{ctx: ctx, file: file, left: left}, nil
}

// seek moves file to offset and returns how many bytes are to be read from there.
func (d *Dir) seek(file *os.File, offset, length int64) (int64, error) {
	info, err := file.Stat()
	if err != nil {
		return 0, err
	}
	if !info.Mode().IsRegular() {
		return 0, fs.ErrNotExist
	}
	left, err := within(info.Size(), offset, length)
	if err != nil {
		return 0, err
	}
	_, err = file.Seek(offset, io.SeekStart)
	return left, err
}

// fileReader reads a known number of bytes from a file.
type fileReader struct {
	ctx  context.Context // of the Open call, which bounds the reading
	file *os.File
	left int64 // bytes
}

// Read reads on. A file that turns out shorter than it was when it was opened gives io.ErrUnexpectedEOF.
func (r *fileReader) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	if r.left == 0 {
		return 0, io.EOF
	}
	n, err := r.file.Read(p[:min(int64(len(p)), r.left)])
	r.left -= int64(n)
	if errors.Is(err, io.EOF) && r.left > 0 {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

func (r *fileReader) Close() error { return r.file.Close() }

// Stat returns the size of the object's file.
func (d *Dir) Stat(ctx context.Context, name publish.ObjectName) (publish.ObjectInfo, error) {
	if err := errors.Join(ctx.Err(), checkName(name)); err != nil {
		return publish.ObjectInfo{}, err
	}
	info, err := d.root.Stat(string(name))
	if err == nil && !info.Mode().IsRegular() {
		err = fs.ErrNotExist
	}
	if err != nil {
		return publish.ObjectInfo{}, dirError("looking at", name, missing(err))
	}
	return publish.ObjectInfo{Name: name, Size: info.Size()}, nil
}
