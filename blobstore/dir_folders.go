package blobstore

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"slices"
	"syscall"
)

// makeFolders makes folder and what is missing above it. It returns the folders whose entries in their parents
// must be synced before anything in them is durable: those that it made, and those that an upload beside it has made
// and not synced yet. Each of them counts in unsynced until syncParents is done with it.
func (d *Dir) makeFolders(folder string) (fresh []string, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	made, err := d.makeFolder(folder)
	for ; folder != "."; folder = path.Dir(folder) {
		if d.unsynced[folder] > 0 || slices.Contains(made, folder) {
			d.unsynced[folder]++
			fresh = append(fresh, folder)
		}
	}
	return fresh, err
}

// makeFolder makes folder from the bottom up, since an upload's own folder is always new and most of those above
// exist. It returns the folders that it made, also after an error.
func (d *Dir) makeFolder(folder string) (made []string, err error) {
	if folder == "." {
		return nil, nil
	}
	err = d.root.Mkdir(folder, folderMode)
	if errors.Is(err, fs.ErrNotExist) {
		if made, err = d.makeFolder(path.Dir(folder)); err != nil {
			return made, err
		}
		err = d.root.Mkdir(folder, folderMode)
	}
	switch {
	case errors.Is(err, fs.ErrExist):
		return made, nil
	case err != nil:
		return made, err
	}
	return append(made, folder), nil
}

// syncParents makes durable what place has done: the entry of the object in folder, and the entries of the fresh
// folders in their parents. Folders whose sync failed stay counted, so that later uploads sync them as well.
func (d *Dir) syncParents(folder string, fresh []string) error {
	err := d.syncPath(folder)
	for _, made := range fresh {
		if syncErr := d.syncPath(path.Dir(made)); syncErr != nil {
			err = errors.Join(err, syncErr)
			continue
		}
		d.mu.Lock()
		if d.unsynced[made]--; d.unsynced[made] == 0 {
			delete(d.unsynced, made)
		}
		d.mu.Unlock()
	}
	return err
}

// syncPath syncs one folder. A folder that is gone needs no sync: it was empty when it went.
func (d *Dir) syncPath(folder string) error {
	file, err := d.root.Open(folder)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return errors.Join(syncFolder(file), file.Close())
}

// syncFolder syncs an open folder. Some network file systems can't and say EINVAL; what is in their folders is
// as durable as they make it.
func syncFolder(folder *os.File) error {
	err := folder.Sync()
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, errors.ErrUnsupported) {
		return nil
	}
	return err
}

// prune removes folder and those above it as long as they are empty.
func (d *Dir) prune(folder string) {
	for ; folder != "."; folder = path.Dir(folder) {
		// Remove would also take a symbolic link, whatever it leads to.
		if info, err := d.root.Lstat(folder); err != nil || !info.IsDir() {
			return
		}
		if err := d.root.Remove(folder); err != nil {
			return // Not empty, most of the time; and an empty folder that stays does no harm.
		}
	}
}
