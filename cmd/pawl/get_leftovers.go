package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// open makes the folders of the assembly, or takes those over that an earlier run has left. A link in place of one is removed: what it
// names is somebody else's, and the link would be put into place instead of the set.
func (s *assembly) open() (err error) {
	for _, dir := range []string{"", "set", "parts"} {
		dir = filepath.Join(s.path, dir)
		if info, err := os.Lstat(dir); err == nil && !info.IsDir() {
			if err := os.Remove(dir); err != nil {
				return ioError{err}
			}
		}
		if err := os.Mkdir(dir, 0o777); err != nil && !errors.Is(err, fs.ErrExist) {
			return ioError{err}
		}
	}
	if s.root, err = os.OpenRoot(s.path); err != nil {
		return ioError{err}
	}
	return nil
}

// clear removes what isn't the set's from where it is put together: links, above all, which would lead files elsewhere.
func (s *assembly) clear() (folders []string, files int, err error) {
	strangers, folders, files, err := compare(s.root, "set", s.listing)
	if err != nil {
		return nil, 0, ioError{err}
	}
	for _, name := range strangers {
		if err := s.root.RemoveAll(name); err != nil {
			return nil, 0, ioError{err}
		}
	}
	return folders, files, nil
}

// openPart opens what an earlier run has left of a file, or makes an empty one. What lies there and isn't a part is removed.
func (s *assembly) openPart(part string) (*os.File, error) {
	info, err := s.root.Lstat(part)
	switch {
	case err == nil && isPart(info):
		f, err := s.root.OpenFile(part, os.O_RDWR, 0)
		if err != nil {
			return nil, ioError{err}
		}
		// Root follows a link that leads to its inside.
		if opened, err := f.Stat(); err != nil || !os.SameFile(opened, info) {
			return nil, ioError{errors.Join(fmt.Errorf("%s was exchanged while it was opened", f.Name()), err, f.Close())}
		}
		return f, nil
	case err == nil:
		if err := s.root.RemoveAll(part); err != nil {
			return nil, ioError{err}
		}
	case !errors.Is(err, fs.ErrNotExist):
		return nil, ioError{err}
	}
	f, err := s.root.OpenFile(part, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o666) // With O_EXCL no link is followed.
	if err != nil {
		return nil, ioError{err}
	}
	return f, nil
}

// isPart reports whether an entry may be a part of an earlier run, and so be written to: no link, no pipe, and no file that is another
// user's or has a second name, where somebody would see it change.
func isPart(info fs.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && info.Mode().IsRegular() && stat.Nlink == 1 && int(stat.Uid) == os.Geteuid()
}
