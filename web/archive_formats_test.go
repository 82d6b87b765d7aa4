package web

import (
	"fmt"
	"io"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/pawlhq/pawl/publish"
)

// The length of an archive is known before it is written, to the byte, also where its numbers outgrow the old formats.
func TestArchiveLengths(t *testing.T) {
	t.Parallel()
	many := make([]publish.File, 70_000)
	for i := range many {
		many[i] = publish.File{Path: publish.Path(fmt.Sprintf("%06d", i)), Size: int64(i % 3)}
	}
	long := strings.Repeat("é", 100) + "/" + strings.Repeat("x", 199)
	for name, files := range map[string][]publish.File{
		"none":  nil,
		"small": {{Path: "a"}, {Path: "b", Size: 1}, {Path: "c", Size: 511}, {Path: "d", Size: 512}, {Path: "e", Size: 513}, {Path: publish.Path(long), Size: 7}},
		"many":  many,
		// The file just fits the old format, what follows lies beyond it.
		"almost large": {{Path: "a", Size: math.MaxUint32 - 1}, {Path: "b", Size: 5}},
		"large":        {{Path: "a", Size: 1}, {Path: "large", Size: math.MaxUint32}, {Path: "z", Size: 1}},
	} {
		for _, format := range []archiveFormat{zipFormat, tarFormat} {
			at := time.Unix(1_800_000_000, 0).UTC()
			if format.suffix == tarFormat.suffix && strings.Contains(name, "large") {
				continue // Its numbers have no such limit.
			}
			measure := format.measure(at)
			var counted byteCounter
			archive := format.write(&counted, at)
			for _, file := range files {
				if err := measure.add(file); err != nil {
					t.Fatal(err)
				}
				to, err := archive.next(file)
				if err == nil {
					_, err = io.CopyN(to, nothing{}, file.Size)
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			if err := archive.close(); err != nil || measure.total() != int64(counted) {
				t.Errorf("%s%s: measured %d, written %d, %v", name, format.suffix, measure.total(), counted, err)
			}
		}
	}
}

// nothing reads as zeros without end.
type nothing struct{}

func (nothing) Read(p []byte) (int, error) { return len(p), nil }
