package main

import (
	"os"
	"syscall"
)

// umask reads the process's file mode mask, which can only be read by setting it.
func umask() os.FileMode {
	mask := syscall.Umask(0o077)
	syscall.Umask(mask)
	return os.FileMode(mask) //nolint:gosec // A mask has nine bits.
}
