package client

import (
	"errors"
	"io"
	"net/http"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pawlhq/pawl/publish"
)

// An effect names its grant and its state, and is asked again when the answer was lost: that is the same request.
func TestEffectIsRepeated(t *testing.T) {
	t.Parallel()
	want := publish.Effect{Key: grant.Key, Name: "a+b:c", IdempotencyKey: "pawl-x-a+b:c", State: publish.EffectDone, FirstToken: 3, Token: 17, DoneToken: 3, Result: "ch_1"}
	bodies := make(chan string, 4)
	read := func(then http.HandlerFunc) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			bodies <- r.Method + " " + r.URL.EscapedPath() + " " + string(body)
			if r.Header.Get("Pawl-Lease") != grant.LeaseID.Hex() {
				t.Error("the lease_id is missing")
			}
			then(w, r)
		}
	}
	f := newFake(t, read(lose), read(answer(200, want)))
	c := f.client(t, Options{})
	got, err := c.Effect(testContext(t), grant, "a+b:c")
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	const path = "POST /v1/keys/thumbs/image-52/-/generations/17/effects/a%2Bb%3Ac "
	if first, second := <-bodies, <-bodies; first != path+`{"state":"pending"}` || second != first {
		t.Errorf("sent %s, then %s", first, second)
	}
	if _, err := c.EffectDone(testContext(t), grant, "a+b:c", `ch_"1"`); err != nil {
		t.Error(err)
	}
	if sent := <-bodies; sent != path+`{"state":"done","result":"ch_\"1\""}` {
		t.Errorf("sent %s", sent)
	}
}

// A fenced grant is told so once and for all; a name that isn't legal is refused before it can become another URL.
func TestEffectIsRefused(t *testing.T) {
	t.Parallel()
	f := newFake(t, refuse(&publish.Error{Code: publish.ErrStaleToken, Operation: publish.OperationEffect, Token: 17, AcceptedToken: 18}))
	c := f.client(t, Options{})
	if _, err := c.Effect(testContext(t), grant, "n"); !errors.Is(err, publish.ErrStaleToken) || f.count() != 1 {
		t.Errorf("got %v after %d requests", err, f.count())
	}
	for _, name := range []publish.EffectName{"", ".", "..", "a/b", "a b", "é"} {
		if _, err := c.Effect(testContext(t), grant, name); !errors.Is(err, publish.ErrInvalidRequest) {
			t.Errorf("%q: %v", name, err)
		}
	}
	if f.count() != 1 {
		t.Errorf("%d requests", f.count())
	}
}

// All effects are listed page by page; a server whose pages don't go on doesn't hold a client for ever.
func TestAllEffects(t *testing.T) {
	t.Parallel()
	page := func(next publish.EffectName, names ...publish.EffectName) http.HandlerFunc {
		var p publish.EffectPage
		for _, name := range names {
			p.Effects = append(p.Effects, publish.Effect{Name: name, FirstToken: 1, Token: 1, Tokens: []publish.EffectToken{{Token: 1, Holder: "a"}}})
		}
		p.Next = next
		return answer(200, p)
	}
	f := newFake(t, page("b+", "a", "b+"), page("", "c"))
	var names []string
	for effect, err := range f.client(t, Options{}).AllEffects(testContext(t), grant.Key) {
		if err != nil || len(effect.Tokens) != 1 {
			t.Fatalf("%+v, %v", effect, err)
		}
		names = append(names, string(effect.Name))
	}
	if !slices.Equal(names, []string{"a", "b+", "c"}) || f.requests[1].URL.RawQuery != "after=b%2B&limit=1000" {
		t.Errorf("names %v, the second page by %s", names, f.requests[1].URL.RawQuery)
	}

	f = newFake(t, page("b", "a", "b"))
	var failed error
	for _, err := range f.client(t, Options{}).AllEffects(testContext(t), grant.Key) {
		failed = err
	}
	if failed == nil || f.count() != 2 {
		t.Errorf("got %v after %d requests", failed, f.count())
	}
}
