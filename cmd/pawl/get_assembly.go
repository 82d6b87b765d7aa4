package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"

	"github.com/pawlhq/pawl/publish"
)

// obtain gets one file into the set, by the shortest way: it is there from an earlier run, it lies in the folder as it is, or it is
// fetched, from where an earlier run has got to.
func (s *assembly) obtain(ctx context.Context, file publish.File) error {
	name := path.Join("set", string(file.Path))
	if err := s.root.MkdirAll(path.Dir(name), 0o777); err != nil {
		return ioError{err}
	}
	if info, err := s.root.Lstat(name); err == nil {
		if _, good := sameFile(ctx, s.root, name, file); good {
			s.meter.Add(file.Size)
			s.meter.FileDone()
			return nil
		}
		if info.IsDir() {
			err = s.root.RemoveAll(name)
		} else {
			err = s.root.Remove(name)
		}
		if err != nil {
			return ioError{err}
		}
	}
	if s.linked(ctx, name, file) {
		s.meter.Add(file.Size)
		s.meter.FileDone()
		return nil
	}
	if err := s.fetch(ctx, name, file); err != nil {
		return err
	}
	s.meter.FileDone()
	return nil
}

// sameFile reports whether what lies under a name is a plain file with the bytes of the manifest, and which one.
func sameFile(ctx context.Context, root *os.Root, name string, file publish.File) (fs.FileInfo, bool) {
	// A pipe would wait for its writer, so the type is looked at first.
	if info, err := root.Lstat(name); err != nil || !info.Mode().IsRegular() || info.Size() != file.Size {
		return nil, false
	}
	f, err := root.Open(name)
	if err != nil {
		return nil, false
	}
	defer f.Close() //nolint:errcheck // It is only read.
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return nil, false
	}
	sum := sha256.New()
	n, err := io.Copy(sum, &endingReader{ctx, f})
	return info, err == nil && n == file.Size && publish.Digest(sum.Sum(nil)) == file.SHA256
}

// endingReader reads until ctx ends.
type endingReader struct {
	ctx  context.Context
	from io.Reader
}

func (r *endingReader) Read(p []byte) (int, error) {
	if r.ctx.Err() != nil {
		return 0, context.Cause(r.ctx)
	}
	return r.from.Read(p)
}

// linked takes a file over from the folder as it is: a second name for the same bytes, once their digest is proved.
func (s *assembly) linked(ctx context.Context, name string, file publish.File) bool {
	if s.present == nil {
		return false
	}
	info, good := sameFile(ctx, s.present, string(file.Path), file)
	if !good {
		return false
	}
	target := filepath.Join(s.path, filepath.FromSlash(name))
	if err := os.Link(filepath.Join(s.present.Name(), filepath.FromSlash(string(file.Path))), target); err != nil {
		return false // This file system has no links, or not for this file: it is fetched.
	}
	if linked, err := s.root.Lstat(name); err == nil && os.SameFile(linked, info) {
		return true
	}
	_ = s.root.Remove(name) //nolint:errcheck // The fetched file takes its place.
	return false
}

// fetch downloads a file, or what is missing of it. A crash leaves a part, which a later run goes on with; the file gets its name when it is
// whole, good and durable.
func (s *assembly) fetch(ctx context.Context, name string, file publish.File) error {
	sum := sha256.Sum256([]byte(file.Path))
	part := "parts/" + hex.EncodeToString(sum[:])
	f, err := s.openPart(part)
	if err != nil {
		return ioError{err}
	}
	had, err := s.fetchInto(ctx, f, file, true)
	if errors.Is(err, publish.ErrDigestMismatch) && had > 0 {
		_, err = s.fetchInto(ctx, f, file, false) // Perhaps what was kept is bad: a crash can leave zeros.
	}
	if err == nil {
		if err = f.Sync(); err != nil {
			err = ioError{err}
		}
	}
	if closing := f.Close(); err == nil && closing != nil {
		err = ioError{closing}
	}
	if err == nil {
		if err = s.root.Rename(part, name); err != nil {
			err = ioError{err}
		}
	} else if errors.Is(err, publish.ErrDigestMismatch) || errors.Is(err, publish.ErrLengthMismatch) {
		_ = s.root.Remove(part) //nolint:errcheck // It is checked again before it counts.
	}
	if err != nil {
		return downloadError{file.Path, err}
	}
	return nil
}

