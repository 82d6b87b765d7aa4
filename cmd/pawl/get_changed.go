package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/pawlhq/pawl/publish"
)

// placedFile is enough of a file that get has put into a folder to see that somebody worked on it since.
type placedFile struct {
	Path     publish.Path `json:"path"`
	Size     int64        `json:"size"`
	Modified int64        `json:"mtime_ns"`
}

// noteFiles notes all files of a complete set.
func (p *placed) noteFiles(set string) error {
	p.Files = nil
	return eachFile(set, func(name string, info fs.FileInfo) {
		p.Files = append(p.Files, placedFile{publish.Path(name), info.Size(), info.ModTime().UnixNano()})
	})
}

// changes says what in the folder isn't as get left it, and would be lost: files that were added, also below its subfolders, or written
// to. What is missing is no loss.
func (t *target) changes(p placed) (changed []string, err error) {
	known := make(map[string]placedFile, len(p.Files))
	for _, file := range p.Files {
		known[string(file.Path)] = file
	}
	err = eachFile(t.path, func(name string, info fs.FileInfo) {
		file, found := known[name]
		switch {
		case !found || !info.Mode().IsRegular():
			changed = append(changed, fmt.Sprintf("%q isn't from pawl", name))
		case info.Size() != file.Size || info.ModTime().UnixNano() != file.Modified:
			changed = append(changed, fmt.Sprintf("%q was changed", name))
		}
	})
	return changed, err
}

// eachFile visits all that isn't a folder, by its path with slashes.
func eachFile(folder string, visit func(name string, info fs.FileInfo)) error {
	err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		info, err := entry.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil // It was removed just now.
		}
		if err != nil {
			return err
		}
		name, err := filepath.Rel(folder, path)
		if err == nil {
			visit(filepath.ToSlash(name), info)
		}
		return err
	})
	if err != nil {
		return ioError{err}
	}
	return nil
}

// someOf lists the first few of what would be lost.
func someOf(changed []string) string {
	const most = 10
	text := ""
	for i, what := range changed {
		if i == most {
			return fmt.Sprintf("%s, and %d more", text, len(changed)-most)
		}
		if i > 0 {
			text += ", "
		}
		text += what
	}
	return text
}

// takeOver gives a new folder the owner and the mode of the one that it replaces: what was closed to others stays closed, and what a group
// shares stays the group's, as far as this user may say so.
func takeOver(folder string, old fs.FileInfo) error {
	if stat, ok := old.Sys().(*syscall.Stat_t); ok {
		_ = os.Chown(folder, int(stat.Uid), int(stat.Gid)) //nolint:errcheck // Not every user may; the mode decides who may enter.
	}
	if err := os.Chmod(folder, old.Mode()&(fs.ModePerm|fs.ModeSetuid|fs.ModeSetgid|fs.ModeSticky)); err != nil {
		return ioError{err}
	}
	return nil
}
