package web_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/pawlhq/pawl/publish"
	"github.com/pawlhq/pawl/web"
)

// TestComparePage compares versions of one file, by the default and as the form asks.
func TestComparePage(t *testing.T) {
	t.Parallel()
	r := newRig(t, web.Options{})
	text := func(body, metadata string) {
		t.Helper()
		w := r.grant("k")
		w.put("a.txt", body).want(201)
		w.publish(`{"primary":"a.txt","release":true,"metadata":{"scene":` + metadata + `,"same":"x"}}`).want(200)
	}
	const page = "/k/k/-/compare"
	r.call("GET", page, "").wantProblem(publish.ErrNotFound)
	r.grant("none")
	r.call("GET", "/k/none/-/compare", "").want(200).contains("no two published versions to compare yet")
	text("one\ntwo\nthree\n", `"7"`)
	r.call("GET", page, "").want(200).contains("no two published versions to compare yet", `value="1.1"`)
	text("one\n<script>2</script>\nthree\n", `"<8>"`)
	text("one\n<script>2</script>\nthree\n", `"9"`)

	r.call("GET", page+"?a=1.1&b=2.1", "").want(200).contains("<del>-two</del>", "<ins>+&lt;script&gt;2&lt;/script&gt;</ins>", "<span> one</span>",
		`<th scope="row"><bdi>scene</bdi></th><td class="key"><bdi>7</bdi></td><td class="key"><bdi>&lt;8&gt;</bdi></td>`, "0 added, 0 removed, 1 changed, 0 unchanged").
		omits("<script>2", "<bdi>same</bdi>").
		followed(r, "Swap").contains("<ins>+two</ins>", "<del>-&lt;script&gt;2&lt;/script&gt;</del>")
	r.call("GET", page, "").want(200).contains("2.1 and 3.1 of", "The bytes are the same", "<bdi>scene</bdi>", "1 unchanged", ">current</span>").omits("<ins>", `class="pair"`)
	r.call("GET", page+"?a=1.1", "").want(200).contains("1.1 and 3.1 of")
	r.call("GET", page+"?b=2.1", "").want(200).contains("1.1 and 2.1 of")
	r.call("GET", page+"?a=3.1&b=3.1", "").want(200).contains("The publishes say the same")
	r.call("GET", page+"?a=1.1&b=2.1&path=a.txt", "").want(200).contains("<del>-two</del>").omits("0 added").followed(r, "All files").contains("0 added")
	for target, code := range map[string]publish.Code{
		"?a=1": publish.ErrInvalidRequest, "?a=1.1&b=x": publish.ErrInvalidRequest, "?a=1.2": publish.ErrNotFound, "?a=9.1": publish.ErrNotFound,
		"?path=..": publish.ErrInvalidPath, "?a=1.1&b=2.1&path=none": publish.ErrNotFound, "?c=1": publish.ErrInvalidRequest,
	} {
		if members := r.call("GET", page+target, "").wantProblem(code); code == publish.ErrInvalidRequest && target == "?a=1" && !strings.Contains(fmt.Sprint(members["errors"]), "a") {
			t.Errorf("%s: %v", target, members)
		}
	}
	r.call("PUT", "/v1/policies?prefix=k", `{"keep_generations":1}`, "Pawl-By", "mia").want(200)
	r.collected()
	gone := r.call("GET", page+"?a=1.1", "", "Accept", "text/html").want(410)
	if !strings.Contains(gone.header.Get("Content-Type"), "text/html") {
		t.Errorf("a version that was given up: %v", gone.header)
	}
}

// TestCompareFiles compares files of all kinds.
func TestCompareFiles(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		path, a, b   string
		want, refuse []string
	}{
		"pictures": {"a.png", picture(t, 4, 4), picture(t, 8, 4), []string{
			`class="pair"`, `src="/v1/keys/k/-/generations/1/files/a.png"`, `src="/v1/keys/k/-/generations/2/files/a.png"`, `value="difference"`, "<label hidden>", "4 × 4", "/static/compare.js",
		}, []string{"<ins>"}},
		"videos":         {"a.mp4", "one", "three", []string{"<td class=\"key\"><bdi>3</bdi></td><td class=\"key\"><bdi>5</bdi></td>"}, []string{"<video", "<ins>", "compare.js"}},
		"bytes":          {"a.bin", "a\x00", "b\x00", []string{"aren&#39;t text"}, []string{"<ins>"}},
		"unknown text":   {"a", "one\n", "two\n", []string{"<ins>+two</ins>"}, nil},
		"empty and text": {"a.txt", "", "two\n", []string{"<ins>+two</ins>"}, nil},
		"no line end":    {"a.txt", "one", "one\n", []string{"No newline at end of file"}, nil},
		"json":           {"a.json", `{"a":1,"b":2}`, `{"a":1,"b":3}`, []string{"<ins>+  &#34;b&#34;: 3</ins>", "<span>   &#34;a&#34;: 1,</span>"}, nil},
		"same json":      {"a.json", `{"a":1}`, `{ "a": 1 }`, []string{"the same JSON"}, []string{"<ins>"}},
		"long lines":     {"a.txt", strings.Repeat("x", 1<<20), strings.Repeat("y", 1<<20), []string{"more bytes)</ins>"}, nil},
		"too large":      {"a.txt", strings.Repeat("x", 1<<20+1), "y", []string{"aren&#39;t compared by lines"}, []string{"<ins>"}},
		"controls":       {"a.txt", "a\x1b[2J\u202e\n", "b\n", []string{"<del>-a␛[2J⟨U&#43;202E⟩</del>"}, []string{"\x1b", "\u202e"}},
		"svg":            {"a.svg", "<svg onload='alert(1)'/>", "<svg/>", []string{`class="pair"`}, []string{"onload"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, web.Options{})
			r.published("k", test.path, test.a)
			r.published("k", test.path, test.b)
			r.call("GET", "/k/k/-/compare", "").want(200).contains(test.want...).omits(append(test.refuse, " style=", "ZgotmplZ")...)
		})
	}
}

