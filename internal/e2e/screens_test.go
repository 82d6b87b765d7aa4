package e2e

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/pawlhq/pawl/internal/testenv"
	"github.com/pawlhq/pawl/web"
)

// screen is a page in one state.
type screen struct {
	path string
	// do is an expression that brings the page into its state, and seen one that is true once it is there; without them it is what was loaded.
	do, seen string
	// refused is set for a page that is an error's.
	refused bool
}

func screens(paths ...string) (all []screen) {
	for _, path := range paths {
		all = append(all, screen{path: path})
	}
	return all
}

// act is the page of a key with the dialog of an action.
func act(key, name string) screen {
	return screen{path: "/k/" + key, do: `document.querySelector("[popovertarget=act-` + name + `]").click()`, seen: `document.querySelector("#act-` + name + `:popover-open")`}
}

// compared is the comparison of two pictures in one mode.
func compared(mode string) screen {
	return screen{path: "/k/ex/picture/-/compare", do: `document.querySelector("[value=` + mode + `]").click()`, seen: `document.querySelector("[value=` + mode + `]:checked")`}
}

func refusals(paths ...string) (all []screen) {
	for _, path := range paths {
		all = append(all, screen{path: path, refused: true})
	}
	return all
}

// pages are the screens of every route that gives people a page, on a server that has the gallery and the exhibit.
var pages = map[string][]screen{
	"GET /": slices.Concat(
		screens("/", "/?q=wall", "/?q=nothing-has-this", "/?sort=age&view=grid", "/?sort=name&type=image&leased=true&rejected=true&since=24h"),
		refusals("/?sort=nonsense"),
		[]screen{{path: "/?sort=age", do: `document.querySelector("#help").click()`, seen: `document.querySelector("#keyboard").open`}},
	),
	"GET /b/*": screens("/b/wall/", "/b/ex/?view=grid", "/b/empty/"),
	"GET /k/{key}": slices.Concat(
		screens("/k/ex/picture", "/k/ex/video", "/k/ex/audio", "/k/ex/hls", "/k/ex/text", "/k/ex/json",
			"/k/ex/csv", "/k/ex/hex", "/k/ex/empty", "/k/ex/set", "/k/ex/pinned", "/k/ex/back",
			"/k/ex/open", "/k/ex/expired", "/k/wall/late", "/k/wall/granted", "/k/wall/retired", "/k/wall/%D7%9E%D7%A4%D7%AA%D7%97/%F0%9F%98%80",
			"/k/wall/"+strings.Repeat("very-long-", 12)+"/"+strings.Repeat("unbroken", 20)),
		refusals("/k/nobody/knows/this", "/k/wall//late"),
		[]screen{act("ex/text", "upload"), act("ex/text", "rollback"), act("ex/text", "pin"), act("ex/pinned", "unpin"), act("ex/text", "retire"), act("wall/granted", "break-lease")},
	),
	"GET /k/{key}/-/history": screens("/k/wall/late/-/history", "/k/ex/back/-/history", "/k/ex/open/-/history", "/k/ex/expired/-/history", "/k/wall/retired/-/history"),
	"GET /k/{key}/-/generations/{token}": slices.Concat(
		screens("/k/ex/set/-/generations/2", "/k/ex/set/-/generations/2?path=new.txt", "/k/ex/open/-/generations/1", "/k/ex/unpublished/-/generations/1",
			"/k/wall/late/-/generations/1", "/k/ex/given-up/-/generations/1", "/k/ex/back/-/generations/3", "/k/ex/revised/-/generations/1?revision=1"),
		refusals("/k/ex/set/-/generations/77", "/k/ex/given-up/-/generations/1?path=f.txt"),
	),
	"GET /k/{key}/-/compare": slices.Concat(
		screens("/k/ex/picture/-/compare", "/k/ex/text/-/compare", "/k/ex/set/-/compare", "/k/ex/set/-/compare?a=1.1&b=2.1&path=deep/down/b.txt",
			"/k/ex/back/-/compare?a=1.1&b=3.1", "/k/ex/video/-/compare", "/k/wall/retired/-/compare"),
		[]screen{compared("difference"), compared("slider"), compared("blink")},
		refusals("/k/ex/set/-/compare?a=seventeen", "/k/ex/given-up/-/compare?a=1.1&b=2.1"),
	),
	"GET /activity":               slices.Concat(screens("/activity", "/activity?prefix=nothing/"), refusals("/activity?before=nonsense")),
	"GET /rejections":             screens("/rejections", "/rejections?prefix=nothing/"),
	"GET /leases":                 screens("/leases", "/leases?running=true"),
	"GET /k/{key}/-/rollback":     screens("/k/ex/text/-/rollback"),
	"GET /k/{key}/-/pin":          screens("/k/ex/text/-/pin"),
	"GET /k/{key}/-/unpin":        screens("/k/ex/pinned/-/unpin", "/k/ex/text/-/unpin"),
	"GET /k/{key}/-/retire":       screens("/k/ex/text/-/retire"),
	"GET /k/{key}/-/break-lease":  screens("/k/wall/granted/-/break-lease"),
	"GET /k/{key}/-/upload":       screens("/k/ex/text/-/upload"),
	"GET /upload":                 screens("/upload"),
	"GET /policies":               screens("/policies"),
	"GET /credentials":            screens("/credentials"),
	"GET /credentials/:id/revoke": refusals("/credentials/0123456789abcdef/revoke"), // TestSignIn looks at the form
	"GET /sign-in":                screens("/sign-in"),
	"GET /sign-in/callback":       refusals("/sign-in/callback"),
	"GET /audit":                  screens("/audit"),
	"GET /problems/:code":         slices.Concat(screens("/problems/stale-token"), refusals("/problems/nothing")),

	// A form that was refused comes back with what was typed, and why.
	"POST /k/{key}/-/retire": {{
		path: "/k/ex/text/-/retire",
		do:   `document.querySelector(".act [name=confirm]").value = "no"; document.querySelector("form.act").requestSubmit()`,
		seen: `document.querySelector("form.act")?.parentNode.querySelector("[role=alert]")`, refused: true,
	}},
}

