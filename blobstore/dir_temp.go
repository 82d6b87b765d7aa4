package blobstore

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"time"
)

// tempFolder holds files on their way in. Keys have no "-" segment, so no object can be in it.
const tempFolder = "-/tmp"

// leftoverAge is how long a temporary file must have been unchanged to count as left by a crash, and sweepEvery how often a running
// process looks for such files.
const (
	leftoverAge = 24 * time.Hour
	sweepEvery  = time.Hour
)

// temp is a temporary file that is being written. It is locked as long as it is open, so that no sweep takes it for left by a crash:
// a process that was stopped for a day lives, too.
type temp struct {
	name string
	*os.File
}

// createTemp makes a new empty temporary file.
func (d *Dir) createTemp() (temp, error) {
	name := path.Join(tempFolder, rand.Text())
	file, err := d.root.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, fileMode)
	if errors.Is(err, fs.ErrNotExist) { // Someone has tidied up the temporary folder.
		if err := d.root.MkdirAll(tempFolder, folderMode); err != nil {
			return temp{}, err
		}
		file, err = d.root.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, fileMode)
	}
	if err != nil {
		return temp{}, err
	}
	_ = lockFile(file) //nolint:errcheck // On a file system without locks, age alone tells.
	return temp{name, file}, nil
}

// writeTemp stores all of b in a temporary file and syncs it. A crash in here leaves the file, which a later sweep
// removes; an error leaves nothing. The caller closes the file once it isn't a temporary one any more.
func (d *Dir) writeTemp(b *body) (temp, error) {
	t, err := d.createTemp()
	if err != nil {
		return temp{}, err
	}
	err = d.fill(t.File, b)
	if err == nil {
		err = t.Sync()
	}
	if err != nil {
		return temp{}, errors.Join(err, t.Close(), d.root.Remove(t.name))
	}
	return t, nil
}

// fill copies b into file through a pooled buffer.
func (d *Dir) fill(file *os.File, b *body) error {
	buffer := d.buffers.Get().(*[]byte) //nolint:errcheck // The pool has nothing else.
	defer d.buffers.Put(buffer)
	// The file's own ReadFrom would allocate a buffer for each call; hiding it makes CopyBuffer use ours.
	_, err := io.CopyBuffer(struct{ io.Writer }{file}, b, *buffer)
	return err
}

// keepSweeping sweeps now and then until ctx ends.
func (d *Dir) keepSweeping(ctx context.Context, every time.Duration) {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			// A folder that can't be written to shows in Check, and what is left is swept later.
			_ = d.sweep(time.Now()) //nolint:errcheck // See above.
		}
	}
}

// sweep makes the temporary folder and removes the temporary files that crashes have left there. A file that is being
// written, even by another process, is locked; on file systems without locks it changes all the time.
func (d *Dir) sweep(now time.Time) error {
	if err := d.root.MkdirAll(tempFolder, folderMode); err != nil {
		return err
	}
	folder, err := d.root.Open(tempFolder)
	if err != nil {
		return err
	}
	names, err := folder.Readdirnames(-1)
	if err := errors.Join(err, folder.Close()); err != nil {
		return err
	}
	for _, name := range names {
		name = path.Join(tempFolder, name)
		info, err := d.root.Lstat(name)
		if err == nil && info.Mode().IsRegular() && now.Sub(info.ModTime()) > leftoverAge {
			err = d.removeLeftover(name)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) { // Another process may sweep, too.
			return err
		}
	}
	return nil
}

// removeLeftover removes an old temporary file unless its writer still lives.
func (d *Dir) removeLeftover(name string) error {
	file, err := d.root.Open(name)
	if err != nil {
		return err
	}
	defer file.Close() //nolint:errcheck // It is only locked.
	if errors.Is(lockFile(file), errLocked) {
		return nil
	}
	return d.root.Remove(name)
}
