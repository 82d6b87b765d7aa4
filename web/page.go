package web

import (
	"bytes"
	"embed"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/pawlhq/pawl/publish"
)

//go:embed templates static
var embedded embed.FS

// pages holds the templates, each with the frame that all share.
var pages = map[string]*template.Template{
	"keys":    template.Must(template.ParseFS(embedded, "templates/frame.html", "templates/keys.html")),
	"problem": template.Must(template.ParseFS(embedded, "templates/frame.html", "templates/problem.html")),
}

// pagePolicy is the Content-Security-Policy of pages: own style, and requests to this server alone. No script runs in them.
const pagePolicy = "default-src 'none'; style-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"

// frame is what every page has.
type frame struct{ Title, Home, Style string }

// keysPage is the list of pointers.
type keysPage struct {
	frame
	Prefix   string
	Crumbs   []link
	Prefixes []link
	Rows     []pageRow
	Next     string
}

type link struct{ Text, URL string }

type pageRow struct {
	publish.Pointer
	Current   string // where the key leads: its primary file, or the list of its files
	History   string
	Size, Age string
}

// problemPage explains one kind of error.
type problemPage struct {
	frame
	Kind publish.Kind
}

// page lists the current pointers below a prefix, for people. It needs no script.
func (h *Handler) page(c *call) error {
	query, err := url.ParseQuery(c.Request().URL.RawQuery)
	if err != nil {
		return publish.InvalidField(publish.ErrInvalidRequest, "query", "is not well-formed")
	}
	req, err := listRequest(query)
	if err != nil {
		return err
	}
	req.Delimiter = "/"
	list, err := h.service.List(c.Request().Context(), req)
	if err != nil {
		return err
	}
	page := keysPage{frame: h.frame("Keys"), Prefix: req.Prefix, Crumbs: h.crumbs(req.Prefix)}
	for _, prefix := range list.Prefixes {
		page.Prefixes = append(page.Prefixes, link{Text: strings.TrimPrefix(prefix, req.Prefix), URL: h.links.page(prefix, "")})
	}
	for _, pointer := range list.Keys {
		row := pageRow{
			Pointer: pointer, Current: h.links.current(pointer.Key), History: h.links.key(pointer.Key) + "/-/generations",
			Size: humanBytes(pointer.Bytes), Age: humanAge(h.now().Sub(pointer.PublishedAt.Time)),
		}
		if pointer.Primary == "" {
			row.Current = h.links.files(pointer.Key, pointer.Token)
		}
		page.Rows = append(page.Rows, row)
	}
	if list.Next != "" {
		page.Next = h.links.page(req.Prefix, list.Next)
	}
	return render(c, "keys", page)
}

// crumbs gives a link to each level above a prefix.
func (h *Handler) crumbs(prefix string) []link {
	var crumbs []link
	for i := range len(prefix) {
		if prefix[i] == '/' {
			start := strings.LastIndexByte(prefix[:i], '/') + 1
			crumbs = append(crumbs, link{Text: prefix[start : i+1], URL: h.links.page(prefix[:i+1], "")})
		}
	}
	return crumbs
}

// problemPage explains one kind of error.
func (h *Handler) problemPage(c *call) error {
	for _, kind := range publish.Kinds() {
		if string(kind.Code) == c.Param("code") {
			return render(c, "problem", problemPage{frame: h.frame(kind.Title), Kind: kind})
		}
	}
	return &publish.Error{Code: publish.ErrNotFound, Detail: "there is no such kind of error"}
}

func (h *Handler) frame(title string) frame {
	return frame{Title: title, Home: h.links.page("", ""), Style: h.links.base + "/style.css"}
}

// render executes a template as a whole before its first byte is sent, so that a fault in it is an error and not half a page.
func render(c *call, name string, data any) error {
	var b bytes.Buffer
	if err := pages[name].ExecuteTemplate(&b, "frame.html", data); err != nil {
		return fmt.Errorf("rendering the page %s: %w", name, err)
	}
	c.Response().Header().Set(echo.HeaderContentSecurityPolicy, pagePolicy)
	c.Response().Header().Set(echo.HeaderCacheControl, cacheRevalidate)
	return c.HTMLBlob(http.StatusOK, b.Bytes())
}

// style serves the pages' style sheet.
func (h *Handler) style(c *call) error {
	sheet, err := embedded.ReadFile("static/style.css")
	if err != nil {
		return fmt.Errorf("reading the style sheet: %w", err)
	}
	c.Response().Header().Set(echo.HeaderCacheControl, "public, max-age=300")
	return c.Blob(http.StatusOK, "text/css; charset=utf-8", sheet)
}

// humanBytes gives a size for people, in binary units.
func humanBytes(n int64) string {
	if n < 1024 {
		return fmt.Sprintf("%d B", n)
	}
	size, unit := float64(n)/1024, 0
	for size >= 1024 && unit < 4 {
		size, unit = size/1024, unit+1
	}
	return fmt.Sprintf("%.1f %s", size, [...]string{"KiB", "MiB", "GiB", "TiB", "PiB"}[unit])
}

// humanAge gives the greatest unit of an age.
func humanAge(age time.Duration) string {
	switch {
	case age < time.Minute:
		return fmt.Sprintf("%d s", max(0, int(age.Seconds())))
	case age < time.Hour:
		return fmt.Sprintf("%d min", int(age.Minutes()))
	case age < 48*time.Hour:
		return fmt.Sprintf("%d h", int(age.Hours()))
	default:
		return fmt.Sprintf("%d days", int(age.Hours())/24)
	}
}
