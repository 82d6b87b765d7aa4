package web

import (
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/pawlhq/pawl/publish"
)

// pointer tells what the key resolves to. With wait it answers as soon as that is another version than the client has seen.
func (h *Handler) pointer(c *call) error {
	query, err := c.query("wait")
	if err != nil {
		return err
	}
	wait, err := waitOf(query)
	if err != nil {
		return err
	}
	seen, wildcard := seenVersions(c.Request().Header)
	pointer, err := h.waitPointer(c, seen, wildcard, wait)
	if err != nil {
		return err
	}
	header := c.Response().Header()
	header.Set("ETag", pointerTag(pointer.Version()))
	header.Set(echo.HeaderCacheControl, cacheRevalidate)
	header.Set(headerToken, strconv.FormatInt(int64(pointer.Token), 10))
	if wildcard || slices.Contains(seen, pointer.Version()) {
		return c.NoContent(http.StatusNotModified)
	}
	h.addPointerURL(&pointer)
	return respond(c, http.StatusOK, pointer)
}

// waitPointer waits for another version than the one seen; a client that has seen several gets no wait but an answer.
func (h *Handler) waitPointer(c *call, seen []publish.Version, wildcard bool, wait time.Duration) (publish.Pointer, error) {
	ctx := c.Request().Context()
	switch {
	case wait == 0 || wildcard || len(seen) > 1:
		return h.service.Pointer(ctx, c.key)
	case len(seen) == 1:
		return h.service.WaitPointer(ctx, c.key, &seen[0], wait)
	default:
		return h.service.WaitPointer(ctx, c.key, nil, wait)
	}
}

// addPointerURL gives a pointer the permanent address of its primary file.
func (h *Handler) addPointerURL(pointer *publish.Pointer) {
	pointer.URL = h.links.file(pointer.Key, pointer.Token, pointer.Primary)
}
