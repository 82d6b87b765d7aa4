//go:build linux || darwin

package blobstore

import "syscall"

// freeSpace is how much a user without privileges can still write below a folder, in bytes.
func freeSpace(path string) (int64, error) {
	var volume syscall.Statfs_t
	if err := syscall.Statfs(path, &volume); err != nil {
		return 0, err
	}
	return int64(volume.Bavail) * int64(volume.Bsize), nil //nolint:unconvert // The types differ from system to system.
}
