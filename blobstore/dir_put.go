package blobstore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"

	"github.com/pawlhq/pawl/publish"
)

// placeAttempts bounds how often Put makes the parent folders again after a Delete beside it has found them empty
// and removed them. Each failed attempt needs another such Delete in a window of microseconds.
const placeAttempts = 100

// Put writes a temporary file, syncs it, gives it its final name unless that is taken, and syncs the folders
// above. The content type is not kept: the manifest has it.
func (d *Dir) Put(ctx context.Context, name publish.ObjectName, from io.Reader, size int64, _ string) error {
	if err := checkName(name); err != nil {
		return err
	}
	b := newBody(ctx, from, size)
	t, err := d.writeTemp(b)
	if err == nil {
		defer t.Close() //nolint:errcheck // All of it is synced; what Close says is no news.
	}
	if _, fault := b.stop(); fault != nil {
		return fmt.Errorf("blob store: storing %s: %w", name, fault)
	}
	if err == nil {
		err = d.place(ctx, t.name, string(name))
	}
	switch {
	case err == nil:
		return nil
	case errors.Is(err, fs.ErrExist):
		return fmt.Errorf("blob store: storing %s: %w", name, publish.ErrObjectExists)
	}
	return dirError("storing", name, err)
}

// place moves the complete temporary file to its name. Until the rename a crash leaves a temporary file and
// perhaps empty folders; after it, and before the folders are synced, the object may be there or not, but never in part.
func (d *Dir) place(ctx context.Context, temp, name string) error {
	folder := path.Dir(name)
	var fresh []string
	err := fs.ErrNotExist
	for attempt := 0; attempt < placeAttempts && errors.Is(err, fs.ErrNotExist); attempt++ {
		if err = ctx.Err(); err != nil {
			break
		}
		var made []string
		made, err = d.makeFolders(folder)
		fresh = append(fresh, made...)
		if err == nil {
			err = d.createOnly(d.root, temp, name)
		}
	}
	// Folders are synced after a failure, too: an upload beside this one may already stand on them.
	err = errors.Join(err, d.syncParents(folder, fresh))
	if err != nil {
		// The object may be in place by now, with the sync failed; then the temporary name is gone already.
		if removeErr := d.root.Remove(temp); removeErr != nil && !errors.Is(removeErr, fs.ErrNotExist) {
			err = errors.Join(err, removeErr)
		}
		d.prune(folder)
	}
	return err
}
