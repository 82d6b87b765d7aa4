package web_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/pawlhq/pawl/web"
)

// hidden and shown are the policies of files that are for saving, and of those that a browser may show.
const (
	hidden = "sandbox; default-src 'none'; frame-ancestors 'self'"
	shown  = "sandbox; default-src 'none'; img-src 'self'; media-src 'self'; style-src 'unsafe-inline'; frame-ancestors 'self'"
)

// What a browser may have of a file.
const (
	asAttachment = iota
	asShown
	asPDF
)

const (
	script  = "<script>alert(1)</script>"
	pngHead = "\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR"
)

// case40 are hostile files, and files that are as their types say: how they are served.
var case40 = []struct {
	path, claimed, body string
	as                  int
}{
	{"a.svg", "image/svg+xml", `<svg xmlns="http://www.w3.org/2000/svg" onload="alert(1)"/>`, asAttachment},
	{"c", "image/svg+xml", script, asAttachment},
	{"n", "IMAGE/SVG+XML", script, asAttachment},
	{"l", "image/svg", script, asAttachment},
	{"a.html", "text/html", script, asAttachment},
	{"b", "text/html; charset=utf-8", script, asAttachment},
	{"g \u00e9.html", "image/png", script, asAttachment},
	{"a.xml", "application/xml", `<?xml version="1.0"?><?xml-stylesheet type="text/xsl" href="f"?><r/>`, asAttachment},
	{"d", "application/xhtml+xml", script, asAttachment},
	{"e", "", script, asAttachment},
	{"f", "text/xsl", script, asAttachment},
	{"a.js", "text/javascript", script, asAttachment},
	{"h", "multipart/x-mixed-replace; boundary=x", script, asAttachment},
	{"j", "image/x+xml", script, asAttachment},
	{"k", "video/mp4+xml", script, asAttachment},
	{"m", "audio/x-foo", script, asAttachment},
	{"o", "text/xml", script, asAttachment},
	{"p", "application/rdf+xml", script, asAttachment},
	{"q", "text/plain2", script, asAttachment},
	// The type is inert, but not what the file begins with.
	{"html.png", "text/html", script, asAttachment},
	{"i", "image/png", script, asAttachment},
	{"text.gif", "", "GIF, but not one", asAttachment},
	{"html.mp4", "", script, asAttachment},
	{"html.mp3", "", script, asAttachment},
	{"html.pdf", "", " " + script, asAttachment},
	{"html.json", "", " \n" + script, asAttachment},
	{"html.txt", "", "\ufeff<!DOCTYPE html>" + script, asAttachment},
	{"xml.txt", "", `<?xml version="1.0"?><r/>`, asAttachment},
	{"binary.txt", "", "MZ\x00\x01\x02", asAttachment},
	{"riff.webp", "", "RIFF\x00\x00\x00\x00WAVE", asAttachment},
	{"gif.png", "", "GIF89a/*" + script, asAttachment},
	{"short.png", "", "\x89PN", asAttachment},
	// These are what they say, whatever else they hold.
	{"polyglot.png", "text/html", pngHead + strings.Repeat("\x00", 1000) + script, asShown},
	{"a.gif", "", "GIF89a/*" + script, asShown},
	{"a.jpg", "", "\xff\xd8\xff\xe0", asShown},
	{"a.webp", "", "RIFF\x00\x00\x00\x00WEBPVP8 ", asShown},
	{"a.avif", "image/avif", "\x00\x00\x00\x1cftypavif", asShown},
	{"a.exr", "image/x-exr", "\x76\x2f\x31\x01\x02\x00\x00\x00", asShown},
	{"a.mp4", "", "\x00\x00\x00\x20ftypisom", asShown},
	{"a.m4s", "video/iso.segment", "\x00\x00\x00\x18styp", asShown},
	{"a.ts", "video/mp2t", "G\x40\x11\x10", asShown},
	{"a.webm", "", "\x1a\x45\xdf\xa3", asShown},
	{"a.mp3", "", "\xff\xfb\x90", asShown},
	{"id3.mp3", "", "ID3\x03", asShown},
	{"a.wav", "", "RIFF\x00\x00\x00\x00WAVEfmt ", asShown},
	{"a.txt", "text/html", "a text", asShown},
	{"a.json", "", `{"a": "<script>"}`, asShown},
	{"empty.png", "", "", asShown},
	{"a.pdf", "", "%PDF-1.7", asPDF},
}

// wantCase40 checks the headers of an answer that has a file.
func wantCase40(t *testing.T, what string, header http.Header, as int) {
	t.Helper()
	policy := []string{hidden, shown, "frame-ancestors 'self'"}[as]
	saved := strings.HasPrefix(header.Get("Content-Disposition"), "attachment; filename")
	if header.Get("Content-Security-Policy") != policy || saved != (as == asAttachment) ||
		header.Get("X-Content-Type-Options") != "nosniff" || header.Get("Cross-Origin-Resource-Policy") != "same-origin" || header.Get("Set-Cookie") != "" {
		t.Errorf("%s: %v", what, header)
	}
}

