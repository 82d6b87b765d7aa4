package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pawlhq/pawl/publish"
	"github.com/pawlhq/pawl/publish/publishtest"
)

// publishSet publishes a set of files, named by their paths, and returns the receipt.
func (r *rig) publishSet(t *testing.T, key publish.Key, files map[string]string, final bool) publish.Receipt {
	t.Helper()
	lease := r.acquire(t, key, "me", time.Minute)
	for path, body := range files {
		if _, err := r.client.Upload(t.Context(), publish.UploadRequest{
			Grant: lease.Grant(), Path: publish.Path(path), Size: int64(len(body)), Body: strings.NewReader(body),
		}); err != nil {
			t.Fatal(err)
		}
	}
	receipt, err := r.client.Publish(t.Context(), publish.PublishRequest{Grant: lease.Grant(), Final: final, Release: true})
	if err != nil {
		t.Fatal(err)
	}
	return receipt
}

// tree reads all files of a folder.
func tree(t *testing.T, folder string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		name, _ := filepath.Rel(folder, path)
		files[filepath.ToSlash(name)] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func wantTree(t *testing.T, folder string, want map[string]string) {
	t.Helper()
	if diff := cmp.Diff(want, tree(t, folder)); diff != "" {
		t.Errorf("%s (-want +got):\n%s", folder, diff)
	}
}

// wantTidy checks that beside a folder lies nothing but what get remembers.
func wantTidy(t *testing.T, folder string) {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(filepath.Dir(folder), besideName(filepath.Base(folder))))
	if err != nil || len(entries) != 1 || entries[0].Name() != "state.json" {
		t.Errorf("beside the folder: %v, %v", entries, err)
	}
}

var firstSet = map[string]string{"index.m3u8": "one", "seg/1.ts": "first", "seg/2.ts": "second", "empty": ""}

func TestGetFolder(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	env := []string{"PAWL_URL=" + r.url}
	r.publishSet(t, "hls", firstSet, true)
	folder := filepath.Join(t.TempDir(), "out")
	got := call(t, env, "get", "hls", "--dir", folder)
	got.expect(t, 0)
	if want := "version 1.1 of hls, 4 file(s), 14 bytes, of which 14 were fetched"; !strings.Contains(got.stdout, want) {
		t.Errorf("stdout %q, want %q", got.stdout, want)
	}
	wantTree(t, folder, firstSet)
	wantTidy(t, folder)

	// Again: every byte is compared, and none comes.
	opened := r.blobs.Faults.Calls("Open")
	call(t, env, "get", "hls", "--dir", folder).expect(t, 0)
	if now := r.blobs.Faults.Calls("Open"); now != opened {
		t.Errorf("%d files were fetched for a folder that has them", now-opened)
	}
	// A newer version: what is the same is taken over, what is gone goes.
	second := map[string]string{"index.m3u8": "two", "seg/2.ts": "second", "seg/3.ts": "third"}
	r.publishSet(t, "hls", second, true)
	got = call(t, env, "get", "hls", "--dir", folder, "--json")
	got.expect(t, 0)
	wantTree(t, folder, second)
	wantTidy(t, folder)
	var result gottenFolder
	if err := json.Unmarshal([]byte(got.stdout), &result); err != nil || result.Fetched != 8 || result.Bytes != 14 || result.Version.Token != 2 || result.Folder != folder {
		t.Errorf("%s: %v", got.stdout, err)
	}
	// An older one, by its token.
	call(t, env, "get", "hls", "--dir", folder, "--token", "1").expect(t, 0)
	wantTree(t, folder, firstSet)
	// Bytes that have changed and nobody wrote, as on a failing disk, are found out.
	rotten := filepath.Join(folder, "seg", "1.ts")
	info, err := os.Stat(rotten)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.WriteFile(rotten, []byte("FIRST"), 0o600), os.Chtimes(rotten, time.Time{}, info.ModTime())); err != nil {
		t.Fatal(err)
	}
	call(t, env, "get", "hls", "--dir", folder, "--token", "1").expect(t, 0)
	wantTree(t, folder, firstSet)
}

