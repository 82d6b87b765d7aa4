package web

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/pawlhq/pawl/publish"
)

const (
	// contentTime is how long an address of the content origin opens files. A page that is left open for longer keeps what it has, and can load no more; who
	// wants to see more of it shows it again.
	contentTime = 15 * time.Minute
	// minContentKey is how many bytes a key has at least: as many as the hash.
	minContentKey = sha256.Size
)

// contentLink opens the files of one version of a key, on the content origin, for a time. What a browser sends below it by relative links, it opens too.
type contentLink struct {
	key     publish.Key
	version publish.Version // its revision isn't 0
	expires time.Time       // to the second
}

// mac is the signature of a link. Nothing in a key is a newline, so no two links are signed as one text.
func (l contentLink) mac(key []byte) []byte {
	hash := hmac.New(sha256.New, key)
	_, _ = fmt.Fprintf(hash, "pawl-content-1\n%s\n%d\n%d\n%d", l.key, l.version.Token, l.version.Revision, l.expires.Unix()) //nolint:errcheck // A hash takes everything.
	return hash.Sum(nil)
}

// path is the path of a file below a link, or, for "", of the folder of all. The revision is a part of the path: relative links keep no query.
func (l contentLink) path(key []byte, file publish.Path) string {
	return fmt.Sprintf("/~%d.%d.%s", l.version.Revision, l.expires.Unix(), base64.RawURLEncoding.EncodeToString(l.mac(key))) +
		links{}.files(l.key, l.version.Token) + "/" + escapeName(string(file))
}

// unseal reads revision and end of a link whose key and token are known, and checks its signature.
func (l *contentLink) unseal(key []byte, seal string) error {
	parts := strings.Split(seal, ".")
	if len(parts) != 3 {
		return errNoContent
	}
	// Both have the form of tokens.
	revision, err := publish.ParseToken(parts[0])
	if err != nil {
		return err
	}
	expires, err := publish.ParseToken(parts[1])
	if err != nil {
		return err
	}
	mac, err := base64.RawURLEncoding.Strict().DecodeString(parts[2])
	if err != nil {
		return err
	}
	l.version.Revision, l.expires = int64(revision), time.Unix(int64(expires), 0)
	if !hmac.Equal(mac, l.mac(key)) {
		return errNoContent
	}
	return nil
}

// showFile sends a reader to a file on the content origin, in the revision of the query or else the newest. It is a permission for whoever gets the address, so nobody keeps
// it, nor tells it to the next page.
func (h *Handler) showFile(c *call) error {
	if h.content == nil {
		return &publish.Error{Code: publish.ErrNotFound, Detail: "this server shows no files: its setting PAWL_CONTENT_ORIGIN names no origin for them"}
	}
	query, err := c.query("revision")
	if err != nil {
		return err
	}
	version := publish.Version{Token: c.token}
	if version.Revision, err = revisionOf(query); err != nil {
		return err
	}
	ctx := c.Request().Context()
	if version.Revision == 0 {
		g, err := h.service.Generation(ctx, c.key, c.token)
		if err != nil {
			return err
		}
		if version.Revision = g.Revision; g.Revision == 0 {
			return &publish.Error{Code: publish.ErrNotFound, Key: c.key, Token: c.token, Detail: "nothing of this generation is published"}
		}
	}
	if _, err := h.service.FileAt(ctx, c.key, version, c.path); err != nil {
		return err
	}
	link := contentLink{key: c.key, version: version, expires: h.now().Add(contentTime)}
	header := c.Response().Header()
	header.Set(echo.HeaderCacheControl, "no-store")
	header.Set("Referrer-Policy", "no-referrer")
	header.Set(echo.HeaderLocation, h.content.origin+link.path(h.content.key, c.path))
	return c.NoContent(http.StatusSeeOther)
}

// show is the address that leads to a file of a version on the content origin; "" where that isn't a page of its own.
func (h *Handler) show(key publish.Key, version publish.Version, final bool, file publish.File) string {
	kind := mediaType(file.ContentType)
	if h.content == nil || kind != "text/html" && kind != "application/xhtml+xml" {
		return ""
	}
	address := h.links.generation(key, version.Token) + "/show/" + escapeName(string(file.Path))
	if !final {
		address += "?revision=" + strconv.FormatInt(version.Revision, 10)
	}
	return address
}
