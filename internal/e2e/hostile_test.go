package e2e

import (
	"bytes"
	"fmt"
	"image"
	"image/png"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/pawlhq/pawl/internal/testenv"
	"github.com/pawlhq/pawl/publish"
)

// elsewhere is a server that no file may reach. It also serves a page whose script does what the hostile files try.
type elsewhere struct {
	url  string
	mu   sync.Mutex
	seen []string
}

func newElsewhere(t *testing.T) *elsewhere {
	t.Helper()
	e := &elsewhere{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/control" {
			w.Header().Set("Content-Type", "text/html")
			_, _ = fmt.Fprintf(w, "<script>%s</script>", e.script("control"))
			return
		}
		if r.URL.Path == "/favicon.ico" {
			return // for the page of the control
		}
		e.mu.Lock()
		e.seen = append(e.seen, r.URL.Path)
		e.mu.Unlock()
	}))
	t.Cleanup(server.Close)
	e.url = server.URL
	return e
}

func (e *elsewhere) requests() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.seen)
}

// script leaves a trace in all that it reaches: the network, the page's title, cookies and storage.
func (e *elsewhere) script(name string) string {
	return fmt.Sprintf(`try{document.title="owned by %[2]s"}catch(e){} try{document.cookie="owned=%[2]s;path=/"}catch(e){} `+
		`try{localStorage.setItem("owned","%[2]s")}catch(e){} try{top.document.title="owned by %[2]s"}catch(e){} `+
		`try{new Image().src="%[1]s/image/%[2]s"}catch(e){} try{fetch("%[1]s/fetch/%[2]s",{mode:"no-cors"})}catch(e){}`, e.url, name)
}

// hostileFiles hold script and requests to elsewhere in all the ways that browsers have taken for documents.
func hostileFiles(t *testing.T, e *elsewhere) map[publish.Path]claimedFile {
	t.Helper()
	page := func(name string) string {
		return fmt.Sprintf(`<!DOCTYPE html><html><body onload='%[1]s'><script>%[1]s</script><img src="%[2]s/img/%[3]s" onerror='%[1]s'></body></html>`, e.script(name), e.url, name)
	}
	xhtml := func(name string) string {
		return fmt.Sprintf(`<?xml version="1.0"?><html xmlns="http://www.w3.org/1999/xhtml"><body><script>%s</script></body></html>`, e.script(name))
	}
	var picture bytes.Buffer
	if err := png.Encode(&picture, image.NewGray(image.Rect(0, 0, 8, 8))); err != nil {
		t.Fatal(err)
	}
	return map[publish.Path]claimedFile{
		"a.svg": {"image/svg+xml", fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" width="9" height="9" onload='%[1]s'><script>%[1]s</script>`+
			`<image href="%[2]s/svg-image" width="9" height="9"/><foreignObject width="9" height="9"><iframe xmlns="http://www.w3.org/1999/xhtml" src="%[2]s/svg-frame"/></foreignObject><style>@import url(%[2]s/svg-style);</style></svg>`, e.script("svg"), e.url)},
		"a.html":       {"text/html", page("html")},
		"html.png":     {"image/png", page("html-as-png")},
		"unnamed-html": {"text/html", page("unnamed-html")},
		"polyglot":     {"image/gif", "GIF89a/*" + page("polyglot") + "*/=1;" + e.script("polyglot")},
		"polyglot.png": {"text/html", picture.String() + page("polyglot-png")},
		"a.xml":        {"text/xml", `<?xml version="1.0"?><?xml-stylesheet type="text/xsl" href="a.xsl"?><r/>`},
		"a.xsl": {"text/xsl", fmt.Sprintf(`<xsl:stylesheet version="1.0" xmlns:xsl="http://www.w3.org/1999/XSL/Transform"><xsl:template match="/"><html><body>`+
			`<script>%s</script><img src="%s/xslt"/></body></html></xsl:template></xsl:stylesheet>`, e.script("xslt"), e.url)},
		"doc":      {"application/xhtml+xml", xhtml("xhtml")},
		"picture":  {"image/x+xml", xhtml("picture-xml")},
		"a.js":     {"text/html", e.script("js") + page("js")},
		"script":   {"text/html", e.script("script")},
		"a.csv":    {"text/html", "name,value\n" + strings.ReplaceAll(page("csv"), ",", ";") + ",1\n\"=cmd|' /C calc'!A0\",2\n"},
		"a.json":   {"text/html", `{"a":"` + strings.ReplaceAll(page("json"), `"`, `\"`) + `"}`},
		"a.txt":    {"text/html", page("txt") + "\n</li></ol></section><script>" + e.script("txt2") + "</script>"},
		"a.m3u8":   {"text/html", "#EXTM3U\n#EXT-X-KEY:METHOD=NONE\n" + page("m3u8") + "\n"},
		"a.pdf":    {"application/pdf", page("pdf")},
		"mixed":    {"multipart/x-mixed-replace; boundary=x", "--x\r\nContent-Type: text/html\r\n\r\n" + page("mixed") + "\r\n--x--"},
		"a.mp4":    {"text/html", page("mp4")},
		"octets":   {"", page("octets")},
		"manifest": {"text/cache-manifest", "CACHE MANIFEST\n" + e.url + "/manifest\n"},
	}
}

