package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"net/http"
	"net/url"
	"sync/atomic"
	"time"

	"github.com/pawlhq/pawl/publish"
)

// DirectFrom is the size, in bytes, from which UploadFile sends a file to the blob store itself: below, one request to the server is
// quicker than three.
const DirectFrom = 8 << 20

// DirectMode says whether files go to the blob store itself.
type DirectMode string

const (
	// DirectAuto sends files of DirectFrom and more directly, where the server offers it. The default.
	DirectAuto DirectMode = "auto"
	// DirectNever sends everything through the server.
	DirectNever DirectMode = "never"
	// DirectAlways sends everything that isn't empty directly, and fails where the server doesn't offer it.
	DirectAlways DirectMode = "always"
)

// Takes reports whether a file of size bytes is to go directly.
func (m DirectMode) Takes(size int64) bool {
	return size > 0 && (m == DirectAlways || m != DirectNever && size >= DirectFrom)
}

// FileUpload is a file to upload whose bytes can be read at any place and again, and must not change meanwhile.
type FileUpload struct {
	Grant       publish.Grant
	Path        publish.Path
	ContentType string
	Source      io.ReaderAt
	Size        int64 // bytes
	// Digest and CRC64NVME are what one reading of the whole file gave; CRC64NVME may be nil.
	Digest    publish.Digest
	CRC64NVME *uint64
	// NewCRC64NVME makes the sum that holds each part to its bytes; nil means one of the standard library's. Faster ones exist.
	NewCRC64NVME func() hash.Hash64
	// Mode is DirectAuto when it is "".
	Mode DirectMode
	// Parallel is how many parts are sent at once; 0 means 4.
	Parallel int
	// Detour, when set, is told why the file goes through the server although the server offers the store: that can't be reached from here, or too many direct
	// uploads of this credential are open.
	Detour func(reason error)
	// Sent, when set, is told of bytes as they are sent; of a negative number when they must be sent again. It is called from
	// several goroutines at once.
	Sent func(n int64)
}

// UploadFile stores one file in a generation, by the shortest way: large files are sent to the blob store itself where the server offers
// that, has room for one more such upload, and the store can be reached from here, several parts at once, and each part that fails is sent again alone. Parts that an earlier call with the same
// promise has sent, in this process or another, are kept. ctx ends it soon; what has been sent then stays for the next call until
// the server sweeps it, or AbortUpload gives it up.
func (c *Client) UploadFile(ctx context.Context, file FileUpload) (publish.UploadResult, error) {
	if file.Mode.Takes(file.Size) && (file.Mode == DirectAlways || !c.noWay.Load()) {
		result, err := c.uploadDirect(ctx, file)
		switch {
		case file.Mode != DirectAlways && tooManyOpen(err):
			c.log.WarnContext(ctx, "too_many_direct_uploads", "path", file.Path, "error", err)
			file.detour(err)
		case file.Mode != DirectAlways && errors.Is(err, errNoWay) && ctx.Err() == nil:
			// Servers often know the store by a name that means nothing out here. What was begun is dropped by what comes now.
			// It isn't tried for each file again.
			c.noWay.Store(true)
			c.log.WarnContext(ctx, "blob_store_unreachable", "path", file.Path, "error", err)
			file.detour(err)
		case !errors.Is(err, errNotOffered):
			return result, err
		case file.Mode == DirectAlways:
			return result, fmt.Errorf("this server's blob store takes no direct uploads of %s; leave the mode on %s", file.Path, DirectAuto)
		}
	}
	return c.Upload(ctx, publish.UploadRequest{
		Grant: file.Grant, Path: file.Path, ContentType: file.ContentType, Size: file.Size, Digest: file.Digest,
		Body: file.reader(0, file.Size),
	})
}

func (f FileUpload) detour(reason error) {
	if f.Detour != nil {
		f.Detour(reason)
	}
}

// tooManyOpen reports whether a direct upload was refused since its caller has too many open. Then none of the same promise is: that would have been gone on with.
func tooManyOpen(err error) bool {
	refusal, ok := errors.AsType[*publish.Error](err)
	return ok && refusal.Code == publish.ErrQuotaExceeded && refusal.Unit == publish.UnitUploads
}

// errNotOffered reports that the file must go through the server.
var errNotOffered = errors.New("direct uploads are not offered")

// errNoWay reports that no connection to the blob store could be made, ever.
var errNoWay = errors.New("the blob store can't be reached from here")

// errPartsGone reports that the store doesn't know the upload in parts any more.
var errPartsGone = errors.New("the blob store has lost the parts of this upload")

// directRounds is how often an upload is begun again because not everything that was sent has come.
const directRounds = 4

