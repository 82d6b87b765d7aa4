package client

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"net/http"
	"net/url"
	"sync"

	"github.com/pawlhq/pawl/publish"
)

// Upload stores one file in a generation. The body is streamed, and sent only once the server has accepted the grant. A
// body that is an io.Seeker is sent again when an attempt fails; any other one is sent once, after as many attempts as are refused before it is read. A promised digest (req.Digest)
// is checked by the server before the file counts. Without one the body is hashed as it is sent, and compared with what the server has stored: another
// file is a digest-mismatch, and its path must be uploaded again.
//
// When Upload returns early with an error, a Read of a body that isn't an io.Seeker may still be running.
func (c *Client) Upload(ctx context.Context, req publish.UploadRequest) (publish.UploadResult, error) {
	var result publish.UploadResult
	err := c.upload(ctx, "upload", req, nil, &result)
	return result, err
}

// UploadAndPublish stores one file and publishes its generation in the same request, for outputs of one file. A repetition after a
// lost answer is a replay.
func (c *Client) UploadAndPublish(ctx context.Context, req publish.UploadRequest) (publish.Receipt, error) {
	var receipt publish.Receipt
	err := c.upload(ctx, "upload and publish", req, url.Values{"publish": {"true"}}, &receipt)
	return receipt, err
}

// DeleteFile drops a file from an open generation.
func (c *Client) DeleteFile(ctx context.Context, grant publish.Grant, path publish.Path) error {
	return c.do(ctx, call{
		what: "delete file", method: http.MethodDelete, url: c.FileURL(grant.Key, grant.Token, path),
		lease: grant.LeaseID, changes: true,
	})
}

func (c *Client) upload(ctx context.Context, what string, req publish.UploadRequest, query url.Values, into any) error {
	seeker, seekable := req.Body.(io.Seeker)
	var start int64
	if seekable {
		var err error
		if start, err = seeker.Seek(0, io.SeekCurrent); err != nil {
			seekable = false // a pipe, for instance, has the method but can't
		}
	}
	if !seekable {
		return c.single(ctx, func(ctx context.Context) (bool, error) {
			body := &watchedBody{from: req.Body}
			err := c.uploadOnce(ctx, req, body, query, into, false)
			return err != nil && body.untouched(), err
		})
	}
	return c.repeated(ctx, what, true, func(ctx context.Context) error {
		if _, err := seeker.Seek(start, io.SeekStart); err != nil {
			return fmt.Errorf("%s: rewinding the body: %w", what, err)
		}
		return c.uploadOnce(ctx, req, &watchedBody{from: req.Body}, query, into, true)
	})
}

func (c *Client) uploadOnce(ctx context.Context, req publish.UploadRequest, body *watchedBody, query url.Values, into any, wait bool) error {
	address := c.keyURL(req.Grant.Key, filePath(req.Grant.Token, req.Path), query)
	var reader io.Reader = body
	if req.Size == 0 {
		reader = http.NoBody // a length of 0 beside a body would mean an unknown length
	}
	if req.Digest.IsZero() {
		body.sum = sha256.New()
	}
	r, err := c.newRequest(ctx, http.MethodPut, address, reader, req.Grant.LeaseID)
	if err != nil {
		return err
	}
	r.ContentLength = req.Size
	if req.Size != 0 {
		r.Header.Set("Expect", "100-continue")
	}
	if req.ContentType != "" {
		r.Header.Set("Content-Type", req.ContentType)
	}
	if !req.Digest.IsZero() {
		// RFC 9530: the digest of the whole representation, as a byte sequence of structured fields.
		r.Header.Set("Repr-Digest", "sha-256="+req.Digest.ByteSequence())
	}
	resp, err := c.roundTrip(r)
	if wait {
		body.detach()
	}
	if fault := body.fault(); fault != nil {
		// Not the server's doing: the upload ended because its source did.
		if resp != nil {
			closeBody(resp)
		}
		return fmt.Errorf("reading the file to upload: %w", fault)
	}
	if err != nil {
		return err
	}
	defer closeBody(resp)
	if resp.StatusCode >= 300 {
		return decodeError(resp)
	}
	if err := readJSON(resp, into); err != nil {
		return err
	}
	if result, ok := into.(*publish.UploadResult); ok && !result.Overtaken {
		return body.compare(result.SHA256)
	}
	return nil
}

// watchedBody passes a body on to the transport, which goes on reading in a goroutine of its own after an early answer.
// detach cuts that off, so that the body can be rewound, and waits for a read that is under way.
type watchedBody struct {
	from     io.Reader
	mu       sync.Mutex
	detached bool
	begun    bool      // a Read of from may have taken something
	sum      hash.Hash // of what was passed on; nil when nobody asks

	faultMu sync.Mutex
	err     error // of from, other than io.EOF
}

func (b *watchedBody) Read(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.detached {
		return 0, io.ErrClosedPipe
	}
	b.begun = true
	n, err := b.from.Read(p)
	if b.sum != nil {
		_, _ = b.sum.Write(p[:n]) // hash.Hash.Write never returns an error.
	}
	if err != nil && !errors.Is(err, io.EOF) {
		b.faultMu.Lock()
		b.err = err
		b.faultMu.Unlock()
	}
	return n, err
}

// Close is the transport's; the body belongs to the caller.
func (b *watchedBody) Close() error { return nil }

func (b *watchedBody) detach() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.detached = true
}

// untouched reports whether nothing of the body was read, and keeps it so. It waits for no Read: one that is under way has begun.
func (b *watchedBody) untouched() bool {
	if !b.mu.TryLock() {
		return false
	}
	defer b.mu.Unlock()
	b.detached = true
	return !b.begun
}

// compare refuses a file that isn't what was passed on.
func (b *watchedBody) compare(stored publish.Digest) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.sum == nil || stored.IsZero() {
		return nil
	}
	if sent := publish.Digest(b.sum.Sum(nil)); sent != stored {
		return &publish.Error{
			Code: publish.ErrDigestMismatch, Detail: "the server has stored other bytes than were sent; upload the file again",
			Promised: sent.String(), Came: stored.String(),
		}
	}
	return nil
}

func (b *watchedBody) fault() error {
	b.faultMu.Lock()
	defer b.faultMu.Unlock()
	return b.err
}
