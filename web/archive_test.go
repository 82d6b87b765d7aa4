package web_test

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pawlhq/pawl/internal/testenv"
	"github.com/pawlhq/pawl/publish"
	"github.com/pawlhq/pawl/publish/publishtest"
	"github.com/pawlhq/pawl/web"
)

// unzip and untar read an archive as common tools do.
func unzip(t *testing.T, body string) (files map[string]string, times []time.Time) {
	t.Helper()
	reader, err := zip.NewReader(strings.NewReader(body), int64(len(body)))
	if err != nil {
		t.Fatal(err)
	}
	files = map[string]string{}
	for _, entry := range reader.File {
		f, err := entry.Open()
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(f)
		if err != nil || entry.Method != zip.Store || entry.NonUTF8 {
			t.Errorf("%s: %v, method %d", entry.Name, err, entry.Method)
		}
		files[entry.Name] = string(text)
		times = append(times, entry.Modified.UTC())
	}
	return files, times
}

func untar(t *testing.T, body string) (files map[string]string, times []time.Time) {
	t.Helper()
	reader := tar.NewReader(strings.NewReader(body))
	files = map[string]string{}
	for {
		entry, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return files, times
		}
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(reader)
		if err != nil || entry.Typeflag != tar.TypeReg {
			t.Errorf("%s: %v, type %c", entry.Name, err, entry.Typeflag)
		}
		files[entry.Name] = string(text)
		times = append(times, entry.ModTime.UTC())
	}
}

var unpack = map[string]func(*testing.T, string) (map[string]string, []time.Time){".zip": unzip, ".tar": untar}

func TestArchive(t *testing.T) {
	t.Parallel()
	r := newRig(t, web.Options{})
	set := map[string]string{
		"a.txt": "0123456789", "b/empty": "", "b/-/c.bin": strings.Repeat("x", 1<<20), "a+b %25;.png": "p",
		"é/" + strings.Repeat("l", 200) + "/" + strings.Repeat("m", 190): "long",
	}
	w := r.grant("shots/caf%C3%A9")
	for path, body := range set {
		escaped := strings.NewReplacer("%", "%25", "+", "%2B", " ", "%20", ";", "%3B", "é", "%C3%A9").Replace(path)
		w.put(escaped, body).want(201)
	}
	for suffix := range unpack {
		r.call("GET", w.generation()+suffix, "", "Pawl-Lease", w.lease).wantProblem(publish.ErrNotFound)
	}
	receipt := w.publish(`{"release":true}`).want(200).json()
	for suffix, kind := range map[string]string{".zip": "application/zip", ".tar": "application/x-tar"} {
		target := w.generation() + suffix
		got := r.call("GET", target, "").want(200)
		files, times := unpack[suffix](t, got.body)
		if diff := cmp.Diff(set, files); diff != "" {
			t.Errorf("%s isn't the set: %s", suffix, diff)
		}
		published, err := time.Parse(time.RFC3339, receipt["published_at"].(string))
		if err != nil || slices.ContainsFunc(times, func(at time.Time) bool { return !at.Equal(published.Truncate(time.Second)) }) {
			t.Errorf("%s has files of %v, published at %v", suffix, times, published)
		}
		tag := `"` + receipt["manifest_digest"].(string) + `"`
		for name, want := range map[string]string{
			"ETag": tag, "Content-Type": kind, "Accept-Ranges": "none", "Content-Length": strconv.Itoa(len(got.body)), "Pawl-Token": "1",
			"Cache-Control": "public, max-age=31536000, immutable", "X-Content-Type-Options": "nosniff",
			"Content-Disposition": `attachment; filename="caf_-1` + suffix + `"; filename*=UTF-8''caf%C3%A9-1` + suffix,
		} {
			if got.header.Get(name) != want {
				t.Errorf("%s: %s is %q, want %q", suffix, name, got.header.Get(name), want)
			}
		}
		if again := r.call("GET", target, "", "Range", "bytes=5-9").want(200); again.body != got.body {
			t.Errorf("%s is another one the second time", suffix)
		}
		opened := r.blobs.Faults.Calls("Open")
		head := r.call("HEAD", target, "").want(200)
		for _, volatile := range []string{"Date", "X-Request-Id"} {
			head.header.Del(volatile)
			got.header.Del(volatile)
		}
		if diff := cmp.Diff(got.header, head.header); diff != "" || head.body != "" {
			t.Errorf("%s: HEAD differs: %s", suffix, diff)
		}
		if same := r.call("GET", target, "", "If-None-Match", `"x", W/`+tag).want(304); same.header.Get("ETag") != tag || same.body != "" {
			t.Errorf("%s: 304 with %v", suffix, same.header)
		}
		r.call("GET", target, "", "If-Match", `"x"`).wantProblem(publish.ErrPreconditionFailed)
		if r.blobs.Faults.Calls("Open") != opened {
			t.Errorf("%s: the store was asked for nothing", suffix)
		}
		r.call("GET", target, "", "If-Match", tag, "If-None-Match", `"x"`).want(200)
		r.call("GET", target+"?x=1", "").wantProblem(publish.ErrInvalidRequest)
		if put := r.call("PUT", target, "x"); put.header.Get("Allow") != "GET, HEAD, OPTIONS" {
			t.Errorf("PUT %s: %d, Allow %q", suffix, put.status, put.header.Get("Allow"))
		}
		for _, wrong := range []string{"0", "01", "1.0", "1e3", "x", ""} {
			r.call("GET", "/v1/keys/k/-/generations/"+wrong+suffix, "").wantProblem(publish.ErrInvalidToken)
		}
		r.call("GET", "/v1/keys/k/-/generations/1"+suffix, "").wantProblem(publish.ErrNotFound)
		r.call("GET", target+"/files", "").wantProblem(publish.ErrInvalidToken)
	}
}

