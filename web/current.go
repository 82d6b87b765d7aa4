package web

import (
	"net/http"
	"strconv"

	"github.com/labstack/echo/v4"
)

// current redirects to the permanent address of a file of the current version: the primary one, or that of the path.
// The redirect is revalidated each time; what it leads to may be kept for ever.
func (h *Handler) current(c *call) error {
	file, err := h.service.CurrentFile(c.Request().Context(), c.key, c.path)
	if err != nil {
		return err
	}
	header := c.Response().Header()
	header.Set(headerResourcePolicy, string(h.embed))
	header.Set(echo.HeaderCacheControl, cacheRevalidate)
	header.Set(headerToken, strconv.FormatInt(int64(file.Token), 10))
	header.Set(echo.HeaderLocation, h.links.file(c.key, file.Token, file.Path))
	return c.NoContent(http.StatusTemporaryRedirect)
}
