package e2e

import (
	"fmt"
	"strings"
	"testing"

	"github.com/pawlhq/pawl/internal/testenv"
	"github.com/pawlhq/pawl/publish"
)

// awaitPage waits until an expression in the page is true. A page that is loading just now is asked again.
func awaitPage(t *testing.T, tab *testenv.Tab, expression string) {
	t.Helper()
	testenv.Eventually(t, patience, func() error {
		is, err := testenv.Eval[bool](tab, "!!("+expression+")")
		if err == nil && !is {
			text, _ := testenv.Eval[string](tab, `[scrollY, document.activeElement.outerHTML.slice(0, 200), document.body.innerText.slice(0, 2000)].join("\n")`)
			err = fmt.Errorf("%s isn't true of the page, which says:\n%s", expression, text)
		}
		return err
	})
}

// press clicks what a selector finds.
func press(t *testing.T, tab *testenv.Tab, selector string) {
	t.Helper()
	if _, err := testenv.Eval[bool](tab, fmt.Sprintf(`(document.querySelector(%q).click(), true)`, selector)); err != nil {
		t.Fatalf("pressing %s: %v", selector, err)
	}
}

// openLive opens a page and waits until it listens.
func openLive(t *testing.T, tab *testenv.Tab, url string) {
	t.Helper()
	tab.Open(url)
	awaitPage(t, tab, `document.querySelector(".live")?.dataset.is === "on"`)
}

// fresh is what waits behind the button, "" when it is hidden.
const fresh = `(document.querySelector(".fresh:not([hidden])")?.textContent ?? "")`

// putOne publishes a text as a worker in a process of its own.
func (s *server) putOne(holder, key, text string) {
	s.t.Helper()
	p := startReading(s.t, strings.NewReader(text), []string{"PAWL_URL=" + s.url}, binary(s.t), "put", key, "-", "--path", "out.txt", "--holder", holder)
	if code := p.exit(); code != 0 {
		s.t.Fatalf("put exits %d: %s", code, p.errs.String())
	}
}

// awaitEvent waits until the newest event is about a version of a key, so that every reader can have it.
func (s *server) awaitEvent(key publish.Key, token publish.Token) {
	s.t.Helper()
	testenv.Eventually(s.t, patience, func() error {
		body, err := get(s.url + "/v1/events?before=newest&limit=1")
		if err == nil && !strings.Contains(string(body), fmt.Sprintf(`"key":%q,"token":%d,`, key, token)) {
			err = fmt.Errorf("the newest event is %s", body)
		}
		return err
	})
}

