package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/pawlhq/pawl/client"
	"github.com/pawlhq/pawl/publish"
)

// checkLeaseFile tells whether --lease-file names a place for a file.
func checkLeaseFile(name string) error {
	if name == "" {
		return nil
	}
	info, err := os.Lstat(name)
	switch {
	case err == nil && !info.Mode().IsRegular():
		return usageError{fmt.Errorf("--lease-file %s: is there and is no plain file (%s); name another", name, info.Mode().Type())}
	case err == nil && info.Size() > 0 && !holdsLease(name):
		return usageError{fmt.Errorf("--lease-file %s: is there and holds no lease, so it isn't overwritten; name another, or remove it", name)}
	}
	if info, err := os.Stat(filepath.Dir(name)); err != nil || !info.IsDir() {
		return usageError{fmt.Errorf("--lease-file %s: its folder doesn't exist", name)}
	}
	trial, err := createLease(name)
	if err != nil {
		return usageError{fmt.Errorf("--lease-file %s: can't be written: %w; name one in another folder", name, err)}
	}
	return errors.Join(trial.Close(), os.Remove(trial.Name()))
}

// createLease makes the file of mode 0600 that becomes the lease file called name.
func createLease(name string) (*os.File, error) {
	return os.CreateTemp(filepath.Dir(name), "."+filepath.Base(name)+".*")
}

// holdsLease reports whether a file is what a run, or pawl acquire --json, has written for its lease.
func holdsLease(name string) bool {
	file, err := os.Open(name)
	if err != nil {
		return false
	}
	defer file.Close()   //nolint:errcheck // It is only read.
	const most = 1 << 20 // A lease has a bounded number of labels.
	var lease publish.Lease
	return json.NewDecoder(io.LimitReader(file, most)).Decode(&lease) == nil && lease.Key != "" && lease.Token > 0 && !lease.LeaseID.IsZero()
}

// writtenLease is the file that tells others of the lease. It holds the lease_id, so it is for its owner alone.
type writtenLease struct {
	path    string
	current os.FileInfo // of what was written last
}

// writeLease writes the lease for the first time.
func writeLease(name string, lease client.Lease) (*writtenLease, error) {
	path, err := filepath.Abs(name) // the command may be in another folder when it looks
	file := &writtenLease{path: path}
	if err == nil {
		err = file.write(lease)
	}
	if err != nil {
		return nil, ioError{fmt.Errorf("--lease-file: %w", err)}
	}
	return file, nil
}

// write replaces the file in one step: a reader finds the lease before or after, and never half of it.
func (f *writtenLease) write(lease client.Lease) (err error) {
	text, err := json.Marshal(lease.Lease)
	if err != nil {
		return err
	}
	if f.current != nil {
		if _, err := os.Lstat(f.path); err == nil && !f.isOurs() {
			return errors.New("somebody has put another one in its place")
		}
	}
	temporary, err := createLease(f.path)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(temporary.Name()) //nolint:errcheck // It is renamed already, or can't be removed.
		}
	}()
	_, err = temporary.Write(append(text, '\n'))
	info, statErr := temporary.Stat()
	if err = errors.Join(err, statErr, temporary.Close()); err != nil {
		return err
	}
	if err = os.Rename(temporary.Name(), f.path); err == nil {
		f.current = info
	}
	return err
}

// remove removes the file, unless somebody has put another one there.
func (f *writtenLease) remove() {
	if f.isOurs() {
		_ = os.Remove(f.path) //nolint:errcheck // The lease in it is given back, so it is good for nothing.
	}
}

// isOurs reports whether the file is the one that was written last, and nobody has written into it.
func (f *writtenLease) isOurs() bool {
	info, err := os.Lstat(f.path)
	return err == nil && os.SameFile(info, f.current) && sameContent(info, f.current)
}

// followRenewals rewrites the lease file at each renewal, and removes it at the end. A file that can't be rewritten names the same
// lease still, with an older expiry: no reason to end anything.
func (w worker) followRenewals(ctx context.Context) {
	defer w.leaseFile.remove()
	told := false
	for {
		renewed := w.keeper.Renewed()
		switch err := w.leaseFile.write(w.keeper.Lease()); {
		case err == nil:
			told = false
		case !told:
			told = true
			w.app.notice("the lease file wasn't rewritten, and shows an older expiry: %v", err)
		}
		select {
		case <-renewed:
		case <-ctx.Done():
			return
		}
	}
}
