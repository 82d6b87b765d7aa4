package client

import (
	"io"
	"net/http"
	"testing"

	"github.com/pawlhq/pawl/publish"
)

func TestResolve(t *testing.T) {
	t.Parallel()
	url := "/v1/keys/a/-/generations/7/files/f"
	body := make(chan string, 1)
	f := newFake(t, func(w http.ResponseWriter, r *http.Request) {
		sent, _ := io.ReadAll(r.Body)
		body <- r.Method + " " + r.URL.Path + " " + string(sent)
		answer(200, map[string]any{"keys": []publish.Resolved{
			{Key: "a", Found: true, Token: 7, Revision: 2, ManifestDigest: publish.Digest{1}, Final: true, Primary: "f", URL: &url}, {Key: "b/c d"},
		}})(w, r)
	})
	got, err := f.client(t, Options{}).Resolve(testContext(t), []publish.Key{"a", "b/c d"})
	if err != nil || len(got) != 2 || got[0].Version() != (publish.Version{Token: 7, Revision: 2}) || *got[0].URL != url || got[1].Found || got[1].URL != nil {
		t.Errorf("got %+v, %v", got, err)
	}
	if sent := <-body; sent != `POST /v1/resolve {"keys":["a","b/c d"]}` {
		t.Errorf("sent %s", sent)
	}
}
