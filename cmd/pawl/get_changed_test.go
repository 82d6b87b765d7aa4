package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pawlhq/pawl/publish"
)

// publishPair publishes two files, one of them in a subfolder, as the next version.
func (r *rig) publishPair(t *testing.T, a, b string) {
	t.Helper()
	lease := r.acquire(t, "k", "me", time.Minute)
	for path, body := range map[publish.Path]string{"a": a, "sub/deep/b": b} {
		_, err := r.client.Upload(t.Context(), publish.UploadRequest{Grant: lease.Grant(), Path: path, Size: int64(len(body)), Body: strings.NewReader(body)})
		if err != nil {
			t.Fatal(err)
		}
	}
	if _, err := r.client.Publish(t.Context(), publish.PublishRequest{Grant: lease.Grant(), Final: true, Release: true}); err != nil {
		t.Fatal(err)
	}
}

// Work that somebody did in a folder of ours isn't lost by surprise, however deep in it, nor is what is written while a download runs.
func TestGetFolderKeepsWhatWasChanged(t *testing.T) {
	t.Parallel()
	write := func(name, body string) func(folder string) error {
		return func(folder string) error { return os.WriteFile(filepath.Join(folder, name), []byte(body), 0o600) }
	}
	for name, test := range map[string]struct {
		change func(folder string) error
		says   string
	}{
		"a note in a subfolder": {write("sub/deep/note", "mine"), `"sub/deep/note" isn't from pawl`},
		"a file written to":     {write("a", "mine"), `"a" was changed`},
		"of the same length":    {write("sub/deep/b", "M"), `"sub/deep/b" was changed`},
		"a link for a file": {func(folder string) error {
			b := filepath.Join(folder, "sub/deep/b")
			return errors.Join(os.Remove(b), os.Symlink("/dev/null", b))
		}, `"sub/deep/b" isn't from pawl`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			env := []string{"PAWL_URL=" + r.url}
			folder := filepath.Join(t.TempDir(), "out")
			r.publishPair(t, "1", "1")
			call(t, env, "get", "k", "--dir", folder).expect(t, exitOK)
			call(t, env, "get", "k", "--dir", folder).expect(t, exitOK)
			if err := test.change(folder); err != nil {
				t.Fatal(err)
			}
			r.publishPair(t, "2", "2")
			call(t, env, "get", "k", "--dir", folder).expect(t, exitRefused, test.says, "--replace")
			if text, err := os.ReadFile(filepath.Join(folder, "a")); err != nil || string(text) == "2" {
				t.Errorf("the folder was replaced: %q, %v", text, err)
			}
			call(t, env, "get", "k", "--dir", folder, "--replace").expect(t, exitOK)
			if text, err := os.ReadFile(filepath.Join(folder, "a")); err != nil || string(text) != "2" {
				t.Errorf("the folder wasn't replaced: %q, %v", text, err)
			}
			// What is missing is no loss.
			if err := os.Remove(filepath.Join(folder, "sub/deep/b")); err != nil {
				t.Fatal(err)
			}
			call(t, env, "get", "k", "--dir", folder).expect(t, exitOK)
			if _, err := os.Stat(filepath.Join(folder, "sub/deep/b")); err != nil {
				t.Error(err)
			}
		})
	}
}

// A folder that was closed to others, or is shared by a group, is so after the next version, too.
func TestGetFolderKeepsTheMode(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	env := []string{"PAWL_URL=" + r.url}
	folder := filepath.Join(t.TempDir(), "out")
	for version, mode := range []fs.FileMode{0o700, 0o750 | fs.ModeSetgid, 0o755} {
		r.publishPair(t, strings.Repeat("x", version+1), "same")
		call(t, env, "get", "k", "--dir", folder).expect(t, exitOK)
		if err := os.Chmod(folder, mode); err != nil {
			t.Fatal(err)
		}
		r.publishPair(t, strings.Repeat("y", version+1), "same")
		call(t, env, "get", "k", "--dir", folder).expect(t, exitOK)
		if info, err := os.Stat(folder); err != nil || info.Mode() != fs.ModeDir|mode {
			t.Errorf("mode %v, %v; want %v", info.Mode(), err, mode)
		}
	}
}
