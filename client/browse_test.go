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
	f = newFake(t, refuse(&publish.Error{Code: publish.ErrNotFound, Key: "k"}))
	if _, _, err = f.client(t, Options{}).WaitPointer(testContext(t), "k", nil, time.Millisecond); !errors.Is(err, publish.ErrNotFound) {
		t.Fatal(err)
	}
}

// A wrong address isn't a key without a version: there is nothing to wait for.
func TestWaitPointerAtAWrongAddress(t *testing.T) {
	t.Parallel()
	for name, handler := range map[string]http.HandlerFunc{
		"route":  refuse(&publish.Error{Code: publish.ErrNotFound, Detail: "there is no such route"}),
		"server": http.NotFound,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFake(t, handler)
			if _, _, err := f.client(t, Options{}).WaitPointer(testContext(t), "k", nil, time.Minute); !errors.Is(err, publish.ErrNotFound) || f.count() != 1 {
				t.Fatalf("got %v after %d requests", err, f.count())
			}
		})
	}
}

// Answers that come before their time, as from a proxy that keeps them, neither end the wait nor make it spin.
func TestWaitPointerPausesBetweenHastyAnswers(t *testing.T) {
	t.Parallel()
	const wait = 600 * time.Millisecond
	seen := publish.Version{Token: 17, Revision: 1}
	f := newFake(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Has("wait") {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		answer(200, publish.Pointer{Key: "k", Token: 17, Revision: 1})(w, r)
	})
	start := time.Now()
	_, changed, err := f.client(t, Options{RetryPause: 20 * time.Millisecond}).WaitPointer(testContext(t), "k", &seen, wait)
	if took := time.Since(start); err != nil || changed || took < wait/2 || f.count() > 40 {
		t.Fatalf("got %v, %v after %s and %d requests", changed, err, took, f.count())
	}
}

// Whoever has seen a version learns at once that it was retired. Whoever waits for the next one goes on waiting.
func TestWaitPointerOfARetiredKey(t *testing.T) {
	t.Parallel()
	const wait = 300 * time.Millisecond
	for name, c := range map[string]struct {
		seen *publish.Version
		more bool
	}{
		"seen":     {&publish.Version{Token: 17, Revision: 1}, false},
		"none yet": {nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFake(t, refuse(&publish.Error{Code: publish.ErrRetired, Key: "k"}))
			_, _, err := f.client(t, Options{RetryPause: 20 * time.Millisecond}).WaitPointer(testContext(t), "k", c.seen, wait)
			if !errors.Is(err, publish.ErrRetired) || (f.count() > 1) != c.more {
				t.Fatalf("got %v after %d requests", err, f.count())
			}
		})
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
