package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"io"

	"github.com/minio/crc64nvme"

	"github.com/pawlhq/pawl/publish"
)

// hashBuffer is how much of a file is hashed at a time, in bytes.
const hashBuffer = 256 << 10

// hashFile reads all of r once and returns its length in bytes, its SHA-256, and the CRC-64/NVME by which a blob store can prove a file
// that was sent to it in parts. Both sums come from the same reading, so that a file which changes later is found out. The end of ctx ends it,
// with its cause; any other failure is an ioError.
func hashFile(ctx context.Context, r io.Reader) (size int64, digest publish.Digest, crc uint64, err error) {
	sum, check := sha256.New(), crc64nvme.New()
	buffer := make([]byte, hashBuffer)
	for err == nil {
		if ctx.Err() != nil {
			return 0, publish.Digest{}, 0, context.Cause(ctx)
		}
		var n int
		n, err = r.Read(buffer)
		size += int64(n)
		_, _ = sum.Write(buffer[:n])   // hash.Hash.Write never returns an error.
		_, _ = check.Write(buffer[:n]) // The same.
	}
	if !errors.Is(err, io.EOF) {
		return 0, publish.Digest{}, 0, ioError{err}
	}
	return size, publish.Digest(sum.Sum(nil)), check.Sum64(), nil
}
