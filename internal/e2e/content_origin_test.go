package e2e

import (
	"bytes"
	"fmt"
	"image"
	"image/png"
	"net/http"
	"strings"
	"testing"

	"github.com/pawlhq/pawl/client"
	"github.com/pawlhq/pawl/internal/testenv"
	"github.com/pawlhq/pawl/publish"
)

// report is a page of a folder, with all that it loads from beside it, also by its script.
func report(t *testing.T) map[publish.Path]claimedFile {
	t.Helper()
	var picture bytes.Buffer
	if err := png.Encode(&picture, image.NewGray(image.Rect(0, 0, 8, 4))); err != nil {
		t.Fatal(err)
	}
	return map[publish.Path]claimedFile{
		"report/index.html": {"", `<!DOCTYPE html><html lang="en"><title>report</title><link rel="icon" href="data:,"><link rel="stylesheet" href="../assets/a.css">` +
			`<style>em { color: rgb(4, 5, 6) }</style><script>window.inline = 1; addEventListener("message", (e) => { window.part = e.data })</script>` +
			`<p>one</p><em>two</em><img src="picture.png" alt=""><iframe src="part.html"></iframe><script type="module" src="../assets/a.mjs"></script><script src="../assets/a.js"></script>`},
		"report/part.html":   {"", `<!DOCTYPE html><title>part</title><script>parent.postMessage("part", "*")</script>`},
		"report/picture.png": {"", picture.String()},
		"assets/a.css":       {"", "p { color: rgb(1, 2, 3) }"},
		"assets/a.mjs":       {"", `window.module = 1`},
		"assets/a.js":        {"", `fetch("../assets/data.json").then((r) => r.json()).then((d) => { window.data = d.n })`},
		"assets/data.json":   {"", `{"n":7}`},
	}
}

// probe is what a report's script tries: to read each address, to load it, and to find out who reads it.
const probe = `(async () => {
	const got = {};
	for (const address of %s) {
		got[address] = await fetch(address).then((r) => r.text(), () => "-") + await new Promise((done) => {
			const script = document.createElement("script");
			script.onload = () => done(" loaded");
			script.onerror = () => done("");
			script.src = address;
			document.head.append(script);
		});
	}
	let cookie = "-", storage = "-";
	try { cookie = document.cookie } catch { }
	try { storage = localStorage.length } catch { }
	return JSON.stringify([Object.values(got), cookie, storage, self.origin]);
})()`

// A report is shown as its author made it, to who may read it. Its script reaches neither the pages' origin, nor another generation, nor anything elsewhere, with
// the reader's browser knowing a credential for the pages.
func TestContentOriginInABrowser(t *testing.T) {
	t.Parallel()
	tab := testenv.Browser(t)
	dsn := testenv.Postgres(t)
	probes := newElsewhere(t)
	s := launch(t, dsn, directory(t), "PAWL_AUTH=required")
	s.kill()
	_, port, _ := strings.Cut(s.addr, ":")
	origin := "http://files.localhost:" + port
	s.env = append(s.env, "PAWL_CONTENT_ORIGIN="+origin)
	s.start()
	secret, _ := issue(t, dsn, "mia", "publish:press/")
	var err error
	if s.api, err = client.New(s.url, client.Options{Credential: secret}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.api.Close)
	s.files("press/r", report(t))
	s.files("press/r", map[publish.Path]claimedFile{"report/index.html": {"", "<!DOCTYPE html><title>next</title><script>window.other = 1</script>"}, "canary.js": {"", "canary"}})

	signIn(t, tab, s.url+"/k/press/r", secret)
	awaitPage(t, tab, `location.pathname === "/k/press/r"`)
	show := func(token int) string {
		t.Helper()
		tab.Open(fmt.Sprintf("%s/k/press/r/-/generations/%d?path=report/index.html", s.url, token))
		link, err := testenv.Eval[string](tab, `[...document.querySelectorAll(".preview a")].find((a) => a.textContent == "Show").href`)
		if err != nil {
			t.Fatal(err)
		}
		tab.Open(link)
		at, err := testenv.Eval[string](tab, `location.href`)
		if err != nil || !strings.HasPrefix(at, origin+"/~") {
			t.Fatalf("%s leads to %q, %v", link, at, err)
		}
		return at
	}
	other := strings.Replace(show(2), "report/index.html", "canary.js", 1)
	tab.Open(other)
	if got, err := testenv.Eval[string](tab, `document.body.textContent`); err != nil || got != "canary" {
		t.Fatalf("its address gives %q, %v", got, err) // Otherwise the rest would prove nothing.
	}
	at := show(1)
	awaitPage(t, tab, `window.inline == 1 && window.module == 1 && window.data == 7 && window.part == "part" && getComputedStyle(document.querySelector("p")).color == "rgb(1, 2, 3)" && `+
		`getComputedStyle(document.querySelector("em")).color == "rgb(4, 5, 6)" && document.querySelector("img").naturalWidth == 8`)
	tab.CheckConsole()

	stolen, _, _ := strings.Cut(strings.TrimPrefix(at, origin+"/"), "/")
	targets := []string{
		s.url + "/v1/keys/press/r", s.url + "/v1/keys/press/r/-/generations/2/files/canary.js", s.url + "/v1/keys/press/r/-/generations/2/show/canary.js",
		origin + "/v1/keys/press/r/-/generations/2/files/canary.js", origin + "/" + stolen + "/v1/keys/press/r/-/generations/2/files/canary.js", other,
		probes.url + "/fetch/report",
	}
	got, err := testenv.Eval[string](tab, fmt.Sprintf(probe, `["`+strings.Join(targets, `", "`)+`"]`))
	if want := `[["-","-","-","-","-","-","-"],"-","-","null"]`; err != nil || got != want {
		t.Errorf("the script of a report has got %s, %v, want %s", got, err, want)
	}
	if seen := probes.requests(); len(seen) > 0 {
		t.Errorf("the browser has asked for %v", seen)
	}
	// Of the same report nothing is closed to it.
	if got, err = testenv.Eval[string](tab, fmt.Sprintf(probe, `["../assets/a.mjs"]`)); err != nil || !strings.HasPrefix(got, `[["window.module = 1 loaded"]`) {
		t.Errorf("of its own the script has got %s, %v", got, err)
	}

	answer, err := http.Get(s.url + "/v1/keys/press/r/-/generations/1/show/report/index.html") //nolint:noctx // The server is the test's own.
	if err != nil || answer.StatusCode != http.StatusUnauthorized {
		t.Errorf("who shows no credential is answered %v, %v", answer, err)
	}
	if err == nil {
		_ = answer.Body.Close()
	}
	if log := s.errs.String(); strings.Contains(log, stolen) || !strings.Contains(log, "/~{link}/") {
		t.Error("the log has an address that opens files, or no line of what it has opened")
	}
	// Another replica signs with the same key, as does this one after a new start.
	s.kill()
	s.start()
	tab.Open(strings.Replace(at, "report/index.html", "assets/data.json", 1))
	if got, err := testenv.Eval[string](tab, `document.body.textContent`); err != nil || !strings.Contains(got, `{"n":7}`) {
		t.Errorf("after another start the address gives %q, %v", got, err)
	}
}
