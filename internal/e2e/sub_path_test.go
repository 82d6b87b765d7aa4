package e2e

import (
	"fmt"
	"html"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/pawlhq/pawl/internal/testenv"
)

// address matches what a page leads to: links, actions of forms, scripts, pictures, and what its own scripts ask and copy.
var address = regexp.MustCompile(`\s(?:href|src|action|formaction|poster|data-[a-z]+)="([^"]*)"`)

// crawl follows every link of every page from the first one, and returns the paths that it has asked for. All must lie under base, and none may be broken.
func crawl(t *testing.T, origin, base string) (seen map[string]bool) {
	t.Helper()
	noRedirects := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	defer noRedirects.CloseIdleConnections()
	seen = map[string]bool{base + "/": true}
	for queue := []string{base + "/"}; len(queue) > 0; {
		from := queue[0]
		queue = queue[1:]
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, origin+from, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Accept", "text/html")
		resp, err := noRedirects.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		var body []byte
		if strings.HasPrefix(resp.Header.Get("Content-Type"), "text/html") {
			body, err = io.ReadAll(resp.Body)
		}
		_ = resp.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		// A key's current version may be gone, and then the page that leads there says so.
		if resp.StatusCode >= 400 && resp.StatusCode != http.StatusGone {
			t.Errorf("%s is a %s", from, resp.Status)
		}
		found := []string{}
		if to := resp.Header.Get("Location"); to != "" {
			found = append(found, to)
		}
		for _, match := range address.FindAllStringSubmatch(string(body), -1) {
			found = append(found, html.UnescapeString(match[1]))
		}
		found = append(found, regexp.MustCompile(regexp.QuoteMeta(origin)+`[^\s"'<]*`).FindAllString(html.UnescapeString(string(body)), -1)...)
		for _, to := range found {
			to = strings.TrimPrefix(to, origin)
			if to == base { // what the scripts begin their addresses with
				continue
			}
			switch {
			case strings.HasPrefix(to, "http"):
				t.Errorf("%s leads away, to %s", from, to)
				continue
			case !strings.HasPrefix(to, "/"): // a fragment, or a value that is no address
				continue
			case !strings.HasPrefix(to, base+"/"):
				t.Errorf("%s leads out of %s, to %s", from, base, to)
				continue
			}
			at, err := url.Parse(to)
			if err != nil {
				t.Errorf("%s leads to %q: %v", from, to, err)
				continue
			}
			at.Fragment = ""
			// The stream of events never ends; the browser opens it. Without its last part the address of an upload isn't one.
			if next := at.String(); !seen[next] && at.Path != base+"/v1/events" && at.Path != base+"/v1/keys/" && at.Path != base+"/k/" && len(seen) < 3000 {
				seen[next] = true
				queue = append(queue, next)
			}
		}
		if t.Failed() && len(seen) > 200 {
			break
		}
	}
	return seen
}

// Behind a proxy that serves Pawl below a path, whether it takes the prefix off or not, no link, form, script, picture, redirect or event stream leads out of it.
func TestSubPath(t *testing.T) {
	t.Parallel()
	const base = "/farm/pawl"
	tab := testenv.Browser(t)
	s := serve(t, testenv.Postgres(t), directory(t), "PAWL_BASE_PATH="+base)
	s.hang()
	exhibit(t, s)
	for _, how := range []struct{ name, pass, action string }{{"stripped", s.url + "/", "pin"}, {"kept", s.url, "unpin"}} {
		outside := filepath.Join(t.TempDir(), "outside")
		origin := nginxOf(t, "", fmt.Sprintf(`location %s/ { proxy_pass %s; %s }
			location / { access_log %s; return 404; }`, base, how.pass, documentedNginx(t), outside), base+"/livez")
		asked := len(tab.Requests())
		for _, route := range []string{"GET /", "GET /k/{key}", "GET /k/{key}/-/history", "GET /k/{key}/-/compare", "GET /activity", "GET /policies"} {
			for _, at := range pages[route] {
				at.show(t, tab, origin+base)
			}
		}
		openLive(t, tab, origin+base+"/b/ex/")

		// A form, and an upload by the script.
		tab.Open(origin + base + "/k/ex/json/-/" + how.action)
		eval[bool](t, tab, `(document.querySelector("form.act [name=reason]") ?? {}).value = "review"; document.querySelector("form.act").requestSubmit(); true`)
		awaitPage(t, tab, `location.pathname === "`+base+`/k/ex/json" && document.querySelector(".notice.good")`)
		tab.Open(origin + base + "/k/ex/by-" + how.name + "/-/upload")
		eval[bool](t, tab, `(() => {
			const files = new DataTransfer();
			files.items.add(new File(["by the page"], "p.txt"));
			const form = document.querySelector("form.upload");
			form.elements.file.files = files.files;
			form.elements.file.dispatchEvent(new Event("change", {bubbles: true}));
			form.requestSubmit();
			return true;
		})()`)
		awaitPage(t, tab, `document.querySelector(".result").innerText.includes("1.1")`)
		if got := s.read("ex/by-" + how.name); got != "by the page" {
			t.Errorf("%s: the page has uploaded %q", how.name, got)
		}
		requests := tab.Requests()[asked:]
		if len(requests) < 100 {
			t.Errorf("%s: the browser has made %d requests only", how.name, len(requests))
		}
		for _, request := range requests {
			if !strings.HasPrefix(request, origin+base+"/") && !strings.HasPrefix(request, "data:") { // The browser draws the controls of a film with the latter.
				t.Errorf("%s: the browser asked for %s", how.name, request)
			}
		}

		seen := crawl(t, origin, base)
		for _, want := range []string{
			"/b/wall/", "/k/ex/picture/-/history", "/k/ex/picture/-/compare?a=1.1&b=2.1", "/v1/keys/ex/picture/-/current",
			"/rejections", "/leases", "/activity", "/upload", "/policies",
		} {
			if !seen[base+want] {
				t.Errorf("%s: the links don't lead to %s", how.name, want)
			}
		}
		t.Logf("%s: %d addresses, %d requests of the browser", how.name, len(seen), len(requests))
		if log, err := os.ReadFile(outside); err != nil || len(log) > 0 {
			t.Errorf("%s: requests that left %s: %s%v", how.name, base, log, err)
		}
	}
}
