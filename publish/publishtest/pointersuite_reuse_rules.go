package publishtest

import (
	"github.com/pawlhq/pawl/publish"
)

// testReuseBase: the generation must be the one that this one replaces; its own progressive publishes don't make it stale.
func testReuseBase(s *suite) {
	a := s.acquire(s.key("k"), "a")
	s.upload(a, "f", "one")
	s.publish(publish.PublishRequest{Grant: a})
	s.upload(a, "g", "two")
	s.publish(publish.PublishRequest{Grant: a})
	b := s.takeOver(a.Key, "b")
	s.upload(b, "h", "three")
	s.publish(publish.PublishRequest{Grant: b})
	s.files(b, fileOf("h", "three"))
	receipt := s.publish(reusing(b, a.Token)) // The current version is its own, which replaced A's latest revision.
	s.same("reused", receipt.ReusedFiles, int64(2))
	s.files(b, fileOf("f", "one"), fileOf("g", "two"), fileOf("h", "three"))
}

func testReuseRefused(s *suite) {
	a := s.acquire(s.key("k"), "a")
	s.upload(a, "f", "one")
	s.publish(final(a))
	b := s.takeOver(a.Key, "b") // It publishes nothing.
	s.upload(b, "f", "two")
	c := s.takeOver(a.Key, "c")
	s.upload(c, "f", "three")
	s.publish(final(c))
	d := s.takeOver(a.Key, "d")
	s.upload(d, "g", "four")
	stale := reusing(d, b.Token)
	stale.ReuseStale = true
	_, err := s.Store.Publish(s.Context(), stale)
	s.refused(err, publish.Error{Code: publish.ErrNotFound, Key: a.Key, Token: d.Token, ReuseFrom: b.Token})
	s.Condemn(s.T, a.Key, a.Token)
	stale.ReuseFrom = a.Token
	_, err = s.Store.Publish(s.Context(), stale)
	s.refused(err, publish.Error{Code: publish.ErrGenerationCollected, ReuseFrom: a.Token})
	s.same("left behind", s.generation(d).Uploads, publish.UploadCounts{Unpublished: 1})

	s.SetCounter(s.T, a.Key, d.Token+5) // Tokens that nobody was granted.
	e := s.takeOver(a.Key, "e")
	s.upload(e, "g", "five")
	_, err = s.Store.Publish(s.Context(), reusing(e, d.Token+2))
	s.refused(err, publish.Error{Code: publish.ErrNotFound, ReuseFrom: d.Token + 2})
	first := s.acquire(s.key("new"), "a")
	second := s.takeOver(first.Key, "b")
	s.upload(second, "f", "one")
	_, err = s.Store.Publish(s.Context(), reusing(second, first.Token))
	s.refused(err, publish.Error{Code: publish.ErrNotFound, ReuseFrom: first.Token})
}

// testReuseOrder: the fence and the preconditions speak before reuse_from, completeness after it.
func testReuseOrder(s *suite) {
	g := s.grants(s.key("k"), 4)
	for _, grant := range g[1:] {
		s.upload(grant, "f", "one")
	}
	s.publish(final(g[1]))
	s.publish(final(g[3]))
	_, err := s.Store.Publish(s.Context(), reusing(g[2], g[1].Token))
	s.refused(err, publish.Error{Code: publish.ErrStaleToken, Token: 2})
	_, err = s.Store.Publish(s.Context(), reusing(g[3], g[1].Token))
	s.refused(err, publish.Error{Code: publish.ErrGenerationSealed, Token: 3})
	s.begin(g[4], "pending")
	both := reusing(g[4], g[1].Token)
	both.IfNoneMatch = true
	_, err = s.Store.Publish(s.Context(), both)
	if got := s.refused(err, publish.Error{Code: publish.ErrPreconditionFailed}); got.ReuseFrom != 0 {
		s.Errorf("the refusal is about reuse_from %d, want it about the version", got.ReuseFrom)
	}
	_, err = s.Store.Publish(s.Context(), reusing(g[4], g[1].Token))
	s.refused(err, publish.Error{Code: publish.ErrPreconditionFailed, ReuseFrom: 1})
	_, err = s.Store.Publish(s.Context(), reusing(g[4], g[3].Token))
	s.refused(err, publish.Error{Code: publish.ErrGenerationIncomplete, Pending: []publish.Path{"pending"}})
}

