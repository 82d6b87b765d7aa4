package web

import (
	"fmt"
	"io"
	"mime"
	"net/http"
	"path"
	"strconv"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/pawlhq/pawl/publish"
)

// What caches may do with a file. A sealed generation never changes, nor does a revision; before that, an address without a revision
// shows the last published one; and a file that isn't published yet is for its publisher alone.
const (
	cacheForever    = "public, max-age=31536000, immutable"
	cacheRevalidate = "no-cache"
	cacheNever      = "private, no-store"
)

// file serves the bytes of a permanent address.
func (h *Handler) file(c *call) error {
	id, err := fileLeaseID(c.Request())
	if err != nil {
		return err
	}
	ctx := c.Request().Context()
	file, err := h.fileOf(c, id)
	if err != nil {
		return err
	}
	if sent, err := h.redirectFile(c, file); sent || err != nil {
		return err
	}
	content := &storedContent{size: file.Size, open: func(offset, length int64) (io.ReadCloser, error) {
		return h.service.OpenFile(ctx, file, offset, length)
	}}
	defer content.close()
	answer := &heldAnswer{to: c.Response(), header: http.Header{}, content: content}
	describe(answer.header, file)
	http.ServeContent(answer, oneRange(c.Request(), file.Size), "", noTime, content)
	return answer.conclude()
}

// describe sets the headers of a file. Its ETag is the hash of its bytes, so it is the same under every token.
func describe(header http.Header, file publish.StoredFile) {
	header.Set("ETag", `"`+file.SHA256.String()+`"`)
	header.Set("Repr-Digest", reprDigest(file.SHA256))
	header.Set(headerToken, strconv.FormatInt(int64(file.Token), 10))
	header.Set(echo.HeaderContentType, file.ContentType)
	header.Set(echo.HeaderContentSecurityPolicy, "sandbox")
	switch {
	case !file.Published:
		header.Set(echo.HeaderCacheControl, cacheNever)
	case file.Sealed:
		header.Set(echo.HeaderCacheControl, cacheForever)
	default:
		header.Set(echo.HeaderCacheControl, cacheRevalidate)
	}
	if !file.Published || !file.Sealed {
		header.Set(echo.HeaderVary, headerLease+", "+echo.HeaderAuthorization) // the publisher sees its own uploads
	}
	switch kind := inertKind(file.ContentType); kind {
	case "":
		// The type may hold script: it is for saving, and if a browser opens it nevertheless, it has no origin.
		name := map[string]string{"filename": path.Base(string(file.Path))}
		header.Set(echo.HeaderContentDisposition, mime.FormatMediaType("attachment", name))
	case "application/pdf":
		// Browsers refuse to show a PDF in a sandbox; their viewer is one itself.
		header.Set(echo.HeaderContentSecurityPolicy, "frame-ancestors 'self'")
	}
}

// inertKind gives the media type of a file that a browser may show, since it can't run script in the page's origin, or "".
func inertKind(contentType string) string {
	kind, _, err := mime.ParseMediaType(contentType)
	if err != nil {
		return ""
	}
	family, _, _ := strings.Cut(kind, "/")
	switch {
	case kind == "image/svg+xml":
		return ""
	case family == "image", family == "video", family == "audio", kind == "text/plain", kind == "application/pdf", kind == "application/json":
		return kind
	default:
		return ""
	}
}

// conclude ends an answer: with the error of the content, of a range or of a condition, or as it is.
func (a *heldAnswer) conclude() error {
	switch {
	case a.content.err != nil:
		return fmt.Errorf("reading a file: %w", a.content.err)
	case a.status == http.StatusRequestedRangeNotSatisfiable:
		a.to.Header().Set("Content-Range", a.header.Get("Content-Range"))
		return &publish.Error{Code: publish.ErrRangeNotSatisfiable, Detail: fmt.Sprintf("the file has %d bytes", a.content.size)}
	case a.status == http.StatusPreconditionFailed:
		return &publish.Error{Code: publish.ErrPreconditionFailed, Detail: "the file is not the one that If-Match names"}
	}
	a.release()
	return nil
}
