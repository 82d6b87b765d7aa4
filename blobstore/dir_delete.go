package blobstore

import (
	"context"
	"errors"
	"io/fs"
	"path"

	"github.com/pawlhq/pawl/publish"
)

// Delete removes the object's file, and then the folders above it that are empty. A crash before the sync may
// bring the file back, a crash after it may leave empty folders.
func (d *Dir) Delete(ctx context.Context, name publish.ObjectName) error {
	if err := errors.Join(ctx.Err(), checkName(name)); err != nil {
		return err
	}
	// Remove would also take an empty folder.
	info, err := d.root.Lstat(string(name))
	if err == nil && info.IsDir() {
		err = fs.ErrNotExist
	}
	if err == nil {
		err = d.root.Remove(string(name))
	}
	folder := path.Dir(string(name))
	if err == nil {
		err = d.syncPath(folder)
	}
	if err != nil {
		return dirError("deleting", name, missing(err))
	}
	d.prune(folder)
	return nil
}

// Discard removes the object, if there is one. Unfinished ones have no name here; see sweep.
func (d *Dir) Discard(ctx context.Context, name publish.ObjectName) error {
	if err := d.Delete(ctx, name); !errors.Is(err, publish.ErrObjectNotFound) {
		return err
	}
	return nil
}
