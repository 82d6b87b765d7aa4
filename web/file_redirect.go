package web

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/pawlhq/pawl/publish"
)

// redirectSlack is how much sooner a kept redirect is forgotten than its signature ends.
const redirectSlack = 5 * time.Minute

// headerFetchDest is what a browser says about where an answer goes (W3C, Fetch Metadata Request Headers). Programs don't send it.
const headerFetchDest = "Sec-Fetch-Dest"

// navigates reports whether a browser would make a document of the answer: in a tab or in a frame.
func navigates(r *http.Request) bool {
	switch r.Header.Get(headerFetchDest) {
	case "document", "iframe", "frame", "embed", "object":
		return true
	}
	return false
}

// redirectFile sends a reader to the store where the service offers that, and reports whether it has answered. What can be
// answered without bytes is answered here, as ever: HEAD, a version that the reader has, a range outside of the file. The store knows
// the object by another ETag than ours, so a request that depends on If-Match is streamed.
func (h *Handler) redirectFile(c *call, file publish.StoredFile) (sent bool, err error) {
	r := c.Request()
	if h.service.Reads == nil || !file.Published || r.Method != http.MethodGet || r.Header.Get("If-Match") != "" {
		return false, nil
	}
	header := http.Header{}
	describe(header, file)
	// As a HEAD this has every condition looked at, and no bytes.
	ask := oneRange(r, file.Size).Clone(r.Context())
	ask.Method = http.MethodHead
	answer := &heldAnswer{to: c.Response(), header: header.Clone(), content: &storedContent{size: file.Size}}
	http.ServeContent(answer, ask, "", noTime, answer.content)
	if answer.status != http.StatusOK && answer.status != http.StatusPartialContent {
		return true, answer.conclude()
	}
	if inertKind(file.ContentType) != "" {
		// The store sends neither sandbox nor nosniff, so what would be shown from there is looked at first. What isn't opened but
		// embedded, or loaded by a program, is worth no reading of its own.
		header.Add(echo.HeaderVary, headerFetchDest)
		if navigates(r) {
			prefix, err := h.head(r.Context(), file, sniffedBytes)
			if err != nil {
				return false, err
			}
			judge(header, file, prefix)
		}
	}
	signed, offered, err := h.service.SignRead(r.Context(), file, publish.AnswerHeaders{
		ContentType: file.ContentType, ContentDisposition: header.Get(echo.HeaderContentDisposition), CacheControl: cacheNever,
	})
	if !offered || err != nil {
		return false, err
	}
	to := c.Response().Header()
	for _, name := range []string{"ETag", "Repr-Digest", headerToken} {
		to.Set(name, header.Get(name))
	}
	if varies := header.Values(echo.HeaderVary); len(varies) > 0 {
		to.Set(echo.HeaderVary, strings.Join(varies, ", "))
	}
	// The address opens the file to whoever has it, so no shared cache keeps it; and nobody keeps it longer than it opens anything.
	to.Set(echo.HeaderCacheControl, cacheNever)
	if left := time.Until(signed.ExpiresAt.Time) - redirectSlack; file.Sealed && left >= time.Second {
		to.Set(echo.HeaderCacheControl, "private, max-age="+strconv.FormatInt(int64(left/time.Second), 10))
	}
	to.Set("Referrer-Policy", "no-referrer")
	to.Set(echo.HeaderLocation, signed.URL)
	return true, c.NoContent(http.StatusTemporaryRedirect)
}
