package blobstore

import (
	"context"
	"errors"
	"io/fs"
	"iter"
	"path"
	"slices"
	"strings"
	"syscall"

	"github.com/pawlhq/pawl/publish"
)

// errStop ends a walk whose consumer wants no more.
var errStop = errors.New("stop")

// List walks the tree. Only the names of one folder for each level are in memory at a time. Symbolic links and
// other special files are no objects.
func (d *Dir) List(ctx context.Context, prefix string) iter.Seq2[publish.ObjectInfo, error] {
	return func(yield func(publish.ObjectInfo, error) bool) {
		folder, start := ".", prefix
		if slash := strings.LastIndexByte(prefix, '/'); slash >= 0 {
			folder, start = prefix[:slash], prefix[slash+1:]
		}
		if !fs.ValidPath(folder) || folder == "-" || strings.HasPrefix(folder, "-/") {
			return // No object has such a name.
		}
		if err := d.walk(ctx, folder, start, yield); err != nil && !errors.Is(err, errStop) {
			yield(publish.ObjectInfo{}, dirError("listing", publish.ObjectName(prefix), err))
		}
	}
}

// Unfinished yields nothing: unfinished objects have no name here; see sweep.
func (d *Dir) Unfinished(ctx context.Context, _ string) iter.Seq2[publish.ObjectName, error] {
	return func(yield func(publish.ObjectName, error) bool) {
		if err := ctx.Err(); err != nil {
			yield("", err)
		}
	}
}

// walk yields the objects in folder and below whose names start with start.
func (d *Dir) walk(ctx context.Context, folder, start string, yield func(publish.ObjectInfo, error) bool) error {
	entries, err := d.readFolder(folder)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if err := ctx.Err(); err != nil {
			return err
		}
		name := path.Join(folder, strings.TrimSuffix(entry, "/"))
		switch {
		case !strings.HasPrefix(entry, start), name == "-": // "-" holds the temporary files.
			continue
		case strings.HasSuffix(entry, "/"):
			err = d.walk(ctx, name, "", yield)
		default:
			err = d.yieldFile(name, yield)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// readFolder returns the names of the files and folders in folder, folders with a slash behind them. Sorted like
// this, "a.b" comes before "a/", as it does in the byte order of the objects' full names. A folder that is gone is empty.
func (d *Dir) readFolder(folder string) ([]string, error) {
	file, err := d.root.Open(folder)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	found, err := file.ReadDir(-1)
	if errors.Is(err, syscall.ENOTDIR) {
		found, err = nil, nil // The prefix has an object where it means a folder.
	}
	if err := errors.Join(err, file.Close()); err != nil {
		return nil, err
	}
	names := make([]string, 0, len(found))
	for _, entry := range found {
		switch {
		case entry.IsDir():
			names = append(names, entry.Name()+"/")
		case entry.Type().IsRegular():
			names = append(names, entry.Name())
		}
	}
	slices.Sort(names)
	return names, nil
}

func (d *Dir) yieldFile(name string, yield func(publish.ObjectInfo, error) bool) error {
	info, err := d.root.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // Deleted meanwhile.
	}
	if err != nil {
		return err
	}
	if !yield(publish.ObjectInfo{Name: publish.ObjectName(name), Size: info.Size(), Modified: info.ModTime()}, nil) {
		return errStop
	}
	return nil
}
