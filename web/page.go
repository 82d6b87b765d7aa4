package web

import (
	"bytes"
	"crypto/rand"
	"embed"
	"fmt"
	"html/template"
	"net/http"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/pawlhq/pawl/publish"
)

//go:embed templates
var embedded embed.FS

// pages holds the templates. Each page has the frame that all share, the parts (part_*.html) that any may use, and its own file, which defines "main".
var pages = parsePages("action", "activity", "audit", "compare", "credentials", "error", "generation", "history", "key", "keys", "leases", "leave", "policies", "problem", "rejections", "revoke", "sign_in", "upload")

func parsePages(names ...string) map[string]*template.Template {
	all := map[string]*template.Template{}
	for _, name := range names {
		all[name] = template.Must(template.New(name).Funcs(pageFuncs).
			ParseFS(embedded, "templates/frame.html", "templates/part_*.html", "templates/"+name+".html"))
	}
	return all
}

// fileSources are where pages may show files from, as sources of a Content-Security-Policy: this server, and the origin of the store that
// readers are sent to, "" for none.
func fileSources(store string) string { return strings.TrimSpace("'self' " + store) }

// pagePolicy is the Content-Security-Policy of a page: its own style and scripts, by the nonce that stands in their elements, and the bytes of files.
// 'self' would take a published file for a script or a style too, and only an origin can have a path; behind a proxy nobody knows that.
func pagePolicy(nonce, files string) string {
	own := "'nonce-" + nonce + "'"
	return "default-src 'none'; style-src " + own + "; script-src " + own + "; img-src " + files + "; media-src " + files + "; frame-src " + files +
		"; connect-src " + files + "; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
}

// pagePermissions is the Permissions-Policy of pages: neither they nor what they embed asks for what they don't need.
const pagePermissions = "camera=(), display-capture=(), geolocation=(), microphone=(), midi=(), payment=(), publickey-credentials-get=(), usb=()"

// frame is what every page has.
type frame struct {
	Title string
	Base  string // where Pawl is served, "" at the root of its host
	Home  string
	Nav   []navLink
	// Account is nil where nobody is asked who they are.
	Account *account
	Icon    string
	Style   string
	// Nonce is drawn for each page. Its own style and scripts have it, and nothing else has.
	Nonce string
	// Script is the ES module of all pages, Scripts are those of this one; it is whole without them.
	Script  string
	Scripts []string
	// Now is when the page was made, by this server's clock.
	Now   publish.Time
	Epoch *publish.Epoch // nil unless it was raised
	// Live is nil for a page that shows nothing that changes.
	Live *live

	policy string
	// noStore keeps a page out of every cache, also of the browser's own: who has signed out goes back to nothing.
	noStore bool
}

// page is what every page is, by its frame.
type page interface {
	contentPolicy() string
	cacheControl() string
}

func (f frame) contentPolicy() string { return f.policy }

func (f frame) cacheControl() string {
	if f.noStore {
		return "no-store"
	}
	return cacheRevalidate
}

type link struct{ Text, URL string }

// navLink is a link of the frame's navigation.
type navLink struct {
	link
	Here bool // whether it leads to the page that has it
}

// problemPage explains one kind of error.
type problemPage struct {
	frame
	Kind publish.Kind
}

// problemPage explains one kind of error.
func (h *Handler) problemPage(c *call) error {
	for _, kind := range publish.Kinds() {
		if string(kind.Code) == c.Param("code") {
			return render(c, "problem", problemPage{frame: h.frame(c, kind.Title), Kind: kind})
		}
	}
	return &publish.Error{Code: publish.ErrNotFound, Detail: "there is no such kind of error"}
}

// errorPage tells people what an address of a page came to.
type errorPage struct {
	frame
	Kind    publish.Kind
	Problem string // the address of the page about its kind
	Detail  string
	// Explanation is that of its kind, or what helps against this one.
	Explanation string
	Fields      []publish.Field
	RequestID   string
}

// wantsPage reports whether people asked for a page: by an address that isn't the API's, with a browser.
func (h *Handler) wantsPage(r *http.Request) bool {
	return !strings.HasPrefix(r.URL.Path, "/v1/") && strings.Contains(r.Header.Get(echo.HeaderAccept), echo.MIMETextHTML)
}

// frame begins a page. Its title is that of the link of the navigation that leads to it, if there is one.
func (h *Handler) frame(c echo.Context, title string, scripts ...string) frame {
	nonce, who := rand.Text(), identified(c)
	f := frame{
		Title: title, Base: h.links.base, Home: h.links.browse("", ""), Icon: h.links.static("icon.svg"), Style: h.links.static("style.css"),
		Script: h.links.static(sharedScript), Now: publish.Time{Time: h.now()},
		Nonce: nonce, policy: pagePolicy(nonce, h.sources),
		Nav: h.navigation(who, title), Account: h.account(who), noStore: who != nil && who.asked,
	}
	for _, script := range scripts {
		f.Scripts = append(f.Scripts, h.links.static(script))
	}
	if epoch := h.epoch.Load(); epoch != nil && epoch.Epoch > 0 {
		f.Epoch = epoch
	}
	return f
}

// render executes a template as a whole before its first byte is sent, so that a fault in it is an error and not half a page.
func render(c *call, name string, data page) error { return renderAs(c, http.StatusOK, name, data) }

func renderAs(c echo.Context, status int, name string, data page) error {
	var b bytes.Buffer
	if err := pages[name].ExecuteTemplate(&b, "frame.html", data); err != nil {
		return fmt.Errorf("rendering the page %s: %w", name, err)
	}
	header := c.Response().Header()
	header.Set(echo.HeaderContentSecurityPolicy, data.contentPolicy())
	header.Set(echo.HeaderCacheControl, data.cacheControl())
	header.Set("Cross-Origin-Opener-Policy", "same-origin") // for pages alone: a browser refuses it of what is in a sandbox
	header.Set("Permissions-Policy", pagePermissions)
	return c.HTMLBlob(status, b.Bytes())
}
