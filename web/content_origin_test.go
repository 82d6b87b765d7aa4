package web_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/pawlhq/pawl/publish"
	"github.com/pawlhq/pawl/web"
)

const (
	contentAt   = "https://files.example"
	contentHost = "files.example"
)

var contentKey = []byte("a key of thirty-two bytes or more")

// sealed is the path of an address of the content origin, made as the server makes them.
func sealed(secret []byte, key string, token, revision, expires int64, path string) string {
	hash := hmac.New(sha256.New, secret)
	_, _ = fmt.Fprintf(hash, "pawl-content-1\n%s\n%d\n%d\n%d", key, token, revision, expires)
	return fmt.Sprintf("/~%d.%d.%s/v1/keys/%s/-/generations/%d/files/%s", revision, expires, base64.RawURLEncoding.EncodeToString(hash.Sum(nil)), key, token, path)
}

// at sends a request for another host than that of the pages.
func (r *rig) at(host, method, target string, headers ...string) answer {
	r.t.Helper()
	request := fmt.Sprintf("%s %s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n", method, target, host)
	for i := 0; i < len(headers); i += 2 {
		request += headers[i] + ": " + headers[i+1] + "\r\n"
	}
	return r.raw(request + "\r\n")
}

// follow asks the content origin for the address that a show route has answered with.
func (r *rig) follow(shown answer) (path string, got answer) {
	r.t.Helper()
	shown.want(http.StatusSeeOther)
	path, found := strings.CutPrefix(shown.header.Get("Location"), contentAt)
	if !found || shown.header.Get("Cache-Control") != "no-store" || shown.header.Get("Referrer-Policy") != "no-referrer" || shown.header.Get("Set-Cookie") != "" {
		r.t.Fatalf("the redirect is %v", shown.header)
	}
	return path, r.at(contentHost, "GET", path)
}

// The content origin shows the files of the one version that an address is for.
func TestContentOriginShows(t *testing.T) {
	t.Parallel()
	r := newRig(t, web.Options{ContentOrigin: contentAt, ContentKey: contentKey, BasePath: "/pawl", CheckHost: true})
	w := r.grant("team/a%3B%20b")
	const page, style = "<script src=a.js></script>", "p{}"
	for path, body := range map[string]string{"r/i%20n.html": page, "r/a.css": style, "r/a.js": "1", "a.pdf": "%PDF-1.7", "mixed": "--x"} {
		kind := ""
		if path == "mixed" {
			kind = "multipart/x-mixed-replace; boundary=x"
		}
		w.put(path, body, "Content-Type", kind).want(201)
	}
	show := w.generation() + "/show/r/i%20n.html"
	r.call("GET", show, "").wantProblem(publish.ErrNotFound)
	w.publish(`{"final":false}`).want(200)
	path, got := r.follow(r.call("GET", show, ""))
	folder := strings.TrimSuffix(path, "r/i%20n.html")
	want := map[string]string{
		"Content-Type": "text/html; charset=utf-8", "X-Content-Type-Options": "nosniff", "Content-Disposition": "", "Referrer-Policy": "no-referrer",
		"Content-Security-Policy": "sandbox allow-scripts allow-popups allow-popups-to-escape-sandbox allow-downloads; default-src " + contentAt + folder +
			" data: blob: 'unsafe-inline' 'unsafe-eval'; object-src 'none'; base-uri " + contentAt + "; form-action 'none'",
		"Access-Control-Allow-Origin": "null", "Access-Control-Allow-Credentials": "", "Cross-Origin-Resource-Policy": "cross-origin", "Set-Cookie": "",
	}
	for name, value := range want {
		if got.header.Get(name) != value {
			t.Errorf("%s is %q, want %q", name, got.header.Get(name), value)
		}
	}
	for name := range got.header {
		if strings.HasPrefix(name, "Pawl-") {
			t.Errorf("it has %s", name)
		}
	}
	if got.want(200).body != page || !regexp.MustCompile(`^private, max-age=(8[5-9].|900)$`).MatchString(got.header.Get("Cache-Control")) {
		t.Errorf("it is %q with %v", got.body, got.header)
	}
	if got := r.at(contentHost, "GET", folder+"r/a.css?v=1&revision=9"); got.want(200).body != style || got.header.Get("Content-Type") != "text/css; charset=utf-8" {
		t.Errorf("its style is %q with %v", got.body, got.header)
	}
	if got := r.at(contentHost, "GET", folder+"r/a.css", "Range", "bytes=1-"); got.want(206).body != style[1:] {
		t.Errorf("a range is %q", got.body)
	}
	for _, saved := range []string{"a.pdf", "mixed"} {
		if got := r.at(contentHost, "GET", folder+saved).want(200); !strings.HasPrefix(got.header.Get("Content-Disposition"), "attachment") {
			t.Errorf("%s: %v", saved, got.header)
		}
	}
	// The address stays with its revision.
	w.put("r/a.css", "new").want(200)
	w.publish("").want(200)
	if got := r.at(contentHost, "GET", folder+"r/a.css"); got.want(200).body != style {
		t.Errorf("after another publish its style is %q", got.body)
	}
	path, _ = r.follow(r.call("GET", show, ""))
	if got := r.at(contentHost, "GET", strings.Replace(path, "i%20n.html", "a.css", 1)); got.want(200).body != "new" {
		t.Errorf("the newest style is %q", got.body)
	}
	path, _ = r.follow(r.call("GET", show+"?revision=1", ""))
	if got := r.at(contentHost, "GET", strings.Replace(path, "i%20n.html", "a.css", 1)); got.want(200).body != style {
		t.Errorf("the style of the first revision is %q", got.body)
	}
	r.call("GET", show+"?revision=3", "").wantProblem(publish.ErrNotFound)
	r.call("GET", show+".not", "").wantProblem(publish.ErrNotFound)
	preview := r.call("GET", "/k/"+w.key+"/-/generations/1?path=r/i%20n.html", "").want(200)
	if !strings.Contains(preview.body, `<a href="/pawl`+show+`" target="_blank" rel="noopener">Show</a>`) {
		t.Errorf("the page has no link: %s", preview.body)
	}
	if log := r.log.String(); strings.Contains(log, strings.Split(path, "/")[1]) {
		t.Error("an address that opens files is in the log")
	}
}

