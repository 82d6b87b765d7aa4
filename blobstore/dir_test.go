package blobstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/iotest"

	"github.com/pawlhq/pawl/publish"
	"github.com/pawlhq/pawl/publish/publishtest"
)

const someName = publish.ObjectName("thumbs/image-52/-/17/k3v9/small.png")

// openDir opens a store in a new folder and checks at the end that no temporary file is left.
func openDir(t *testing.T) *Dir {
	t.Helper()
	d, err := OpenDir(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if temps := temporaries(t, d); len(temps) != 0 {
			t.Errorf("temporary files are left: %q", temps)
		}
		if len(d.unsynced) != 0 {
			t.Errorf("folders still count as not synced: %v", d.unsynced)
		}
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

func temporaries(t *testing.T, d *Dir) []string {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(d.path, tempFolder))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names
}

// tree returns what is under the store's folder, apart from the temporary folder.
func tree(t *testing.T, d *Dir) []string {
	t.Helper()
	var found []string
	err := filepath.WalkDir(d.path, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(d.path, path)
		if err != nil || rel == "." {
			return err
		}
		if rel == "-" {
			return fs.SkipDir
		}
		found = append(found, rel)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func TestDir(t *testing.T) {
	t.Parallel()
	d := openDir(t)
	t.Run("Suite", func(t *testing.T) {
		publishtest.TestBlobStore(t, func(*testing.T) publish.BlobStore { return d })
	})
}

// TestDirLinked runs the suite in the way of file systems that have no rename that refuses to replace.
func TestDirLinked(t *testing.T) {
	t.Parallel()
	d := openDir(t)
	d.createOnly = linkNoReplace
	t.Run("Suite", func(t *testing.T) {
		publishtest.TestBlobStore(t, func(*testing.T) publish.BlobStore { return d })
	})
}

func TestDirDeleteRemovesEmptyFolders(t *testing.T) {
	t.Parallel()
	d := openDir(t)
	other := publish.ObjectName("thumbs/image-53/-/1/k3v9/small.png")
	for _, name := range []publish.ObjectName{someName, other} {
		if err := d.Put(t.Context(), name, strings.NewReader("x"), 1, ""); err != nil {
			t.Fatal(err)
		}
	}
	if err := d.Delete(t.Context(), someName); err != nil {
		t.Fatal(err)
	}
	if got := tree(t, d); len(got) != 6 || got[1] != "thumbs/image-53" {
		t.Errorf("left: %q", got)
	}
	if err := d.Delete(t.Context(), other); err != nil {
		t.Fatal(err)
	}
	if got := tree(t, d); len(got) != 0 {
		t.Errorf("left: %q", got)
	}
}

// TestDirFailureLeavesNothing breaks Put at each of its steps.
func TestDirFailureLeavesNothing(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	for name, test := range map[string]struct {
		body   io.Reader
		rename func(*os.Root, string, string) error
	}{
		"Body":   {body: io.MultiReader(strings.NewReader("some"), iotest.ErrReader(broken))},
		"Rename": {body: strings.NewReader("x"), rename: func(*os.Root, string, string) error { return broken }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := openDir(t)
			if test.rename != nil {
				d.createOnly = test.rename
			}
			if err := d.Put(t.Context(), someName, test.body, -1, ""); !errors.Is(err, broken) {
				t.Errorf("Put gave %v", err)
			}
			if got := tree(t, d); len(got) != 0 {
				t.Errorf("left: %q", got)
			}
		})
	}
}

// TestDirPutBesidePrune removes the folders that Put has just made, as a Delete beside it does.
func TestDirPutBesidePrune(t *testing.T) {
	t.Parallel()
	d := openDir(t)
	pruned := 0
	d.createOnly = func(root *os.Root, from, to string) error {
		if pruned++; pruned <= 3 {
			d.prune(filepath.Dir(to))
		}
		return renameNoReplace(root, from, to)
	}
	if err := d.Put(t.Context(), someName, strings.NewReader("x"), 1, ""); err != nil || pruned != 4 {
		t.Errorf("Put gave %v after %d attempts", err, pruned)
	}
	if _, err := d.Stat(t.Context(), someName); err != nil {
		t.Error(err)
	}
}

// TestDirPutBesideDelete does the same from the outside: a directory never asks for another try.
func TestDirPutBesideDelete(t *testing.T) {
	t.Parallel()
	d := openDir(t)
	var group sync.WaitGroup
	for i := range 8 {
		group.Go(func() {
			name := publish.ObjectName(fmt.Sprintf("a/b/-/1/%d/c", i))
			for range 100 {
				if err := d.Put(t.Context(), name, strings.NewReader("x"), 1, ""); err != nil {
					t.Errorf("Put gave %v", err)
					return
				}
				if err := d.Delete(t.Context(), name); err != nil {
					t.Errorf("Delete gave %v", err)
					return
				}
			}
		})
	}
	group.Wait()
	if got := tree(t, d); len(got) != 0 {
		t.Errorf("left: %q", got)
	}
}

// TestDirPutCanceledLate ends the context when all of the body has come.
func TestDirPutCanceledLate(t *testing.T) {
	t.Parallel()
	d := openDir(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	d.createOnly = func(root *os.Root, from, to string) error {
		cancel() // As if it came while another Delete prunes: the next attempt must not start.
		return fs.ErrNotExist
	}
	if err := d.Put(ctx, someName, strings.NewReader("x"), 1, ""); !errors.Is(err, context.Canceled) {
		t.Errorf("Put gave %v", err)
	}
}

// TestDirListHidesTemporaries looks at a list while an upload is under way.
func TestDirListHidesTemporaries(t *testing.T) {
	t.Parallel()
	d := openDir(t)
	listed := 0
	body := iotest.OneByteReader(bytes.NewReader([]byte("xyz")))
	err := d.Put(t.Context(), someName, readerFunc(func(p []byte) (int, error) {
		for _, prefix := range []string{"", "-", "-/", "-/tmp/"} {
			for _, err := range d.List(t.Context(), prefix) {
				if listed++; err != nil {
					t.Error(err)
				}
			}
		}
		if len(temporaries(t, d)) != 1 {
			t.Error("there is no temporary file")
		}
		return body.Read(p)
	}), 3, "")
	if err != nil || listed != 0 {
		t.Errorf("Put gave %v; %d objects were listed", err, listed)
	}
}

type readerFunc func(p []byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

func TestDirTruncatedFile(t *testing.T) {
	t.Parallel()
	d := openDir(t)
	if err := d.Put(t.Context(), someName, bytes.NewReader(make([]byte, 1000)), 1000, ""); err != nil {
		t.Fatal(err)
	}
	reader, err := d.Open(t.Context(), someName, 0, 1000)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(filepath.Join(d.path, string(someName)), 500); err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(reader); len(got) != 500 || !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("reading gave %d bytes, %v", len(got), err)
	}
	if err := reader.Close(); err != nil {
		t.Error(err)
	}
}
