package blobstore

import (
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

// leftoverAge is how long a temporary file must have been unchanged to count as left by a crash.
const leftoverAge = 24 * time.Hour

// createTemp makes a new empty temporary file.
func (d *Dir) createTemp() (string, *os.File, error) {
	name := path.Join(tempFolder, rand.Text())
	file, err := d.root.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, fileMode)
	if errors.Is(err, fs.ErrNotExist) { // Someone has tidied up the temporary folder.
		if err := d.root.MkdirAll(tempFolder, folderMode); err != nil {
			return "", nil, err
		}
		file, err = d.root.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, fileMode)
	}
	if err != nil {
		return "", nil, err
	}
	return name, file, nil
}

// writeTemp stores all of b under a temporary name and syncs it. A crash in here leaves a temporary file, which
// the sweep of a later start removes; an error leaves nothing.
func (d *Dir) writeTemp(b *body) (string, error) {
	name, file, err := d.createTemp()
	if err != nil {
		return "", err
	}
	err = d.fill(file, b)
	if err == nil {
		err = file.Sync()
	}
	if closeErr := file.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return "", errors.Join(err, d.root.Remove(name))
	}
	return name, nil
}

// fill copies b into file through a pooled buffer.
func (d *Dir) fill(file *os.File, b *body) error {
	buffer := d.buffers.Get().(*[]byte) //nolint:errcheck // The pool has nothing else.
	defer d.buffers.Put(buffer)
	// The file's own ReadFrom would allocate a buffer for each call; hiding it makes CopyBuffer use ours.
	_, err := io.CopyBuffer(struct{ io.Writer }{file}, b, *buffer)
	return err
}

// sweep makes the temporary folder and removes the temporary files that crashes have left there. An upload that
// is still under way, even of another process, changes its file all the time.
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
		temp := path.Join(tempFolder, name)
		info, err := d.root.Lstat(temp)
		if err == nil && info.Mode().IsRegular() && now.Sub(info.ModTime()) > leftoverAge {
			err = d.root.Remove(temp)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) { // Another process may sweep, too.
			return err
		}
	}
	return nil
}