// A publish in another process, through another server, waits behind a button on the page. Nothing moves until it is pressed; then the page is
// anew, where it was scrolled to, with the focus where it was.
func TestPageShowsWhatHappens(t *testing.T) {
	t.Parallel()
	tab := testenv.Browser(t)
	dsn, blobs := testenv.Postgres(t), directory(t)
	s, other := serve(t, dsn, blobs), serve(t, dsn, blobs)
	for n := range 60 {
		if err := ship(t.Context(), s.api, publish.Key(fmt.Sprintf("live/%02d", n))); err != nil {
			t.Fatal(err)
		}
	}
	s.awaitEvent("live/59", 1)

	// The list of keys.
	openLive(t, tab, s.url+"/b/live/")
	const rows = `document.querySelectorAll("main a[data-row]").length`
	if n, err := testenv.Eval[int](tab, rows); err != nil || n != 60 {
		t.Fatalf("%d rows, %v", n, err)
	}
	if _, err := testenv.Eval[bool](tab, `(document.querySelectorAll("main a[data-row]")[40].focus(), scrollTo(0, 500), true)`); err != nil {
		t.Fatal(err)
	}
	other.putOne("worker-b", "live/new", "one")
	other.putOne("worker-b", "elsewhere/new", "two")
	awaitPage(t, tab, fresh+` === "1 new · show"`)
	if n, err := testenv.Eval[int](tab, rows); err != nil || n != 60 {
		t.Errorf("before the button was pressed there are %d rows, %v", n, err)
	}
	press(t, tab, ".fresh")
	awaitPage(t, tab, rows+` === 61 && `+fresh+` === ""`)
	awaitPage(t, tab, `document.activeElement.getAttribute("href")?.endsWith("/k/live/40") && Math.abs(scrollY - 500) < 50`)

	// With filters that an event doesn't answer, nothing is counted, and a file of another type is nothing at all.
	openLive(t, tab, s.url+"/?prefix=live/&type=image")
	eval[bool](t, tab, `window.offers = 0; new MutationObserver((all) => (offers += all.length)).observe(document.querySelector(".fresh"), { childList: true }); true`)
	other.putOne("worker-b", "live/text", "no picture")
	s.awaitEvent("live/text", 1)
	if _, err := s.api.Pin(t.Context(), publish.PinRequest{Key: "live/text", By: "anna", Reason: "review"}); err != nil {
		t.Fatal(err)
	}
	awaitPage(t, tab, fresh+` === "Something changed · show"`)
	if n := eval[int](t, tab, `offers`); n != 1 {
		t.Errorf("%d of the two events were told", n)
	}
	openLive(t, tab, s.url+"/?prefix=live/&type=text")
	other.putOne("worker-b", "live/text3", "a text")
	awaitPage(t, tab, fresh+` === "Something changed · show"`)

	// The page of a key, and its history.
	for n, page := range []string{"/k/live/new", "/k/live/new/-/history"} {
		openLive(t, tab, s.url+page)
		other.putOne("worker-c", "live/00", "of another key")
		other.putOne("worker-b", "live/new", "again")
		awaitPage(t, tab, fresh+fmt.Sprintf(` === "%d.1 was published by \u2068worker-b\u2069 just now · show"`, n+2))
		press(t, tab, ".fresh")
		awaitPage(t, tab, fmt.Sprintf(`document.querySelector('[data-version="%d.1"]') && %s === ""`, n+2, fresh))
	}

	// A pin is told, too, though it is of the version that is shown.
	for _, page := range []string{"/k/live/new", "/k/live/new/-/history"} {
		openLive(t, tab, s.url+page)
		if _, err := s.api.Pin(t.Context(), publish.PinRequest{Key: "live/new", By: "anna", Reason: "the release"}); err != nil {
			t.Fatal(err)
		}
		awaitPage(t, tab, fresh+` === "pinned by \u2068anna\u2069 · show"`)
		if err := s.api.Unpin(t.Context(), publish.UnpinRequest{Key: "live/new", By: "anna"}); err != nil {
			t.Fatal(err)
		}
		awaitPage(t, tab, fresh+` === "unpinned by \u2068anna\u2069, 2 new · show"`)
	}

	// Activity, of all keys.
	openLive(t, tab, s.url+"/activity")
	other.putOne("worker-b", "live/new", "yet again")
	awaitPage(t, tab, fresh+` === "1 new · show"`)
	press(t, tab, ".fresh")
	awaitPage(t, tab, `document.querySelector(".timeline li").innerText.includes("worker-b published 4.1")`)
	tab.CheckConsole()
}

// A paused page stays as it is, also when it is loaded anew, and then goes on from where it was.
func TestPagePauses(t *testing.T) {
	t.Parallel()
	tab := testenv.Browser(t)
	s := serve(t, testenv.Postgres(t), directory(t))
	openLive(t, tab, s.url+"/b/paused/")
	press(t, tab, ".pause")
	awaitPage(t, tab, `document.querySelector(".state").textContent === "Paused"`)
	s.putOne("worker-b", "paused/one", "one")
	s.awaitEvent("paused/one", 1)
	if text, err := testenv.Eval[string](tab, fresh); err != nil || text != "" {
		t.Errorf("the paused page offers %q, %v", text, err)
	}
	press(t, tab, ".pause")
	awaitPage(t, tab, fresh+` === "1 new · show"`)
	press(t, tab, ".pause")
	press(t, tab, ".fresh")
	awaitPage(t, tab, `document.querySelector("main a[data-row]")?.getAttribute("href").endsWith("/k/paused/one") && document.querySelector(".state").textContent === "Paused"`)
	tab.CheckConsole()
}

