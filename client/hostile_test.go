package client

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/pawlhq/pawl/publish"
)

// Case 36: a manifest row that leads elsewhere is handed to nobody, by no way of listing, and names that are odd but legal are.
func TestCase36HostileNames(t *testing.T) {
	t.Parallel()
	list := func(name string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			_ = json.NewEncoder(w).Encode(map[string]any{"files": []map[string]any{{"path": "fine"}, {"path": name}}})
		}
	}
	version := publish.Version{Token: 1, Revision: 1}
	ways := map[string]func(context.Context, *Client) (int, error){
		"Files": func(ctx context.Context, c *Client) (int, error) {
			page, err := c.Files(ctx, "k", 1, "", 0)
			return len(page.Files), err
		},
		"FilesAt": func(ctx context.Context, c *Client) (int, error) {
			page, err := c.FilesAt(ctx, "k", version, "", 0)
			return len(page.Files), err
		},
		"AllFiles": func(ctx context.Context, c *Client) (n int, err error) {
			for _, err = range c.AllFiles(ctx, "k", version) {
				if err == nil {
					n++
				}
			}
			return n, err
		},
	}
	for way, list1 := range ways {
		for _, name := range []string{"../../evil", "/etc/evil", `C:\evil`, "a/../../evil", `..\evil`, "a//b", "evil\x00", "evil\n", "..", ".", "", "a\u202Eb", strings.Repeat("x", 401)} {
			n, err := list1(testContext(t), newFake(t, list(name)).client(t, Options{}))
			if !errors.Is(err, ErrHostileName) || n > 0 {
				t.Errorf("%s of %q: %d files, %v", way, name, n, err)
			}
		}
		for _, name := range []string{"-", "...", "a b", "100%.png", "q?x=1#y.png", "tileset/0.glb"} {
			if n, err := list1(testContext(t), newFake(t, list(name)).client(t, Options{})); err != nil || n != 2 {
				t.Errorf("%s of %q: %d files, %v", way, name, n, err)
			}
		}
	}
}

// Names that a caller gives stay what they are in an address: they can't lead to another resource of the server.
func TestNamesStayInTheirPlace(t *testing.T) {
	t.Parallel()
	f := newFake(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "{}") })
	c := f.client(t, Options{})
	for _, name := range []string{"a?publish=true", "a#b", "a%2Fb", "a;b", "a b"} {
		before := f.count()
		_, _ = c.Generation(testContext(t), publish.Key(name), 17)
		r := f.requests[before]
		if r.URL.Path != "/v1/keys/"+name+"/-/generations/17" || r.URL.RawQuery != "" {
			t.Errorf("%q leads to %s", name, r.URL)
		}
	}
}
