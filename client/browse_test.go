package client

import (
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/pawlhq/pawl/publish"
)

func TestListAllReadsAllPages(t *testing.T) {
	t.Parallel()
	f := newFake(t, answer(200, publish.ListPage{Keys: []publish.Pointer{{Key: "a b", Token: 1}}, Next: "a b"}),
		answer(200, publish.ListPage{Keys: []publish.Pointer{{Key: "c", Token: 1}}}))
	var keys []publish.Key
	for page, err := range f.client(t, Options{}).ListAll(testContext(t), publish.ListRequest{Prefix: "a&b", Delimiter: "/", Limit: 1}) {
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, page.Keys[0].Key)
	}
	if len(keys) != 2 || f.requests[1].URL.Query().Get("after") != "a b" || f.requests[1].URL.Query().Get("prefix") != "a&b" {
		t.Fatalf("got %q, second query %s", keys, f.requests[1].URL.RawQuery)
	}
}

func TestWaitPointer(t *testing.T) {
	t.Parallel()
	seen := publish.Version{Token: 17, Revision: 1}
	notModified := func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("If-None-Match") != `"17.1"` || r.URL.Query().Get("wait") == "" {
			t.Errorf("asked with %q, %s", r.Header.Get("If-None-Match"), r.URL.RawQuery)
		}
		w.WriteHeader(http.StatusNotModified)
	}
	f := newFake(t, notModified, answer(200, publish.Pointer{Key: "k", Token: 18, Revision: 1}))
	// A wait longer than one request's goes on with the next.
	got, changed, err := f.client(t, Options{}).WaitPointer(testContext(t), "k", &seen, time.Minute)
	if err != nil || !changed || got.Token != 18 {
		t.Fatalf("got %+v, %v, %v", got, changed, err)
	}
	f = newFake(t, notModified, answer(200, publish.Pointer{Key: "k", Token: 17, Revision: 1}))
	got, changed, err = f.client(t, Options{}).WaitPointer(testContext(t), "k", &seen, time.Millisecond)
	if err != nil || changed || got.Version() != seen {
		t.Fatalf("got %+v, %v, %v", got, changed, err)
	}
	f = newFake(t, refuse(&publish.Error{Code: publish.ErrNotFound}))
	if _, _, err = f.client(t, Options{}).WaitPointer(testContext(t), "k", nil, time.Millisecond); !errors.Is(err, publish.ErrNotFound) {
		t.Fatal(err)
	}
}

// A rejection of a time when nothing had been accepted yet has the accepted token 0.
func TestHistoryWithoutAFence(t *testing.T) {
	t.Parallel()
	page := publish.HistoryPage{Key: "k", Generations: []publish.Generation{{
		Key: "k", Token: 1,
		Rejections: []publish.Rejection{{Token: 1, AcceptedToken: 0, GrantedToken: 2}},
	}}}
	f := newFake(t, answer(200, page))
	got, err := f.client(t, Options{RetryFor: -1}).History(testContext(t), "k", 0, 0)
	if err != nil || got.Generations[0].Rejections[0].GrantedToken != 2 {
		t.Fatalf("got %+v, %v", got, err)
	}
}

func TestFilesAt(t *testing.T) {
	t.Parallel()
	f := newFake(t, answer(200, publish.FilePage{Files: []publish.File{{Path: "g"}}}))
	c := f.client(t, Options{})
	version := publish.Version{Token: 7, Revision: 2}
	page, err := c.FilesAt(testContext(t), "k", version, "f", 10)
	if err != nil || len(page.Files) != 1 {
		t.Errorf("got %+v, %v", page, err)
	}
	if got := f.requests[0].URL.RequestURI(); got != "/v1/keys/k/-/generations/7/files?after=f&limit=10&revision=2" {
		t.Errorf("asked for %s", got)
	}
	if got, want := c.FileAtURL("k", version, "a b"), c.URL()+"/v1/keys/k/-/generations/7/files/a%20b?revision=2"; got != want {
		t.Errorf("the address is %s, want %s", got, want)
	}
}
