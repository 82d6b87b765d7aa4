package web

import (
	"fmt"
	"io"
	"net/http"
	"path"
	"strconv"

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
	file, err := h.fileOf(c, c.openingLease(id))
	if err != nil {
		return err
	}
	c.Response().Header().Set(headerResourcePolicy, string(h.embed))
	if sent, err := h.redirectFile(c, file); sent || err != nil {
		return err
	}
	content := &storedContent{size: file.Size, open: func(offset, length int64) (io.ReadCloser, error) {
		return h.service.OpenFile(ctx, file, offset, length)
	}}
	defer content.close()
	answer := &heldAnswer{to: c.Response(), header: http.Header{}, content: content, look: func(header http.Header, prefix []byte) {
		judge(header, file, prefix)
	}}
	describe(answer.header, file)
	http.ServeContent(answer, oneRange(c.Request(), file.Size), "", noTime, content)
	return answer.conclude()
}

// openingLease is the lease id by which a request reads what isn't published: its own, or none where it is no good by itself and nobody vouches for it. Who
// reads a public key could go on with it otherwise when its credential was revoked.
func (c *call) openingLease(id publish.LeaseID) publish.LeaseID {
	if !c.asked || c.caller.Known() || c.opened {
		return id
	}
	return publish.LeaseID{}
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
	header.Set(echo.HeaderContentSecurityPolicy, shownPolicy)
	switch inertKind(file.ContentType) {
	case "":
		keepFromShowing(header, file)
	case "application/pdf":
		// Browsers refuse to show a PDF in a sandbox; their viewer is one itself.
		header.Set(echo.HeaderContentSecurityPolicy, "frame-ancestors 'self'")
	}
}

// The Content-Security-Policy of files. A file that is opened is in a sandbox, so it has no origin: neither cookies nor anything of the pages can be
// reached from it. One that is shown may have what browsers make of pictures, media and text: the file itself and their own styles.
const (
	hiddenPolicy = "sandbox; default-src 'none'; frame-ancestors 'self'"
	shownPolicy  = "sandbox; default-src 'none'; img-src 'self'; media-src 'self'; style-src 'unsafe-inline'; frame-ancestors 'self'"
)

// keepFromShowing makes a file one for saving, under its own name and type. If a browser opens it nevertheless, it has no origin and loads nothing.
// Pictures and media that a page embeds are taken as attachments too.
func keepFromShowing(header http.Header, file publish.StoredFile) {
	header.Set(echo.HeaderContentSecurityPolicy, hiddenPolicy)
	header.Set(echo.HeaderContentDisposition, attachment(path.Base(string(file.Path))))
}

// judge keeps a file from showing when its first bytes aren't what its type says. Too few of them tell nothing, and neither do those of a later
// part: such an answer is a piece of what somebody has got already. The type stays: browsers go by it alone, by nosniff, and programs
// get what was published.
func judge(header http.Header, file publish.StoredFile, prefix []byte) {
	kind := inertKind(file.ContentType)
	if kind == "" || int64(len(prefix)) < min(sniffedBytes, file.Size) {
		return
	}
	if !agrees(kind, prefix[:min(sniffedBytes, len(prefix))]) {
		keepFromShowing(header, file)
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
