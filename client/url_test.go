package client

import (
	"net/http"
	"testing"

	"github.com/pawlhq/pawl/publish"
)

// Case 33: names round-trip, whatever URLs make of their characters.
func TestNamesSurviveURLs(t *testing.T) {
	t.Parallel()
	c := newClient(t, "http://host/base/", Options{})
	for name, escaped := range map[string]string{
		"a+b.png":            "a%2Bb.png",
		"a b.png":            "a%20b.png",
		"a%2Bb.png":          "a%252Bb.png",
		"100%.png":           "100%25.png",
		"q?x=1#y.png":        "q%3Fx%3D1%23y.png",
		"semi;colon&amp.png": "semi%3Bcolon%26amp.png",
		"🎬/café.png":         "%F0%9F%8E%AC/caf%C3%A9.png",
		"-/x":                "-/x",
	} {
		address := c.FileURL("key", 7, publish.Path(name))
		if want := "http://host/base/v1/keys/key/-/generations/7/files/" + escaped; address != want {
			t.Errorf("FileURL(%q) = %s, want %s", name, address, want)
		}
		// What a server decodes is the name again.
		req, err := http.NewRequest(http.MethodGet, address, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		if want := "/base/v1/keys/key/-/generations/7/files/" + name; req.URL.Path != want {
			t.Errorf("%s decodes to %q, want %q", address, req.URL.Path, want)
		}
	}
}
