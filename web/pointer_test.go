package web_test

import (
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/pawlhq/pawl/publish"
	"github.com/pawlhq/pawl/web"
)

func TestPointer(t *testing.T) {
	t.Parallel()
	r := newRig(t, web.Options{})
	r.call("GET", "/v1/keys/k", "").wantProblem(publish.ErrNotFound)
	r.published("k", "f", "x")
	got := r.call("GET", "/v1/keys/k", "").want(200)
	if m := got.json(); m["token"] != 1.0 || m["revision"] != 1.0 || m["primary"] != "f" || m["publisher"] != "test" || m["url"] != "/v1/keys/k/-/generations/1/files/f" {
		t.Errorf("the pointer is %s", got.body)
	}
	if got.header.Get("ETag") != `"1.1"` || got.header.Get("Cache-Control") != "no-cache" || got.header.Get("Pawl-Token") != "1" {
		t.Errorf("its headers are %v", got.header)
	}
	for tag, status := range map[string]int{`"1.1"`: 304, `W/"1.1"`: 304, `"0.9", "1.1"`: 304, "*": 304, `"1.2"`: 200, "1.1": 200, `"x"`: 200} {
		got := r.call("GET", "/v1/keys/k", "", "If-None-Match", tag).want(status)
		if got.header.Get("ETag") != `"1.1"` || got.header.Get("Cache-Control") != "no-cache" || status == 304 && got.body != "" {
			t.Errorf("If-None-Match: %s: %v %q", tag, got.header, got.body)
		}
	}
}

// TestLongPoll waits for a first publish, for the next one, and in vain.
func TestLongPoll(t *testing.T) {
	t.Parallel()
	r := newRig(t, web.Options{})
	r.call("GET", "/v1/keys/k?wait=10ms", "").wantProblem(publish.ErrNotFound)

	wait := func(headers ...string) chan answer {
		polled, result := r.pointers.Faults.Calls("Pointer"), make(chan answer, 1)
		go func() { result <- r.call("GET", "/v1/keys/k?wait=30s", "", headers...) }()
		await(t, func() bool { return r.pointers.Faults.Calls("Pointer") > polled })
		return result
	}
	first := wait()
	r.published("k", "f", "x")
	if got := (<-first).want(200); got.header.Get("ETag") != `"1.1"` {
		t.Errorf("the first is %s", got.header.Get("ETag"))
	}
	second := wait("If-None-Match", `W/"1.1"`)
	r.published("k", "f", "y")
	if got := (<-second).want(200); got.header.Get("ETag") != `"2.1"` {
		t.Errorf("the second is %s", got.header.Get("ETag"))
	}
	started := time.Now()
	r.call("GET", "/v1/keys/k?wait=50ms", "", "If-None-Match", `"2.1"`).want(304)
	if took := time.Since(started); took < 50*time.Millisecond {
		t.Errorf("waited for %s only", took)
	}
	r.call("GET", "/v1/keys/k?wait=30s", "", "If-None-Match", `"1.1"`).want(200)
	r.call("GET", "/v1/keys/k?wait=30s", "", "If-None-Match", `"1.1", "2.1"`).want(304)
	r.call("GET", "/v1/keys/k?wait=30s", "").want(200)
}

func TestCurrent(t *testing.T) {
	t.Parallel()
	r := newRig(t, web.Options{})
	r.call("GET", "/v1/keys/k/-/current", "").wantProblem(publish.ErrNotFound)
	w := r.grant("k")
	w.put("a", "1").want(201)
	w.put("b", "2").want(201)
	w.publish("").want(200)
	if m := r.call("GET", "/v1/keys/k/-/current", "").wantProblem(publish.ErrNotFound); len(m["paths"].([]any)) != 2 {
		t.Errorf("a set without a primary file: %v", m)
	}
	if got := r.call("GET", "/v1/keys/k/-/current/b", "").want(307); got.header.Get("Location") != w.generation()+"/files/b" {
		t.Errorf("redirected to %s", got.header.Get("Location"))
	}
	r.call("GET", "/v1/keys/k/-/current/c", "").wantProblem(publish.ErrNotFound)
}

func TestBrowse(t *testing.T) {
	t.Parallel()
	r := newRig(t, web.Options{})
	for _, key := range []string{"a/1", "a/2", "a/b/1", "c"} {
		r.published(key, "f", "x")
	}
	if got := r.call("GET", "/v1/keys?prefix=nothing", "").want(200); strings.TrimSpace(got.body) != `{"keys":[],"prefixes":[]}` {
		t.Errorf("an empty list is %s", got.body)
	}
	var keys, prefixes []string
	for after := ""; ; {
		m := r.call("GET", "/v1/keys?prefix=a/&delimiter=/&limit=1&after="+url.QueryEscape(after), "").want(200).json()
		for _, key := range m["keys"].([]any) {
			keys = append(keys, key.(map[string]any)["url"].(string))
		}
		for _, prefix := range m["prefixes"].([]any) {
			prefixes = append(prefixes, prefix.(string))
		}
		if after, _ = m["next"].(string); after == "" {
			break
		}
	}
	if strings.Join(keys, " ") != "/v1/keys/a/1/-/generations/1/files/f /v1/keys/a/2/-/generations/1/files/f" || strings.Join(prefixes, " ") != "a/b/" {
		t.Errorf("listed %v and %v", keys, prefixes)
	}

	r.published("c", "f", "y")
	m := r.call("GET", "/v1/keys/c/-/generations?limit=1", "").want(200).json()
	newest := m["generations"].([]any)[0].(map[string]any)
	if newest["token"] != 2.0 || newest["receipts"].([]any)[0].(map[string]any)["url"] != "/v1/keys/c/-/generations/2/files/f" || newest["rejections"] == nil || m["next"] != 2.0 {
		t.Errorf("the history is %v", m)
	}
	if m := r.call("GET", "/v1/keys/c/-/generations?before=2", "").want(200).json(); len(m["generations"].([]any)) != 1 {
		t.Errorf("the page after is %v", m)
	}
	if m := r.call("GET", "/v1/keys/c/-/generations/1", "").want(200).json(); m["state"] != "sealed" || m["current"] != false {
		t.Errorf("the generation is %v", m)
	}
	r.call("GET", "/v1/keys/c/-/generations/3", "").wantProblem(publish.ErrNotFound)

	w := r.grant("many")
	for _, path := range []string{"a", "b", "c"} {
		w.put(path, path).want(201)
	}
	w.publish("").want(200)
	page := r.call("GET", w.generation()+"/files?limit=2", "").want(200).json()
	if len(page["files"].([]any)) != 2 || page["next"] != "b" {
		t.Errorf("the first page is %v", page)
	}
	page = r.call("GET", w.generation()+"/files?limit=2&after=b", "").want(200).json()
	if file := page["files"].([]any)[0].(map[string]any); len(page["files"].([]any)) != 1 || file["url"] != w.generation()+"/files/c" || file["sha256"] == "" || page["next"] != nil {
		t.Errorf("the second page is %v", page)
	}
}