// nothing are the screens of a server that has nothing.
var nothing = slices.Concat(screens("/", "/?view=grid", "/b/wall/", "/activity", "/rejections", "/leases", "/policies", "/audit", "/upload", "/k/new/-/upload"), refusals("/k/new", "/k/new/-/history"))

// isPage reports whether a route gives people a page.
func isPage(route string) bool {
	path, reads := strings.CutPrefix(route, "GET ")
	return reads && !strings.HasPrefix(path, "/v1/") && path != "/static/:file" && path != "/livez" && path != "/readyz" && path != "/metrics"
}

// show opens a screen and brings it into its state.
func (at screen) show(t *testing.T, tab *testenv.Tab, base string) {
	t.Helper()
	tab.Open(base + at.path)
	if at.do != "" {
		eval[bool](t, tab, at.do+"; true")
		awaitPage(t, tab, at.seen)
	}
}

// Nobody is kept out: on no screen, in either look, wide or narrow, axe-core finds anything; nothing is wider than a small screen, no request goes elsewhere, and
// the console has neither an error nor a violation of the Content-Security-Policy.
func TestScreens(t *testing.T) {
	t.Parallel()
	for _, route := range web.RouteNames() {
		if isPage(route) && len(pages[route]) == 0 {
			t.Errorf("%s is a page: say in pages what it looks like", route)
		}
	}
	const colours = `["color-contrast", "link-in-text-block"]`
	axe, tab := testenv.Axe(t), testenv.Browser(t)
	empty, full := serve(t, testenv.Postgres(t), directory(t)), gallery(t)
	exhibit(t, full)
	var refused []string
	visit := func(s *server, at screen) {
		t.Helper()
		if at.refused {
			refused = append(refused, s.url+at.path)
		}
		tab.Resize(1280, 900)
		tab.Prefer("light")
		at.show(t, tab, s.url)
		// No page asks for its width or look but by its style sheet. The looks differ in colours alone.
		for _, seen := range []struct {
			width       int64
			look, rules string
		}{{1280, "light", ""}, {1280, "dark", colours}, {390, "dark", colours}, {390, "light", ""}} {
			tab.Resize(seen.width, 900)
			tab.Prefer(seen.look)
			for _, broken := range tab.Violations(axe, seen.rules) {
				t.Errorf("%s %s, %d pixels, %s: %s", at.path, at.do, seen.width, seen.look, broken)
			}
		}
		tab.Resize(320, 700)
		if wide := eval[float64](t, tab, `document.documentElement.scrollWidth`); wide > 320 {
			t.Errorf("%s is %g pixels wide on a screen of 320", at.path, wide)
		}
		for _, request := range tab.Requests() { // The controls of a video are pictures of the browser's own.
			if !strings.HasPrefix(request, s.url+"/") && !strings.HasPrefix(request, empty.url+"/") && !strings.HasPrefix(request, "data:") {
				t.Fatalf("%s led to %s", at.path, request)
			}
		}
	}
	for _, at := range nothing {
		visit(empty, at)
	}
	for _, route := range slices.Sorted(maps.Keys(pages)) {
		for _, at := range pages[route] {
			visit(full, at)
		}
	}
	tab.CheckConsole(refused...)
}
