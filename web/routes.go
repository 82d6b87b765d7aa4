package web

import (
	"net/http"
	"slices"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/pawlhq/pawl/publish"
)

// call is one request on its way to its handler, with the names that its URL holds.
type call struct {
	echo.Context
	key   publish.Key
	token publish.Token
	path  publish.Path
	// upload names a direct upload.
	upload publish.DirectID
}

// route ties a method and a pattern to a handler.
type route struct {
	method, pattern string
	handle          func(*Handler, *call) error
}

// routes is the whole HTTP surface. HEAD is served wherever GET is.
func routes() []route {
	const (
		get, post, put, patch, del = http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete

		key        = keysRoot + "/{key}"
		generation = key + "/-/generations/{token}"
	)
	return []route{
		{post, key + "/-/lease", (*Handler).acquire},
		{get, key + "/-/lease", (*Handler).showLease},
		{patch, key + "/-/lease", (*Handler).renew},
		{del, key + "/-/lease", (*Handler).release},

		{put, generation + "/files/{path}", (*Handler).upload},
		{del, generation + "/files/{path}", (*Handler).deleteFile},
		{post, generation + "/uploads", (*Handler).beginDirect},
		{post, generation + "/uploads/{upload}/parts", (*Handler).signParts},
		{post, generation + "/uploads/{upload}/complete", (*Handler).completeDirect},
		{del, generation + "/uploads/{upload}", (*Handler).abortDirect},
		{post, generation + "/publish", (*Handler).publish},

		{get, generation + "/files/{path}", (*Handler).file},
		{get, generation + "/files", (*Handler).files},
		{get, generation + ".zip", (*Handler).zip},
		{get, generation + ".tar", (*Handler).tar},
		{get, generation, (*Handler).generation},
		{get, key + "/-/generations", (*Handler).history},
		{get, key, (*Handler).pointer},
		{get, key + "/-/current", (*Handler).current},
		{get, key + "/-/current/{path}", (*Handler).current},
		{get, keysRoot, (*Handler).list},
		{post, "/v1/resolve", (*Handler).resolve},

		{get, "/", (*Handler).page},
		{get, "/style.css", (*Handler).style},
		{get, "/problems/:code", (*Handler).problemPage},
		{get, "/livez", (*Handler).livez},
		{get, "/readyz", (*Handler).readyz},
		{get, "/metrics", (*Handler).showMetrics},
	}
}

// keysRoot is the beginning of every URL of a key.
const keysRoot = "/v1/keys"

// keyRoute is a route under a key. Its tail is what follows the key and "/-/", e.g. "generations/{token}/files/{path}";
// the key's own route has none.
type keyRoute struct {
	route
	tail    string
	hasTail bool
}

// register gives the fixed routes to echo and keeps those under a key: echo hands a wildcard over decoded for
// one spelling of a key and raw for another, so they are told apart in dispatch, from the URL as it was sent.
func (h *Handler) register(all []route) {
	for _, r := range all {
		if under, found := strings.CutPrefix(r.pattern, keysRoot+"/{key}"); found {
			tail, hasTail := strings.CutPrefix(under, "/-/")
			h.keyed = append(h.keyed, keyRoute{route: r, tail: tail, hasTail: hasTail})
			continue
		}
		methods := []string{r.method}
		if r.method == http.MethodGet {
			methods = append(methods, http.MethodHead)
		}
		h.echo.Match(methods, r.pattern, func(c echo.Context) error { return r.handle(h, &call{Context: c}) })
	}
	// "Not found" by echo's table means here: a key, whatever the method.
	h.echo.RouteNotFound(keysRoot+"/*", h.dispatch)
}

// dispatch serves every URL of a key. The names in it are checked first, so that a name that is refused gets
// the same answer by every method and on every route, before a byte of a body is read.
func (h *Handler) dispatch(c echo.Context) error {
	at, err := splitKeyURL(wirePath(c.Request().URL))
	if err != nil {
		return err
	}
	c.Set(loggedKey, string(at.key))
	var allowed []string
	for _, r := range h.keyed {
		names, found := r.match(at)
		if !found {
			continue
		}
		this := &call{Context: c, key: at.key}
		if err := this.parse(names); err != nil {
			return err
		}
		c.SetPath(r.pattern)
		if r.method == c.Request().Method || r.method == http.MethodGet && c.Request().Method == http.MethodHead {
			return r.handle(h, this)
		}
		allowed = append(allowed, r.method)
	}
	if allowed == nil {
		return &publish.Error{Code: publish.ErrNotFound, Detail: "there is no such route under a key"}
	}
	return refuseMethod(c, allowed)
}

// match compares the decoded tail of a URL with the route's and gives out its parameters by their names in the pattern.
func (r keyRoute) match(at keyURL) (names map[string]string, found bool) {
	if r.hasTail != at.hasTail {
		return nil, false
	}
	names = map[string]string{}
	tail, more := at.tail, at.hasTail
	for want := range strings.SplitSeq(r.tail, "/") {
		if !more && r.hasTail {
			return nil, false
		}
		if want == "{path}" {
			names[want] = tail
			return names, true
		}
		var segment string
		segment, tail, more = strings.Cut(tail, "/")
		switch {
		case strings.HasPrefix(want, "{"):
			// What follows the parameter in its segment is a part of the pattern, as in "{token}.zip". There it is no part of a
			// parameter of another route.
			name, suffix, _ := strings.Cut(want, "}")
			value, fits := strings.CutSuffix(segment, suffix)
			if !fits || want == "{token}" && !more && isArchive(segment) {
				return nil, false
			}
			names[name+"}"] = value
		case want != segment:
			return nil, false
		}
	}
	return names, !more
}

// isArchive reports whether a last segment names an archive of a generation.
func isArchive(segment string) bool {
	return strings.HasSuffix(segment, zipFormat.suffix) || strings.HasSuffix(segment, tarFormat.suffix)
}

// parse checks the parameters of a URL, in the order in which they stand there.
func (c *call) parse(names map[string]string) (err error) {
	if token, found := names["{token}"]; found {
		c.token, err = publish.ParseToken(token)
	}
	if path, found := names["{path}"]; found && err == nil {
		c.path, err = parsePath(path)
	}
	if upload, found := names["{upload}"]; found && err == nil {
		c.upload, err = publish.ParseDirectID(upload)
	}
	return err
}

// refuseMethod names the methods that the resource has; to OPTIONS that is the answer itself.
func refuseMethod(c echo.Context, allowed []string) error {
	if slices.Contains(allowed, http.MethodGet) {
		allowed = append(allowed, http.MethodHead)
	}
	slices.Sort(allowed)
	allow := strings.Join(append(allowed, http.MethodOptions), ", ")
	c.Response().Header().Set(echo.HeaderAllow, allow)
	if c.Request().Method == http.MethodOptions {
		return c.NoContent(http.StatusNoContent)
	}
	return &publish.Error{Code: publish.ErrMethodNotAllowed, Detail: "this route has the methods " + allow}
}
