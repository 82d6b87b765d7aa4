package main

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/pawlhq/pawl/publish"
)

// fakeKey is a server with one key, whose pointer and bytes a test makes up.
func fakeKey(t *testing.T, pointer publish.Pointer, file http.HandlerFunc) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.Contains(r.URL.Path, "/-/") {
			file(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(pointer)
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// Case 36: a published name can't lead out of the folder.
func TestCase36HostileNames(t *testing.T) {
	for _, name := range []publish.Path{"../../evil", "/etc/evil", `C:\evil`, "C:evil", `..\evil`, "a/..", "evil\x00", "evil\n", "..", "-"} {
		dir := filepath.Join(t.TempDir(), "deep", "here")
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		t.Chdir(dir)
		url := fakeKey(t, publish.Pointer{Key: "k", Token: 1, Revision: 1, Primary: name}, func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, "evil")
		})
		call(t, []string{"PAWL_URL=" + url}, "get", "k").expect(t, exitRefused, "can't be a local file name")
		if entries, err := os.ReadDir(dir); err != nil || len(entries) > 0 {
			t.Errorf("%q: left %v, %v", name, entries, err)
		}
	}
}

// What isn't whole and good never gets the file's name, and an older file stays.
func TestGetOfWrongBytes(t *testing.T) {
	t.Parallel()
	output := filepath.Join(t.TempDir(), "out.bin")
	if err := os.WriteFile(output, []byte("older"), 0o600); err != nil {
		t.Fatal(err)
	}
	url := fakeKey(t, publish.Pointer{Key: "k", Token: 1, Revision: 1, Primary: "a.bin"}, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("ETag", `"`+strings.Repeat("0", 63)+`1"`)
		_, _ = io.WriteString(w, "other bytes")
	})
	env := []string{"PAWL_URL=" + url}
	call(t, env, "get", "k", "-o", output).expect(t, exitDigest, "digest-mismatch")
	call(t, env, "get", "k", "-o", "-").expect(t, exitDigest)
	entries, err := os.ReadDir(filepath.Dir(output))
	if text, readErr := os.ReadFile(output); err != nil || len(entries) != 1 || string(text) != "older" {
		t.Errorf("left %v with %q, %v, %v", entries, text, err, readErr)
	}
}

func TestGetReplacesFilesOnly(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.publish(t, r.acquire(t, "k", "me", 1e10), "a.txt", "new")
	dir := t.TempDir()
	file, link := filepath.Join(dir, "file"), filepath.Join(dir, "link")
	if err := errors.Join(os.WriteFile(file, []byte("old"), 0o600), os.Symlink(file, link)); err != nil {
		t.Fatal(err)
	}
	env := []string{"PAWL_URL=" + r.url}
	call(t, env, "get", "k", "-o", link).expect(t, 0)
	if text, err := os.ReadFile(file); err != nil || string(text) != "new" {
		t.Errorf("behind the link: %q, %v", text, err)
	}
	if info, err := os.Lstat(link); err != nil || info.Mode()&os.ModeSymlink == 0 {
		t.Error("the link was replaced")
	}
	// What isn't a regular file is written into. A pipe of the test's own stands for devices: when this breaks, a test that
	// runs as root and names the null device replaces it for the whole machine.
	pipe := filepath.Join(dir, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	reader, err := os.OpenFile(pipe, os.O_RDWR, 0) // open for both, it waits for nobody
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	call(t, env, "get", "k", "-o", pipe).expect(t, 0)
	if info, err := os.Stat(pipe); err != nil || info.Mode()&os.ModeNamedPipe == 0 {
		t.Fatalf("the pipe was replaced: %v, %v", info, err)
	}
	came := make([]byte, 3)
	if _, err := io.ReadFull(reader, came); err != nil || string(came) != "new" {
		t.Errorf("through the pipe: %q, %v", came, err)
	}
	call(t, env, "get", "k", "-o", filepath.Join(dir, "no", "folder")).expect(t, exitIO)
	call(t, env, "get", "k", "-o", dir).expect(t, exitIO)
}

// Whoever reads a version that is given up meanwhile gets a reader's word: nothing of his own is fenced.
func TestGetOfAVersionGivenUpMeanwhile(t *testing.T) {
	t.Parallel()
	url := fakeKey(t, publish.Pointer{Key: "k", Token: 1, Revision: 1, Primary: "a.txt", Files: 1}, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(http.StatusGone)
		_, _ = io.WriteString(w, `{"code":"generation-collected","status":410,"detail":"generation 1 was given up","key":"k","token":1}`)
	})
	env, dir := []string{"PAWL_URL=" + url}, t.TempDir()
	for _, output := range [][]string{{"--dir", filepath.Join(dir, "folder")}, {"-o", filepath.Join(dir, "file")}} {
		got := call(t, env, append([]string{"get", "k"}, output...)...)
		got.expect(t, exitRefused, "generation-collected: version 1 was given up by the retention policy")
		if strings.Contains(got.stderr, "fenced") || strings.Contains(got.stderr, "retried") {
			t.Errorf("a reader is told what a worker is: %s", got.stderr)
		}
	}
}
