package blobstore

import (
	"fmt"
	"io"
)

// checkRange refuses ranges that make no sense for any object.
func checkRange(offset, length int64) error {
	if offset < 0 || length < -1 {
		return fmt.Errorf("blob store: no such range: offset %d, length %d", offset, length)
	}
	return nil
}

// within returns how many bytes a range has in an object of size bytes. A range that goes past the end is an
// error: the caller knows the object's size, so bytes are missing.
func within(size, offset, length int64) (int64, error) {
	if offset > size || length > size-offset {
		return 0, fmt.Errorf("the object has only %d bytes: %w", size, io.ErrUnexpectedEOF)
	}
	if length < 0 {
		return size - offset, nil
	}
	return length, nil
}
