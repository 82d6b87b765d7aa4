package e2e

import (
	"bytes"
	"fmt"
	"image"
	"image/png"
	"strings"
	"testing"

	"github.com/pawlhq/pawl/internal/testenv"
	"github.com/pawlhq/pawl/publish"
)

// gallery starts a server with what hang hangs.
func gallery(t *testing.T) *server {
	t.Helper()
	s := serve(t, testenv.Postgres(t), directory(t))
	s.hang()
	return s
}

// hang fills a server with what the pages of keys show: pictures, a set, names that are long or run from right to left, a stale request,
// a lease, a retired key and one that was only granted.
func (s *server) hang() {
	t := s.t
	t.Helper()
	var picture bytes.Buffer
	if err := png.Encode(&picture, image.NewGray(image.Rect(0, 0, 1920, 1080))); err != nil {
		t.Fatal(err)
	}
	put := func(key publish.Key, path publish.Path, body string) {
		t.Helper()
		lease := s.acquire(key, "artist")
		if _, err := s.api.Upload(t.Context(), publish.UploadRequest{Grant: lease.Grant(), Path: path, Size: int64(len(body)), Body: strings.NewReader(body)}); err != nil {
			t.Fatal(err)
		}
		unbroken := map[string]string{strings.Repeat("name", 30): strings.Repeat("value", 60)}
		if _, err := s.api.Publish(t.Context(), publish.PublishRequest{Grant: lease.Grant(), Final: true, Primary: path, Release: true, Metadata: unbroken}); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 12 {
		put(publish.Key(fmt.Sprintf("wall/picture-%02d", i)), "p.png", picture.String())
	}
	put("wall/text", "notes.txt", "notes")
	put(publish.Key("wall/"+strings.Repeat("very-long-", 12)+"/"+strings.Repeat("unbroken", 20)), publish.Path(strings.Repeat("n", 120)+".bin"), "x")
	put("wall/\u05de\u05e4\u05ea\u05d7/\U0001f600", "\u05d9.csv", "a,b")
	stale := s.acquire("wall/late", "worker-a")
	if err := s.upload(stale, "old"); err != nil {
		t.Fatal(err)
	}
	if err := s.api.Release(t.Context(), "wall/late", stale.LeaseID); err != nil {
		t.Fatal(err)
	}
	put("wall/late", "f", "new")
	put("wall/late", "f", "newer")
	if err := s.publish(stale); err == nil {
		t.Fatal("a stale publish was accepted")
	}
	s.acquire("wall/granted", "worker-b")
	put("wall/retired", "f", "x")
	if _, err := s.api.Retire(t.Context(), publish.RetireRequest{Key: "wall/retired", Reason: "wrong camera", By: "tom"}); err != nil {
		t.Fatal(err)
	}
}

// layoutShift is how much the page has moved by itself since it was loaded.
const layoutShift = `new Promise((done) => {
	let sum = 0;
	new PerformanceObserver((list) => list.getEntries().forEach((e) => (sum += e.value))).observe({ type: "layout-shift", buffered: true });
	setTimeout(() => done(sum), 300);
})`

// TestPagesFit opens every page of keys in both looks and at several widths: nothing moves while pictures load, nothing is wider than the screen,
// and neither an error nor a violation of the Content-Security-Policy shows in the console.
func TestPagesFit(t *testing.T) {
	t.Parallel()
	tab := testenv.Browser(t)
	s := gallery(t)
	long := "/k/wall/" + strings.Repeat("very-long-", 12) + "/" + strings.Repeat("unbroken", 20)
	for _, width := range []int64{320, 390, 1280, 3840} {
		tab.Resize(width, 900)
		for _, page := range []string{
			"/", "/b/wall/", "/b/wall/?view=grid", "/?sort=age&view=grid", "/?q=nothing-has-this", "/?rejected=true&type=application", "/b/empty/", long, "/k/wall/picture-00",
			long + "/-/generations/1", long + "/-/history", long + "/-/compare", "/k/wall/late/-/compare",
			"/k/wall/late", "/k/wall/granted", "/k/wall/retired", "/k/wall/%D7%9E%D7%A4%D7%AA%D7%97/%F0%9F%98%80", "/policies", "/problems/stale-token",
		} {
			tab.Open(s.url + page)
			// The words that tell how the event stream is may change their width; a picture or a row would move hundreds of times as much.
			if shift := eval[float64](t, tab, layoutShift); shift > 0.003 {
				t.Errorf("%s at %d pixels moves by %g", page, width, shift)
			}
			if wide := eval[float64](t, tab, `document.documentElement.scrollWidth`); wide > float64(width) {
				t.Errorf("%s is %g pixels wide on a screen of %d: %v", page, wide, width, eval[[]string](t, tab,
					`[...document.querySelectorAll("body *")].filter((e) => e.getBoundingClientRect().right > innerWidth + 1).slice(0, 5).map((e) => e.outerHTML.slice(0, 120))`))
			}
		}
	}
	tab.Open(s.url + "/b/wall/?view=grid")
	testenv.Eventually(t, patience, func() error {
		if n := eval[int](t, tab, `[...document.querySelectorAll(".thumb img")].filter((i) => i.complete && i.naturalWidth === 1920).length`); n < 4 {
			return fmt.Errorf("%d pictures are there", n)
		}
		return nil
	})
	tab.CheckConsole()
}

// TestPageKeyboard moves through the pages of keys without a mouse.
func TestPageKeyboard(t *testing.T) {
	t.Parallel()
	tab := testenv.Browser(t)
	s := gallery(t)
	await := func(what, expression string) {
		t.Helper()
		testenv.Eventually(t, patience, func() error {
			ok, err := testenv.Eval[bool](tab, expression)
			if err != nil {
				return fmt.Errorf("%s: %w", what, err)
			}
			if !ok {
				return fmt.Errorf("%s: %s is false", what, expression)
			}
			return nil
		})
	}
	// What a page copies goes to the clipboard of the whole machine, so the test takes it instead.
	open := func(page string) {
		t.Helper()
		tab.Open(s.url + page)
		eval[bool](t, tab, `navigator.clipboard.writeText = async (text) => { window.copied = text }; true`)
	}

	open("/b/wall/?type=image")
	tab.Press("jjjk")
	await("j and k move among rows", `document.activeElement.textContent.endsWith("picture-01")`)
	tab.Press("c")
	await("c copies the address of what is current", fmt.Sprintf(`window.copied === %q`, s.url+"/v1/keys/wall/picture-01/-/current"))
	await("what was copied is said", `document.querySelector("#said").textContent.startsWith("Copied")`)
	tab.Press("y")
	await("y copies the permanent address", fmt.Sprintf(`window.copied === %q`, s.url+"/v1/keys/wall/picture-01/-/generations/1/files/p.png"))
	tab.Press("/jk")
	// The driver types the slash, too, as a keyboard wouldn't: its default is prevented.
	await("keys typed into a field are text", `document.activeElement.value.endsWith("jk") && document.activeElement.type === "search"`)
	eval[bool](t, tab, `document.activeElement.blur(); true`)
	tab.Press("?")
	await("? lists the keys", `document.querySelector("#keyboard").open`)
	tab.Press("j\r")
	await("Enter closes the list, and nothing else has moved", `!document.querySelector("#keyboard").open && location.search === "?type=image"`)
	tab.Press("k")
	eval[bool](t, tab, `document.activeElement.blur(); true`)
	tab.Press("j\r")
	await("Enter opens the row", `location.pathname === "/k/wall/picture-00"`)

	open("/k/wall/late")
	tab.Press("c")
	await("c copies on the page of a key", fmt.Sprintf(`window.copied === %q`, s.url+"/v1/keys/wall/late/-/current"))
	copies := eval[int](t, tab, `document.querySelectorAll(".copyable button:not([hidden])").length`)
	if copies < 4 {
		t.Errorf("%d buttons copy", copies)
	}
	eval[bool](t, tab, `document.querySelectorAll(".copyable button")[2].click(); true`)
	await("a button copies its line", fmt.Sprintf(`window.copied === "curl -fsSL -o f %s/v1/keys/wall/late/-/current"`, s.url))
	// Without the clipboard of secure pages the old way is taken, and the focus stays.
	eval[bool](t, tab, `navigator.clipboard.writeText = () => Promise.reject(); document.addEventListener("copy", () => (window.copied = document.activeElement.value)); document.querySelector("a[data-row]").focus(); true`)
	tab.Press("y")
	await("y copies over plain http", fmt.Sprintf(`window.copied === %q && document.activeElement.matches("a[data-row]")`, s.url+"/v1/keys/wall/late/-/generations/3/files/f"))
	if title := eval[string](t, tab, `document.querySelector("time").title`); strings.HasPrefix(title, "20") || title == "" { // as the server writes it
		t.Errorf("a time's title is %q", title)
	}

	eval[bool](t, tab, `document.querySelector("#theme").click(); true`)
	await("the colours are chosen", `getComputedStyle(document.documentElement).colorScheme === "light"`)
	eval[bool](t, tab, `document.querySelector("#theme").click(); true`)
	open("/")
	await("and kept", `getComputedStyle(document.documentElement).colorScheme === "dark"`)
	tab.CheckConsole()
}

// eval is testenv.Eval for expressions that can't fail.
func eval[T any](t *testing.T, tab *testenv.Tab, expression string) T {
	t.Helper()
	value, err := testenv.Eval[T](tab, expression)
	if err != nil {
		t.Fatalf("%s: %v", expression, err)
	}
	return value
}
