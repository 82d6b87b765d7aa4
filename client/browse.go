package client

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"strconv"

	"github.com/pawlhq/pawl/publish"
)

// List returns one page of pointers in byte order of their keys.
func (c *Client) List(ctx context.Context, req publish.ListRequest) (publish.ListPage, error) {
	query := url.Values{}
	set := func(name, value string) {
		if value != "" {
			query.Set(name, value)
		}
	}
	set("prefix", req.Prefix)
	set("delimiter", req.Delimiter)
	set("after", req.After)
	setLimit(query, req.Limit)
	address := c.base + "/v1/keys"
	if len(query) > 0 {
		address += "?" + query.Encode()
	}
	var page publish.ListPage
	err := c.do(ctx, call{what: "list", method: http.MethodGet, url: address, into: &page})
	return page, err
}

// ListAll yields the pages of a listing one after another, and stops at the first error.
func (c *Client) ListAll(ctx context.Context, req publish.ListRequest) iter.Seq2[publish.ListPage, error] {
	return func(yield func(publish.ListPage, error) bool) {
		for {
			page, err := c.List(ctx, req)
			if !yield(page, err) || err != nil || page.Next == "" {
				return
			}
			req.After = page.Next
		}
	}
}

// History returns one page of a key's generations with their receipts and rejections, newest first: those with tokens below before,
// or from the newest when before is 0. limit 0 leaves the size of the page to the server.
func (c *Client) History(ctx context.Context, key publish.Key, before publish.Token, limit int) (publish.HistoryPage, error) {
	query := url.Values{}
	if before != 0 {
		query.Set("before", strconv.FormatInt(int64(before), 10))
	}
	setLimit(query, limit)
	var page publish.HistoryPage
	err := c.do(ctx, call{what: "history", method: http.MethodGet, url: c.keyURL(key, "generations", query), into: &page})
	return page, err
}

// Generation returns one generation with its receipts and rejections.
func (c *Client) Generation(ctx context.Context, key publish.Key, token publish.Token) (publish.Generation, error) {
	var generation publish.Generation
	err := c.do(ctx, call{what: "generation", method: http.MethodGet, url: c.keyURL(key, generationPath(token), nil), into: &generation})
	return generation, err
}

// ErrHostileName is in the chain of an error about a list in which a file has a name that no server lets in: it leads out of a folder, is absolute,
// or holds what no name may hold (see publish.ParsePath). Such a list isn't handed out, so that nobody writes to such a place.
var ErrHostileName = errors.New("a published name breaks the rule for paths")

// Files returns one page of a generation's published files in order of their paths, after a path ("" for the first page). Their names are checked
// (see ErrHostileName): on Unix each is good as a name inside of a folder. Windows has rules of its own; there, ask filepath.IsLocal as well, or write
// through an os.Root. A set may hold a file "a" and a file "a/b".
func (c *Client) Files(ctx context.Context, key publish.Key, token publish.Token, after publish.Path, limit int) (publish.FilePage, error) {
	query := url.Values{}
	if after != "" {
		query.Set("after", string(after))
	}
	setLimit(query, limit)
	return c.filePage(ctx, key, token, query)
}

// FilesAt returns one page of the files of a published revision, which never changes; see Files.
func (c *Client) FilesAt(ctx context.Context, key publish.Key, version publish.Version, after publish.Path, limit int) (publish.FilePage, error) {
	query := url.Values{"revision": {strconv.FormatInt(version.Revision, 10)}}
	if after != "" {
		query.Set("after", string(after))
	}
	setLimit(query, limit)
	return c.filePage(ctx, key, version.Token, query)
}

func (c *Client) filePage(ctx context.Context, key publish.Key, token publish.Token, query url.Values) (publish.FilePage, error) {
	var page publish.FilePage
	err := c.do(ctx, call{what: "files", method: http.MethodGet, url: c.keyURL(key, generationPath(token)+"/files", query), into: &page})
	if err != nil {
		return publish.FilePage{}, err
	}
	for _, file := range page.Files {
		if _, err := publish.ParsePath(string(file.Path)); err != nil {
			return publish.FilePage{}, fmt.Errorf("files of %s: %w: %+q can't be a file in a folder", key, ErrHostileName, file.Path)
		}
	}
	return page, nil
}

// AllFiles yields all files of a published revision in order of their paths, and stops at the first error. It asks for a page at a
// time; what it yields never changes.
func (c *Client) AllFiles(ctx context.Context, key publish.Key, version publish.Version) iter.Seq2[publish.File, error] {
	return func(yield func(publish.File, error) bool) {
		for after := publish.Path(""); ; {
			page, err := c.FilesAt(ctx, key, version, after, publish.MaxPageSize)
			if err != nil {
				yield(publish.File{}, err)
				return
			}
			for _, file := range page.Files {
				if !yield(file, nil) {
					return
				}
			}
			if page.Next == "" {
				return
			}
			if page.Next <= after {
				yield(publish.File{}, fmt.Errorf("files of %s: the server's pages don't go on after %q", key, after))
				return
			}
			after = page.Next
		}
	}
}

func setLimit(query url.Values, limit int) {
	if limit != 0 {
		query.Set("limit", strconv.Itoa(limit))
	}
}
