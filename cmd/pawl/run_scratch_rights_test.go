//go:build linux

package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// asOrdinaryUser runs do in a thread without the rights by which root passes over those of files.
func asOrdinaryUser(t *testing.T, do func()) {
	t.Helper()
	failed := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine
		header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
		var none [2]unix.CapUserData
		err := unix.Capset(&header, &none[0])
		if err == nil {
			do()
		}
		failed <- err
	}()
	if err := <-failed; err != nil {
		t.Fatal(err)
	}
}

// A scratch folder goes with all that is in it, also when the command has taken the right to write from folders.
func TestScratchWithoutRightsIsRemoved(t *testing.T) {
	t.Parallel()
	dir, outside := t.TempDir(), t.TempDir()
	if err := os.Chmod(outside, 0o500); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "pawl-run-1.d")
	for _, folder := range []string{"a/b", "c"} {
		if err := os.MkdirAll(filepath.Join(path, folder), 0o700); err != nil {
			t.Fatal(err)
		}
		touch(t, filepath.Join(path, folder, "file"))
	}
	if err := os.Symlink(outside, filepath.Join(path, "link")); err != nil {
		t.Fatal(err)
	}
	for folder, mode := range map[string]fs.FileMode{"a/b": 0o500, "a": 0, "c": 0o500, "": 0o500} {
		defer os.Chmod(filepath.Join(path, folder), 0o700) //nolint:errcheck // It is removed.
		if err := os.Chmod(filepath.Join(path, folder), mode); err != nil && folder != "a/b" {
			t.Fatal(err)
		}
	}
	asOrdinaryUser(t, func() { scratch{path: path}.remove() })
	if _, err := os.Lstat(path); !os.IsNotExist(err) {
		t.Errorf("it is left: %v", err)
	}
	if info, err := os.Stat(outside); err != nil || info.Mode().Perm() != 0o500 {
		t.Errorf("a folder behind a link has mode %v, %v", info.Mode(), err)
	}
}

// An output that can't be read is named as what it is.
func TestUnreadableOutput(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	touch(t, filepath.Join(dir, "f"))
	if err := os.Chmod(filepath.Join(dir, "f"), 0); err != nil {
		t.Fatal(err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	asOrdinaryUser(t, func() { err = worker{}.uploadFile(t.Context(), output{path: "f", root: root, name: "f"}) })
	if err == nil || err.Error() != "output f can't be published: permission denied" || exitCode(err) != exitMissing {
		t.Errorf("%v", err)
	}
}