// testReuseReplay: what was reused is part of what makes a repeat equal. A repeat asks nothing of the generation again.
func testReuseReplay(s *suite) {
	a := s.acquire(s.key("k"), "a")
	s.upload(a, "f", "one")
	s.publish(final(a))
	b := s.takeOver(a.Key, "b")
	s.upload(b, "g", "two")
	req := reusing(b, a.Token)
	req.Expect = []string{"f", "g"}
	want := s.publish(req)
	want.Replayed = true
	s.same("replay", s.publish(req), want)
	req.ReuseStale = true
	s.same("replay that allows more", s.publish(req), want)
	s.Condemn(s.T, a.Key, a.Token)
	s.same("replay after the collection", s.publish(req), want)
	for _, from := range []publish.Token{0, 99} {
		_, err := s.Store.Publish(s.Context(), publish.PublishRequest{Grant: b, Final: true, ReuseFrom: from})
		s.refused(err, publish.Error{Code: publish.ErrGenerationSealed, Token: b.Token})
	}
	s.same("receipts", len(s.generation(b).Receipts), 1)
}

// testReuseProgressive: files that were carried over stay in the set of an open generation, can be replaced and deleted there, and
// are not carried over a second time.
func testReuseProgressive(s *suite) {
	a := s.acquire(s.key("k"), "a")
	for _, path := range []publish.Path{"f", "g", "h"} {
		s.upload(a, path, "old")
	}
	s.publish(final(a))
	b := s.takeOver(a.Key, "b")
	open := publish.PublishRequest{Grant: b, ReuseFrom: a.Token}
	receipt := s.publish(open) // Without a file of its own.
	s.same("reused", [2]int64{receipt.Files, receipt.ReusedFiles}, [2]int64{3, 3})
	s.same("replayed", s.publish(open).Replayed, true)
	s.same("uploads", s.generation(b).Uploads, publish.UploadCounts{})

	s.same("replaced", s.upload(b, "g", "new").Replaced, true)
	s.remove(b, "h")
	s.files(b, filesOfContent("old", "f", "g", "h")...)
	receipt = s.publish(publish.PublishRequest{Grant: b}) // A later publish keeps them without being told.
	s.same("kept", [3]any{receipt.Files, receipt.ReusedFiles, receipt.ReuseFrom}, [3]any{int64(2), int64(1), publish.Token(0)})
	s.files(b, fileOf("f", "old"), fileOf("g", "new"))
	s.same("object of the replaced file", s.object(b, "g") == s.object(a, "g"), false)
	s.same("object of the kept file", s.object(b, "f"), s.object(a, "f"))

	s.Condemn(s.T, a.Key, a.Token) // Nothing is asked of it any more.
	receipt = s.publish(reusing(b, a.Token))
	s.same("final", [3]any{receipt.Files, receipt.ReusedFiles, receipt.ReuseFrom}, [3]any{int64(2), int64(1), a.Token})
	s.files(b, fileOf("f", "old"), fileOf("g", "new"))
}

// testReuseDeleted: deleting a path that an earlier generation has keeps it out, until it is uploaded.
func testReuseDeleted(s *suite) {
	a := s.acquire(s.key("k"), "a")
	for _, path := range []publish.Path{"f", "g", "h"} {
		s.upload(a, path, "old")
	}
	s.upload(a, "never", "published")
	s.remove(a, "never")
	s.publish(final(a))
	b := s.takeOver(a.Key, "b")
	for range 2 {
		s.remove(b, "f")
	}
	s.remove(b, "g")
	s.upload(b, "g", "new")
	for _, path := range []publish.Path{"never", "F", "f/x"} {
		s.refused(s.Store.DeleteFile(s.Context(), b, path), publish.Error{Code: publish.ErrNotFound, Key: a.Key, Path: path})
	}
	s.same("uploads", s.generation(b).Uploads, publish.UploadCounts{Unpublished: 1})
	s.same("reused", s.publish(reusing(b, a.Token)).ReusedFiles, int64(1))
	s.files(b, fileOf("g", "new"), fileOf("h", "old"))
}

// testReuseGrantedMode: where a newer grant fences at once, reuse works for the newest grant alone.
func testReuseGrantedMode(s *suite) {
	key := s.key("k")
	s.setFenceMode(string(key), publish.FenceGranted)
	a := s.acquire(key, "a")
	s.upload(a, "f", "one")
	s.publish(final(a))
	b := s.takeOver(key, "b")
	s.upload(b, "g", "two")
	c := s.takeOver(key, "c")
	s.upload(c, "g", "three")
	_, err := s.Store.Publish(s.Context(), reusing(b, a.Token))
	s.refused(err, publish.Error{Code: publish.ErrStaleToken, Token: b.Token})
	s.same("reused", s.publish(reusing(c, a.Token)).ReusedFiles, int64(1))
	s.files(c, fileOf("f", "one"), fileOf("g", "three"))
}
