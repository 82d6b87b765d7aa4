package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pawlhq/pawl/client"
	"github.com/pawlhq/pawl/publish"
	"github.com/pawlhq/pawl/publish/publishtest"
)

// makeFolder writes files into a new folder.
func makeFolder(t *testing.T, files map[string]string) string {
	t.Helper()
	folder := filepath.Join(t.TempDir(), "set")
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, body := range files {
		path := filepath.Join(folder, filepath.FromSlash(name))
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(body), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	return folder
}

// published reads the current set of a key.
func (r *rig) published(t *testing.T, key publish.Key) map[string]string {
	t.Helper()
	folder := filepath.Join(t.TempDir(), "got")
	call(t, []string{"PAWL_URL=" + r.url}, "get", string(key), "--dir", folder).expect(t, 0)
	return tree(t, folder)
}

// The environment of a grant.
func grantEnv(r *rig, lease client.Lease) []string {
	return []string{"PAWL_URL=" + r.url, "PAWL_TOKEN=" + fmt.Sprint(lease.Token), "PAWL_LEASE_ID=" + lease.LeaseID.Hex()}
}

func TestPutFolder(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	folder := makeFolder(t, firstSet)
	if err := errors.Join(os.Symlink("1.ts", filepath.Join(folder, "seg", "link.ts")), os.Symlink(folder, folder+"-link")); err != nil {
		t.Fatal(err)
	}
	want := maps.Clone(firstSet)
	want["seg/link.ts"] = "first"
	env := []string{"PAWL_URL=" + r.url}
	got := call(t, env, "put", "hls", folder+"-link", "--primary", "index.m3u8", "--expect", "seg/[1-2].ts")
	got.expect(t, 0)
	if !strings.Contains(got.stdout, "published hls version 1.1: 5 file(s), 19 bytes") || !strings.Contains(got.stdout, "/files/index.m3u8") {
		t.Errorf("stdout %q", got.stdout)
	}
	if diff := r.published(t, "hls"); !maps.Equal(diff, want) {
		t.Errorf("published %v", diff)
	}
	if lease, err := r.client.Lease(t.Context(), "hls"); err != nil || lease.Held {
		t.Errorf("the lease is %+v, %v; want it given back", lease, err)
	}
	call(t, env, "put", "hls", folder, "--expect", "seg/[1-3].ts").expect(t, exitMissing, "seg/3.ts")
	call(t, env, "put", "hls", folder, "--primary", "nosuch").expect(t, exitMissing, "nosuch")
	call(t, env, "put", "hls", folder, "--parallel", "0").expect(t, exitUsage)
	call(t, env, "put", "hls", makeFolder(t, nil)).expect(t, exitMissing, "holds no file")
	if pointer, err := r.client.Pointer(t.Context(), "hls"); err != nil || pointer.Token != 1 {
		t.Errorf("the pointer moved to %v, %v", pointer.Version(), err)
	}
}

// Under a grant of its own it uploads, skips what is there, and publishes when told to; again is a replay.
func TestPutFolderUnderAGrant(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	lease := r.acquire(t, "k", "me", time.Minute)
	env, folder := grantEnv(r, lease), makeFolder(t, firstSet)
	got := call(t, env, "put", "k", folder, "--json")
	got.expect(t, 0)
	var result putSet
	if err := json.Unmarshal([]byte(got.stdout), &result); err != nil || result != (putSet{Key: "k", Token: 1, Files: 4, Bytes: 14}) {
		t.Errorf("%s: %v", got.stdout, err)
	}
	if _, err := r.client.Pointer(t.Context(), "k"); !errors.Is(err, publish.ErrNotFound) {
		t.Errorf("the key has a pointer: %v", err)
	}
	stored := r.blobs.Faults.Calls("Put")
	got = call(t, env, "put", "k", folder)
	got.expect(t, 0)
	if now := r.blobs.Faults.Calls("Put"); now != stored || !strings.Contains(got.stdout, "4 file(s), 14 bytes, of which 4 file(s) were there already") {
		t.Errorf("%d files were stored again; stdout %q", now-stored, got.stdout)
	}
	call(t, env, "put", "k", folder, "--publish").expect(t, 0)
	got = call(t, env, "put", "k", folder, "--publish")
	got.expect(t, 0)
	if !strings.Contains(got.stdout, "published before k version 1.1") {
		t.Errorf("stdout %q", got.stdout)
	}
	if err := os.WriteFile(filepath.Join(folder, "more"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := call(t, env, "put", "k", folder, "--publish"); got.code != exitRefused && got.code != exitDigest {
		t.Errorf("another set under a sealed token: %+v", got)
	}
	call(t, env, "put", "k", folder).expect(t, exitRefused, "generation-sealed")
	// Fenced is told as such, whichever file it was.
	r.pointers.Expire("k")
	newer := r.acquire(t, "k", "other", time.Minute)
	r.publish(t, newer, "f", "newer")
	call(t, env, "put", "k", folder).expect(t, exitFenced, "fenced")
}

// What can't be published is listed, all of it, before a lease is taken or a byte is sent. Cases 32 and 35.
func TestPutFolderRefusesUpFront(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	folder := makeFolder(t, map[string]string{
		"fine": "x", "cafe\u0301.png": "nfd", "caf\u00e9.png": "nfc", "a\nb": "x", "back\\slash": "x", "bad\xff": "x",
		"bidi\u202e": "x", strings.Repeat("n", 201): "x",
		strings.Repeat("d", 199) + "/" + strings.Repeat("e", 199) + "/f": "x",
	})
	socket, err := net.Listen("unix", filepath.Join(folder, "socket"))
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	join := func(name string) string { return filepath.Join(folder, name) }
	err = errors.Join(
		syscall.Mkfifo(join("pipe"), 0o600), os.Symlink("pipe", join("link-to-pipe")), os.Symlink("/etc/passwd", join("link-out")),
		os.Symlink("../x", join("link-up")), os.Symlink("nosuch", join("link-to-nothing")), os.Symlink(".", join("link-to-folder")),
		os.Symlink("loop", join("loop")),
	)
	if err != nil {
		t.Fatal(err)
	}
	got := call(t, []string{"PAWL_URL=" + r.url}, "put", "k", folder)
	got.expect(t, exitMissing, "nothing was uploaded",
		`"cafe\u0301.png" and "caf\u00e9.png" are one name in NFC`, `"a\nb" has a control character`, `"back\\slash" has a backslash`, `"bad\xff" is not valid UTF-8`,
		`"bidi\u202e" has a character that reorders`, "segment longer than 200 bytes", "longer than 400 bytes",
		`"socket" is no file but a socket`, `"pipe" is no file but a named pipe`, `"link-to-pipe" is a link to something`, `"link-out" is a link that leads out`,
		`"link-up" is a link that leads out`, `"link-to-nothing" is a link`, `"link-to-folder" is a link to something`, `"loop" is a link`)
	if lines := strings.Count(got.stderr, "\n  "); lines != 15 {
		t.Errorf("%d faults are listed:\n%s", lines, got.stderr)
	}
	if _, err := r.client.Lease(t.Context(), "k"); !errors.Is(err, publish.ErrNotFound) {
		t.Errorf("a lease was taken: %v", err)
	}
	// One name that isn't in NFC is sent in it.
	call(t, []string{"PAWL_URL=" + r.url}, "put", "k", makeFolder(t, map[string]string{"cafe\u0301.png": "x"})).expect(t, 0, "1 name(s) were not in NFC")
	if files := r.published(t, "k"); files["caf\u00e9.png"] != "x" {
		t.Errorf("published %v", files)
	}
}

// A file that changes while it is uploaded ends the upload, and nothing is published.
func TestPutFolderThatChanges(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(path string) error{
		"other bytes": func(path string) error { return os.WriteFile(path, []byte("FIRST"), 0o600) },
		"more bytes":  func(path string) error { return os.WriteFile(path, []byte("first and more"), 0o600) },
		"fewer bytes": func(path string) error { return os.Truncate(path, 2) },
		"touched":     func(path string) error { return os.Chtimes(path, time.Time{}, time.Now().Add(time.Hour)) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			folder := makeFolder(t, map[string]string{"seg/1.ts": "first"})
			r.pointers.Faults.Add(publishtest.Fault{Operation: "BeginUpload", Before: func(context.Context) {
				if err := change(filepath.Join(folder, "seg", "1.ts")); err != nil {
					t.Error(err)
				}
			}})
			call(t, []string{"PAWL_URL=" + r.url}, "put", "k", folder).expect(t, exitDigest, "seg/1.ts changed while it was uploaded")
			if _, err := r.client.Pointer(t.Context(), "k"); !errors.Is(err, publish.ErrNotFound) {
				t.Errorf("something was published: %v", err)
			}
		})
	}
	r := newRig(t)
	folder := makeFolder(t, map[string]string{"a": "a", "b": "b"})
	r.pointers.Faults.Add(publishtest.Fault{Operation: "BeginUpload", Before: func(context.Context) {
		if err := os.Remove(filepath.Join(folder, "b")); err != nil {
			t.Error(err)
		}
	}})
	call(t, []string{"PAWL_URL=" + r.url}, "put", "k", folder, "--parallel", "1").expect(t, exitDigest, "b changed")
}