// Nothing but an address that was given out, and has not run out, opens anything; and under the name of the content origin nothing else is there.
func TestContentOriginRefuses(t *testing.T) {
	t.Parallel()
	r := newRig(t, web.Options{ContentOrigin: contentAt, ContentKey: contentKey, BasePath: "/pawl"})
	for _, key := range []string{"k", "k2", "a/b"} {
		w := r.grant(key)
		w.put("f.html", "canary").want(201)
		w.publish(`{"final":false}`).want(200)
		w.put("f.html", "canary 2").want(200)
		w.publish(`{"release":true}`).want(200)
		next := r.grant(key)
		next.put("f.html", "canary").want(201)
	}
	for range 2 {
		w := r.grant("two")
		w.put("f.html", "canary").want(201)
		w.publish(`{"release":true}`).want(200)
	}
	later := time.Now().Add(time.Hour).Unix()
	good := sealed(contentKey, "k", 1, 2, later, "f.html")
	for _, host := range []string{contentHost, "FILES.example.", contentHost + ":8443"} {
		if got := r.at(host, "GET", good).want(200); got.body != "canary 2" {
			t.Fatalf("%s: %s", host, got.body)
		}
	}
	over := r.at(contentHost, "GET", sealed(contentKey, "k", 1, 2, time.Now().Unix(), "f.html"))
	if over.want(410); !strings.Contains(over.body, "has run out") || !strings.HasPrefix(over.header.Get("Content-Type"), "text/plain") {
		t.Errorf("%q with %v", over.body, over.header)
	}
	seal, rest, _ := strings.Cut(good[2:], "/")
	parts := strings.Split(seal, ".")
	with := func(seal, rest string) string { return "/~" + seal + "/" + rest }
	bad := map[string]string{
		"another key of the server":    sealed([]byte("another key of thirty-two bytes or"), "k", 1, 2, later, "f.html"),
		"an earlier end":               with(parts[0]+"."+fmt.Sprint(later-1)+"."+parts[2], rest),
		"a later end":                  with(parts[0]+"."+fmt.Sprint(later+9999)+"."+parts[2], rest),
		"an end with a zero before it": with(parts[0]+".0"+parts[1]+"."+parts[2], rest),
		"a negative end":               with(parts[0]+".-1."+parts[2], rest),
		"another revision":             with("1."+parts[1]+"."+parts[2], rest),
		"revision 0":                   sealed(contentKey, "k", 1, 0, later, "f.html"),
		"no signature":                 with(parts[0]+"."+parts[1]+".", rest),
		"half a signature":             with(parts[0]+"."+parts[1]+"."+parts[2][:22], rest),
		"a longer signature":           with(seal+"AA", rest),
		"another last bit":             with(seal[:len(seal)-1]+string(seal[len(seal)-1]^1), rest),
		"two parts":                    with(parts[1]+"."+parts[2], rest),
		"four parts":                   with(seal+".1", rest),
		"another name":                 with(seal, strings.Replace(rest, "/k/", "/k2/", 1)),
		"another name, by dots":        with(seal, "v1/keys/k/-/generations/1/files/../../../../k2/-/generations/1/files/f.html"),
		"a published generation":       strings.Replace(sealed(contentKey, "two", 1, 1, later, "f.html"), "/1/", "/2/", 1),
		"another generation":           with(seal, strings.Replace(rest, "/1/", "/2/", 1)),
		"what isn't published":         sealed(contentKey, "k", 2, 1, later, "f.html"),
		"a file that isn't there":      sealed(contentKey, "k", 1, 2, later, "g.html"),
		"dots":                         sealed(contentKey, "k", 1, 2, later, "../files/f.html"),
		"escaped dots":                 sealed(contentKey, "k", 1, 2, later, "%2e%2e/files/f.html"),
		"a slash too much":             sealed(contentKey, "k", 1, 2, later, "/f.html"),
		"the folder":                   sealed(contentKey, "k", 1, 2, later, ""),
		"the list of files":            strings.TrimSuffix(sealed(contentKey, "k", 1, 2, later, ""), "/"),
		"the generation":               strings.TrimSuffix(sealed(contentKey, "k", 1, 2, later, ""), "/files/"),
		"a newline in the key":         sealed(contentKey, "k%0A1", 1, 2, later, "f.html"),
		"the base path":                "/pawl" + good,
		"nothing before it":            good[strings.Index(good, "/v1"):],
		"no path":                      with(seal, ""),
	}
	for what, target := range bad {
		got := r.at(contentHost, "GET", target)
		if got.status != 404 || strings.Contains(got.body, "canary") || !strings.HasPrefix(got.header.Get("Content-Type"), "text/plain") {
			t.Errorf("%s: %d %q %v", what, got.status, got.body, got.header)
		}
	}
	if got := r.at(contentHost, "PUT", good, "Content-Length", "0"); got.want(405).header.Get("Allow") != "GET, HEAD, OPTIONS" {
		t.Errorf("PUT: %v", got.header)
	}
	// No route of the server is there, and no address of files is on the server's own host.
	for _, name := range web.RouteNames() {
		method, pattern, _ := strings.Cut(name, " ")
		target := strings.NewReplacer("{key}", "k", "{token}", "1", "{path}", "f.html", "{upload}", "1", "{name}", "n", ":id", "1", ":code", "forbidden", ":file", "style.css", "/b/*", "/b/k/").Replace(pattern)
		got := r.at(contentHost, method, target, "Content-Length", "0", "Accept", "text/html")
		if got.status != 404 || got.body != "There is nothing here.\n" && method != "HEAD" || got.header.Get("Location") != "" {
			t.Errorf("%s: %d %q %v", name, got.status, got.body, got.header)
		}
	}
	for _, host := range []string{"localhost", "pawl.example", "x.files.example", "files.example.evil.example", "files.example:x", "files.example@evil.example"} {
		if got := r.at(host, "GET", good); got.status != 404 && got.status != 400 || strings.Contains(got.body, "canary") {
			t.Errorf("on %s: %d %s", host, got.status, got.body)
		}
	}
	// Whether the content origin is there or not, the others are served as ever.
	plain := r.at("pawl.example", "GET", "/v1/keys/k/-/generations/1/files/f.html").want(200)
	wantCase40(t, "on the pages' host", plain.header, asAttachment)
	if got := plain.header.Get("Access-Control-Allow-Origin"); got != "" {
		t.Errorf("the pages' host allows %s", got)
	}
}

