//go:build unix

package devpg_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pawlhq/pawl/internal/devpg"
)

func TestOtherMajorVersionIsRefused(t *testing.T) {
	t.Parallel()
	dir := tempDir(t)
	stop(t, start(t, devpg.Options{Dir: dir}))
	version := filepath.Join(dir, "data", "PG_VERSION")
	before, err := os.ReadFile(version)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(version, []byte("99\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = devpg.Start(t.Context(), devpg.Options{Dir: dir})
	mismatch, ok := errors.AsType[*devpg.VersionError](err)
	if !ok {
		t.Fatalf("got %v, want VersionError", err)
	}
	for _, want := range []string{"99", strings.TrimSpace(string(before)), dir} {
		if !strings.Contains(mismatch.Error(), want) {
			t.Errorf("%q does not name %s", mismatch, want)
		}
	}
	if err := os.WriteFile(version, before, 0o600); err != nil {
		t.Fatal(err)
	}
	stop(t, start(t, devpg.Options{Dir: dir}))
}

// A crash inside initdb leaves its temporary folder, and perhaps a data folder that was never filled.
func TestUnfinishedInitialisation(t *testing.T) {
	t.Parallel()
	dir := tempDir(t)
	leftover := filepath.Join(dir, "data.init-1")
	if err := os.MkdirAll(filepath.Join(leftover, "base"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(leftover, "PG_VERSION"), []byte("15\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := start(t, devpg.Options{Dir: dir})
	if n := queryInt(t, s, `SELECT 1`); n != 1 {
		t.Error("no answer")
	}
	if _, err := os.Stat(leftover); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the unfinished folder is left: %v", err)
	}
}

func TestCanceledInitialisation(t *testing.T) {
	t.Parallel()
	dir := tempDir(t)
	ctx, cancel := context.WithTimeout(t.Context(), 150*time.Millisecond)
	defer cancel()
	if s, err := devpg.Start(ctx, devpg.Options{Dir: dir}); err == nil {
		stop(t, s)
		return // This machine initialises a cluster in 0.15 s: there was nothing to interrupt.
	}
	s := start(t, devpg.Options{Dir: dir})
	if n := queryInt(t, s, `SELECT 1`); n != 1 {
		t.Error("no answer")
	}
}

func TestForeignDataFolderIsNotTouched(t *testing.T) {
	t.Parallel()
	dir := tempDir(t)
	precious := filepath.Join(dir, "data", "precious")
	if err := os.MkdirAll(filepath.Dir(precious), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(precious, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if s, err := devpg.Start(t.Context(), devpg.Options{Dir: dir}); err == nil {
		stop(t, s)
		t.Error("a server was started over a folder with other files")
	}
	if _, err := os.Stat(precious); err != nil {
		t.Error(err)
	}
}

func TestFolderOutOfReach(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		// Only root starts the server under another account.
		dir := filepath.Join(tempDir(t), "new", "folder")
		start(t, devpg.Options{Dir: dir})
		return
	}
	closed, err := os.MkdirTemp("", "pawl-devpg-closed-") // 0700 and root's
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(closed) })
	_, err = devpg.Start(t.Context(), devpg.Options{Dir: filepath.Join(closed, "a", "b")})
	folder, ok := errors.AsType[*devpg.FolderError](err)
	if !ok || folder.Blocked != closed {
		t.Fatalf("got %v, want FolderError that names %s", err, closed)
	}
}

func TestErrorWhenNotInstalled(t *testing.T) {
	t.Parallel()
	for _, want := range []string{"apt-get install postgresql", "postgresql-server", "PAWL_DATABASE_URL"} {
		if !strings.Contains(devpg.NotInstalledMessage("linux"), want) {
			t.Errorf("the message for Linux does not say %q", want)
		}
	}
	if !strings.Contains(devpg.NotInstalledMessage("darwin"), "brew install postgresql@16") {
		t.Error("the message for macOS does not name the package")
	}
}
