package web_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/pawlhq/pawl/publish"
	"github.com/pawlhq/pawl/web"
)

// oddNames are legal and must come back byte for byte (case 33).
var oddNames = []string{
	"a+b.png", "a b.png", "a%2Bb.png", "100%.png", "q?x=1#y.png", "semi;colon&amp.png", "\U0001f600/\u00e9.png",
	"a\"b'<c>.png", "...", "~a", "-a", "%", "%zz", "a=b,c", "\u200d", "[1001-1100].exr", "a:b@c", "C:x",
}

// TestCase33 sends odd names as key and as path and follows every URL that comes back.
func TestCase33(t *testing.T) {
	t.Parallel()
	r := newRig(t, web.Options{})
	for i, name := range oddNames {
		body := fmt.Sprint("bytes ", i)
		escaped := strings.ReplaceAll(url.PathEscape(name), "%2F", "/")
		w := r.grant("odd/" + escaped)
		put := w.put(escaped, body).want(201)
		if members := put.json(); members["key"] != "odd/"+name || members["path"] != name {
			t.Fatalf("%q came back as %s", name, put.body)
		}
		w.publish("").want(200)
		for what, target := range map[string]string{
			"the URL of an upload": put.json()["url"].(string),
			"its Location":         put.header.Get("Location"),
			"the pointer's URL":    r.call("GET", "/v1/keys/odd/"+escaped, "").want(200).json()["url"].(string),
			"the redirect":         r.call("GET", "/v1/keys/odd/"+escaped+"/-/current", "").want(307).header.Get("Location"),
			"the redirect by path": r.call("GET", "/v1/keys/odd/"+escaped+"/-/current/"+escaped, "").want(307).header.Get("Location"),
			"the list of files":    r.call("GET", w.generation()+"/files", "").want(200).json()["files"].([]any)[0].(map[string]any)["url"].(string),
		} {
			if got := r.call("GET", target, ""); got.status != 200 || got.body != body {
				t.Errorf("%s of %q is %s, which gives %d %q", what, name, target, got.status, got.body)
			}
		}
	}
	list := r.call("GET", "/v1/keys?prefix=odd/&limit=1000", "").want(200).json()["keys"].([]any)
	seen := map[string]bool{}
	for _, entry := range list {
		seen[entry.(map[string]any)["key"].(string)] = true
	}
	for _, name := range oddNames {
		if !seen["odd/"+name] {
			t.Errorf("%q isn't in the list", name)
		}
		// A prefix in a query carries any name too.
		found := r.call("GET", "/v1/keys?prefix="+url.QueryEscape("odd/"+name), "").want(200).json()["keys"].([]any)
		if len(found) == 0 {
			t.Errorf("the prefix %q finds nothing", name)
		}
	}
}

// TestKeySpellings shows that an escaped slash is a slash in a key, and that it can't end a key.
func TestKeySpellings(t *testing.T) {
	t.Parallel()
	r := newRig(t, web.Options{})
	r.published("a/b", "c/d", "x")
	for _, target := range []string{
		"/v1/keys/a/b", "/v1/keys/a%2Fb", "/v1/keys/a%2fb", "/v1/keys/%61/b", "/v1/keys/a%2Fb/-/generations/1/files/c%2Fd",
		"/v1/keys/a/b/-/generations/1/files/%63/d",
	} {
		r.call("GET", target, "").want(200)
	}
	// "-" is legal in a path; the first literal "/-/" ends the key.
	w := r.grant("dash")
	w.put("x/-/lease", "y").want(201)
	w.publish("").want(200)
	if got := r.call("GET", "/v1/keys/dash/-/generations/1/files/x/-/lease", "").want(200); got.body != "y" {
		t.Errorf("got %q", got.body)
	}
}