// A folder that get didn't put there is safe from it.
func TestGetFolderSparesOthers(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	env := []string{"PAWL_URL=" + r.url}
	r.publishSet(t, "k", firstSet, true)
	dir := t.TempDir()
	write := func(name string) string {
		path := filepath.Join(dir, name, "mine.txt")
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte("mine"), 0o600)); err != nil {
			t.Fatal(err)
		}
		return filepath.Dir(path)
	}
	foreign := write("foreign")
	call(t, env, "get", "k", "--dir", foreign).expect(t, exitRefused, "--replace")
	wantTree(t, foreign, map[string]string{"mine.txt": "mine"})
	if _, err := os.Lstat(filepath.Join(dir, besideName("foreign"))); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("an empty hidden folder stayed: %v", err)
	}
	call(t, env, "get", "k", "--dir", foreign, "--replace").expect(t, 0)
	wantTree(t, foreign, firstSet)

	// Ours, then something was added; or it was removed and another one made.
	ours := filepath.Join(dir, "ours")
	call(t, env, "get", "k", "--dir", ours).expect(t, 0)
	write("ours")
	call(t, env, "get", "k", "--dir", ours).expect(t, exitRefused, "was changed since")
	if err := os.RemoveAll(ours); err != nil {
		t.Fatal(err)
	}
	write("ours")
	call(t, env, "get", "k", "--dir", ours).expect(t, exitRefused, "--replace")
	wantTree(t, ours, map[string]string{"mine.txt": "mine"})

	empty, link := filepath.Join(dir, "empty"), filepath.Join(dir, "link")
	if err := errors.Join(os.Mkdir(empty, 0o700), os.Symlink(empty, link)); err != nil {
		t.Fatal(err)
	}
	call(t, env, "get", "k", "--dir", link).expect(t, 0)
	wantTree(t, empty, firstSet)
	if info, err := os.Lstat(link); err != nil || info.Mode()&os.ModeSymlink == 0 {
		t.Error("the link was replaced")
	}
	file := filepath.Join(foreign, "empty")
	call(t, env, "get", "k", "--dir", file).expect(t, exitUsage, "is no folder")
	call(t, env, "get", "k", "--dir", filepath.Join(dir, "no", "parent")).expect(t, exitIO)
	call(t, env, "get", "k", "--dir", filepath.Join(dir, "x"), "-o", "y").expect(t, exitUsage)
	call(t, env, "get", "k", "--dir", filepath.Join(dir, "x"), "--parallel", "0").expect(t, exitUsage)
	call(t, env, "get", "nosuch", "--dir", filepath.Join(dir, "x")).expect(t, exitRefused)
	call(t, env, "get", "k", "--token", "7", "--dir", filepath.Join(dir, "x")).expect(t, exitRefused)
}

func TestGetFolderIsNotTheWorkingFolder(t *testing.T) {
	r := newRig(t)
	dir := filepath.Join(t.TempDir(), "a", "b")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir)
	for _, folder := range []string{".", "..", "", "/"} {
		call(t, []string{"PAWL_URL=" + r.url}, "get", "k", "--replace", "--dir", folder).expect(t, exitUsage, "working folder")
	}
}

// A mount point can't be exchanged with a folder beside it, so nothing is fetched for it.
func TestGetFolderIsNoMountPoint(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	call(t, []string{"PAWL_URL=" + r.url}, "get", "k", "--replace", "--dir", "/dev").expect(t, exitUsage, "mount point")
	if _, err := os.Lstat("/" + besideName("dev")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("beside it: %v", err)
	}
}

