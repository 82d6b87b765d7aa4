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
	effect publish.EffectName
	// prefix is that of a page of pointers, "" for all.
	prefix string
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
		page       = keyPages + "/{key}"
	)
	return []route{
		{post, key + "/-/lease", (*Handler).acquire},
		{get, key + "/-/lease", (*Handler).showLease},
		{patch, key + "/-/lease", (*Handler).renew},
		{del, key + "/-/lease", (*Handler).endLease},

		{put, generation + "/files/{path}", (*Handler).upload},
		{del, generation + "/files/{path}", (*Handler).deleteFile},
		{post, generation + "/uploads", (*Handler).beginDirect},
		{post, generation + "/uploads/{upload}/parts", (*Handler).signParts},
		{post, generation + "/uploads/{upload}/complete", (*Handler).completeDirect},
		{del, generation + "/uploads/{upload}", (*Handler).abortDirect},
		{post, generation + "/publish", (*Handler).publish},
		{post, generation + "/effects/{name}", (*Handler).effect},

		{get, generation + "/files/{path}", (*Handler).file},
		{get, generation + "/files", (*Handler).files},
		{get, generation + ".zip", (*Handler).zip},
		{get, generation + ".tar", (*Handler).tar},
		{get, generation, (*Handler).generation},
		{get, key + "/-/generations", (*Handler).history},
		{get, key + "/-/effects", (*Handler).effects},
		{get, key, (*Handler).pointer},
		{del, key, (*Handler).retire},
		{post, key + "/-/rollback", (*Handler).rollback},
		{put, key + "/-/pin", (*Handler).pin},
		{del, key + "/-/pin", (*Handler).unpin},
		{get, key + "/-/current", (*Handler).current},
		{get, key + "/-/current/{path}", (*Handler).current},
		{get, keysRoot, (*Handler).list},
		{post, "/v1/resolve", (*Handler).resolve},
		{get, "/v1/rejections", (*Handler).rejections},
		{get, "/v1/leases", (*Handler).leases},

		{get, "/v1/events", (*Handler).events},

		{get, "/v1/policies", (*Handler).policies},
		{put, "/v1/policies", (*Handler).setPolicy},
		{del, "/v1/policies", (*Handler).unsetPolicy},
		{get, "/v1/audit", (*Handler).audit},

		{get, "/", (*Handler).browsePage},
		{get, "/b/*", (*Handler).prefixPage},
		{get, keyPages + "/{key}", (*Handler).keyPage},
		{get, keyPages + "/{key}/-/history", (*Handler).historyPage},
		{get, keyPages + "/{key}/-/generations/{token}", (*Handler).generationPage},
		{get, keyPages + "/{key}/-/compare", (*Handler).comparePage},
		{get, "/activity", (*Handler).activityPage},
		{get, "/rejections", (*Handler).rejectionsPage},
		{get, "/leases", (*Handler).leasesPage},
		{get, page + "/-/rollback", showAction(rollbackAction)},
		{post, page + "/-/rollback", doAction(rollbackAction)},
		{get, page + "/-/pin", showAction(pinAction)},
		{post, page + "/-/pin", doAction(pinAction)},
		{get, page + "/-/unpin", showAction(unpinAction)},
		{post, page + "/-/unpin", doAction(unpinAction)},
		{get, page + "/-/retire", showAction(retireAction)},
		{post, page + "/-/retire", doAction(retireAction)},
		{get, page + "/-/break-lease", showAction(breakLeaseAction)},
		{post, page + "/-/break-lease", doAction(breakLeaseAction)},
		{get, page + "/-/upload", (*Handler).uploadPage},
		{post, page + "/-/upload", (*Handler).sendUpload},
		{get, "/upload", (*Handler).uploadPage},
		{post, "/upload", (*Handler).sendUpload},
		{get, "/audit", (*Handler).auditPage},
		{get, "/policies", (*Handler).policiesPage},
		{post, "/policies", (*Handler).changePolicy},
		{get, "/static/:file", (*Handler).static},
		{get, "/problems/:code", (*Handler).problemPage},
		{get, "/livez", (*Handler).livez},
		{get, "/readyz", (*Handler).readyz},
		{get, "/metrics", (*Handler).showMetrics},
	}
}

// RouteNames lists all routes as "METHOD pattern", for tests that must know every one of them.
func RouteNames() []string {
	var names []string
	for _, r := range routes() {
		names = append(names, r.method+" "+r.pattern)
	}
	return names
}

// keysRoot is the beginning of every URL of a key in the API, keyPages of every page about one.
const (
	keysRoot = "/v1/keys"
	keyPages = "/k"
)

// keyRoute is a route under a key, in the API or among the pages, as its root says. Its tail is what follows the key and "/-/", e.g. "generations/{token}/files/{path}";
// the key's own route has none.
type keyRoute struct {
	route
	root    string
	tail    string
	hasTail bool
}

// register gives the fixed routes to echo and keeps those under a key: echo hands a wildcard over decoded for
// one spelling of a key and raw for another, so they are told apart in dispatch, from the URL as it was sent.
func (h *Handler) register(all []route) {
	for _, r := range all {
		if root, under, found := strings.Cut(r.pattern, "/{key}"); found {
			tail, hasTail := strings.CutPrefix(under, "/-/")
			h.keyed = append(h.keyed, keyRoute{route: r, root: root, tail: tail, hasTail: hasTail})
			continue
		}
		methods := []string{r.method}
		if r.method == http.MethodGet {
			methods = append(methods, http.MethodHead)
		}
		h.echo.Match(methods, r.pattern, func(c echo.Context) error { return r.handle(h, &call{Context: c}) })
	}
	// "Not found" by echo's table means here: a key, whatever the method.
	for _, root := range []string{keysRoot, keyPages} {
		h.echo.RouteNotFound(root+"/*", func(c echo.Context) error { return h.dispatch(c, root) })
	}
}

// dispatch serves every URL of a key. The names in it are checked first, so that a name that is refused gets
// the same answer by every method and on every route, before a byte of a body is read.
func (h *Handler) dispatch(c echo.Context, root string) error {
	at, err := splitKeyURL(strings.TrimPrefix(wirePath(c.Request().URL), root))
	if err != nil {
		return err
	}
	c.Set(loggedKey, string(at.key))
	var allowed []string
	for _, r := range h.keyed {
		names, found := r.match(at)
		if !found || r.root != root {
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
		if want == "{path}" || want == "{name}" { // A slash in the name of an effect is refused by the rule of such names.
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
	if name, found := names["{name}"]; found && err == nil {
		c.effect, err = publish.ParseEffectName(name)
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
