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

	// caller is who makes the request, as far as it is known; asked tells that callers are asked for a credential here at all.
	caller publish.Caller
	asked  bool
	// proof is the credential or token that was shown, zero for none.
	proof proof
	// session is the one that was shown instead, zero for none.
	session publish.SessionID
	// public is the keys that everybody may read.
	public publish.Reach
	// byLease tells that a lease id was sent in place of a credential, for a file.
	byLease bool
	// opened tells that it opens what the request is about; proof is that one then.
	opened bool
}

// route ties a method and a pattern to a handler, and to what a caller must be allowed before that is called.
type route struct {
	method, pattern string
	need            need
	handle          func(*Handler, *call) error
}

// routes is the whole HTTP surface. HEAD is served wherever GET is.
func routes() []route {
	const (
		get, post, put, patch, del = http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete

		key        = keyPattern
		generation = key + "/-/generations/{token}"
		page       = keyPages + "/{key}"

		read, write, operate, admin = publish.VerbRead, publish.VerbPublish, publish.VerbOperate, publish.VerbAdmin
	)
	return []route{
		{post, key + "/-/lease", needs(write), (*Handler).acquire},
		{get, key + "/-/lease", needs(read), (*Handler).showLease},
		{patch, key + "/-/lease", needs(write), (*Handler).renew},
		{del, key + "/-/lease", needs(write), (*Handler).endLease}, // operate, to break that of another

		{put, generation + "/files/{path}", needs(write).orLease(), (*Handler).upload},
		{del, generation + "/files/{path}", needs(write).orLease(), (*Handler).deleteFile},
		{post, generation + "/uploads", needs(write), (*Handler).beginDirect},
		{post, generation + "/uploads/{upload}/parts", needs(write), (*Handler).signParts},
		{post, generation + "/uploads/{upload}/complete", needs(write), (*Handler).completeDirect},
		{del, generation + "/uploads/{upload}", needs(write), (*Handler).abortDirect},
		{post, generation + "/publish", needs(write), (*Handler).publish},
		{post, generation + "/effects/{name}", needs(write), (*Handler).effect},

		{get, generation + "/files/{path}", needs(read).orLease(), (*Handler).file},
		{get, generation + "/show/{path}", needs(read), (*Handler).showFile},
		{get, generation + "/files", needs(read), (*Handler).files},
		{get, generation + ".zip", needs(read), (*Handler).zip},
		{get, generation + ".tar", needs(read), (*Handler).tar},
		{get, generation, needs(read), (*Handler).generation},
		{get, key + "/-/generations", needs(read), (*Handler).history},
		{get, key + "/-/effects", needs(read), (*Handler).effects},
		{get, key, needs(read), (*Handler).pointer},
		{del, key, needs(operate), (*Handler).retire},
		{post, key + "/-/rollback", needs(operate), (*Handler).rollback},
		{put, key + "/-/pin", needs(operate), (*Handler).pin},
		{del, key + "/-/pin", needs(operate), (*Handler).unpin},
		{get, key + "/-/current", needs(read), (*Handler).current},
		{get, key + "/-/current/{path}", needs(read), (*Handler).current},
		{get, keysRoot, anywhere(read), (*Handler).list},
		{post, "/v1/resolve", anywhere(read), (*Handler).resolve},
		{get, "/v1/rejections", anywhere(read), (*Handler).rejections},
		{get, "/v1/leases", anywhere(read), (*Handler).leases},

		{get, "/v1/events", anywhere(read), (*Handler).events},

		{get, "/v1/policies", credential(read), (*Handler).policies},
		{put, "/v1/policies", anywhere(admin), (*Handler).setPolicy},
		{del, "/v1/policies", anywhere(admin), (*Handler).unsetPolicy},
		{get, "/v1/audit", anywhere(admin), (*Handler).audit},

		{get, "/v1/credentials", anywhere(admin), (*Handler).credentials},
		{post, "/v1/credentials", anywhere(admin), (*Handler).createCredential},
		{del, "/v1/credentials/:id", anywhere(admin), (*Handler).revokeCredential},
		{post, "/v1/credentials/:id/rotate", anywhere(admin), (*Handler).rotateCredential},

		{get, "/", anywhere(read), (*Handler).browsePage},
		{get, "/b/*", anywhere(read), (*Handler).prefixPage},
		{get, keyPages + "/{key}", needs(read), (*Handler).keyPage},
		{get, keyPages + "/{key}/-/history", needs(read), (*Handler).historyPage},
		{get, keyPages + "/{key}/-/generations/{token}", needs(read), (*Handler).generationPage},
		{get, keyPages + "/{key}/-/compare", needs(read), (*Handler).comparePage},
		{get, "/activity", anywhere(read), (*Handler).activityPage},
		{get, "/rejections", anywhere(read), (*Handler).rejectionsPage},
		{get, "/leases", anywhere(read), (*Handler).leasesPage},
		{get, page + "/-/rollback", needs(operate), showAction(rollbackAction)},
		{post, page + "/-/rollback", needs(operate), doAction(rollbackAction)},
		{get, page + "/-/pin", needs(operate), showAction(pinAction)},
		{post, page + "/-/pin", needs(operate), doAction(pinAction)},
		{get, page + "/-/unpin", needs(operate), showAction(unpinAction)},
		{post, page + "/-/unpin", needs(operate), doAction(unpinAction)},
		{get, page + "/-/retire", needs(operate), showAction(retireAction)},
		{post, page + "/-/retire", needs(operate), doAction(retireAction)},
		{get, page + "/-/break-lease", needs(operate), showAction(breakLeaseAction)},
		{post, page + "/-/break-lease", needs(operate), doAction(breakLeaseAction)},
		{get, page + "/-/upload", needs(write), (*Handler).uploadPage},
		{post, page + "/-/upload", needs(write), (*Handler).sendUpload},
		{get, "/upload", anywhere(write), (*Handler).uploadPage},
		{post, "/upload", anywhere(write), (*Handler).sendUpload},
		{get, "/audit", anywhere(admin), (*Handler).auditPage},
		{get, "/policies", credential(read), (*Handler).policiesPage},
		{post, "/policies", anywhere(admin), (*Handler).changePolicy},
		{get, "/credentials", anywhere(admin), (*Handler).credentialsPage},
		{post, "/credentials", anywhere(admin), (*Handler).createCredentialOnPage},
		{post, "/credentials/:id/rotate", anywhere(admin), (*Handler).rotateCredentialOnPage},
		{get, "/credentials/:id/revoke", anywhere(admin), (*Handler).revokePage},
		{post, "/credentials/:id/revoke", anywhere(admin), (*Handler).revokeCredentialOnPage},
		{get, "/sign-in", open(), (*Handler).signInPage},
		{post, "/sign-in", open(), (*Handler).signIn},
		{post, "/sign-in/issuer", open(), (*Handler).beginSignIn},
		{get, SignInCallback, open(), (*Handler).endSignIn},
		{post, "/sign-out", open(), (*Handler).signOut},
		{post, "/sign-out-everywhere", credential(read), (*Handler).signOutEverywhere},
		{get, "/static/:file", open(), (*Handler).static},
		{get, "/problems/:code", open(), (*Handler).problemPage},
		{get, "/livez", open(), (*Handler).livez},
		{get, "/readyz", open(), (*Handler).readyz},
		{get, "/metrics", credential(read), (*Handler).showMetrics},
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
	// keyPattern is that of the route of a key itself.
	keyPattern = keysRoot + "/{key}"
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
		root, under, found := strings.Cut(r.pattern, "/{key}")
		if r.need.of == unsaid || found != (r.need.of == ofKey) {
			panic("web: the route " + r.method + " " + r.pattern + " doesn't say what a caller needs, or says it of a key that it doesn't have")
		}
		if found {
			tail, hasTail := strings.CutPrefix(under, "/-/")
			h.keyed = append(h.keyed, keyRoute{route: r, root: root, tail: tail, hasTail: hasTail})
			continue
		}
		methods := []string{r.method}
		if r.method == http.MethodGet {
			methods = append(methods, http.MethodHead)
		}
		h.echo.Match(methods, r.pattern, func(c echo.Context) error {
			this := &call{Context: c}
			if r.need.of != ofNothing {
				if err := h.identify(this); err != nil {
					return err
				}
			}
			return h.serve(this, r)
		})
	}
	// "Not found" by echo's table means here: a key, whatever the method.
	for _, root := range []string{keysRoot, keyPages} {
		h.echo.RouteNotFound(root+"/*", func(c echo.Context) error { return h.dispatch(c, root) })
	}
}

// dispatch serves every URL of a key. Once it is known who asks, the names in it are checked, so that a name that is refused gets
// the same answer by every method and on every route, before a byte of a body is read. OPTIONS comes without credentials from browsers, and tells of
// routes alone.
func (h *Handler) dispatch(c echo.Context, root string) error {
	this := &call{Context: c}
	if c.Request().Method != http.MethodOptions {
		if err := h.identify(this); err != nil {
			return err
		}
	}
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
		this.key = at.key
		if err := this.parse(names); err != nil {
			return err
		}
		c.SetPath(r.pattern)
		if r.method == c.Request().Method || r.method == http.MethodGet && c.Request().Method == http.MethodHead {
			return h.serve(this, r.route)
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