// fakeSet is a server with one key, whose manifest a test makes up. Every file has its path as its bytes.
func fakeSet(t *testing.T, paths ...publish.Path) string {
	t.Helper()
	var files []publish.File
	for _, path := range paths {
		files = append(files, publish.File{Path: path, Size: int64(len(path)), SHA256: sum(string(path)), ContentType: "text/plain"})
	}
	pointer := publish.Pointer{Key: "k", Token: 1, Revision: 1, Final: true, Files: int64(len(files)), ManifestDigest: publish.ManifestDigest(files)}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch _, path, isFile := strings.Cut(r.URL.Path, "/-/generations/1/files"); {
		case !isFile:
			_ = json.NewEncoder(w).Encode(pointer)
		case path == "":
			_ = json.NewEncoder(w).Encode(publish.FilePage{Files: files})
		default:
			w.Header().Set("ETag", `"`+sum(path[1:]).String()+`"`)
			_, _ = fmt.Fprint(w, path[1:])
		}
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// Case 36, and case 37 on a disk: names that can't be files in one folder are refused before anything is written.
func TestCase36And37InFolders(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		paths []publish.Path
		said  []string
	}{
		"leads out":                {[]publish.Path{"fine", "../../evil"}, []string{`"../../evil"`, "nothing was written"}},
		"in the middle":            {[]publish.Path{"a/../../evil"}, []string{"evil"}},
		"absolute":                 {[]publish.Path{"/etc/evil"}, []string{"evil"}},
		"a drive":                  {[]publish.Path{`C:\x`}, []string{`C:\\x`}},
		"a control character":      {[]publish.Path{"a\nb"}, []string{`a\nb`}},
		"nothing":                  {[]publish.Path{""}, []string{`""`}},
		"the folder itself":        {[]publish.Path{"."}, []string{`"."`}},
		"twice":                    {[]publish.Path{"a", "a"}, []string{`"a" and "a"`}},
		"a file that is a folder":  {[]publish.Path{"tileset", "tileset/0.glb"}, []string{`"tileset" and "tileset/0.glb"`}},
		"a file that is deep one":  {[]publish.Path{"t/x/y/z", "t-1", "t/x"}, []string{`"t/x" and "t/x/y/z"`}},
		"sorted between the other": {[]publish.Path{"t", "t-1", "t.x", "t/1"}, []string{`"t" and "t/1"`}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "deep", "here")
			if err := os.MkdirAll(dir, 0o700); err != nil {
				t.Fatal(err)
			}
			got := call(t, []string{"PAWL_URL=" + fakeSet(t, test.paths...)}, "get", "k", "--dir", filepath.Join(dir, "out"))
			got.expect(t, exitRefused, test.said...)
			if files := tree(t, filepath.Dir(filepath.Dir(dir))); len(files) > 0 {
				t.Errorf("left %v", files)
			}
			if _, err := os.Lstat(filepath.Join(dir, "out")); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("the folder is there: %v", err)
			}
		})
	}
	folder := filepath.Join(t.TempDir(), "out")
	call(t, []string{"PAWL_URL=" + fakeSet(t, "-", "c:x", "a/b", "a b", "A/b", "...", ".pawl-get", "set/x")}, "get", "k", "--dir", folder).expect(t, 0)
	if files := tree(t, folder); len(files) != 8 {
		t.Errorf("odd but legal names: %v", files)
	}
	l := listing{files: []publish.File{{Path: "A/x"}, {Path: "a/X"}}}
	if err := l.checkNames(false); err != nil {
		t.Error(err)
	}
	if err := l.checkNames(true); err == nil || !strings.Contains(err.Error(), `"A/x" and "a/X"`) {
		t.Errorf("on a disk that doesn't tell case: %v", err)
	}
	if besideName(strings.Repeat("x", 255)) == besideName(strings.Repeat("x", 254)) || len(besideName(strings.Repeat("x", 255))) > 200 {
		t.Error("long names")
	}
}

// Bytes that aren't the manifest's never get into the folder.
func TestGetFolderOfWrongBytes(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.publishSet(t, "k", firstSet, true)
	lying := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if strings.HasSuffix(req.URL.Path, "/seg/1.ts") {
			w.Header().Set("ETag", `"`+sum("first").String()+`"`)
			_, _ = fmt.Fprint(w, "FIRST")
			return
		}
		resp, err := http.Get(r.url + req.URL.Path + "?" + req.URL.RawQuery)
		if err != nil {
			panic(err)
		}
		defer func() { _ = resp.Body.Close() }()
		w.Header().Set("ETag", resp.Header.Get("ETag"))
		_, _ = fmt.Fprint(w, readAll(resp.Body))
	}))
	t.Cleanup(lying.Close)
	folder := filepath.Join(t.TempDir(), "out")
	call(t, []string{"PAWL_URL=" + lying.URL}, "get", "k", "--dir", folder, "--parallel", "1").expect(t, exitDigest, "seg/1.ts", "digest-mismatch")
	if _, err := os.Lstat(folder); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the folder is there: %v", err)
	}
	// What was good is kept, what was bad isn't.
	opened := r.blobs.Faults.Calls("Open")
	call(t, []string{"PAWL_URL=" + r.url}, "get", "k", "--dir", folder).expect(t, 0)
	if now := r.blobs.Faults.Calls("Open"); now-opened > 2 {
		t.Errorf("%d files were fetched", now-opened)
	}
	wantTree(t, folder, firstSet)
}

