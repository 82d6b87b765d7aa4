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

// wantsNDJSON tells whether a list that has this form is asked for as JSON, one row a line: by ?format=ndjson, or by Accept.
func (c *call) wantsNDJSON(format string) bool {
	return format == "ndjson" || format == "" && strings.Contains(c.Request().Header.Get(echo.HeaderAccept), "application/x-ndjson")
}

// exported says how rows of a list are written.
type exported[Row any] struct {
	name, contentType string
	most              int // rows without a limit, 0 for all there are
	write             func([]Row) error
}

// export streams a list as CSV: the one page of a query with a limit; else page after page, up to publish.MaxExportRows rows, in pages of limit rows,
// which it sets. read returns the rows of the next page, and the cursor behind them, "" at the end. A fault after the beginning breaks the answer
// off, so that nobody takes a part of it for the whole.
func export[Row any](c *call, query url.Values, name string, table publish.Table[Row], limit *int, read func() (rows []Row, next string, err error)) error {
	return exportRows(c, query, exported[Row]{
		name: name + ".csv", contentType: "text/csv; charset=utf-8; header=present", most: publish.MaxExportRows,
		write: publish.NewCSV(c.Response(), table).Write,
	}, limit, read)
}

// exportNDJSON is export for programs: JSON, one row a line, and without a limit all of them.
func exportNDJSON[Row any](c *call, query url.Values, name string, limit *int, read func() (rows []Row, next string, err error)) error {
	c.Response().Header().Add(echo.HeaderVary, echo.HeaderAccept)
	return exportRows(c, query, exported[Row]{
		name: name + ".ndjson", contentType: "application/x-ndjson",
		write: func(rows []Row) error { return publish.WriteNDJSON(c.Response(), rows) },
	}, limit, read)
}

func exportRows[Row any](c *call, query url.Values, as exported[Row], limit *int, read func() (rows []Row, next string, err error)) error {
	whole := !query.Has("limit")
	if whole {
		*limit = publish.MaxPageSize
	}
	rows, next, err := read()
	if err != nil {
		return err
	}
	header := c.Response().Header()
	header.Set(echo.HeaderContentType, as.contentType)
	header.Set(echo.HeaderContentDisposition, fmt.Sprintf("attachment; filename=%q", as.name))
	header.Set("Trailer", trailerNext)
	c.Response().WriteHeader(http.StatusOK)
	if c.Request().Method == http.MethodHead {
		return nil
	}
	for written := 0; ; {
		if err := as.write(rows); err != nil {
			return errors.Join(context.Canceled, err) // The client left, or its connection broke.
		}
		if written += len(rows); next == "" || !whole || as.most > 0 && written >= as.most {
			break
		}
		if rows, next, err = read(); err != nil {
			return fmt.Errorf("exporting %s: %w", as.name, err)
		}
	}
	if next != "" {
		header.Set(trailerNext, next)
	}
	return nil
}