// refusedNames are refused wherever they stand (cases 32, 34 and 35), given percent-encoded.
var refusedNames = map[string]string{
	"NFD (case 32)": "cafe%CC%81.png", "NFD in a folder": "cafe%CC%81/x", "relative": "a/../b", "encoded dots": "%2e%2e", "encoded dots below": "a/%2e%2e/b",
	"one dot": "./a", "encoded one dot": "a/%2E", "dots and an encoded slash": "..%2fa", "doubled slash": "a//b", "leading slash": "/a", "encoded leading slash": "%2Fa",
	"trailing slash": "a/", "backslash": "a%5C..%5Cb", "dots encoded twice": "%252e%252e", "dots encoded twice below": "a/%252E%252E/b", "one dot encoded twice": "a/%252e",
	"slash encoded twice": "..%252fa", "slash encoded twice inside": "a%252Fb", "backslash encoded twice": "a%255cb", "broken part beside it": "%25zz%252f",
	"NUL": "a%00b", "newline": "a%0Ab", "carriage return": "a%0Db", "tab": "a%09b", "DEL": "a%7Fb", "C1": "a%C2%85b", "bidi override": "a%E2%80%AEb", "isolate": "a%E2%81%A6b", "Arabic mark": "a%D8%9Cb", "left-to-right mark": "a%E2%80%8Eb", "right-to-left mark": "a%E2%80%8Fb",
	"U+FFFD": "a%EF%BF%BDb", "surrogate": "a%ED%A0%80b", "overlong slash": "a%C0%AFb", "overlong dot": "%C0%AE%C0%AE", "overlong NUL": "a%C0%80b", "half a rune": "a%E2%82", "not UTF-8": "a%FFb",
	"line separator": "a%E2%80%A8b", "long segment": strings.Repeat("a", 201), "long name": strings.Repeat("a/", 200) + "a",
}

// TestCases32To35 sends refused names as key and as path on every route by every method, with a body that must not be asked for.
func TestCases32To35(t *testing.T) {
	t.Parallel()
	r := newRig(t, web.Options{})
	r.published("k", "f", "x")
	calls := func() int {
		n := 0
		for _, operation := range []string{"Acquire", "Renew", "Release", "Lease", "BeginUpload", "DeleteFile", "Publish", "File", "Files", "Generation", "History", "Pointer", "CurrentFile"} {
			n += r.pointers.Faults.Calls(operation)
		}
		return n
	}
	before := calls()
	for what, name := range refusedNames {
		var ofKey, ofPath string
		const noSuchMethod = "BREW /v1/keys/{key}/-/generations/{token}/files/{path}"
		for _, route := range append(web.RouteNames(), noSuchMethod, "BREW /v1/keys/{key}", "GET /v1/keys/{key}/-/nothing") {
			method, pattern, _ := strings.Cut(route, " ")
			if strings.Contains(pattern, "{key}") {
				target := strings.NewReplacer("{key}", name, "{token}", "1", "{path}", "f").Replace(pattern)
				ofKey = sameRefusal(t, ofKey, r.head(method, target), publish.ErrInvalidKey, what+": "+method+" "+target)
			}
			if strings.Contains(pattern, "{path}") {
				target := strings.NewReplacer("{key}", "k", "{token}", "1", "{path}", name).Replace(pattern)
				ofPath = sameRefusal(t, ofPath, r.head(method, target), publish.ErrInvalidPath, what+": "+method+" "+target)
			}
		}
	}
	for _, dash := range []string{"%2D", "a/%2D/b", "-", "a/-", "a%2F-%2Fb", "a/%2D/lease", "%252D", "a/%252d/b"} {
		sameRefusal(t, "", r.head("GET", "/v1/keys/"+dash), publish.ErrInvalidKey, "GET of the key "+dash)
	}
	for _, key := range []string{"a/-", "a/%2D", "a%2F-", "a/-/-"} {
		ofKey := ""
		for _, route := range web.RouteNames() {
			if method, pattern, _ := strings.Cut(route, " "); strings.Contains(pattern, "{key}") {
				target := strings.NewReplacer("{key}", key, "{token}", "1", "{path}", "f").Replace(pattern)
				ofKey = sameRefusal(t, ofKey, r.head(method, target), publish.ErrInvalidKey, method+" "+target)
			}
		}
	}
	for _, none := range []string{"/v1/keys/", "/v1/keys/-/lease", "/v1/keys//-/lease"} {
		sameRefusal(t, "", r.head("GET", none), publish.ErrInvalidKey, "GET "+none)
	}
	// Bytes that should have been escaped make net/url forget how the rest was escaped.
	sameRefusal(t, "", r.head("GET", "/v1/keys/a%2F-%2F\u00e9"), publish.ErrInvalidKey, "a raw byte beside an escaped dash segment")
	if after := calls(); after != before {
		t.Errorf("refused names were looked up: %d calls of the store", after-before)
	}
	if got := r.head("GET", "/v1/keys/cafe%CC%81"); !strings.Contains(got.body, "is not in NFC; normalise it, e.g. to caf%C3%A9") {
		t.Errorf("the hint is missing: %s", got.body)
	}
}

