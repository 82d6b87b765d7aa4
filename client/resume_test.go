package client

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"hash"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/pawlhq/pawl/publish"
)

func seen(b []byte) hash.Hash {
	if len(b) == 0 {
		return nil
	}
	h := sha256.New()
	_, _ = h.Write(b)
	return h
}

// A download goes on where an earlier one, in another process, has ended, also over breaks, and its digest covers both.
func TestOpenFileGoesOn(t *testing.T) {
	t.Parallel()
	file := publish.File{Path: "a.bin", Size: int64(len(content)), SHA256: sha256.Sum256(content)}
	for _, from := range []int64{0, 1, 123_456, file.Size - 1, file.Size} {
		f := newFake(t, breakAfter(content, 1), breakAfter(content, 100_000), serveContent(content))
		d, err := f.client(t, Options{}).OpenFile(testContext(t), "k", publish.Version{Token: 3, Revision: 2}, file, from, seen(content[:from]))
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(d)
		if err != nil || !bytes.Equal(got, content[from:]) {
			t.Errorf("from %d: %d bytes, %v", from, len(got), err)
		}
		if err := d.Close(); err != nil {
			t.Error(err)
		}
		if from == file.Size && f.count() > 0 {
			t.Errorf("%d requests for nothing", f.count())
		}
		if from > 0 && f.count() > 0 && f.requests[0].Header.Get("Range") == "" {
			t.Errorf("from %d: the first request has no Range", from)
		}
	}
}

func TestOpenFileOfOtherBytes(t *testing.T) {
	t.Parallel()
	file := publish.File{Path: "a.bin", Size: int64(len(content)), SHA256: sha256.Sum256(content)}
	other := bytes.ToUpper(content)
	claiming := func(body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("ETag", tag(content))
			_, _ = io.WriteString(w, body)
		}
	}
	for name, test := range map[string]struct {
		handle http.HandlerFunc
		from   int64
		kept   []byte
		want   publish.Code
	}{
		"another ETag":              {handle: serveContent(other), want: publish.ErrDigestMismatch},
		"another ETag for a range":  {handle: serveContent(other), from: 10, kept: content[:10], want: publish.ErrDigestMismatch},
		"the whole for a range":     {handle: claiming(string(content)), from: 10, kept: content[:10], want: publish.ErrDigestMismatch},
		"other bytes were kept":     {handle: serveContent(content), from: 10, kept: other[:10], want: publish.ErrDigestMismatch},
		"a lie":                     {handle: claiming(string(other)), want: publish.ErrDigestMismatch},
		"more bytes than promised":  {handle: claiming(strings.Repeat(string(content), 3)), want: publish.ErrLengthMismatch},
		"kept all, but other bytes": {handle: serveContent(content), from: file.Size, kept: other, want: publish.ErrDigestMismatch},
		"a part unasked for":        {handle: func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusPartialContent) }, want: publish.ErrDigestMismatch},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFake(t, test.handle)
			d, err := f.client(t, Options{}).OpenFile(testContext(t), "k", publish.Version{Token: 3, Revision: 2}, file, test.from, seen(test.kept))
			if err == nil {
				defer d.Close()
				var n int64
				n, err = io.Copy(io.Discard, d)
				if n > 2*file.Size {
					t.Errorf("%d bytes were taken", n)
				}
			}
			if !errors.Is(err, test.want) {
				t.Errorf("%v, want %s", err, test.want)
			}
		})
	}
}

func TestAllFiles(t *testing.T) {
	t.Parallel()
	page := func(body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, body) }
	}
	f := newFake(t, page(`{"files":[{"path":"a"},{"path":"b"}],"next":"b"}`), page(`{"files":[{"path":"c"}],"next":"b"}`), page(`{}`))
	var paths []string
	var failed error
	for file, err := range f.client(t, Options{}).AllFiles(testContext(t), "k", publish.Version{Token: 3, Revision: 2}) {
		if failed = err; err == nil {
			paths = append(paths, string(file.Path))
		}
	}
	if got := strings.Join(paths, " "); got != "a b c" || failed == nil || f.count() != 2 {
		t.Errorf("%s, %v, %d requests; want a b c, and an error about pages that go round", got, failed, f.count())
	}
	if query := f.requests[1].URL.Query(); query.Get("after") != "b" || query.Get("revision") != "2" {
		t.Errorf("the second page is %s", f.requests[1].URL)
	}
}
