package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"golang.org/x/text/unicode/norm"

	"github.com/pawlhq/pawl/publish"
)

// fileSet are the files of a folder, in the order of their paths. They are read through root, which no link leads out of.
type fileSet struct {
	folder string
	root   *os.Root
	files  []setFile
	bytes  int64 // of all files, when the folder was walked
}

// setFile is one file: its name on the disk, and its path in the set, which is the same text when that is in NFC.
type setFile struct {
	name string
	path publish.Path
	info fs.FileInfo // when the folder was walked; of a link, that of its file
}

// openSet walks a folder. It reads no file; but everything that can't be published is found and named, all of it in one error.
func (a *app) openSet(ctx context.Context, folder string) (_ *fileSet, err error) {
	root, err := os.OpenRoot(folder)
	if err != nil {
		return nil, missingError{err}
	}
	s := &fileSet{folder: folder, root: root}
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	renamed, err := s.walk(ctx)
	if err != nil {
		return nil, err
	}
	if renamed > 0 {
		a.notice("%d name(s) were not in NFC and are sent in it", renamed)
	}
	return s, nil
}

// walk finds the files, and how many of their names aren't in NFC.
func (s *fileSet) walk(ctx context.Context) (renamed int, err error) {
	var faults []string
	err = fs.WalkDir(s.root.FS(), ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil:
			return missingError{err}
		case entry.IsDir():
			return nil
		}
		path, info, fault := s.check(name, entry)
		if fault != "" {
			faults = append(faults, fmt.Sprintf("%+q %s", name, fault))
			return nil
		}
		if string(path) != name {
			renamed++
		}
		s.files = append(s.files, setFile{name, path, info})
		return nil
	})
	if err != nil {
		return 0, err
	}
	slices.SortFunc(s.files, func(a, b setFile) int {
		return cmp.Or(strings.Compare(string(a.path), string(b.path)), strings.Compare(a.name, b.name))
	})
	for i := 1; i < len(s.files); i++ {
		if s.files[i].path == s.files[i-1].path {
			faults = append(faults, fmt.Sprintf("%+q and %+q are one name in NFC", s.files[i-1].name, s.files[i].name))
		}
	}
	switch {
	case len(faults) > 0:
		return 0, missingError{fmt.Errorf("%s can't be published; nothing was uploaded:\n  %s", s.folder, strings.Join(faults, "\n  "))}
	case len(s.files) == 0:
		return 0, missingError{fmt.Errorf("%s holds no file; there is nothing to publish", s.folder)}
	}
	return renamed, nil
}

// unchanged walks the folder again and compares: what was uploaded one file after the other is a set only if the folder was the same
// all the while, as far as names, lengths and times tell.
func (s *fileSet) unchanged(ctx context.Context) error {
	now := &fileSet{folder: s.folder, root: s.root}
	if _, err := now.walk(ctx); err != nil {
		if ctx.Err() != nil {
			return err
		}
		return changedError{s.folder}
	}
	for i, file := range s.files {
		if i >= len(now.files) || now.files[i].name != file.name {
			return changedError{filepath.Join(s.folder, file.name)}
		}
		if other := now.files[i].info; !os.SameFile(file.info, other) || !sameContent(file.info, other) {
			return changedError{filepath.Join(s.folder, file.name)}
		}
	}
	if len(now.files) > len(s.files) {
		return changedError{filepath.Join(s.folder, now.files[len(s.files)].name)}
	}
	return nil
}

func (s *fileSet) close() { _ = s.root.Close() } //nolint:errcheck // Nothing was written.

// check says under which path an entry is published, or why it can't be.
func (s *fileSet) check(name string, entry fs.DirEntry) (path publish.Path, info fs.FileInfo, fault string) {
	info, err := entry.Info()
	if err == nil && entry.Type()&fs.ModeSymlink != 0 {
		if info, err = s.root.Stat(name); err != nil {
			return "", nil, "is a link that leads out of the folder, or to nothing; put a copy in its place"
		}
		if !info.Mode().IsRegular() {
			return "", nil, "is a link to something that isn't a file; put files in its place"
		}
	}
	switch {
	case err != nil:
		return "", nil, "can't be read: " + err.Error()
	case !info.Mode().IsRegular():
		return "", nil, "is no file but " + kindOf(info.Mode())
	}
	if path, err = publish.ParsePath(norm.NFC.String(name)); err != nil {
		var refusal *publish.Error
		if errors.As(err, &refusal) && len(refusal.Fields) == 1 {
			return "", nil, refusal.Fields[0].Detail
		}
		return "", nil, err.Error()
	}
	s.bytes += info.Size()
	return path, info, ""
}

// kindOf names what isn't a file.
func kindOf(mode fs.FileMode) string {
	switch {
	case mode&fs.ModeNamedPipe != 0:
		return "a named pipe"
	case mode&fs.ModeSocket != 0:
		return "a socket"
	case mode&fs.ModeDevice != 0:
		return "a device"
	}
	return "something special (" + mode.Type().String() + ")"
}

// has reports whether the set has a path.
func (s *fileSet) has(path publish.Path) bool {
	_, found := slices.BinarySearchFunc(s.files, path, func(f setFile, p publish.Path) int { return strings.Compare(string(f.path), string(p)) })
	return found
}

// open opens a file that is still one: opening a pipe would wait for its writer.
func (s *fileSet) open(file setFile) (*os.File, error) {
	if info, err := s.root.Stat(file.name); err != nil || !info.Mode().IsRegular() {
		return nil, changedError{filepath.Join(s.folder, file.name)}
	}
	f, err := s.root.Open(file.name)
	if err != nil {
		return nil, missingError{fmt.Errorf("%s: %w", s.folder, err)}
	}
	return f, nil
}

// manifestDigest reads all files and gives the digest of the set as the server would publish it.
func (s *fileSet) manifestDigest(ctx context.Context, parallel int) (publish.Digest, error) {
	files := make([]publish.File, 0, len(s.files))
	var mu sync.Mutex
	err := inParallel(ctx, parallel, slices.Values(s.files), func(ctx context.Context, file setFile) error {
		f, err := s.open(file)
		if err != nil {
			return err
		}
		defer f.Close() //nolint:errcheck // It is only read.
		size, digest, _, err := hashFile(ctx, f)
		if err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		files = append(files, publish.File{Path: file.path, Size: size, SHA256: digest, ContentType: publish.ContentType(file.path, "")})
		return nil
	})
	return publish.ManifestDigest(files), err
}