// beginnings are the refused names that are the beginning of a legal key, as a prefix may be.
var beginnings = map[string]bool{"trailing slash": true, "encoded dots": true, "encoded one dot": true, "one dot encoded twice": true, "dots encoded twice": true}

// TestNamesElsewhere sends refused names in JSON and in queries.
func TestNamesElsewhere(t *testing.T) {
	t.Parallel()
	r := newRig(t, web.Options{})
	w := r.grant("k")
	w.put("f", "x").want(201)
	for what, name := range refusedNames {
		text, err := url.PathUnescape(name)
		if err != nil {
			t.Fatal(err)
		}
		got := w.publish(`{"primary":` + jsonOf(text) + `}`)
		if got.status != 400 || !strings.Contains(got.body, `"pointer":"/primary"`) {
			t.Errorf("%s as primary: %d %s", what, got.status, got.body)
		}
		got = w.publish(`{"expect":["a","f.[1-2]",` + jsonOf(strings.ReplaceAll(text, "[", "[[]")) + `]}`)
		if got.status != 400 || !strings.Contains(got.body, `"pointer":"/expect/2"`) {
			t.Errorf("%s as expected path: %d %s", what, got.status, got.body)
		}
		for _, target := range []string{w.generation() + "/files?after=", "/v1/keys?prefix=x/", "/v1/keys?after=", "/?prefix=x/"} {
			if !strings.Contains(target, "/files") && beginnings[what] {
				continue
			}
			if got := r.call("GET", target+url.QueryEscape(text), ""); got.status != 400 {
				t.Errorf("%s: GET %s%s gave %d %s", what, target, url.QueryEscape(text), got.status, got.body)
			}
		}
	}
	w.publish(`{"primary":"a\ud800b"}`).wantProblem(publish.ErrInvalidPath)
	w.publish(`{"expect":["a","a\ud800b"]}`).wantProblem(publish.ErrInvalidPath)
	w.publish(`{"expect":["a%[2-2]f"]}`).wantProblem(publish.ErrInvalidPath) // only what it names is encoded twice
	if n := r.pointers.Faults.Calls("Publish"); n != 0 {
		t.Errorf("%d of the refused requests reached the store", n)
	}
	w.publish(`{"primary":"nothing"}`) // a legal name that no file has is the store's business
}

// sameRefusal checks one answer and that it is the same as those before.
func sameRefusal(t *testing.T, before string, got answer, code publish.Code, what string) string {
	t.Helper()
	if got.status != http.StatusBadRequest || got.header.Get("X-Continued") != "" {
		t.Errorf("%s: status %d (asked for the body: %q): %s", what, got.status, got.header.Get("X-Continued"), got.body)
		return before
	}
	if got.body == "" { // HEAD
		return before
	}
	members := got.wantProblem(code)
	detail := fmt.Sprint(members["detail"], members["errors"])
	if before != "" && detail != before {
		t.Errorf("%s: %s, elsewhere %s", what, detail, before)
	}
	return detail
}

// head sends the head of a request as it stands, over a connection of its own, promising a body and waiting for leave to
// send it. X-Continued in the answer tells that the server asked for the body.
func (r *rig) head(method, target string) answer {
	r.t.Helper()
	conn, err := net.Dial("tcp", r.server.Listener.Addr().String())
	if err != nil {
		r.t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	body := ""
	if method != http.MethodGet && method != http.MethodHead {
		body = "Content-Length: 1000000\r\nExpect: 100-continue\r\nPawl-Lease: 0123456789abcdef0123456789abcdef\r\n"
	}
	if _, err := fmt.Fprintf(conn, "%s %s HTTP/1.1\r\nHost: pawl\r\n%s\r\n", method, target, body); err != nil {
		r.t.Fatal(err)
	}
	reader, continued := bufio.NewReader(conn), ""
	res, err := http.ReadResponse(reader, &http.Request{Method: method})
	if err == nil && res.StatusCode == http.StatusContinue {
		continued = "yes"
		return answer{t: r.t, status: 100, header: http.Header{"X-Continued": {continued}}}
	}
	if err != nil {
		r.t.Fatalf("%s %s: %v", method, target, err)
	}
	text, err := io.ReadAll(res.Body)
	if err != nil {
		r.t.Fatalf("%s %s: %v", method, target, err)
	}
	return answer{t: r.t, status: res.StatusCode, header: res.Header, body: string(text)}
}
