package client

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/pawlhq/pawl/publish"
)

// Download is a file as it comes from its permanent address. Reading it goes on by Range after a break, and its last
// Read checks length and SHA-256: io.EOF means that every byte is the published one. The caller closes it.
type Download struct {
	// Size in bytes, -1 when the server didn't say.
	Size        int64
	Digest      publish.Digest
	ContentType string

	client  *Client
	ctx     context.Context
	request downloadRequest
	body    io.ReadCloser
	etag    string
	n       int64 // bytes read so far, by this download and the one that it goes on from
	known   bool  // Size and Digest stood in a manifest
	hash    hash.Hash
	breaks  int // since the last byte that came
	err     error
}

type downloadRequest struct {
	url   string
	lease publish.LeaseID
}

// maxBreaks is how many connections in a row may give nothing before a download fails.
const maxBreaks = 5

// Open starts the download of one file from its permanent address. With the LeaseID of its grant it also finds
// what isn't published yet. A stream that breaks is resumed where it broke, on the same address; ctx covers all of it.
func (c *Client) Open(ctx context.Context, key publish.Key, token publish.Token, path publish.Path, lease publish.LeaseID) (*Download, error) {
	d := &Download{client: c, ctx: ctx, hash: sha256.New(), Size: -1, request: downloadRequest{url: c.FileURL(key, token, path), lease: lease}}
	if err := d.connect(); err != nil {
		return nil, err
	}
	return d, nil
}

// Read reads on, over breaks of the connection.
func (d *Download) Read(p []byte) (int, error) {
	if d.err != nil {
		return 0, d.err
	}
	for {
		n, err := d.body.Read(p)
		d.n += int64(n)
		_, _ = d.hash.Write(p[:n]) // hash.Hash.Write never returns an error.
		if n > 0 {
			d.breaks = 0
		}
		switch {
		case d.known && d.n > d.Size:
			d.err = d.verify() // Not a byte more is read than a disk was asked to hold.
		case err == nil:
			return n, nil
		case errors.Is(err, io.EOF) && (d.Size < 0 || d.n >= d.Size):
			d.err = d.verify()
		case d.etag == "" || d.breaks >= maxBreaks || d.ctx.Err() != nil:
			d.err = fmt.Errorf("download broke off after %d bytes: %w", d.n, cmpErr(d.ctx.Err(), err))
		default:
			d.breaks++
			_ = d.body.Close() //nolint:errcheck // It is broken already.
			if d.err = d.connect(); d.err == nil && n == 0 {
				continue
			}
		}
		return n, d.err
	}
}

// Close ends the download.
func (d *Download) Close() error { return d.body.Close() }

func cmpErr(first, second error) error {
	if first != nil {
		return first
	}
	return second
}

// verify checks what came, and returns io.EOF when it is good.
func (d *Download) verify() error {
	came := publish.Digest(d.hash.Sum(nil))
	switch {
	case d.Size >= 0 && d.n != d.Size:
		return &publish.Error{
			Code: publish.ErrLengthMismatch, Detail: "the download has another length than promised",
			Promised: strconv.FormatInt(d.Size, 10), Came: strconv.FormatInt(d.n, 10),
		}
	case !d.Digest.IsZero() && came != d.Digest:
		return &publish.Error{
			Code: publish.ErrDigestMismatch, Detail: "the download's SHA-256 is not the published one",
			Promised: d.Digest.String(), Came: came.String(),
		}
	}
	return io.EOF
}

// connect asks for the file from d.n on. The whole is asked for first; a resumption must be of the same content.
func (d *Download) connect() error {
	return d.client.repeated(d.ctx, "download", false, func(ctx context.Context) error {
		resp, promise, err := d.fetch(ctx)
		if err != nil {
			return err
		}
		if resp.StatusCode >= 300 {
			defer closeBody(resp)
			return decodeError(resp)
		}
		if err := d.accept(resp, promise); err != nil {
			_ = resp.Body.Close() //nolint:errcheck // Nothing was written.
			return err
		}
		d.body = resp.Body
		return nil
	})
}

// accept looks at the head of an answer: what is promised by the first, and whether a later one goes on with it. promise is the head
// in which the server has said what the file is.
func (d *Download) accept(resp *http.Response, promise http.Header) error {
	etag := promise.Get("ETag")
	switch {
	case d.known && d.n == 0:
		if resp.StatusCode != http.StatusOK || etag != d.etag {
			return errChanged()
		}
		d.ContentType = resp.Header.Get("Content-Type")
		return nil
	case d.n == 0:
		d.etag, d.Size, d.ContentType = etag, resp.ContentLength, resp.Header.Get("Content-Type")
		d.Digest = promisedDigest(promise)
		if strings.HasPrefix(etag, "W/") {
			d.etag = "" // a weak tag doesn't identify bytes, so there is no resuming
		}
		return nil
	}
	from := fmt.Sprintf("bytes %d-", d.n)
	if resp.StatusCode != http.StatusPartialContent || etag != d.etag || !strings.HasPrefix(resp.Header.Get("Content-Range"), from) {
		return errChanged()
	}
	return nil
}

func errChanged() error {
	return &publish.Error{Code: publish.ErrDigestMismatch, Detail: "the file changed while it was downloaded; start again"}
}

// promisedDigest reads Repr-Digest (RFC 9530), or an ETag that is a SHA-256 in hex.
func promisedDigest(h http.Header) publish.Digest {
	for field := range strings.SplitSeq(h.Get("Repr-Digest"), ",") {
		value, found := strings.CutPrefix(strings.TrimSpace(field), "sha-256=")
		if digest, ok := publish.ParseByteSequence(value); found && ok {
			return digest
		}
	}
	digest, err := publish.ParseDigest(strings.Trim(h.Get("ETag"), `"`))
	if err != nil {
		return publish.Digest{}
	}
	return digest
}