// A part that a killed run has left is gone on with by Range; one with wrong bytes is fetched anew. Leftovers of other versions go.
func TestGetFolderGoesOn(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	big := strings.Repeat("0123456789", 20_000)
	receipt := r.publishSet(t, "k", map[string]string{"big": big, "bad": big, "done": "done"}, true)
	folder := filepath.Join(t.TempDir(), "out")
	beside := filepath.Join(filepath.Dir(folder), ".out.pawl-get")
	set := filepath.Join(beside, setName("k", 1, receipt.ManifestDigest))
	err := errors.Join(
		os.MkdirAll(filepath.Join(set, "parts"), 0o700), os.MkdirAll(filepath.Join(set, "set", "stranger"), 0o700), os.MkdirAll(filepath.Join(beside, strings.Repeat("0", 32), "set"), 0o700),
		os.WriteFile(filepath.Join(set, "parts", sum("big").String()), []byte(big[:150_000]), 0o600),
		os.WriteFile(filepath.Join(set, "parts", sum("bad").String()), make([]byte, 150_000), 0o600),
		os.WriteFile(filepath.Join(set, "set", "done"), []byte("done"), 0o600),
		os.WriteFile(filepath.Join(set, "set", "stranger", "x"), []byte("of another"), 0o600),
		os.WriteFile(filepath.Join(set, "set", "big"), []byte("not whole"), 0o600),
	)
	if err != nil {
		t.Fatal(err)
	}
	got := call(t, []string{"PAWL_URL=" + r.url}, "get", "k", "--dir", folder, "--json")
	got.expect(t, 0)
	wantTree(t, folder, map[string]string{"big": big, "bad": big, "done": "done"})
	wantTidy(t, folder)
	// The rest of big; of bad the rest in vain and then all of it.
	if want := 50_000 + 50_000 + 200_000; !strings.Contains(got.stdout, fmt.Sprintf(`"fetched":%d,`, want)) {
		t.Errorf("%s; want %d bytes fetched", got.stdout, want)
	}
	if _, err := os.Lstat(filepath.Join(folder, "stranger")); err == nil {
		t.Error("a folder that isn't the set's came along")
	}
}

// A second run into the same folder waits for the first, and then gets what is current by then.
func TestGetFolderOneAtATime(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	env := []string{"PAWL_URL=" + r.url}
	r.publishSet(t, "k", firstSet, true)
	folder := filepath.Join(t.TempDir(), "out")
	begun, goOn := make(chan struct{}), make(chan struct{})
	r.blobs.Faults.Add(publishtest.Fault{Operation: "Open", Before: func(context.Context) { close(begun); <-goOn }})
	first, second := make(chan result, 1), make(chan result, 1)
	go func() { first <- call(t, env, "get", "k", "--dir", folder) }()
	<-begun
	waits := &signalWriter{signal: make(chan struct{})}
	go func() {
		var stdout strings.Builder
		code := run(context.WithoutCancel(t.Context()), []string{"get", "k", "--dir", folder}, strings.NewReader(""), &stdout, waits, lookup(env))
		second <- result{code: code, stdout: stdout.String()}
	}()
	<-waits.signal
	r.publishSet(t, "k", map[string]string{"a": "2"}, true)
	close(goOn)
	(<-first).expect(t, 0)
	(<-second).expect(t, 0)
	wantTree(t, folder, map[string]string{"a": "2"})
	wantTidy(t, folder)
}

// The revision that was current at the start is got whole, whatever is published meanwhile.
func TestGetFolderOfAnOpenGeneration(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	lease := r.acquire(t, "k", "me", time.Minute)
	revise := func(files map[string]string) {
		for path, body := range files {
			if _, err := r.client.Upload(context.WithoutCancel(t.Context()), publish.UploadRequest{
				Grant: lease.Grant(), Path: publish.Path(path), Size: int64(len(body)), Body: strings.NewReader(body),
			}); err != nil {
				t.Error(err)
			}
		}
		if _, err := r.client.Publish(context.WithoutCancel(t.Context()), publish.PublishRequest{Grant: lease.Grant()}); err != nil {
			t.Error(err)
		}
	}
	revise(map[string]string{"a": "a1", "b": "b1"})
	r.blobs.Faults.Add(publishtest.Fault{Operation: "Open", Before: func(context.Context) { revise(map[string]string{"a": "a2", "b": "b2"}) }})
	folder := filepath.Join(t.TempDir(), "out")
	call(t, []string{"PAWL_URL=" + r.url}, "get", "k", "--dir", folder, "--parallel", "1").expect(t, 0)
	wantTree(t, folder, map[string]string{"a": "a1", "b": "b1"})
	wantTidy(t, folder)
	call(t, []string{"PAWL_URL=" + r.url}, "get", "k", "--dir", folder).expect(t, 0)
	wantTree(t, folder, map[string]string{"a": "a2", "b": "b2"})
}