// TestCase40 serves what may hold script on every route that gives out files: never shown in the page's origin.
func TestCase40(t *testing.T) {
	t.Parallel()
	r := newRig(t, web.Options{})
	w := r.grant("k")
	for _, file := range case40 {
		w.put(url.PathEscape(file.path), file.body, "Content-Type", file.claimed).want(201)
		wantCase40(t, file.path+" for its publisher", r.call("GET", w.generation()+"/files/"+url.PathEscape(file.path), "", "Pawl-Lease", w.lease).want(200).header, file.as)
	}
	w.publish("").want(200)
	for _, suffix := range []string{".zip", ".tar"} {
		wantCase40(t, suffix, r.call("GET", w.generation()+suffix, "").want(200).header, asAttachment)
	}
	for _, file := range case40 {
		escaped := url.PathEscape(file.path)
		target := r.call("GET", "/v1/keys/k/-/current/"+escaped, "").want(307).header.Get("Location")
		for _, address := range []string{target, target + "?revision=1"} {
			got := r.call("GET", address, "").want(200)
			wantCase40(t, file.path, got.header, file.as)
			if got.body != file.body {
				t.Errorf("%s is %q", file.path, got.body)
			}
		}
		if len(file.body) > 0 {
			wantCase40(t, file.path+" as a range", r.call("GET", target, "", "Range", "bytes=0-").want(206).header, file.as)
		}
		for _, page := range []string{"/-/generations/1?path=", "/-/compare?a=1.1&b=1.1&path="} {
			got := r.call("GET", "/k/k"+page+url.QueryEscape(file.path), "").want(200)
			if strings.Contains(got.body, script) || !strings.HasPrefix(got.header.Get("Content-Security-Policy"), "default-src 'none'") || got.header.Get("X-Content-Type-Options") != "nosniff" {
				t.Errorf("%s%s: %v\n%s", page, file.path, got.header, got.body)
			}
			if file.as != asPDF && strings.Contains(got.body, "<iframe") {
				t.Errorf("%s%s: the page opens it in a frame", page, file.path)
			}
		}
	}
}

// Readers who are sent to the store get the same from there, as far as a store can say it.
func TestCase40FromTheStore(t *testing.T) {
	t.Parallel()
	r := newRig(t, web.Options{})
	store := &signer{}
	r.service.Reads = store
	w := r.grant("k")
	for _, file := range case40 {
		w.put(url.PathEscape(file.path), file.body, "Content-Type", file.claimed).want(201)
	}
	w.publish("").want(200)
	for _, file := range case40 {
		target := w.generation() + "/files/" + url.PathEscape(file.path)
		for _, dest := range []string{"document", "iframe", "embed", "object"} {
			got := r.call("GET", target, "", "Sec-Fetch-Dest", dest).want(307)
			if saved := strings.HasPrefix(store.last.ContentDisposition, "attachment; filename"); saved != (file.as == asAttachment) || store.last.ContentType == "" {
				t.Errorf("%s as a %s is signed with %+v", file.path, dest, store.last)
			}
			if inert := got.header.Get("Vary") == "Sec-Fetch-Dest"; !inert && file.as != asAttachment {
				t.Errorf("%s: a cache may take the answer for another one: %v", file.path, got.header)
			}
		}
		opened := r.blobs.Faults.Calls("Open")
		r.call("GET", target, "", "Sec-Fetch-Dest", "image").want(307)
		r.call("GET", target, "").want(307)
		if r.blobs.Faults.Calls("Open") != opened {
			t.Errorf("%s: the store was asked for bytes that nobody opens", file.path)
		}
	}
}

// The name under which a file is saved can't be read as another header, another parameter or another name.
func TestAttachmentNames(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"a.html":                    `attachment; filename=a.html`,
		"a b.html":                  `attachment; filename="a b.html"; filename*=UTF-8''a%20b.html`,
		`a"; x="b.html`:             `attachment; filename="a_; x=_b.html"; filename*=UTF-8''a%22%3B%20x%3D%22b.html`,
		"100%41.html":               `attachment; filename="100_41.html"; filename*=UTF-8''100%2541.html`,
		"caf\u00e9.html":            `attachment; filename="caf_.html"; filename*=UTF-8''caf%C3%A9.html`,
		"\U0001f4a9.html":           `attachment; filename="_.html"; filename*=UTF-8''%F0%9F%92%A9.html`,
		"a\r\nSet-Cookie: b=c.html": `attachment; filename="a__Set-Cookie: b=c.html"; filename*=UTF-8''a__Set-Cookie%3A%20b%3Dc.html`,
		"exe.\u202egpj.html":        `attachment; filename=exe._gpj.html`,
		"a\u2066b\u2069.html":       `attachment; filename=a_b_.html`,
		`..\b.html`:                 `attachment; filename=.._b.html`,
		"a\x00b":                    `attachment; filename=a_b`,
		"\u0430.html":               `attachment; filename="_.html"; filename*=UTF-8''%D0%B0.html`,
	} {
		if got := web.Attachment(name); got != want {
			t.Errorf("%q: %s\nwant %s", name, got, want)
		}
	}
	r := newRig(t, web.Options{})
	w := r.published("k", "d/caf%C3%A9%20%22.html", "x")
	if got := r.call("GET", w.generation()+"/files/d/caf%C3%A9%20%22.html", "").want(200).header.Get("Content-Disposition"); got != `attachment; filename="caf_ _.html"; filename*=UTF-8''caf%C3%A9%20%22.html` {
		t.Errorf("the file is saved by %s", got)
	}
}
