package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"syscall"
	"time"
)

// scratchName is what scratch folders are called. Folders of versions that didn't lock theirs end without the suffix.
var scratchName = regexp.MustCompile(`^pawl-run-[0-9]+\.d$`)

const scratchPattern = "pawl-run-*.d"

// scratchAge is how old a scratch folder must be before anybody takes it for left behind: between its making and its lock it looks so.
const scratchAge = time.Minute

// scratch is the folder PAWL_OUT of one run. It is locked as long as this process lives, however it ends.
type scratch struct {
	path string
	lock *os.File // nil on a file system without locks
}

// makeScratch makes a folder in the folder for temporary files.
func makeScratch() (scratch, error) {
	for {
		path, err := os.MkdirTemp("", scratchPattern)
		if err != nil {
			return scratch{}, ioError{fmt.Errorf("making the folder PAWL_OUT: %w; let TMPDIR name a folder that can be written", err)}
		}
		lock, err := lockFolder(path)
		if err == nil {
			if here, err := os.Stat(path); err == nil && isFolder(lock, here) {
				return scratch{path: path, lock: lock}, nil
			}
			_ = lock.Close() //nolint:errcheck // It was only locked. This process was stopped for so long that the folder was swept.
			continue
		}
		// Without a lock the folder must not have the name of one that is swept.
		unswept := path + "-unlocked"
		if err := os.Rename(path, unswept); err != nil {
			return scratch{}, ioError{fmt.Errorf("making the folder PAWL_OUT: %w", err)}
		}
		return scratch{path: unswept}, nil
	}
}

// remove removes the folder and what is in it, then the lock.
func (s scratch) remove() {
	removeScratch(s.path)
	if s.lock != nil {
		_ = s.lock.Close() //nolint:errcheck // It was only locked.
	}
}

// removeScratch removes a scratch folder. What is in a folder without the right to write can't be removed, so the owner's rights come first. What stays all the
// same is in the folder for temporary files.
func removeScratch(path string) {
	_ = os.Chmod(path, 0o700)                       //nolint:errcheck // See above.
	if root, err := os.OpenRoot(path); err == nil { // No link leads out of it.
		_ = fs.WalkDir(root.FS(), ".", func(name string, entry fs.DirEntry, err error) error { //nolint:errcheck // See above.
			if err == nil && entry.IsDir() {
				_ = root.Chmod(name, 0o700) //nolint:errcheck // See above.
			}
			return nil
		})
		_ = root.Close() //nolint:errcheck // Nothing was written.
	}
	_ = os.RemoveAll(path) //nolint:errcheck // See above.
}

// sweepScratch removes the scratch folders of this user whose runs were killed. A folder whose lock is held belongs to a run that
// lives. Nothing depends on it, so what can't be removed stays.
func sweepScratch(now time.Time) {
	parent := os.TempDir()
	entries, err := os.ReadDir(parent)
	if err != nil {
		return
	}
	for _, entry := range entries {
		if !entry.IsDir() || !scratchName.MatchString(entry.Name()) {
			continue
		}
		path := filepath.Join(parent, entry.Name())
		info, err := os.Lstat(path)
		if err != nil || !isOurs(info) || now.Sub(info.ModTime()) < scratchAge {
			continue
		}
		lock, err := lockFolder(path)
		if err != nil {
			continue // its run lives, or another sweep is at it
		}
		if isFolder(lock, info) {
			removeScratch(path)
		}
		_ = lock.Close() //nolint:errcheck // It was only locked.
	}
}

// lockFolder opens a folder and locks it until the file is closed, by whatever end of this process. A command that is run has no part in it.
func lockFolder(path string) (*os.File, error) {
	folder, err := os.OpenFile(path, os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(folder.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil { //nolint:gosec // A file descriptor is small.
		return nil, errors.Join(err, folder.Close())
	}
	return folder, nil
}

// isFolder reports whether an open folder is the one that info describes.
func isFolder(open *os.File, info fs.FileInfo) bool {
	this, err := open.Stat()
	return err == nil && os.SameFile(this, info)
}

// isOurs reports whether a file belongs to this process's user.
func isOurs(info fs.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(stat.Uid) == os.Geteuid()
}
