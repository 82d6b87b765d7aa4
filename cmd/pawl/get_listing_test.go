package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/pawlhq/pawl/publish"
)

// listingServer is a server with one key, whose pages of files a test makes up, and a count of those that were asked for.
func listingServer(t *testing.T, pointer publish.Pointer, page func(n int64) publish.FilePage) (url string, pages *atomic.Int64) {
	t.Helper()
	pages = new(atomic.Int64)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case !strings.Contains(r.URL.Path, "/-/generations/1/files"):
			_ = json.NewEncoder(w).Encode(pointer)
		case strings.HasSuffix(r.URL.Path, "/files"):
			_ = json.NewEncoder(w).Encode(page(pages.Add(1)))
		default:
			_, _ = fmt.Fprint(w, "evil")
		}
	}))
	t.Cleanup(server.Close)
	return server.URL, pages
}

// A list with a row that has no digest, or with more rows than the version has files, is refused before anything is written.
func TestGetFolderOfAWrongListing(t *testing.T) {
	t.Parallel()
	unchecked := []publish.File{{Path: "a", Size: 4}}
	for name, test := range map[string]struct {
		pointer publish.Pointer
		page    func(n int64) publish.FilePage
		pages   int64
	}{
		"no digest": {
			publish.Pointer{Files: 1, ManifestDigest: publish.ManifestDigest(unchecked)},
			func(int64) publish.FilePage { return publish.FilePage{Files: unchecked} }, 1,
		},
		"no end": {publish.Pointer{Files: 2, ManifestDigest: sum("x")}, func(n int64) publish.FilePage {
			path := publish.Path(fmt.Sprintf("%08d", n))
			return publish.FilePage{Files: []publish.File{{Path: path, SHA256: sum("x")}}, Next: path}
		}, 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test.pointer.Key, test.pointer.Token, test.pointer.Revision = "k", 1, 1
			url, pages := listingServer(t, test.pointer, test.page)
			dir := t.TempDir()
			call(t, []string{"PAWL_URL=" + url}, "get", "k", "--dir", filepath.Join(dir, "out")).expect(t, exitDigest, "a file too many")
			if entries, err := os.ReadDir(dir); err != nil || len(entries) > 0 {
				t.Errorf("left %v, %v", entries, err)
			}
			if got := pages.Load(); got != test.pages {
				t.Errorf("%d pages were read, want %d", got, test.pages)
			}
		})
	}
}
