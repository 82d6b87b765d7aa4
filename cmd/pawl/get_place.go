package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// tidy brings what a killed run has left into order, and removes the leftovers of versions other than the one that is wanted. The lock is
// held, so no living run has them.
func (t *target) tidy(wanted string) error {
	// away: killed between the two renames of a swap, or after it.
	if _, err := os.Lstat(t.path); errors.Is(err, fs.ErrNotExist) {
		if err := os.Rename(t.join("away"), t.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return ioError{fmt.Errorf("bringing back the folder of before: %w", err)}
		}
	}
	// new: killed just before the swap, when it is the complete set, or after, when it is the old folder. Only the former is known by state.json
	// as the newest one.
	if info, err := os.Lstat(t.join("new")); err == nil {
		if all := t.state(); len(all) > 0 && all[len(all)-1].is(info) {
			set := filepath.Join(t.join(all[len(all)-1].setName()), "set")
			if err := os.Rename(t.join("new"), set); err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrExist) {
				return ioError{err}
			}
		}
	}
	entries, err := os.ReadDir(t.beside)
	if err != nil {
		return ioError{err}
	}
	for _, entry := range entries {
		if entry.Name() == "state.json" || entry.Name() == wanted {
			continue
		}
		if err := os.RemoveAll(t.join(entry.Name())); err != nil {
			return ioError{fmt.Errorf("removing what an earlier run has left: %w", err)}
		}
	}
	return nil
}

// place puts a complete set into place. Whoever looks sees the old folder or the new one, and so does whoever looks after a crash:
//
//	before the swap   the old folder; the next run goes on with the complete set
//	after it          the new folder; the next run removes the old one
//
// It returns whether the folder was swapped in one step.
func (t *target) place(p placed, replace bool) (atomic bool, err error) {
	set := filepath.Join(t.join(p.setName()), "set")
	info, err := os.Lstat(set)
	if err == nil && !info.IsDir() {
		err = fmt.Errorf("%s was exchanged while it was filled", set)
	}
	if err != nil {
		return false, ioError{err}
	}
	if err := errors.Join(p.identify(info), p.noteFiles(set)); err != nil {
		return false, err
	}
	if err := t.mayReplace(replace); err != nil {
		return false, err // It was changed while the files came.
	}
	present, known, err := t.present()
	if err != nil {
		return false, err
	}
	var ours []placed
	if known != nil {
		ours = append(ours, *known)
	}
	if present != nil {
		if err := takeOver(set, present); err != nil {
			return false, err
		}
	}
	// A crash before the swap leaves both folders known; the new one isn't anywhere that could be mistaken for it.
	if err := t.remember(append(ours, p)); err != nil {
		return false, err
	}
	if err := os.Rename(set, t.join("new")); err != nil {
		return false, ioError{err}
	}
	if err := syncFolder(t.beside); err != nil {
		return false, err
	}
	if atomic, err = t.swap(present != nil); err != nil {
		return false, ioError{fmt.Errorf("putting the folder into place: %w", err)}
	}
	if err := syncFolder(filepath.Dir(t.path)); err != nil {
		return atomic, err
	}
	// Some file systems change a folder's time when it is moved.
	if info, err := os.Lstat(t.path); err == nil {
		if err := p.identify(info); err != nil {
			return atomic, err
		}
	}
	return atomic, t.remember([]placed{p})
}

// swap exchanges new and the folder, or puts new where no folder is.
func (t *target) swap(present bool) (atomic bool, err error) {
	if !present {
		return true, os.Rename(t.join("new"), t.path)
	}
	if err := t.exchange(t.join("new"), t.path); !errors.Is(err, errors.ErrUnsupported) {
		return true, err
	}
	if err := os.Rename(t.path, t.join("away")); err != nil {
		return false, err
	}
	if err := os.Rename(t.join("new"), t.path); err != nil {
		return false, errors.Join(err, os.Rename(t.join("away"), t.path))
	}
	return false, nil
}
