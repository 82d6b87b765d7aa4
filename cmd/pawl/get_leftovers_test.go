package main

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/pawlhq/pawl/publish/publishtest"
)

// Leftovers that somebody has prepared lead nothing astray: a link in the set, a part that is another file's second name, a pipe.
func TestGetFolderDistrustsLeftovers(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	files := map[string]string{"a": "a", "b": "bb", "sub/c": "c"}
	receipt := r.publishSet(t, "k", files, true)
	folder := filepath.Join(t.TempDir(), "out")
	beside := filepath.Join(filepath.Dir(folder), ".out.pawl-get")
	set, mine := filepath.Join(beside, setName("k", 1, receipt.ManifestDigest)), filepath.Join(filepath.Dir(folder), "mine")
	err := errors.Join(
		os.MkdirAll(filepath.Join(set, "parts", "x"), 0o700), os.MkdirAll(filepath.Join(set, "set"), 0o700),
		os.Symlink("../parts/x", filepath.Join(set, "set", "sub")),
		os.WriteFile(mine, []byte("my own"), 0o600), os.Link(mine, filepath.Join(set, "parts", sum("a").String())),
		syscall.Mkfifo(filepath.Join(set, "parts", sum("b").String()), 0o600),
	)
	if err != nil {
		t.Fatal(err)
	}
	call(t, []string{"PAWL_URL=" + r.url}, "get", "k", "--dir", folder).expect(t, 0)
	wantTree(t, folder, files)
	if text, err := os.ReadFile(mine); err != nil || string(text) != "my own" {
		t.Errorf("a file of somebody's own holds %q, %v", text, err)
	}

	// What isn't ours in the hidden folder is no leftover.
	keep := filepath.Join(beside, "keep")
	if err := os.WriteFile(keep, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	call(t, []string{"PAWL_URL=" + r.url}, "get", "k", "--dir", folder).expect(t, exitRefused, "keep")
	if _, err := os.Lstat(keep); err != nil {
		t.Error(err)
	}
}

// A link where get keeps its own folders leads nowhere, and never becomes the folder.
func TestGetFolderDistrustsLinkedFolders(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	receipt := r.publishSet(t, "k", firstSet, true)
	name := setName("k", 1, receipt.ManifestDigest)
	for _, link := range []string{name, name + "/set", name + "/parts", "inside"} {
		dir := t.TempDir()
		folder, mine := filepath.Join(dir, "out"), filepath.Join(dir, "mine")
		at, to := filepath.Join(dir, ".out.pawl-get", link), mine
		if link == "inside" {
			at, to = filepath.Join(dir, ".out.pawl-get", name, "set"), "parts"
		}
		if err := errors.Join(
			os.MkdirAll(filepath.Join(mine, "set"), 0o700), os.WriteFile(filepath.Join(mine, "set", "x"), []byte("mine"), 0o600),
			os.MkdirAll(filepath.Dir(at), 0o700), os.Symlink(to, at),
		); err != nil {
			t.Fatal(err)
		}
		call(t, []string{"PAWL_URL=" + r.url}, "get", "k", "--dir", folder).expect(t, 0)
		wantTree(t, folder, firstSet)
		wantTree(t, mine, map[string]string{"set/x": "mine"})
		if info, err := os.Lstat(folder); err != nil || !info.IsDir() {
			t.Errorf("%s: the folder is %v, %v", link, info, err)
		}
		wantTidy(t, folder)
	}
}

// A set that somebody takes a file out of while it is filled isn't put into place.
func TestGetFolderCountsBeforeTheSwap(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	receipt := r.publishSet(t, "k", map[string]string{"a": "a", "b": "bb"}, true)
	folder := filepath.Join(t.TempDir(), "out")
	a := filepath.Join(filepath.Dir(folder), ".out.pawl-get", setName("k", 1, receipt.ManifestDigest), "set", "a")
	r.blobs.Faults.Add(publishtest.Fault{Operation: "Open", Times: 2, Before: func(context.Context) {
		if os.Remove(a) == nil {
			_ = os.Symlink("b", a)
		}
	}})
	env := []string{"PAWL_URL=" + r.url}
	call(t, env, "get", "k", "--dir", folder, "--parallel", "1").expect(t, exitIO, "1 of 2 files")
	if _, err := os.Lstat(folder); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the folder is there: %v", err)
	}
	call(t, env, "get", "k", "--dir", folder).expect(t, 0)
	wantTree(t, folder, map[string]string{"a": "a", "b": "bb"})
}

func TestIsPart(t *testing.T) {
	t.Parallel()
	me := uint32(os.Geteuid())
	for name, test := range map[string]struct {
		info entryInfo
		want bool
	}{
		"a part":         {entryInfo{0o600, syscall.Stat_t{Nlink: 1, Uid: me}}, true},
		"another user's": {entryInfo{0o666, syscall.Stat_t{Nlink: 1, Uid: me + 1}}, false},
		"a second name":  {entryInfo{0o600, syscall.Stat_t{Nlink: 2, Uid: me}}, false},
		"a pipe":         {entryInfo{fs.ModeNamedPipe | 0o600, syscall.Stat_t{Nlink: 1, Uid: me}}, false},
		"a link":         {entryInfo{fs.ModeSymlink | 0o777, syscall.Stat_t{Nlink: 1, Uid: me}}, false},
	} {
		if got := isPart(test.info); got != test.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// entryInfo is an entry as a disk might tell of it.
type entryInfo struct {
	mode fs.FileMode
	stat syscall.Stat_t
}

func (entryInfo) Name() string        { return "part" }
func (entryInfo) Size() int64         { return 0 }
func (i entryInfo) Mode() fs.FileMode { return i.mode }
func (entryInfo) ModTime() time.Time  { return time.Time{} }
func (entryInfo) IsDir() bool         { return false }
func (i entryInfo) Sys() any          { return &i.stat }