// Of an open generation the archive is the last published revision, whole, also when the next one comes while it is read.
func TestArchiveOfAnOpenGeneration(t *testing.T) {
	t.Parallel()
	for suffix := range unpack {
		for _, operation := range []string{"FilesAt", "FileAt"} {
			for after := range 4 { // calls before the next revision comes
				r := newRig(t, web.Options{})
				w := r.grant("k")
				w.put("a", "one").want(201)
				w.put("b", "one").want(201)
				receipt := w.publish(`{"final":false}`).want(200).json()
				w.put("c", "not published").want(201)
				r.pointers.Faults.Add(publishtest.Fault{Operation: operation, Times: after + 1, Before: func(context.Context) {}})
				r.pointers.Faults.Add(publishtest.Fault{Operation: operation, Before: func(context.Context) {
					w.put("a", "two").want(200)
					w.call("DELETE", w.generation()+"/files/b", "", "Pawl-Lease", w.lease).want(204)
					w.publish(`{"final":false}`).want(200)
				}})
				got := r.call("GET", w.generation()+suffix, "").want(200)
				files, _ := unpack[suffix](t, got.body)
				if diff := cmp.Diff(map[string]string{"a": "one", "b": "one"}, files); diff != "" {
					t.Errorf("%s, published again at %s: %s", suffix, operation, diff)
				}
				if got.header.Get("Cache-Control") != "no-cache" || got.header.Get("ETag") != `"`+receipt["manifest_digest"].(string)+`"` {
					t.Errorf("%s: %v", suffix, got.header)
				}
			}
		}
	}
}

// A listing that isn't the manifest's gives no archive.
func TestArchiveOfAWrongListing(t *testing.T) {
	t.Parallel()
	for suffix := range unpack {
		r := &rig{t: t, blobs: publishtest.NewBlobs(), pointers: publishtest.NewPointers(), log: &testenv.Buffer{}}
		r.start(r.blobs, web.Options{})
		r.service.Pointers = forgetful{r.pointers}
		w := r.published("k", "a", "1")
		r.call("GET", w.generation()+suffix, "").wantProblem(publish.ErrInternal)
		if !strings.Contains(r.log.String(), "isn't the manifest that was published") {
			t.Errorf("the log doesn't say why: %s", r.log)
		}
	}
}

// forgetful is a store that lists no file.
type forgetful struct{ *publishtest.Pointers }

