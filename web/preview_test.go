package web_test

import (
	"bytes"
	"context"
	"html"
	"image"
	"image/png"
	"io"
	"regexp"
	"strings"
	"testing"

	"github.com/pawlhq/pawl/internal/testenv"
	"github.com/pawlhq/pawl/publish"
	"github.com/pawlhq/pawl/publish/publishtest"
	"github.com/pawlhq/pawl/web"
)

// picture is a PNG of that size.
func picture(t *testing.T, width, height int) string {
	t.Helper()
	var b bytes.Buffer
	if err := png.Encode(&b, image.NewGray(image.Rect(0, 0, width, height))); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// shown gives the preview of a file's page.
func (w worker) shown(path string) string {
	w.t.Helper()
	page := w.call("GET", "/k/"+w.key+"/-/generations/"+jsonOf(w.token)+"?path="+path, "").want(200)
	part := regexp.MustCompile(`(?s)<section class="preview".*?</section>`).FindString(page.body)
	if part == "" {
		w.t.Fatalf("%s has no preview: %s", path, page.body)
	}
	return part
}

// TestPreview shows each kind of file in its way, on the page of its generation.
func TestPreview(t *testing.T) {
	t.Parallel()
	r := newRig(t, web.Options{})
	w := r.grant("k")
	const script = `<script>alert(1)</script>`
	type test struct {
		path, body, claimed string
		want, refuse        []string
	}
	tests := []test{
		{"a.png", picture(t, 30, 20), "", []string{`<img src="/v1/keys/k/-/generations/1/files/a.png"`, `width="30" height="20"`, "30 × 20 pixels"}, []string{"boxed"}},
		{"broken.png", script, "", []string{"<img", "boxed"}, []string{"width=", "<script>", "pixels"}},
		{"lie.jpg", picture(t, 30, 20), "", []string{"<img", "boxed"}, []string{"width="}},
		{"a.svg", "<svg xmlns='http://www.w3.org/2000/svg' onload='alert(1)'/>", "", []string{"<img", "boxed"}, []string{"onload"}},
		{"a.exr", "\x76\x2f\x31\x01\x00\x00", "", []string{"00000000  76 2f 31 01"}, []string{"<img"}},
		{"a.mp4", "x", "", []string{`<video class="media boxed" controls preload="metadata" src="/v1`}, nil},
		{"a.mp3", "x", "", []string{"<audio", "controls"}, nil},
		{"a.pdf", "%PDF-1.7", "", []string{`<iframe class="media boxed" src="/v1/keys/k/-/generations/1/files/a.pdf"`}, nil},
		{"wrong.pdf", script, "", []string{"it isn&#39;t a PDF", "00000000  3c 73 63 72"}, []string{"<script>", "iframe"}},
		{"a.m3u8", "#EXTM3U\nv0/000.ts\n", "", []string{`<source src="/v1/keys/k/-/generations/1/files/a.m3u8" type="application/vnd.apple.mpegurl">`, "<li>v0/000.ts</li>"}, nil},
		{"a.html", script, "", []string{"<li>&lt;script&gt;alert(1)&lt;/script&gt;</li>"}, []string{"<script>", "iframe"}},
		{"a.txt", "one\r\n\u202etwo\x1b[0m\x07\xff\n\nfour", "", []string{"<li>one</li>", "<li>⟨U&#43;202E⟩two␛[0m␇\ufffd</li>", "<li></li>", "<li>four</li>"}, []string{"\u202e", "\x1b"}},
		{"nul.txt", "a\x00b", "", []string{"doesn&#39;t hold text", "00000000  61 00 62"}, nil},
		{"plain", "just text", "", []string{"<li>just text</li>"}, nil},
		{"bytes", "\x00\x01\x02" + script, "", []string{"00000000  00 01 02 3c", "application/octet-stream"}, []string{"<script>"}},
		{"latin", "caf\xe9 " + strings.Repeat("x", 20), "", []string{"00000000  63 61 66 e9"}, nil},
		{"empty.txt", "", "", []string{"The file is empty"}, []string{"<ol"}},
		{"empty.png", "", "", []string{"The file is empty"}, []string{"<img"}},
		{"a.json", `{"b":[1,2.50],"b":"</script>"}`, "", []string{"<li>  &#34;b&#34;: [</li>", "<li>    2.50</li>", "&lt;/script&gt;"}, nil},
		{"broken.json", `{"b":`, "", []string{"<li>{&#34;b&#34;:</li>"}, nil},
		{"deep.json", strings.Repeat("[", 60_000) + strings.Repeat("]", 60_000), "", []string{"more bytes)"}, nil},
		{"escaped.json", `{"a\"[[[":"]]]\\"}`, "", []string{`  &#34;a\&#34;[[[&#34;: &#34;]]]\\&#34;`}, nil},
		{"a.csv", "\ufeffname,size\n\"<b>\",1\nragged\nq\"uote,2,3\n", "", []string{
			`<th scope="col"><bdi>name</bdi></th>`, "<td><bdi>&lt;b&gt;</bdi></td>", "<tr><td><bdi>ragged</bdi></td></tr>", "q&#34;uote",
		}, []string{"<b>", "\ufeff"}},
		{"german.csv", "name;size\na;1,5\n", "", []string{"<td><bdi>1,5</bdi></td>"}, nil},
		{"a.tsv", "name\tsize\na,b\t1\n", "", []string{"<td><bdi>a,b</bdi></td>"}, nil},
		{"open.csv", "a,b\n\"never closed,\x00\n" + strings.Repeat("x,\n", 9), "text/csv", []string{"00000000  61 2c"}, nil},
		{"unclosed.csv", "a,b\n\"never closed,\n" + strings.Repeat("x,\n", 400), "", []string{"more bytes)"}, nil},
		{"wide.csv", strings.Repeat("c,", 5000) + "\n", "", []string{"Of at most 5001 columns the first 50 are shown"}, nil},
		{"long.csv", strings.Repeat("1,2\n", 5000), "", []string{"The first 200 rows of a file of 19.5 KiB are shown"}, nil},
		{"huge.csv", strings.Repeat(strings.Repeat("x", 3000)+",2\n", 100), "", []string{"The first 87 rows of a file of 293.3 KiB are shown"}, nil},
		{"huge.txt", strings.Repeat("é", 200<<10), "", []string{"The first 256.0 KiB of 400.0 KiB are shown", "more bytes)"}, []string{"\ufffd"}},
		{"lines.txt", strings.Repeat("\n", 10_000), "", []string{"The first 5000 lines are shown"}, nil},
		{"huge.bin", strings.Repeat("\x00", 10_000), "", []string{"The first 4.0 KiB of 9.8 KiB are shown", "00000ff0"}, []string{"00001000"}},
	}
	for _, test := range tests {
		w.put(test.path, test.body, "Content-Type", test.claimed).want(201)
	}
	w.publish(`{"release":true}`).want(200)
	for _, test := range tests {
		part := w.shown(test.path)
		for _, want := range test.want {
			if !strings.Contains(part, want) {
				t.Errorf("%s: %q is missing in %.3000s", test.path, want, part)
			}
		}
		for _, refuse := range append(test.refuse, "ZgotmplZ", " style=", " onerror", "\x00") {
			if strings.Contains(part, refuse) {
				t.Errorf("%s: %q stands in %.3000s", test.path, refuse, part)
			}
		}
		if len(part) > 2<<20 {
			t.Errorf("%s: the preview has %d bytes", test.path, len(part))
		}
	}
}

// TestPreviewReadsTheHeadAlone: however large a file is, its page reads a bounded part of it.
func TestPreviewReadsTheHeadAlone(t *testing.T) {
	t.Parallel()
	store := &measuredBlobs{Blobs: publishtest.NewBlobs()}
	r := &rig{t: t, pointers: publishtest.NewPointers(), blobs: store.Blobs, log: &testenv.Buffer{}}
	r.start(store, web.Options{})
	body := strings.Repeat("x", 40<<20)
	for _, path := range []string{"a.txt", "a.csv", "a.json", "a.bin", "a.png", "a.mp4", "a.pdf"} {
		w := r.published("k-"+path, path, body)
		store.asked = 0
		w.shown(path)
		r.call("GET", "/k/k-"+path, "").want(200)
		if store.asked > 2*256<<10 {
			t.Errorf("%s: two pages have asked for %d bytes", path, store.asked)
		}
	}
}

// measuredBlobs adds up how many bytes were asked for.
type measuredBlobs struct {
	*publishtest.Blobs
	asked int64
}

func (m *measuredBlobs) Open(ctx context.Context, name publish.ObjectName, offset, length int64) (io.ReadCloser, error) {
	if length < 0 {
		length = 1 << 40
	}
	m.asked += length
	return m.Blobs.Open(ctx, name, offset, length)
}

// TestPreviewWithoutTheStore shows a page while the store is away.
func TestPreviewWithoutTheStore(t *testing.T) {
	t.Parallel()
	r := newRig(t, web.Options{})
	w := r.published("k", "a.txt", "text")
	r.blobs.Faults.Add(publishtest.Fault{Operation: "Open"})
	if part := w.shown("a.txt"); !strings.Contains(part, "can&#39;t be read just now") || !strings.Contains(part, `href="/v1/keys/k/-/generations/1/files/a.txt"`) {
		t.Errorf("shown is %s", part)
	}
	if !strings.Contains(r.log.String(), "preview_failed") {
		t.Error("the log doesn't tell why")
	}
	if part := w.shown("a.txt"); !strings.Contains(part, "<li>text</li>") {
		t.Errorf("afterwards: %s", part)
	}
}

// TestPreviewAddresses: what a page embeds is the version that it shows. A playlist's address has no revision.
func TestPreviewAddresses(t *testing.T) {
	t.Parallel()
	r := newRig(t, web.Options{BasePath: "/pawl"})
	w := r.grant("k")
	odd := `a"b <c>&d.png`
	w.put("a%22b%20%3Cc%3E%26d.png", picture(t, 2, 2)).want(201)
	w.put("live.m3u8", "#EXTM3U\n").want(201)
	w.publish(`{"final":false,"primary":` + jsonOf(odd) + `}`).want(200)
	w.put("live.m3u8", "#EXTM3U\nnew\n").want(200)
	w.publish(`{"final":false,"primary":` + jsonOf(odd) + `}`).want(200)
	address := "/pawl/v1/keys/k/-/generations/1/files/a%22b%20%3Cc%3E%26d.png?revision="
	for target, want := range map[string]string{
		"/k/k": address + "2", "/k/k/-/generations/1?revision=1&path=a%22b%20%3Cc%3E%26d.png": address + "1",
		"/k/k/-/generations/1?path=live.m3u8": "/pawl/v1/keys/k/-/generations/1/files/live.m3u8\"",
	} {
		page := r.call("GET", target, "").want(200)
		if !strings.Contains(page.body, `src="`+want) {
			t.Errorf("%s: %q is missing in %s", target, want, page.body)
		}
	}
	src := regexp.MustCompile(`<img src="([^"]*generations[^"]*)"`).FindStringSubmatch(r.call("GET", "/k/k", "").body)
	if got := r.call("GET", html.UnescapeString(src[1]), "").want(200); got.body != picture(t, 2, 2) {
		t.Errorf("%s gives %d bytes", src[1], len(got.body))
	}
}
