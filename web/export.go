package web

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/pawlhq/pawl/publish"
)

// trailerNext is the trailer of an export that holds less than there is: the cursor where the next one goes on.
const trailerNext = "Pawl-Next"

// wantsCSV tells whether a list is asked for as CSV: by ?format=csv, or by Accept.
func (c *call) wantsCSV(format string) (bool, error) {
	c.Response().Header().Add(echo.HeaderVary, echo.HeaderAccept)
	switch format {
	case "csv":
		return true, nil
	case "json":
		return false, nil
	case "":
		return strings.Contains(c.Request().Header.Get(echo.HeaderAccept), "text/csv"), nil
	}
	return false, publish.InvalidField(publish.ErrInvalidRequest, "format", `must be "csv" or "json"`)
}

// export streams a list as CSV: the one page of a query with a limit; else page after page, up to publish.MaxExportRows rows, in pages of limit rows,
// which it sets. read returns the rows of the next page, and the cursor behind them, "" at the end. A fault after the beginning breaks the answer
// off, so that nobody takes a part of it for the whole.
func export[Row any](c *call, query url.Values, name string, table publish.Table[Row], limit *int, read func() (rows []Row, next string, err error)) error {
	whole := !query.Has("limit")
	if whole {
		*limit = publish.MaxPageSize
	}
	rows, next, err := read()
	if err != nil {
		return err
	}
	header := c.Response().Header()
	header.Set(echo.HeaderContentType, "text/csv; charset=utf-8; header=present")
	header.Set(echo.HeaderContentDisposition, fmt.Sprintf("attachment; filename=%q", name+".csv"))
	header.Set("Trailer", trailerNext)
	c.Response().WriteHeader(http.StatusOK)
	if c.Request().Method == http.MethodHead {
		return nil
	}
	to := publish.NewCSV(c.Response(), table)
	for written := 0; ; {
		if err := to.Write(rows); err != nil {
			return errors.Join(context.Canceled, err) // The client left, or its connection broke.
		}
		if written += len(rows); next == "" || !whole || written >= publish.MaxExportRows {
			break
		}
		if rows, next, err = read(); err != nil {
			return fmt.Errorf("exporting %s: %w", name, err)
		}
	}
	if next != "" {
		header.Set(trailerNext, next)
	}
	return nil
}
