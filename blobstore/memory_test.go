package blobstore

import (
	"io"
	"runtime"
	"testing"

	"github.com/pawlhq/pawl/internal/testenv"
	"github.com/pawlhq/pawl/publish"
)

// TestPutMemory stores bodies that are far larger than the memory that it lets Put allocate. It isn't parallel, so that
// nobody else allocates.
func TestPutMemory(t *testing.T) {
	// Beside the memory for parts, requests are signed in pieces that are allocated anew.
	const size, limit = 256 << 20, defaultPartMemory + 64<<20 // bytes
	for name, store := range map[string]publish.BlobStore{"Dir": openDir(t), "S3": openS3(t, testenv.S3Bucket(t), "memory")} {
		for kind, declared := range map[string]int64{"Known": size, "Unknown": -1} {
			t.Run(name+kind, func(t *testing.T) {
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				object := publish.ObjectName("big/-/1/" + kind + "/file")
				if err := store.Put(t.Context(), object, io.LimitReader(zeros{}, size), declared, ""); err != nil {
					t.Fatal(err)
				}
				runtime.ReadMemStats(&after)
				if grown := after.TotalAlloc - before.TotalAlloc; grown > limit {
					t.Errorf("Put allocated %d MiB for a body of %d MiB", grown>>20, size>>20)
				}
				if err := store.Delete(t.Context(), object); err != nil {
					t.Error(err)
				}
			})
		}
	}
}

// zeros never ends.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}
