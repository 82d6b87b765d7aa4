package client

import (
	"context"
	"crypto/sha256"
	"fmt"
	"hash"
	"net/http"

	"github.com/pawlhq/pawl/publish"
)

// OpenFile starts the download of a file that the manifest of a revision describes, from its permanent address and from byte from on. seen is a SHA-256
// that has been given the bytes before, which an earlier download has left; the Download goes on with it. It is nil when from is 0.
// Size and digest are the manifest's: another file at the address is a digest-mismatch, at once where its ETag tells, and at
// the end of its bytes otherwise. When nothing is left to download, nothing is asked for. ctx covers all of it.
func (c *Client) OpenFile(ctx context.Context, key publish.Key, version publish.Version, file publish.File, from int64, seen hash.Hash) (*Download, error) {
	if from < 0 || from > file.Size || (from > 0) != (seen != nil) {
		return nil, fmt.Errorf("download of %s: no such place to go on from: byte %d of %d", file.Path, from, file.Size)
	}
	d := &Download{
		Size: file.Size, Digest: file.SHA256, ContentType: file.ContentType, client: c, ctx: ctx, n: from, known: true, hash: seen,
		etag: `"` + file.SHA256.String() + `"`, request: downloadRequest{url: c.FileAtURL(key, version, file.Path)}, body: http.NoBody,
	}
	if seen == nil {
		d.hash = sha256.New()
	}
	if from == file.Size {
		return d, nil
	}
	if err := d.connect(); err != nil {
		return nil, err
	}
	return d, nil
}
