package client

import (
	"crypto/sha256"
	"errors"
	"hash/crc64"
	"io"

	"github.com/pawlhq/pawl/publish"
)

// nvme is the polynomial of CRC-64/NVME, bits reversed as hash/crc64 wants it.
var nvme = crc64.MakeTable(0x9a6c9329ac4bc9b5)

// hashBuffer is how much is hashed at a time, in bytes.
const hashBuffer = 1 << 20

// Hash reads all of r once and returns its length in bytes, its SHA-256 and its CRC-64/NVME, what FileUpload promises of a
// file. Both sums come from the same bytes, each on a goroutine of its own.
func Hash(r io.Reader) (size int64, digest publish.Digest, crc uint64, err error) {
	sum := sha256.New()
	work, free := make(chan []byte, 2), make(chan []byte, 3)
	for range cap(free) {
		free <- make([]byte, hashBuffer)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for data := range work {
			crc = crc64.Update(crc, nvme, data)
			free <- data[:hashBuffer]
		}
	}()
	for err == nil {
		buffer := <-free
		var n int
		n, err = io.ReadFull(r, buffer)
		size += int64(n)
		work <- buffer[:n]
		_, _ = sum.Write(buffer[:n]) // hash.Hash.Write never returns an error.
	}
	close(work)
	<-done
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = nil
	}
	return size, publish.Digest(sum.Sum(nil)), crc, err
}