// fetchInto writes a file from its permanent address. With keep it goes on after what f holds; it returns how many bytes that were.
func (s *assembly) fetchInto(ctx context.Context, f *os.File, file publish.File, keep bool) (had int64, err error) {
	info, err := f.Stat()
	if err != nil {
		return 0, ioError{err}
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return 0, ioError{err}
	}
	var seen hash.Hash
	if had = info.Size(); !keep || had > file.Size || had == 0 {
		had = 0
		if err := f.Truncate(0); err != nil {
			return 0, ioError{err}
		}
	} else {
		seen = sha256.New()
		if _, err := io.CopyN(seen, &endingReader{ctx, f}, had); ctx.Err() != nil {
			return 0, context.Cause(ctx)
		} else if err != nil {
			return 0, ioError{err}
		}
	}
	download, err := s.client.OpenFile(ctx, s.listing.Key, s.listing.Version(), file, had, seen)
	if err != nil {
		return had, err
	}
	defer download.Close() //nolint:errcheck // Nothing was written.
	told := had
	s.meter.Add(had)
	_, err = io.Copy(&diskWriter{f}, &toldReader{download, func(n int64) {
		told += n
		s.meter.Add(n)
		s.fetched.Add(n)
	}})
	if err != nil {
		s.meter.Add(-told)
	}
	return had, err
}

// diskWriter marks errors of writing, which have another exit code than those of reading.
type diskWriter struct{ to io.Writer }

func (w *diskWriter) Write(p []byte) (int, error) {
	n, err := w.to.Write(p)
	if err != nil {
		err = ioError{err}
	}
	return n, err
}

// finish checks that the set is whole, and makes its folders durable.
func (s *assembly) finish() error {
	folders, files, err := s.clear()
	if err != nil {
		return err
	}
	if files != len(s.listing.files) {
		return ioError{fmt.Errorf("%s was changed while it was filled: it has %d of %d files", s.path, files, len(s.listing.files))}
	}
	for _, name := range folders {
		if err := syncFolder(filepath.Join(s.path, filepath.FromSlash(name))); err != nil {
			return err
		}
	}
	return nil
}

// compare walks a folder: strangers are entries that the listing doesn't have, folders and files those that it has.
func compare(root *os.Root, start string, l listing) (strangers, folders []string, files int, err error) {
	wanted, dirs := make(map[string]bool, len(l.files)), map[string]bool{start: true}
	for _, file := range l.files {
		name := path.Join(start, string(file.Path))
		wanted[name] = true
		for dir := path.Dir(name); !dirs[dir]; dir = path.Dir(dir) {
			dirs[dir] = true
		}
	}
	err = fs.WalkDir(root.FS(), start, func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && dirs[name]:
			folders = append(folders, name)
		case entry.Type().IsRegular() && wanted[name]:
			files++
		default:
			strangers = append(strangers, name)
			if entry.IsDir() {
				return fs.SkipDir
			}
		}
		return nil
	})
	return strangers, folders, files, err
}

var errNotHeld = errors.New("the folder holds something else")

// holds reports whether the folder as it is has exactly the files of a version. Every byte is read.
func (t *target) holds(ctx context.Context, l listing, parallel int) bool {
	root, err := os.OpenRoot(t.path)
	if err != nil {
		return false
	}
	defer root.Close() //nolint:errcheck // It is only read.
	strangers, _, files, err := compare(root, ".", l)
	if err != nil || len(strangers) > 0 || files != len(l.files) {
		return false
	}
	return inParallel(ctx, parallel, slices.Values(l.files), func(ctx context.Context, file publish.File) error {
		if _, good := sameFile(ctx, root, string(file.Path), file); !good {
			return errNotHeld
		}
		return nil
	}) == nil
}
