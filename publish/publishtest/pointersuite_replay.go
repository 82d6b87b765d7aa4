package publishtest

import (
	"github.com/pawlhq/pawl/publish"
)

func replayTests() []pointerTest {
	return []pointerTest{
		{name: "case-16", run: testCase16},
		{name: "equal-body", run: testReplayEqualBody},
		{name: "other-body", run: testReplayOtherBody},
		{name: "ignored", run: testReplayIgnores},
		{name: "open", run: testReplayOpen},
		{name: "release", run: testReplayReleases},
	}
}

// testCase16: the reply to A's publish is lost and B publishes before A repeats. A learns that it had published and was
// superseded since: no error.
func testCase16(s *suite) {
	a := s.acquire(s.key("k"), "a")
	s.Expire(s.T, a.Key)
	first := s.output(a, "a")
	b := s.acquire(a.Key, "b")
	second := s.output(b, "b")
	want := first
	want.Replayed, want.SupersededBy = true, b.Token
	want.Current = &publish.Version{Token: b.Token, Revision: second.Revision}
	for range 3 {
		s.same("replay", s.publish(final(a)), want)
	}
	s.current(a.Key, second.Version())
	s.same("rejections", len(s.generation(a).Rejections), 0)
	s.same("receipts", len(s.generation(a).Receipts), 1)
}

// testReplayEqualBody: a repeat that is equal in everything that was asked for.
func testReplayEqualBody(s *suite) {
	a := s.acquire(s.key("k"), "a")
	s.upload(a, "f", "one")
	s.upload(a, "g", "two")
	source := int64(3)
	req := publish.PublishRequest{Grant: a, Final: true, Primary: "f", SourceRevision: &source, Metadata: map[string]string{"a": "1", "b": "2"}}
	first := s.publish(req)
	first.Replayed = true
	same := source
	req.SourceRevision, req.Metadata = &same, map[string]string{"b": "2", "a": "1"}
	s.same("replay", s.publish(req), first)
	req.ManifestDigest = &first.ManifestDigest
	s.same("replay with digest", s.publish(req), first)
}

// testReplayOtherBody: whatever differs makes it another publish, which a sealed generation doesn't take.
func testReplayOtherBody(s *suite) {
	a := s.acquire(s.key("k"), "a")
	s.upload(a, "f", "one")
	three, four := int64(3), int64(4)
	same := func() publish.PublishRequest {
		return publish.PublishRequest{Grant: a, Final: true, SourceRevision: &three, Metadata: map[string]string{"a": "1"}}
	}
	s.publish(same())
	for name, change := range map[string]func(*publish.PublishRequest){
		"not final": func(r *publish.PublishRequest) { r.Final = false },
		"primary":   func(r *publish.PublishRequest) { r.Primary = "f" }, // What was asked for counts, not what it came to.
		"source":    func(r *publish.PublishRequest) { r.SourceRevision = &four },
		"no source": func(r *publish.PublishRequest) { r.SourceRevision = nil },
		"metadata":  func(r *publish.PublishRequest) { r.Metadata["a"] = "2" },
		"more":      func(r *publish.PublishRequest) { r.Metadata["b"] = "" },
		"less":      func(r *publish.PublishRequest) { r.Metadata = nil },
		"digest":    func(r *publish.PublishRequest) { r.ManifestDigest = &publish.Digest{1} },
		"all zeros": func(r *publish.PublishRequest) { r.ManifestDigest = &publish.Digest{} },
	} {
		req := same()
		change(&req)
		s.Log(name)
		_, err := s.Store.Publish(s.Context(), req)
		s.refused(err, publish.Error{Code: publish.ErrGenerationSealed, Token: a.Token})
	}
	s.same("receipts", len(s.generation(a).Receipts), 1)
}

// testReplayIgnores: a repeat may come with preconditions that its own first try has made untrue.
func testReplayIgnores(s *suite) {
	a := s.acquire(s.key("k"), "a")
	s.upload(a, "f", "one")
	for _, req := range []publish.PublishRequest{
		{Grant: a, Final: true, IfNoneMatch: true},
		{Grant: a, Final: true, IfNoneMatch: true},
		{Grant: a, Final: true, IfMatch: &publish.Version{Token: 9, Revision: 9}},
	} {
		s.same("version", s.publish(req).Version(), publish.Version{Token: a.Token, Revision: 1})
	}
}

// testReplayOpen: in an open generation a repeat is a replay only while the set is the one that was published.
func testReplayOpen(s *suite) {
	a := s.acquire(s.key("k"), "a")
	s.upload(a, "f", "one")
	req := publish.PublishRequest{Grant: a}
	first := s.publish(req)
	s.same("replayed", s.publish(req).Replayed, true)
	pending := s.begin(a, "f") // What is only pending changes nothing.
	s.same("replayed", s.publish(req).Replayed, true)
	s.complete(pending, "one") // Nor does the very same file.
	s.same("replayed", s.publish(req).Replayed, true)
	s.upload(a, "g", "two")
	second := s.publish(req)
	s.same("replayed", second.Replayed, false)
	s.same("version", second.Version(), publish.Version{Token: a.Token, Revision: first.Revision + 1})
	s.remove(a, "g") // The set of revision 1 again: a new revision all the same.
	s.same("version", s.publish(req).Version(), publish.Version{Token: a.Token, Revision: first.Revision + 2})

	s.output(s.takeOver(a.Key, "b"), "b")
	s.same("superseded", s.publish(req).Replayed, true) // Of an open generation too.
	stale := req
	stale.Metadata = map[string]string{"other": "body"}
	_, err := s.Store.Publish(s.Context(), stale)
	s.refused(err, publish.Error{Code: publish.ErrStaleToken})
}

// testReplayReleases: the repeat of a publish with release gives back a lease that is still held.
func testReplayReleases(s *suite) {
	a := s.acquire(s.key("k"), "a")
	s.upload(a, "f", "one")
	s.publish(final(a))
	receipt := s.publish(publish.PublishRequest{Grant: a, Final: true, Release: true})
	s.same("replayed", receipt.Replayed, true)
	if lease, err := s.Store.Lease(s.Context(), a.Key); err != nil || lease.Held || lease.ExpiresAt != nil {
		s.Errorf("after a replay with release: %+v, %v", lease, err)
	}
}