func (forgetful) FilesAt(context.Context, publish.Key, publish.Version, publish.Path, int) (publish.FilePage, error) {
	return publish.FilePage{}, nil
}

// A store that is away shows as an error; one that breaks midway, or has other bytes, breaks the connection: what came is no archive.
func TestArchiveOfABrokenStore(t *testing.T) {
	t.Parallel()
	for suffix := range unpack {
		r := newRig(t, web.Options{})
		w := r.grant("k")
		for _, path := range []string{"a", "b", "c"} {
			w.put(path, strings.Repeat(path, 1<<20)).want(201)
		}
		w.publish("").want(200)
		target := w.generation() + suffix

		r.blobs.Faults.Add(publishtest.Fault{Operation: "Open"})
		got := r.call("GET", target, "")
		got.wantProblem(publish.ErrUnavailable)
		for _, name := range []string{"ETag", "Content-Disposition", "Accept-Ranges", "Pawl-Token"} {
			if got.header.Get(name) != "" {
				t.Errorf("the error has the archive's %s", name)
			}
		}
		pass := func(context.Context) {}
		for what, faults := range map[string][]publishtest.Fault{
			"a broken read":  {{Operation: "Read", Times: 40, Before: pass}, {Operation: "Read", Err: errors.New("the store broke")}},
			"an early end":   {{Operation: "Read", Times: 40, Before: pass}, {Operation: "Read", Err: io.EOF}},
			"a missing file": {{Operation: "Open", Times: 2, Before: pass}, {Operation: "Open", Err: publish.ErrObjectNotFound}},
		} {
			for _, fault := range faults {
				r.blobs.Faults.Add(fault)
			}
			res, err := r.client.Get(r.server.URL + target)
			if err != nil {
				t.Fatal(err)
			}
			part, err := io.ReadAll(res.Body)
			_ = res.Body.Close()
			if err == nil || res.StatusCode != http.StatusOK || int64(len(part)) >= res.ContentLength || len(part) < 1<<20 {
				t.Errorf("%s, %s: status %d, %d of %d bytes, then %v", suffix, what, res.StatusCode, len(part), res.ContentLength, err)
			}
			if _, err := zip.NewReader(bytes.NewReader(part), int64(len(part))); suffix == ".zip" && err == nil {
				t.Errorf("%s: what came is a well-formed zip", what)
			}
			r.blobs.Faults.Clear()
		}
		r.call("GET", target, "").want(200)
	}
}

// rotten is a store whose bytes have changed, in their places and number.
type rotten struct{ *publishtest.Blobs }

func (s rotten) Open(ctx context.Context, name publish.ObjectName, offset, length int64) (io.ReadCloser, error) {
	body, err := s.Blobs.Open(ctx, name, offset, length)
	if err != nil || !strings.HasSuffix(string(name), "/b") {
		return body, err
	}
	defer body.Close()
	text, err := io.ReadAll(body)
	if err == nil {
		text[len(text)/2] ^= 1
	}
	return io.NopCloser(bytes.NewReader(text)), err
}

// The digest of every file is checked on its way into an archive.
func TestArchiveOfRottenBytes(t *testing.T) {
	t.Parallel()
	for suffix := range unpack {
		r := &rig{t: t, pointers: publishtest.NewPointers(), blobs: publishtest.NewBlobs(), log: &testenv.Buffer{}}
		r.start(rotten{r.blobs}, web.Options{})
		w := r.grant("k")
		for _, path := range []string{"a", "b", "c"} {
			w.put(path, strings.Repeat(path, 1<<20)).want(201)
		}
		w.publish("").want(200)
		res, err := r.client.Get(r.server.URL + w.generation() + suffix)
		if err != nil {
			t.Fatal(err)
		}
		part, err := io.ReadAll(res.Body)
		_ = res.Body.Close()
		if err == nil || len(part) < 1<<20 {
			t.Errorf("%s: %d of %d bytes, then %v", suffix, len(part), res.ContentLength, err)
		}
		await(t, func() bool { return strings.Contains(r.log.String(), "other bytes than were published") })
	}
}
