//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package blobstore

import (
	"errors"
	"os"
)

var errLocked = errors.New("the file is locked")

func lockFile(*os.File) error { return errors.ErrUnsupported }
