package blobstore

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pawlhq/pawl/internal/testenv"
)

// leave makes a temporary file of some age, as a crash leaves it.
func leave(t *testing.T, d *Dir, name string, age time.Duration) {
	t.Helper()
	path, when := filepath.Join(d.path, tempFolder, name), time.Now().Add(-age)
	if err := errors.Join(os.WriteFile(path, []byte("part"), fileMode), os.Chtimes(path, when, when)); err != nil {
		t.Fatal(err)
	}
}

func TestDirSweepsLeftovers(t *testing.T) {
	t.Parallel()
	d := openDir(t)
	leave(t, d, "OLD", leftoverAge+time.Minute)
	leave(t, d, "NEW", leftoverAge-time.Minute)
	second, err := OpenDir(d.path)
	if err != nil {
		t.Fatal(err)
	}
	if got := temporaries(t, second); len(got) != 1 || got[0] != "NEW" {
		t.Errorf("after the sweep there are %q", got)
	}
	if err := errors.Join(second.sweep(time.Now().Add(leftoverAge)), second.Close()); err != nil {
		t.Fatal(err)
	}
}

// A server that runs for months sweeps too, and not only at its start.
func TestDirSweepsWhileRunning(t *testing.T) {
	t.Parallel()
	d, err := openDirSweeping(t.TempDir(), 5*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	leave(t, d, "NEW", leftoverAge-time.Minute)
	leave(t, d, "OLD", leftoverAge+time.Minute)
	testenv.Eventually(t, 20*time.Second, func() error {
		if got := temporaries(t, d); len(got) != 1 || got[0] != "NEW" {
			return fmt.Errorf("there are %q", got)
		}
		return nil
	})
	if err := d.Close(); err != nil { // goleak sees that this ends the sweeping.
		t.Error(err)
	}
}

// An upload of a process that was stopped for a day is left alone: it is written to the end and put in place.
func TestDirSweepSparesTheLiving(t *testing.T) {
	t.Parallel()
	d := openDir(t)
	var other *Dir
	body := io.MultiReader(strings.NewReader("first"), readerFunc(func([]byte) (int, error) {
		for _, name := range temporaries(t, d) {
			long := time.Now().Add(-2 * leftoverAge)
			if err := os.Chtimes(filepath.Join(d.path, tempFolder, name), long, long); err != nil {
				t.Error(err)
			}
		}
		var err error
		if other, err = OpenDir(d.path); err != nil { // It sweeps at its start.
			t.Error(err)
		}
		return 0, io.EOF
	}))
	place := d.createOnly
	d.createOnly = func(root *os.Root, from, to string) error {
		// Between the last byte and the rename it is as old.
		long := time.Now().Add(-2 * leftoverAge)
		if err := errors.Join(os.Chtimes(filepath.Join(d.path, from), long, long), other.sweep(time.Now())); err != nil {
			t.Error(err)
		}
		return place(root, from, to)
	}
	if err := d.Put(t.Context(), someName, body, -1, ""); err != nil {
		t.Fatalf("the sweep took the file of a living upload: %v", err)
	}
	if err := other.Close(); err != nil {
		t.Error(err)
	}
}
