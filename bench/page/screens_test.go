package page

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"fmt"

	"github.com/pawlhq/pawl/publish"
)

// keyName is the name of a key of the thumbs.
func keyName(n int) string { return fmt.Sprintf("thumbs/image-%08d", n) }

// The keys with the longest histories.
const (
	deepKey   = "deep/text-00000008"
	streamKey = "streams/live-00000009"
)

// screens are the addresses of all pages: the keys in each order, by each filter, in each view and far in, keys of each kind, and the feeds.
func screens(n int) []string {
	all := []string{
		"/", "/b/thumbs/", "/b/shots/", "/b/shots/seq001/", "/b/small/", "/b/deep/", "/b/streams/", "/b/nothing/", "/?prefix=thumbs%2Fimage-005",
		"/b/thumbs/?view=grid", "/?view=grid&sort=age",
	}
	for _, sort := range publish.BrowseSorts() {
		all = append(all, "/b/small/?sort="+string(sort))
		if !sort.ByName() && !sort.ByAge() {
			continue
		}
		for _, filter := range []string{"", "q=7", "q=nowhere", "type=image", "type=video%2Fmp4", "since=1h", "since=20d", "leased=true", "rejected=true", "leased=true&type=video"} {
			all = append(all, fmt.Sprintf("/?sort=%s&%s", sort, filter))
		}
		all = append(all, fmt.Sprintf("/b/shots/?sort=%s&q=seq001", sort))
	}
	far := func(sort publish.BrowseSort, place string) string {
		return fmt.Sprintf("sort=%s&after=%s", sort, base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, `{"s":%q,"n":%q%s}`, sort, keyName(n/2), place)))
	}
	all = append(all, "/b/thumbs/?"+far(publish.SortName, ""), "/b/thumbs/?q=99&"+far(publish.SortName, ""),
		"/?"+far(publish.SortAge, `,"t":"2026-01-01T00:00:00Z"`))
	for _, path := range keyPaths(n) {
		all = append(all, "/k/"+path)
	}
	return append(all, "/activity", "/activity?prefix=small%2F", "/activity?prefix=nothing%2F",
		"/rejections", "/rejections?prefix=small%2F", "/rejections?prefix=thumbs%2F", "/rejections?prefix=deep%2F",
		"/leases", "/leases?running=true", "/leases?prefix=small%2F", "/leases?prefix=models%2F&running=true", "/policies", "/upload")
}

// keyPaths are those of the pages about one key: all of them for a picture with a lease, a text, rejections, a set, and long histories.
func keyPaths(n int) (paths []string) {
	middle := n / 2 / 1000 * 1000
	held, text, rejected, set := keyName(middle+1), keyName(middle+3), keyName(middle+50), fmt.Sprintf("sets/take-%08d", middle+6)
	for _, key := range []string{held, keyName(middle + 51), text, rejected, set, deepKey, streamKey} {
		paths = append(paths, key, key+"/-/history", key+"/-/generations/1", key+"/-/compare", key+"/-/upload")
	}
	return append(paths, held+"/-/break-lease", held+"/-/pin", deepKey+"/-/rollback", deepKey+"/-/retire", streamKey+"/-/rollback",
		deepKey+"/-/history?before=500", deepKey+"/-/generations/500", deepKey+"/-/compare?a=1.1&b=1000.1", streamKey+"/-/history?before=30",
		streamKey+"/-/generations/60?revision=50", streamKey+"/-/compare?a=1.1&b=60.100")
}

// put stores the bytes that the pages of some keys show: texts, which differ from generation to generation.
func put(ctx context.Context, blobs publish.BlobStore, n int) error {
	middle := n / 2 / 1000 * 1000
	for _, version := range []struct {
		id    int
		key   string
		token publish.Token
		size  int
	}{
		{middle + 3, keyName(middle + 3), 1, 1 + (middle+3)%4096},
		{8, deepKey, 1, 16384},
		{8, deepKey, 500, 16384},
		{8, deepKey, 999, 16384},
		{8, deepKey, 1000, 16384},
		{9, streamKey, 1, 10},
		{9, streamKey, 60, 10},
	} {
		sum := sha256.Sum256(binary.BigEndian.AppendUint64(nil, uint64(version.id))) //nolint:gosec // Ids are small.
		upload := publish.Upload{Grant: publish.Grant{Key: publish.Key(version.key), Token: version.token}, ID: publish.UploadID(sum[:16]), Path: "out"}
		text := bytes.Repeat(fmt.Appendf(nil, "What %s said under token %d, in as many lines as there are.\n", version.key, version.token), 400)[:version.size]
		if err := blobs.Put(ctx, upload.Object(), bytes.NewReader(text), int64(len(text)), "text/plain"); err != nil {
			return fmt.Errorf("storing a text of %s: %w", version.key, err)
		}
	}
	return nil
}
