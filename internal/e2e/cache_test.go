package e2e

import (
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pawlhq/pawl/internal/testenv"
	"github.com/pawlhq/pawl/publish"
)

// claimedFile is a file with the type that its publisher claims, "" for none.
type claimedFile struct{ claimed, body string }

// files publishes a set of files as the next version of a key, final.
func (s *server) files(key publish.Key, files map[publish.Path]claimedFile) {
	s.t.Helper()
	ctx := s.t.Context()
	lease, err := s.api.Acquire(ctx, publish.AcquireRequest{Key: key, Holder: "W", TTL: time.Minute})
	if err != nil {
		s.t.Fatal(err)
	}
	for path, file := range files {
		_, err := s.api.Upload(ctx, publish.UploadRequest{
			Grant: lease.Grant(), Path: path, ContentType: file.claimed, Size: int64(len(file.body)), Body: strings.NewReader(file.body),
		})
		if err != nil {
			s.t.Fatal(err)
		}
	}
	if _, err := s.api.Publish(ctx, publish.PublishRequest{Grant: lease.Grant(), Final: true, Release: true}); err != nil {
		s.t.Fatal(err)
	}
}

// text publishes one file of text.
func (s *server) text(key publish.Key, body string) {
	s.t.Helper()
	s.files(key, map[publish.Path]claimedFile{"a.txt": {body: body}})
}

// Case 39, through a cache: permanent addresses come from it, what is current is asked for each time, and a 404 isn't kept.
func TestCase39BehindACache(t *testing.T) {
	t.Parallel()
	s := serve(t, testenv.Postgres(t), directory(t))
	cache := nginxWith(t, s, "proxy_cache_path "+filepath.Join(testenv.TempDir(t), "cache")+" keys_zone=pawl:1m;",
		"proxy_cache pawl; proxy_cache_revalidate on; add_header X-Cache $upstream_cache_status always;")
	ask := func(target string, headers ...string) (*http.Response, string) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, cache+target, nil)
		if err != nil {
			t.Fatal(err)
		}
		for i := 0; i < len(headers); i += 2 {
			req.Header.Set(headers[i], headers[i+1])
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp, string(body)
	}
	wants := func(target string, status int, body, cached string) {
		t.Helper()
		resp, got := ask(target)
		if resp.StatusCode != status || status == http.StatusOK && got != body || cached != "" && resp.Header.Get("X-Cache") != cached {
			t.Errorf("%s: %s, %q, %s; want %d, %q, %s", target, resp.Status, got, resp.Header.Get("X-Cache"), status, body, cached)
		}
	}
	const key, file = "/v1/keys/k", "/files/a.txt"
	wants(key, http.StatusNotFound, "", "")
	wants(key+"/-/current", http.StatusNotFound, "", "")
	wants(key+"/-/generations/2"+file, http.StatusNotFound, "", "")

	s.text("k", "one")
	wants(key+"/-/current", http.StatusOK, "one", "")
	wants(key+"/-/generations/1"+file, http.StatusOK, "one", "HIT") // The redirect has led there before.
	pointer, _ := ask(key)
	tag := pointer.Header.Get("ETag")

	s.text("k", "two")
	wants(key+"/-/current", http.StatusOK, "two", "")
	wants(key+"/-/generations/2"+file, http.StatusOK, "two", "HIT")
	wants(key+"/-/generations/1"+file, http.StatusOK, "one", "HIT")
	if moved, body := ask(key, "If-None-Match", tag); moved.StatusCode != http.StatusOK || moved.Header.Get("ETag") != `"2.1"` || !strings.Contains(body, `"token":2`) {
		t.Errorf("the pointer that has moved is answered with %s, %v", moved.Status, moved.Header)
	}
	// A page about the key shows the new version too.
	if _, body := ask("/k/k"); !strings.Contains(body, ">2.1<") {
		t.Errorf("the page shows %s", body)
	}
}
