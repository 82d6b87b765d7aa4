package e2e

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"
	"testing"

	"github.com/pawlhq/pawl/internal/testenv"
	"github.com/pawlhq/pawl/publish"
)

// Case 40, where readers are sent to the store: it answers with the type and the disposition that the server itself would give, to a browser that would make a
// document of the file, and never with less for what isn't inert. Who changes either in the address gets nothing.
func TestCase40FromTheStore(t *testing.T) {
	t.Parallel()
	bucket, dsn := testenv.S3Bucket(t), testenv.Postgres(t)
	public := strings.Replace(bucket.Endpoint, "127.0.0.1", "localhost", 1)
	redirecting := serve(t, dsn, s3Address(bucket), append(s3Env(bucket), "PAWL_READS=redirect", "PAWL_S3_PUBLIC_ENDPOINT="+public)...)
	streaming := serve(t, dsn, s3Address(bucket), s3Env(bucket)...)
	const key = "hostile/set"
	files := hostileFiles(t, newElsewhere(t))
	maps.Copy(files, map[publish.Path]claimedFile{
		"é \"quoted\"; filename=x.html": {"text/html", "<script>1</script>"},
		"plain.txt":                     {"", "nothing but text"},
		"html.txt":                      {"text/plain", "<!DOCTYPE html><script>1</script>"},
	})
	redirecting.files(key, files)

	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }, Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	fetch := func(address, dest string) (*http.Response, string) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
		if err != nil {
			t.Fatal(err)
		}
		if dest != "" {
			req.Header.Set("Sec-Fetch-Dest", dest)
		}
		res, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close() //nolint:errcheck // It was read.
		body, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		return res, string(body)
	}
	shown := 0
	for path, file := range files {
		want, body := fetch(streaming.api.FileURL(key, 1, path), "document")
		if want.StatusCode != http.StatusOK || body != file.body {
			t.Fatalf("%s: the server itself answers %s", path, want.Status)
		}
		disposition := want.Header.Get("Content-Disposition")
		if disposition == "" {
			shown++
		}
		for _, dest := range []string{"document", "iframe", "object", "image", ""} {
			sent, _ := fetch(redirecting.api.FileURL(key, 1, path), dest)
			address := sent.Header.Get("Location")
			if sent.StatusCode != http.StatusTemporaryRedirect || !strings.HasPrefix(address, public+"/") {
				t.Fatalf("%s as %q: %s to %q", path, dest, sent.Status, address)
			}
			got, body := fetch(address, dest)
			// The store has no policy of its own, so only what no browser makes a document of goes without a disposition.
			opened := dest != "image" && dest != ""
			have := got.Header.Get("Content-Disposition")
			if got.StatusCode != http.StatusOK || body != file.body || got.Header.Get("Content-Type") != want.Header.Get("Content-Type") ||
				have != disposition && (opened || have != "" || !inertName(got.Header.Get("Content-Type"))) {
				t.Errorf("%s as %q: %s with %q and %q, want %q and %q", path, dest, got.Status, got.Header.Get("Content-Type"), have,
					want.Header.Get("Content-Type"), disposition)
			}
			for _, parameter := range []string{"response-content-disposition=attachment", "response-content-type="} {
				if changed := strings.Replace(address, parameter, strings.Replace(parameter, "response", "x-response", 1), 1); changed != address {
					if got, _ := fetch(changed, dest); got.StatusCode != http.StatusForbidden {
						t.Errorf("%s without %s is answered with %s", path, parameter, got.Status)
					}
				}
			}
		}
	}
	if want := fmt.Sprint(shown > 0, shown < len(files)/2); want != "true true" {
		t.Errorf("%d of %d files are shown, want some and few", shown, len(files))
	}
}

// inertName reports whether a type is one of those among the files of the test that browsers run no script in.
func inertName(contentType string) bool {
	switch contentType {
	case "image/png", "image/gif", "application/pdf", "video/mp4":
		return true
	}
	return strings.HasPrefix(contentType, "text/plain") || strings.HasPrefix(contentType, "application/json")
}