// Case 40: whatever a file holds, and however it is opened, no script of it runs in the page's origin, and it makes the browser ask for
// nothing elsewhere.
func TestCase40InABrowser(t *testing.T) {
	t.Parallel()
	s := serve(t, testenv.Postgres(t), directory(t))
	e := newElsewhere(t)
	files := hostileFiles(t, e)
	const key = "hostile/set"
	s.files(key, files)
	other := maps.Clone(files)
	for path, file := range other {
		file.body += "\n<!-- another version -->\n"
		other[path] = file
	}
	s.files(key, other)
	tab := testenv.Browser(t)

	// A page may do all of this where nothing stops it; otherwise the rest would prove nothing.
	tab.Open(e.url + "/control")
	testenv.Eventually(t, patience, func() error {
		if seen := e.requests(); !slices.Contains(seen, "/fetch/control") || !slices.Contains(seen, "/image/control") {
			return fmt.Errorf("the script has asked for %v", seen)
		}
		return nil
	})
	allowed := len(e.requests())
	if cookie, err := testenv.Eval[string](tab, `document.cookie + (document.cookie = "owned=;path=/;max-age=0")`); err != nil || !strings.Contains(cookie, "owned=control") {
		t.Errorf("the script has left the cookie %q, %v", cookie, err) // Cookies belong to the machine, on all of its ports.
	}
	// Each trace has its file's name, so one look at the end of a way to open them is enough. What a page has begun is given a moment to get there.
	clean := func(how string) {
		t.Helper()
		left, err := testenv.Eval[string](tab, `new Promise((done) => setTimeout(done, 500)).then(() => document.title + document.cookie + JSON.stringify(localStorage))`)
		if err != nil || strings.Contains(left, "owned") {
			t.Errorf("%s: left behind is %q, %v", how, left, err)
		}
		if seen := e.requests(); len(seen) > allowed {
			t.Errorf("%s: the browser has asked for %v", how, seen[allowed:])
			allowed = len(seen)
		}
	}
	paths := slices.Sorted(maps.Keys(files))
	for _, path := range paths {
		for _, page := range []string{"/-/generations/1?path=", "/-/compare?a=1.1&b=2.1&path="} {
			tab.Open(s.url + "/k/" + key + page + url.QueryEscape(string(path)))
			if title, err := testenv.Eval[string](tab, `document.title`); err != nil || !strings.HasSuffix(title, "Pawl") {
				t.Errorf("%s%s: the title is %q, %v", page, path, title, err)
			}
		}
	}
	clean("shown by pages")
	tab.CheckConsole()
	for _, path := range paths {
		_ = tab.Visit(s.api.FileURL(key, 1, path)) // What the browser saves instead is an error.
		if title, err := testenv.Eval[string](tab, `document.title`); err != nil || strings.Contains(title, "owned") {
			t.Errorf("%s: the title is %q, %v", path, title, err)
		}
	}
	tab.Open(s.url + "/livez")
	clean("opened directly")
	// Embedded in all ways, also as what they aren't, by a page that wants it: only the files' own headers and the page's policy are in their way.
	tab.Open(s.url + "/")
	for _, path := range paths {
		_, err := testenv.Eval[bool](tab, fmt.Sprintf(`(() => {
			for (const [name, at] of [["iframe", "src"], ["embed", "src"], ["object", "data"], ["img", "src"], ["video", "src"]]) {
				const element = document.createElement(name);
				element[at] = %q;
				document.body.append(element);
			}
			return true;
		})()`, s.api.FileURL(key, 1, path)))
		if err != nil {
			t.Fatal(err)
		}
	}
	clean("embedded")
}

// Pages show files from the store that readers are sent to, and the browser's console has nothing to say about it.
func TestPreviewFromTheStore(t *testing.T) {
	t.Parallel()
	bucket := testenv.S3Bucket(t)
	public := strings.Replace(bucket.Endpoint, "127.0.0.1", "localhost", 1)
	s := serve(t, testenv.Postgres(t), s3Address(bucket), append(s3Env(bucket), "PAWL_READS=redirect", "PAWL_S3_PUBLIC_ENDPOINT="+public)...)
	for _, width := range []int{8, 16} {
		var picture bytes.Buffer
		if err := png.Encode(&picture, image.NewGray(image.Rect(0, 0, width, 8))); err != nil {
			t.Fatal(err)
		}
		s.files("pictures/one", map[publish.Path]claimedFile{"a.png": {"", picture.String()}})
	}
	tab := testenv.Browser(t)
	shows := func(want string) {
		t.Helper()
		got, err := testenv.Eval[string](tab, `Promise.all([...document.querySelectorAll("main img")].map((i) => i.decode().then(() => i.naturalWidth + "x" + i.naturalHeight))).then((all) => all.join(" "))`)
		if err != nil || got != want {
			t.Errorf("the pictures are %q, %v, want %q", got, err, want)
		}
	}
	tab.Open(s.url + "/k/pictures/one/-/generations/2")
	shows("16x8")
	tab.Open(s.url + "/k/pictures/one/-/compare?path=a.png")
	shows("8x8 16x8")
	tab.CheckConsole()
}