func (c *Client) uploadDirect(ctx context.Context, file FileUpload) (publish.UploadResult, error) {
	var reached atomic.Bool
	for round := 1; ; round++ {
		begun, err := c.beginDirect(ctx, file)
		if err != nil || begun.existing != nil {
			return orZero(begun.existing), err
		}
		err = c.sendDirect(ctx, file, begun, &reached)
		var result publish.UploadResult
		if err == nil {
			result, err = c.completeDirect(ctx, file, begun.UploadID)
		}
		lost := errors.Is(err, errPartsGone) || errors.Is(err, publish.ErrLengthMismatch)
		if !lost || round == directRounds || ctx.Err() != nil {
			return result, err
		}
		c.log.WarnContext(ctx, "direct_upload_begun_again", "path", file.Path, "round", round, "error", err)
	}
}

func orZero(result *publish.UploadResult) publish.UploadResult {
	if result == nil {
		return publish.UploadResult{}
	}
	return *result
}

// begunUpload is the server's answer to the beginning of a direct upload.
type begunUpload struct {
	UploadID string                 `json:"upload_id"`
	PartSize int64                  `json:"part_size"`
	Parts    int                    `json:"parts"`
	Uploaded []int                  `json:"uploaded"`
	Checksum string                 `json:"part_checksum"`
	Put      *publish.SignedRequest `json:"put"`

	existing *publish.UploadResult // when the server has the file already
	signed   time.Time             // when Put was asked for, by the own clock
}

func (c *Client) beginDirect(ctx context.Context, file FileUpload) (begunUpload, error) {
	body := map[string]any{"path": file.Path, "size": file.Size, "sha256": file.Digest}
	if file.ContentType != "" {
		body["content_type"] = file.ContentType
	}
	if file.CRC64NVME != nil {
		body["crc64nvme"] = publish.FormatCRC64NVME(*file.CRC64NVME)
	}
	var begun begunUpload
	var raw json.RawMessage
	begun.signed = time.Now()
	err := c.do(ctx, call{
		what: "begin direct upload", method: http.MethodPost, url: c.uploadsURL(file.Grant, ""),
		lease: file.Grant.LeaseID, body: body, into: &raw, changes: true,
	})
	if errors.Is(err, publish.ErrNotFound) || errors.Is(err, publish.ErrMethodNotAllowed) {
		// Also the answer of a server without the route. A key that doesn't exist shows on the other way, too.
		return begun, errNotOffered
	}
	if err != nil {
		return begun, err
	}
	if err := json.Unmarshal(raw, &begun); err != nil {
		return begun, fmt.Errorf("begin direct upload: the answer isn't readable: %w", err)
	}
	if begun.UploadID == "" {
		begun.existing = &publish.UploadResult{}
		err = json.Unmarshal(raw, begun.existing)
	}
	return begun, err
}

// uploadsURL is the address of the direct uploads of a generation, or of something below it.
func (c *Client) uploadsURL(grant publish.Grant, below string) string {
	return c.keyURL(grant.Key, generationPath(grant.Token)+"/uploads"+below, nil)
}

// completeDirect has the server verify what was sent, for as long as that takes.
func (c *Client) completeDirect(ctx context.Context, file FileUpload, id string) (publish.UploadResult, error) {
	for {
		var result publish.UploadResult
		var pause time.Duration
		verifying := false
		err := c.do(ctx, call{
			what: "complete direct upload", method: http.MethodPost, url: c.uploadsURL(file.Grant, "/"+url.PathEscape(id)+"/complete"),
			lease: file.Grant.LeaseID, into: &result, changes: true, wait: completeWait, last: publish.ErrLengthMismatch,
			onAnswer: func(resp *http.Response) {
				verifying = resp.StatusCode == http.StatusAccepted
				pause = max(retryAfter(resp.Header), 100*time.Millisecond)
			},
		})
		if err != nil || !verifying {
			return result, err
		}
		if !sleep(ctx, pause) {
			return result, context.Cause(ctx)
		}
	}
}

// completeWait is how long the server may take for one answer about a verification.
const completeWait = 30 * time.Second

// partSum reads a part for its CRC-64/NVME.
func (f FileUpload) partSum(ctx context.Context, offset, length int64) (uint64, error) {
	var sum hash.Hash64
	if f.NewCRC64NVME != nil {
		sum = f.NewCRC64NVME()
	} else {
		sum = publish.NewCRC64NVME()
	}
	if _, err := io.Copy(sum, untilDone{ctx, io.NewSectionReader(f.Source, offset, length)}); err != nil {
		return 0, fmt.Errorf("reading the file to upload: %w", err)
	}
	return sum.Sum64(), nil
}

// AbortUpload gives up what UploadFile has begun for a file and not ended: its path is marked as failed, and its parts are removed.
// It does nothing when the file is stored already, or nothing was begun.
func (c *Client) AbortUpload(ctx context.Context, file FileUpload) error {
	begun, err := c.beginDirect(ctx, file)
	if err != nil || begun.existing != nil {
		if errors.Is(err, errNotOffered) || tooManyOpen(err) {
			return nil
		}
		return err
	}
	return c.do(ctx, call{
		what: "abort direct upload", method: http.MethodDelete, url: c.uploadsURL(file.Grant, "/"+url.PathEscape(begun.UploadID)),
		lease: file.Grant.LeaseID, changes: true,
	})
}
