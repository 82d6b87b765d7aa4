package blobstore

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"

	"github.com/pawlhq/pawl/publish"
)

// dirError translates what the file system said. doing and name say what was going on. Put passes no error of the
// caller's body through here: a body may well come from another, full disk.
func dirError(doing string, name publish.ObjectName, err error) error {
	err = fmt.Errorf("blob store: %s %s: %w", doing, name, err)
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return &publish.Error{
			Code:   publish.ErrQuotaExceeded,
			Detail: "the blob store's folder has no space left; nothing was stored. Free some space or enlarge the volume, then send it again",
			Cause:  err,
		}
	case errors.Is(err, syscall.ESTALE), errors.Is(err, syscall.ENOTCONN), errors.Is(err, syscall.ETIMEDOUT),
		errors.Is(err, syscall.EHOSTDOWN), errors.Is(err, syscall.EROFS):
		// A network file system that is gone, or a volume that was remounted read-only after a fault.
		return publish.Unavailable("the blob store's folder", err)
	}
	return err
}

// missing says that there is no such object, if that is what the file system said. For Put, the same answer means
// something else.
func missing(err error) error {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return fmt.Errorf("%w: %w", publish.ErrObjectNotFound, err)
	}
	return err
}
