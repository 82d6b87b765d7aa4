package web

import (
	"fmt"
	"io"
	"net/http"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/pawlhq/pawl/publish"
)

// contentRoute is the only route of the content origin, for log and metrics.
const contentRoute = "/~{link}" + keysRoot + "/{key}/-/generations/{token}/files/{path}"

// contentOrigin is an origin of its own for files that may run script. Nothing else is there: no page, no API, nothing that a cookie or a credential opens.
type contentOrigin struct {
	origin string // e.g. https://files.example
	host   string // of origin, as hostName gives it
	key    []byte // what links are signed with
	echo   *echo.Echo
}

// ParseContentOrigin reads an origin such as https://files.example for Options.ContentOrigin, "" for none. others are the hosts that the pages are reached
// by: browsers share cookies among all ports of a host, so none of them may be its host, and neither may this machine's own names.
func ParseContentOrigin(text string, others []string) (string, error) {
	if text == "" {
		return "", nil
	}
	_, host, err := splitOrigin(text, "https://files.example")
	switch {
	case err != nil:
		return "", err
	case isLoopback(host):
		return "", fmt.Errorf("the host of %q is this machine's own, and the pages answer to that; choose another name, such as files.localhost", text)
	case slices.Contains(others, host):
		return "", fmt.Errorf("the host %s of %q is one that the pages answer to; choose a name for files alone, and take it out of the list of hosts", host, text)
	}
	return strings.ToLower(text), nil
}

// newContentOrigin is nil without an origin.
func (h *Handler) newContentOrigin(opts Options) (*contentOrigin, error) {
	origin, err := ParseContentOrigin(opts.ContentOrigin, opts.Hosts)
	switch {
	case err != nil:
		return nil, fmt.Errorf("content origin: %w", err)
	case origin == "":
		return nil, nil //nolint:nilnil // There is none.
	case len(opts.ContentKey) < minContentKey:
		return nil, fmt.Errorf("content origin: its key has %d bytes, and must have %d", len(opts.ContentKey), minContentKey)
	}
	_, host, _ := strings.Cut(origin, "://")
	at := &contentOrigin{origin: origin, key: opts.ContentKey, echo: echo.New()}
	at.host, _ = hostName(host)
	at.echo.HTTPErrorHandler = h.writeContentError
	at.echo.Use(h.accountFor, h.limitBody, h.recoverPanics, h.limitRate)
	at.echo.RouteNotFound("/*", h.contentFile)
	return at, nil
}

// answers reports whether a request is for the content origin. Its name is enough, on whatever port: so nothing but files is ever found under it.
func (o *contentOrigin) answers(r *http.Request) bool {
	if o == nil {
		return false
	}
	host, ok := hostName(r.Host)
	return ok && host == o.host
}

// What answers to addresses that open nothing. Both become a line of text; of one that has run out nothing but the status of its kind is the same as of
// a generation that is gone.
var (
	errNoContent   = &publish.Error{Code: publish.ErrNotFound, Detail: "There is nothing here."}
	errContentOver = &publish.Error{Code: publish.ErrGenerationCollected, Detail: "This address has run out. Go back to the page of the key, and show the file again."}
)

// contentFile serves a file of the generation that the link in the address is for. Whatever the query says is for the file's own script.
func (h *Handler) contentFile(c echo.Context) error {
	c.SetPath("none")
	link, file, err := h.content.parse(wirePath(c.Request().URL))
	if err != nil {
		return errNoContent
	}
	c.SetPath(contentRoute)
	c.Set(loggedKey, string(link.key))
	left := link.expires.Sub(h.now())
	switch {
	case left <= 0:
		return errContentOver
	case !reads(c.Request()):
		return refuseMethod(c, []string{http.MethodGet})
	}
	ctx := c.Request().Context()
	stored, err := h.service.FileAt(ctx, link.key, link.version, file)
	if err != nil {
		return err
	}
	content := &storedContent{size: stored.Size, open: func(offset, length int64) (io.ReadCloser, error) {
		return h.service.OpenFile(ctx, stored, offset, length)
	}}
	defer content.close()
	answer := &heldAnswer{to: c.Response(), header: http.Header{}, content: content}
	h.content.describe(answer.header, stored, link, left)
	http.ServeContent(answer, oneRange(c.Request(), stored.Size), "", noTime, content)
	return answer.conclude()
}