// Without a content origin there are no links to it.
func TestNoContentOrigin(t *testing.T) {
	t.Parallel()
	r := newRig(t, web.Options{})
	w := r.grant("k")
	w.put("f.html", "x").want(201)
	w.publish("").want(200)
	if got := r.call("GET", w.generation()+"/show/f.html", "").wantProblem(publish.ErrNotFound); !strings.Contains(fmt.Sprint(got["detail"]), "PAWL_CONTENT_ORIGIN") {
		t.Errorf("it says %v", got)
	}
	if part := w.shown("f.html"); strings.Contains(part, "Show") {
		t.Errorf("the page has a link: %s", part)
	}
	r.at(contentHost, "GET", "/v1/keys").want(200)
}

func TestParseContentOrigin(t *testing.T) {
	t.Parallel()
	hosts := []string{"pawl.example", "192.0.2.7"}
	for text, want := range map[string]string{
		"": "", "https://files.example": "https://files.example", "HTTPS://Files.example:8443": "https://files.example:8443", "http://files.localhost:1": "http://files.localhost:1",
		"https://files.example/": "without a path", "https://files.example/x": "without a path", "files.example": "is no origin", "https://u@files.example": "is no origin",
		"ftp://files.example": "is no origin", "https://files.example?x": "is no origin", "https://f\u00efles.example": "is no origin", "https://files.example; script-src *": "is no origin",
		"https://files..example": "no host that", "https://localhost:9": "this machine's own", "http://127.1.2.3": "this machine's own", "http://[::1]:80": "this machine's own",
		"https://PAWL.example.:8443": "the host pawl.example of", "https://192.0.2.7": "the host 192.0.2.7 of",
	} {
		got, err := web.ParseContentOrigin(text, hosts)
		if err == nil && got != want || err != nil && !strings.Contains(err.Error(), want) || err != nil && got != "" {
			t.Errorf("%q: %q, %v", text, got, err)
		}
	}
	for _, opts := range []web.Options{
		{ContentOrigin: contentAt, ContentKey: contentKey[:31]}, {ContentOrigin: contentAt, ContentKey: contentKey, Hosts: []string{contentHost}},
	} {
		if _, err := web.New(&publish.Service{}, opts); err == nil {
			t.Errorf("%+v is taken", opts)
		}
	}
}