// Line diffs are made one at a time, so that many readers leave the processor to workers; whoever leaves waits no longer.
func TestComparisonsTakeTurns(t *testing.T) {
	t.Parallel()
	r := newRig(t, web.Options{})
	r.published("k", "a.txt", "one")
	r.published("k", "a.txt", "two")
	release := r.handler.HoldComparisons()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.server.URL+"/k/k/-/compare", nil)
	if err != nil {
		t.Fatal(err)
	}
	if res, err := r.client.Do(req); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("beside another one: %v, %v, want no answer", res, err)
	}
	release()
	r.call("GET", "/k/k/-/compare", "").want(200).contains("<ins>")
}

// TestCompareSets compares sets of files by their digests.
func TestCompareSets(t *testing.T) {
	t.Parallel()
	r := newRig(t, web.Options{})
	set := func(files map[string]string) {
		w := r.grant("k")
		for path, body := range files {
			w.put(path, body, "Content-Type", body).want(201)
		}
		w.publish(`{"release":true}`).want(200)
	}
	set(map[string]string{"a": "1", "b": "1", "c/d": "1", "e": "text/plain"})
	set(map[string]string{"a": "1", "c/d": "2", "d": "<1>", "f": "1"})
	r.call("GET", "/k/k/-/compare", "").want(200).contains("2 added, 2 removed, 1 changed, 1 unchanged", `compare?a=1.1&amp;b=2.1&amp;path=c%2Fd"`, "<bdi>c/<wbr>d</bdi>")
}

// TestCompareLargeSets compares 20,000 files with 20,000 others: the page is bounded, the counts are whole, and it takes neither long nor much.
func TestCompareLargeSets(t *testing.T) {
	r := newRig(t, web.Options{})
	const files = 20_000
	r.published("k", "f", "one")
	r.published("k", "f", "two")
	r.service.Pointers = largeSets{PointerStore: r.pointers, files: files}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	begun := time.Now()
	page := r.call("GET", "/k/k/-/compare", "").want(200).contains("10,000 added, 10,000 removed, 10,000 changed, 0 unchanged", "The first 1000 are shown")
	took := time.Since(begun)
	runtime.ReadMemStats(&after)
	t.Logf("%d files a side took %s and %d MiB of allocations; the page has %d KiB", files, took.Round(time.Millisecond), (after.TotalAlloc-before.TotalAlloc)>>20, len(page.body)>>10)
	if rows := strings.Count(page.body, `<th scope="row" class="key"`); rows != 1000 {
		t.Errorf("%d rows are shown", rows)
	}
	if took > time.Minute/2 {
		t.Errorf("it took %s", took)
	}
}

// TestDiffIsQuick gives the comparison by lines texts that make others slow, of as many lines as it takes.
func TestDiffIsQuick(t *testing.T) {
	source := rand.New(rand.NewPCG(1, 2))
	const lines = 50_000
	text := func(line func(i int) string) string {
		var b strings.Builder
		for i := range lines {
			b.WriteString(line(i) + "\n")
		}
		return b.String()
	}
	letters := func(alphabet int) string {
		return text(func(int) string { return string(rune('a' + source.IntN(alphabet))) })
	}
	numbered := func(step int) string {
		return text(func(i int) string { return fmt.Sprintf("%016d", i*step%1_000_003) })
	}
	r := newRig(t, web.Options{})
	for name, pair := range map[string][2]string{
		"one letter a line": {letters(20), letters(20)}, "two letters": {letters(2), letters(2)}, "empty lines": {strings.Repeat("\n", lines), strings.Repeat("\n", lines-1)},
		"all lines moved": {numbered(1), numbered(7919)}, "the other way round": {numbered(1), numbered(1_000_002)},
	} {
		key := strings.ReplaceAll(name, " ", "-")
		r.published(key, "a.txt", pair[0])
		r.published(key, "a.txt", pair[1])
		begun := time.Now()
		page := r.call("GET", "/k/"+key+"/-/compare", "").want(200).contains("<del>")
		took := time.Since(begun)
		t.Logf("%s: %s, the page has %d KiB", name, took.Round(time.Millisecond), len(page.body)>>10)
		if took > time.Minute/2 { // A hundredth of that on a machine that isn't busy.
			t.Errorf("%s took %s", name, took)
		}
	}
	r.published("more", "a.txt", strings.Repeat("\n", lines+1))
	r.published("more", "a.txt", "\n")
	r.call("GET", "/k/more/-/compare", "").want(200).contains("aren&#39;t compared by lines").omits("<del>")
}

// largeSets has many files in each version: every number in the first one, every second one in all others.
type largeSets struct {
	publish.PointerStore
	files int
}

func (l largeSets) FilesAt(_ context.Context, _ publish.Key, version publish.Version, after publish.Path, limit int) (page publish.FilePage, err error) {
	step, from := min(2, int(version.Token)), 0
	if after != "" {
		if from, err = strconv.Atoi(string(after)); err != nil {
			return page, err
		}
		from = from/step + 1
	}
	for i := from; i < l.files && len(page.Files) < limit; i++ {
		page.Files = append(page.Files, publish.File{Path: publish.Path(fmt.Sprintf("%08d", i*step)), Size: 1, SHA256: publish.Digest{byte(version.Token)}})
	}
	if from+limit < l.files {
		page.Next = page.Files[limit-1].Path
	}
	return page, nil
}
