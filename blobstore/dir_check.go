package blobstore

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/pawlhq/pawl/publish"
)

// Check makes and removes an empty file, and looks whether the folder is still the one that stands at its path:
// a volume that was mounted over it, or a folder that was replaced, would otherwise go unnoticed.
func (d *Dir) Check(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	here, err := d.root.Stat(".")
	if err != nil {
		return publish.Unavailable("the blob store's folder", err)
	}
	there, err := os.Stat(d.path)
	if err != nil {
		return publish.Unavailable("the blob store's folder", err)
	}
	if !os.SameFile(here, there) {
		return publish.Unavailable("the blob store's folder", fmt.Errorf("another folder is now at %s: restart Pawl", d.path))
	}
	t, err := d.createTemp()
	if err != nil {
		return dirError("checking", "the folder", err)
	}
	if err := errors.Join(t.Close(), d.root.Remove(t.name)); err != nil {
		return dirError("checking", "the folder", err)
	}
	return nil
}