// parse takes the path of an address apart. An error is an address that wasn't given out, whatever is wrong with it.
func (o *contentOrigin) parse(escaped string) (contentLink, publish.Path, error) {
	seal, rest, found := strings.Cut(strings.TrimPrefix(escaped, "/~"), "/")
	inKey, under := strings.CutPrefix("/"+rest, keysRoot+"/")
	if !found || !under || !strings.HasPrefix(escaped, "/~") {
		return contentLink{}, "", errNoContent
	}
	at, err := splitKeyURL("/" + inKey)
	if err != nil {
		return contentLink{}, "", err
	}
	names, found := keyRoute{tail: uploadTail, hasTail: true}.match(at)
	if !found {
		return contentLink{}, "", errNoContent
	}
	link := contentLink{key: at.key}
	if link.version.Token, err = publish.ParseToken(names["{token}"]); err != nil {
		return link, "", err
	}
	file, err := parsePath(names["{path}"])
	if err != nil {
		return link, "", err
	}
	return link, file, link.unseal(o.key, seal)
}

// describe sets the headers of a file. Whoever has the address may load it, as a page without origin must; so it is kept no longer than that opens anything.
func (o *contentOrigin) describe(header http.Header, file publish.StoredFile, link contentLink, left time.Duration) {
	header.Set("ETag", `"`+file.SHA256.String()+`"`)
	header.Set(echo.HeaderContentType, file.ContentType)
	header.Set(echo.HeaderCacheControl, "private, max-age="+strconv.FormatInt(int64(left/time.Second), 10))
	header.Set(echo.HeaderContentSecurityPolicy, o.policy(link))
	header.Set("Permissions-Policy", pagePermissions)
	header.Set("X-DNS-Prefetch-Control", "off")
	// A page in a sandbox is of no origin: to a browser all that it loads comes from somewhere else.
	header.Set(headerResourcePolicy, string(EmbedCrossOrigin))
	header.Set(echo.HeaderAccessControlAllowOrigin, "null")
	if !contentShown(mediaType(file.ContentType)) {
		header.Set(echo.HeaderContentDisposition, attachment(path.Base(string(file.Path))))
	}
}

// policy is the Content-Security-Policy of the files of one generation. Each runs in a sandbox without origin, so even two reports are strangers to each
// other, and loads nothing but what lies beside it. frame-ancestors would keep a report out of the frames of its own: nothing can be clicked in it that
// changes anything. An address stands in it once, since it may be long and proxies bound the head of an answer.
func (o *contentOrigin) policy(link contentLink) string {
	return "sandbox allow-scripts allow-popups allow-popups-to-escape-sandbox allow-downloads; " +
		"default-src " + o.origin + link.path(o.key, "") + " data: blob: 'unsafe-inline' 'unsafe-eval'; " +
		"object-src 'none'; base-uri " + o.origin + "; form-action 'none'"
}

// contentShown reports whether a file of a type is shown and not saved: what a page is made of. Other types would be answered in several parts with
// heads of their own, or, as PDF, not in a sandbox.
func contentShown(kind string) bool {
	family, _, _ := strings.Cut(kind, "/")
	return isText(kind) || slices.Contains([]string{"image", "audio", "video", "font"}, family) || kind == "application/wasm" || isPlaylist(kind)
}

// writeContentError answers with an error where neither pages nor problem documents are.
func (h *Handler) writeContentError(err error, c echo.Context) {
	refusal, id := h.failed(err, c)
	kind := refusal.Code.Kind()
	header := c.Response().Header()
	text := kind.Title
	switch {
	case refusal == errContentOver, refusal == errNoContent:
		text = refusal.Detail
	case kind.Status == http.StatusNotFound:
		text = errNoContent.Detail
	}
	setRetryAfter(header, refusal)
	header.Set(echo.HeaderCacheControl, "no-store")
	header.Set(echo.HeaderContentSecurityPolicy, hiddenPolicy)
	if err := c.String(kind.Status, text+"\n"); err != nil {
		h.log.DebugContext(c.Request().Context(), "answer_not_delivered", "request_id", id, "error", err)
	}
}
