//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package blobstore

import (
	"errors"
	"os"
	"syscall"
)

// errLocked says that somebody else has locked a file.
var errLocked = errors.New("the file is locked")

// lockFile locks an open file until it is closed, by whatever end of the process. Other errors than errLocked mean that the
// file system has no locks.
func lockFile(file *os.File) error {
	err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) //nolint:gosec // A file descriptor is small.
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return errLocked
	}
	return err
}
