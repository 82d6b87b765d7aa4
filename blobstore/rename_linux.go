package blobstore

import (
	"errors"
	"os"
	"path"
	"syscall"

	"golang.org/x/sys/unix"
)

// renameNoReplace renames from to to in one step, unless to exists (fs.ErrExist). os.Root has no such call, so the
// two folders are opened through the root, which keeps them inside, and the last steps are plain names. On file
// systems that don't know the flag, a hard link does the same.
func renameNoReplace(root *os.Root, from, to string) error {
	fromFolder, err := root.Open(path.Dir(from))
	if err != nil {
		return err
	}
	defer fromFolder.Close() //nolint:errcheck // It is only read.
	toFolder, err := root.Open(path.Dir(to))
	if err != nil {
		return err
	}
	defer toFolder.Close() //nolint:errcheck // It is only read.
	err = unix.Renameat2(int(fromFolder.Fd()), path.Base(from), int(toFolder.Fd()), path.Base(to), unix.RENAME_NOREPLACE)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, syscall.EINVAL), errors.Is(err, errors.ErrUnsupported):
		return linkNoReplace(root, from, to)
	}
	return &os.LinkError{Op: "renameat2", Old: from, New: to, Err: err}
}
