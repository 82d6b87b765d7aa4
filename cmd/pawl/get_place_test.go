package main

import (
	"crypto/sha256"
	"errors"
	"io"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/pawlhq/pawl/publish"
)

func sum(text string) publish.Digest { return sha256.Sum256([]byte(text)) }

func readAll(from io.Reader) string {
	text, _ := io.ReadAll(from)
	return string(text)
}

// signalWriter tells of the first write.
type signalWriter struct {
	once   sync.Once
	signal chan struct{}
}

func (w *signalWriter) Write(p []byte) (int, error) {
	w.once.Do(func() { close(w.signal) })
	return len(p), nil
}

// newTarget makes a target with an old folder of ours, and a complete new set.
func newTarget(t *testing.T) (*target, placed) {
	t.Helper()
	dir := t.TempDir()
	tg := &target{path: filepath.Join(dir, "out"), beside: filepath.Join(dir, ".out.pawl-get"), exchange: exchangeFolders}
	older := placed{Key: "k", Version: publish.Version{Token: 1, Revision: 1}}
	newer := placed{Key: "k", Version: publish.Version{Token: 2, Revision: 1}}
	for p, text := range map[*placed]string{&older: "old", &newer: "new"} {
		set := filepath.Join(tg.join(p.setName()), "set")
		if err := errors.Join(os.MkdirAll(set, 0o700), os.WriteFile(filepath.Join(set, "f"), []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := tg.place(older, false); err != nil {
		t.Fatal(err)
	}
	return tg, newer
}

func wantText(t *testing.T, path, want string) {
	t.Helper()
	if text, err := os.ReadFile(path); err != nil || string(text) != want {
		t.Errorf("%s is %q, %v; want %q", path, text, err, want)
	}
}

// Where folders can't be swapped they are moved one after the other. A crash between leaves none in place, and the next run brings the old one back.
func TestPlaceWithoutSwap(t *testing.T) {
	t.Parallel()
	tg, newer := newTarget(t)
	tg.exchange = func(_, _ string) error { return errors.ErrUnsupported }
	if atomic, err := tg.place(newer, false); atomic || err != nil {
		t.Fatal(atomic, err)
	}
	wantText(t, filepath.Join(tg.path, "f"), "new")
	if err := tg.tidy(""); err != nil {
		t.Fatal(err)
	}
	wantTidy(t, tg.path)
	if _, known, err := tg.present(); err != nil || known == nil || known.Version.Token != 2 {
		t.Errorf("the folder is known as %v, %v", known, err)
	}

	if err := os.Rename(tg.path, tg.join("away")); err != nil {
		t.Fatal(err)
	}
	if err := tg.tidy(""); err != nil {
		t.Fatal(err)
	}
	wantText(t, filepath.Join(tg.path, "f"), "new")
}

var errCrash = errors.New("crash")

// A crash before the swap keeps the old folder and the complete set; one after it keeps the new folder, and the old one goes.
func TestCrashAtTheSwap(t *testing.T) {
	t.Parallel()
	tg, newer := newTarget(t)
	tg.exchange = func(_, _ string) error { return errCrash }
	if _, err := tg.place(newer, false); !errors.Is(err, errCrash) {
		t.Fatal(err)
	}
	wantText(t, filepath.Join(tg.path, "f"), "old")
	if _, known, err := tg.present(); err != nil || known == nil || known.Version.Token != 1 {
		t.Fatalf("the folder is known as %v, %v", known, err)
	}
	if err := tg.tidy(newer.setName()); err != nil {
		t.Fatal(err)
	}
	wantText(t, filepath.Join(tg.join(newer.setName()), "set", "f"), "new")

	tg.exchange = func(a, b string) error { return errors.Join(exchangeFolders(a, b), errCrash) }
	if _, err := tg.place(newer, false); !errors.Is(err, errCrash) {
		t.Fatal(err)
	}
	wantText(t, filepath.Join(tg.path, "f"), "new")
	if _, known, err := tg.present(); err != nil || known == nil || known.Version.Token != 2 {
		t.Fatalf("the folder is known as %v, %v", known, err)
	}
	if err := tg.tidy(newer.setName()); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(tg.join("new")); err == nil {
		t.Error("the old folder is left")
	}
	if _, err := os.Lstat(filepath.Join(tg.join(newer.setName()), "set")); err == nil {
		t.Error("the old folder was taken for the complete set")
	}
}
