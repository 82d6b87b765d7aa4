package web_test

import (
	"bytes"
	"html"
	"io"
	"mime/multipart"
	"net/http"
	"net/textproto"
	"strings"
	"testing"

	"github.com/pawlhq/pawl/publish"
	"github.com/pawlhq/pawl/web"
)

// uploadBody is a form with files as browsers send it. A name with "=" is a field and its value, another one a file and its content behind a colon.
func uploadBody(t *testing.T, parts ...string) (body, contentType string) {
	t.Helper()
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	for _, part := range parts {
		if name, content, isFile := strings.Cut(part, ":"); isFile {
			header := textproto.MIMEHeader{"Content-Disposition": {`form-data; name="file"; filename="` + name + `"`}, "Content-Type": {"application/octet-stream"}}
			p, err := w.CreatePart(header)
			if err == nil {
				_, err = io.WriteString(p, content)
			}
			if err != nil {
				t.Fatal(err)
			}
			continue
		}
		name, value, _ := strings.Cut(part, "=")
		if err := w.WriteField(name, value); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String(), w.FormDataContentType()
}

func (r *rig) upload(target string, parts ...string) answer {
	r.t.Helper()
	body, contentType := uploadBody(r.t, parts...)
	return r.call("POST", target, body, "Content-Type", contentType, "Accept", "text/html")
}

// Without a script the form does it all in one request: for a new key, for one that is there, for one file and for a set with its paths.
func TestUploadOnThePage(t *testing.T) {
	t.Parallel()
	r := newRig(t, web.Options{})
	if page := r.call("GET", "/upload", "").want(200); !strings.Contains(page.body, `enctype="multipart/form-data" action="/upload"`) || !strings.Contains(page.body, `name="key"`) {
		t.Errorf("the form is %s", page.body)
	}
	got := r.upload("/upload", "key=new/cafe\u0301", "by=mia", "primary=", "out.png:\x89PNG one").want(303)
	if to := got.header.Get("Location"); to != "/k/new/caf%C3%A9?done=uploaded" {
		t.Errorf("it leads to %s", to)
	}
	if page := r.call("GET", got.header.Get("Location"), "").want(200); !strings.Contains(page.body, "What you uploaded is current.") {
		t.Errorf("the page says %s", page.body)
	}
	pointer := r.call("GET", "/v1/keys/new/caf%C3%A9", "").want(200)
	for _, want := range []string{`"primary":"out.png"`, `"publisher":"page: mia"`, `"content_type":"image/png"`} {
		if !strings.Contains(pointer.body, want) {
			t.Errorf("%s is missing in %s", want, pointer.body)
		}
	}
	if lease := r.call("GET", "/v1/keys/new/caf%C3%A9/-/lease", "").want(200).json(); lease["held"] != false {
		t.Errorf("the lease is %v", lease)
	}
	const key = "/k/new/caf%C3%A9"
	r.upload(key+"/-/upload", "by=", "primary=site/index.html", "site/index.html:<p>", "site/a/b.css:p{}").want(303)
	files := r.call("GET", "/v1"+strings.Replace(key, "/k/", "/keys/", 1)+"/-/generations/2/files", "").want(200)
	if !strings.Contains(files.body, `"path":"site/a/b.css"`) || !strings.Contains(files.body, `"path":"site/index.html"`) {
		t.Errorf("the set is %s", files.body)
	}
}

func TestUploadOnThePageRefused(t *testing.T) {
	t.Parallel()
	r := newRig(t, web.Options{})
	r.published("k", "f", "one")
	refused := func(status int, want string, got answer) {
		t.Helper()
		got.want(status)
		alert := alertTag.FindStringSubmatch(got.body)
		if alert == nil || !strings.Contains(html.UnescapeString(alert[1]), want) {
			t.Errorf("the page says %q, want %q", alert, want)
		}
	}
	refused(400, "file: is missing; choose a file", r.upload("/k/k/-/upload", "by=mia", "primary=", ":"))
	refused(400, "path", r.upload("/k/k/-/upload", "../../evil:x"))
	refused(400, "key", r.upload("/upload", "key=", "f:x"))
	refused(400, "key", r.upload("/upload", "key=a//b", "f:x"))
	refused(400, "primary: is too long, stands twice, or behind a file", r.upload("/k/k/-/upload", "f:x", "primary=f"))
	refused(400, "by: is too long", r.upload("/k/k/-/upload", "by="+strings.Repeat("x", 5000), "f:x"))
	refused(400, "isn't known here", r.upload("/k/k/-/upload", "shape=round", "f:x"))
	refused(400, "by: has", r.upload("/k/k/-/upload", "by=a\u202eb", "f:x"))
	refused(409, `paths are missing, e.g. "none"`, r.upload("/k/k/-/upload", "primary=none", "f:x"))
	if page := r.upload("/k/k/-/upload", `by="><script>`, `primary=<b>`, "f:x").want(409); strings.Contains(page.body, "<script>\"") || strings.Contains(page.body, "<b>") {
		t.Errorf("the page has what was typed: %s", page.body)
	}
	if lease := r.call("GET", "/v1/keys/k/-/lease", "").want(200).json(); lease["held"] != false {
		t.Errorf("after refusals the lease is %v", lease)
	}
	refused(400, "key: is no field of this form", r.upload("/k/k/-/upload", "key=other", "f:x"))
	refused(400, `two files are named "f"`, r.upload("/k/k/-/upload", "f:x", "g:y", "f:z"))
	refused(400, "two files are named", r.upload("/k/k/-/upload", "caf\u00e9:x", "cafe\u0301:y"))
	counter := r.call("GET", "/v1/keys/k/-/lease", "").json()["token"]
	for _, parts := range [][]string{{"../evil:x"}, {"primary=../f", "f:x"}, {"shape=round", "f:x"}, {"by=a\u202eb", "f:x"}, {"key=k", "f:x"}} {
		r.upload("/k/k/-/upload", parts...).want(400)
	}
	if now := r.call("GET", "/v1/keys/k/-/lease", "").json()["token"]; now != counter {
		t.Errorf("what was refused has taken token %v after %v", now, counter)
	}
	held := r.grant("k")
	refused(423, `"test" holds the key under token`, r.upload("/k/k/-/upload", "f:x"))
	held.put("f", "x").want(201)
	r.call("POST", "/k/k/-/upload", "", "Content-Type", formType).wantProblem(publish.ErrInvalidRequest)
	body, contentType := uploadBody(t, "f:x")
	r.call("POST", "/k/k/-/upload", body, "Content-Type", contentType, "Sec-Fetch-Site", "cross-site").wantProblem(publish.ErrForbidden)
	if r.etag("k") != `"1.1"` {
		t.Errorf("%s is current", r.etag("k"))
	}
}

// A form that is cut off in a file publishes nothing, and gives the key back.
func TestUploadOnThePageCut(t *testing.T) {
	t.Parallel()
	r := newRig(t, web.Options{})
	r.published("k", "f", "one")
	body, contentType := uploadBody(t, "f:"+strings.Repeat("x", 10000))
	for _, cut := range []int{5000, len(body) - 10} {
		got := r.call("POST", "/k/k/-/upload", body[:cut], "Content-Type", contentType, "Accept", "text/html")
		if got.status != 400 {
			t.Errorf("cut at %d: %d %s", cut, got.status, got.body)
		}
		if lease := r.call("GET", "/v1/keys/k/-/lease", "").want(200).json(); lease["held"] != false {
			t.Errorf("cut at %d: the lease is %v", cut, lease)
		}
	}
	if r.etag("k") != `"1.1"` {
		t.Errorf("%s is current", r.etag("k"))
	}
}

// While an upload without a script is on its way, somebody breaks its lease and publishes: it is refused, and says by whom.
func TestUploadOnThePageFenced(t *testing.T) {
	t.Parallel()
	r := newRig(t, web.Options{})
	body, contentType := uploadBody(t, "f:"+strings.Repeat("x", 100_000))
	reading, writing := io.Pipe()
	req, err := http.NewRequestWithContext(t.Context(), "POST", r.server.URL+"/k/k/-/upload", reading)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", contentType)
	req.Header.Set("Accept", "text/html")
	go func() {
		_, _ = io.WriteString(writing, body[:50_000])
		for r.call("DELETE", "/v1/keys/k/-/lease?break=true&token=1&reason=r", "").status != 200 {
			continue // It isn't acquired yet.
		}
		newer := r.grant("k")
		newer.put("f", "newer").want(201)
		newer.publish("").want(200)
		_, _ = io.WriteString(writing, body[50_000:])
		_ = writing.Close()
	}()
	res, err := r.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	page, err := io.ReadAll(res.Body)
	alert := alertTag.FindStringSubmatch(string(page))
	if err != nil || res.StatusCode != 409 || alert == nil ||
		html.UnescapeString(alert[1]) != `Somebody newer, "test" with token 2, has published meanwhile; yours was refused, nothing was overwritten.` {
		t.Errorf("%d %v: the page says %q: %s", res.StatusCode, err, alert, page)
	}
	if r.etag("k") != `"2.1"` {
		t.Errorf("%s is current", r.etag("k"))
	}
}
