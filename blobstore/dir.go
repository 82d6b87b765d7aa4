package blobstore

import (
	"context"
	"errors"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"time"
)

var _ Store = (*Dir)(nil)

// What stands under the folder is for Pawl's own user, and for its group to read.
const (
	folderMode = 0o750
	fileMode   = 0o640
)

// Dir keeps objects as files under one folder, at the path that their name gives. Files come into being under a
// temporary name in "-/tmp" and are renamed once they are complete and synced, so an object is never partial; no
// object's name starts with "-".
//
// All access goes through an os.Root, so no name and no symbolic link leads out of the folder. Several processes
// may use one folder, as long as its file system is one and the same for them.
type Dir struct {
	path string
	root *os.Root
	// createOnly gives the file from the name to, unless that name is taken (fs.ErrExist).
	createOnly func(root *os.Root, from, to string) error
	buffers    sync.Pool // of *[]byte, copyBuffer long
	sweeping   sync.WaitGroup
	stopSweep  context.CancelFunc

	mu sync.Mutex
	// unsynced counts the folders that this process has made and whose entries in their parent folder may not
	// be durable yet. Who finds such a folder made can't rely on it before syncing the parent, too.
	unsynced map[string]int
}

// copyBuffer is how much of a body is in memory at once, in bytes.
const copyBuffer = 256 << 10

// OpenDir opens the folder at path, an absolute path. It makes the folder if only that last step is missing, and
// removes temporary files that a crash has left more than a day ago, now and every hour until Close.
func OpenDir(path string) (*Dir, error) { return openDirSweeping(path, sweepEvery) }

func openDirSweeping(path string, every time.Duration) (*Dir, error) {
	if err := makeFolder(path); err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(path)
	if err != nil {
		return nil, badURL("names a folder that can't be opened (%w); give a folder that Pawl's user may write to", err)
	}
	d := &Dir{path: path, root: root, createOnly: renameNoReplace, unsynced: map[string]int{}}
	d.buffers.New = func() any { b := make([]byte, copyBuffer); return &b }
	if err := d.sweep(time.Now()); err != nil {
		_ = root.Close() //nolint:errcheck // The sweep's error is the one to tell.
		return nil, badURL("names a folder that can't be written to (%w); let Pawl's user write to %s", err, path)
	}
	ctx, cancel := context.WithCancel(context.Background())
	d.stopSweep = cancel
	d.sweeping.Go(func() { d.keepSweeping(ctx, every) })
	return d, nil
}

// Close gives the folder free. Readers that are open stay usable.
func (d *Dir) Close() error {
	d.stopSweep()
	d.sweeping.Wait()
	return d.root.Close()
}

// makeFolder makes the last folder of path durably, if it is missing. It doesn't make the ones above: where those
// are missing, the path is mistyped or a volume isn't mounted.
func makeFolder(path string) error {
	err := os.Mkdir(path, folderMode)
	switch {
	case errors.Is(err, fs.ErrExist):
		return nil
	case errors.Is(err, fs.ErrNotExist):
		return badURL("names a folder whose parent %s doesn't exist; make it, mount its volume, or correct the path", filepath.Dir(path))
	case err != nil:
		return badURL("names a folder that can't be made (%w); make it, and let Pawl's user write to it", err)
	}
	parent, err := os.Open(filepath.Dir(path))
	if err != nil {
		return badURL("names a folder whose parent can't be opened (%w); let Pawl's user read it", err)
	}
	return errors.Join(syncFolder(parent), parent.Close())
}

// dirPath takes the path out of a file:// URL.
func dirPath(u *url.URL) (string, error) {
	switch {
	case u.Host != "" && u.Host != "localhost":
		return "", badURL("names the host %q; write an absolute path after three slashes, file:///folder", u.Host)
	case u.Opaque != "" || !filepath.IsAbs(u.Path):
		return "", badURL("has no absolute path; write file:///folder")
	case u.RawQuery != "" || u.Fragment != "":
		return "", badURL("has a ? or # in its path; write them as %%3F and %%23")
	}
	return filepath.Clean(u.Path), nil
}