// The server that a page listens to is killed. What happens meanwhile, through another one, is on offer once it is back: all of it, once.
func TestPageOutlastsTheServer(t *testing.T) {
	t.Parallel()
	tab := testenv.Browser(t)
	dsn, blobs := testenv.Postgres(t), directory(t)
	s, other := serve(t, dsn, blobs), serve(t, dsn, blobs)
	openLive(t, tab, s.url+"/activity")
	other.putOne("worker-b", "away/one", "one")
	awaitPage(t, tab, fresh+` === "1 new · show"`)
	for n := range 2 {
		s.kill()
		awaitPage(t, tab, `document.querySelector(".live").dataset.is === "lost"`)
		other.putOne("worker-b", "away/one", fmt.Sprint("again ", n))
		other.awaitEvent("away/one", publish.Token(n+2))
		s.start()
		awaitPage(t, tab, fmt.Sprintf(`document.querySelector(".live").dataset.is === "on" && %s === "%d new · show"`, fresh, n+2))
	}
}

// The story that Pawl is for, as a person looks for it. A worker is stopped past its lease, another one publishes, the first one wakes up and is
// refused. The list of keys says that somebody was refused, and leads to what happened.
func TestCase01StaleWorkerOnThePage(t *testing.T) {
	t.Parallel()
	tab := testenv.Browser(t)
	s := serve(t, testenv.Postgres(t), directory(t))
	const key = "thumbs/image-52"
	openLive(t, tab, s.url+"/b/thumbs/")
	a := s.run(key, "worker-a", "60", "1s")
	a.stop()
	b := s.run(key, "worker-b", "40", "30s")
	b.letGo()
	if code := b.exit(); code != 0 {
		t.Fatalf("B exits %d: %s", code, b.errs.String())
	}
	a.letGo()
	a.resume()
	s.checkFenced(a.process, key, 1, 2, "worker-a")

	awaitPage(t, tab, `/^\d+ new · show$/.test(`+fresh+`)`)
	press(t, tab, ".fresh")
	const refused = `[...document.querySelectorAll("main tr a")].find((a) => /refused/.test(a.textContent))`
	awaitPage(t, tab, refused)
	if _, err := testenv.Eval[bool](tab, `(`+refused+`.click(), true)`); err != nil {
		t.Fatal(err)
	}
	awaitPage(t, tab, `location.pathname.endsWith("/k/thumbs/image-52/-/history") && document.querySelector("#refused")`)
	said, err := testenv.Eval[string](tab, `document.querySelector("main").innerText`)
	if err != nil {
		t.Fatal(err)
	}
	rest := said
	for _, want := range []string{
		"refused; the last", "worker-a came back ", "after 2 (worker-b) had won: its ", "with 1 was refused", "worker-b published 2.1: 1 file",
		"worker-b took the key over with token 2: the lease of worker-a (token 1) had ended", "worker-a was granted token 1",
	} {
		_, after, found := strings.Cut(rest, want)
		if !found {
			t.Errorf("the history lacks %q, or tells it too late: %s", want, said)
			break
		}
		rest = after
	}
	if shown, err := testenv.Eval[bool](tab, `(({top, bottom}) => top >= 0 && bottom <= innerHeight)(document.querySelector("#refused").getBoundingClientRect())`); err != nil || !shown {
		t.Errorf("what happened is out of sight: %t, %v", shown, err)
	}
	tab.Open(s.url + "/k/" + key)
	awaitPage(t, tab, `[...document.querySelectorAll("main a")].some((a) => a.getAttribute("href").endsWith("/k/thumbs/image-52/-/history#refused"))`)
	tab.Open(s.url + "/rejections")
	awaitPage(t, tab, `/worker-a came back .* had won/.test(document.querySelector("main tbody").innerText)`)
	tab.CheckConsole()
}
