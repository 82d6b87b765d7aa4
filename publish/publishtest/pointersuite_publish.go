package publishtest

import (
	"github.com/pawlhq/pawl/publish"
)

func publishTests() []pointerTest {
	return []pointerTest{
		{name: "case-07", run: testCase07},
		{name: "receipt", run: testReceipt},
		{name: "progressive", run: testProgressive},
		{name: "incomplete", run: testIncomplete},
		{name: "primary", run: testPrimary},
		{name: "manifest-digest", run: testManifestDigest},
		{name: "if-match", run: testIfMatch},
		{name: "older-source", run: testOlderSource},
		{name: "release", run: testPublishReleases},
		{name: "lease-expired", run: testLeaseExpired},
	}
}

// testCase07: tokens on one key publish as 5, 7, 6, 7 (same manifest), 7 (another digest), 8, 1.
func testCase07(s *suite) {
	g := s.grants(s.key("k"), 8)
	for _, grant := range g[1:] {
		s.upload(grant, "f", "of its own")
	}
	other := final(g[7])
	other.ManifestDigest = new(publish.ManifestDigest([]publish.File{fileOf("f", "other")}))
	s.same("5", s.publish(final(g[5])).Replayed, false)
	accepted := s.publish(final(g[7]))
	s.same("7", accepted.Replayed, false)
	_, err := s.Store.Publish(s.Context(), final(g[6]))
	s.refused(err, publish.Error{Code: publish.ErrStaleToken, Token: 6, AcceptedToken: 7, GrantedToken: 8})
	replayed := s.publish(final(g[7]))
	s.same("7 again", replayed.Replayed, true)
	s.same("7 again", replayed.Version(), accepted.Version())
	_, err = s.Store.Publish(s.Context(), other)
	s.refused(err, publish.Error{Code: publish.ErrGenerationSealed, Token: 7})
	s.same("8", s.publish(final(g[8])).Replayed, false)
	_, err = s.Store.Publish(s.Context(), final(g[1]))
	s.refused(err, publish.Error{Code: publish.ErrStaleToken, Token: 1, AcceptedToken: 8, GrantedToken: 8})
	s.current(g[1].Key, publish.Version{Token: 8, Revision: 1})

	second := s.grants(s.key("second"), 1) // A second key shows that scopes are separate.
	s.output(second[1], "one")
	s.current(second[1].Key, publish.Version{Token: 1, Revision: 1})
}

func testReceipt(s *suite) {
	a := s.acquire(s.key("k"), "worker a")
	s.upload(a, "dir/b.png", "four")
	s.upload(a, "a.txt", "three")
	files := []publish.File{fileOf("a.txt", "three"), fileOf("dir/b.png", "four")}
	revision := int64(0) // Zero is a source revision, none is another matter.
	got := s.publish(publish.PublishRequest{
		Grant: a, Final: true, Primary: "dir/b.png", SourceRevision: &revision,
		Metadata: map[string]string{"camera": "left", "ünïcode": "multi\nline \"✓\"", "empty": ""},
	})
	version := publish.Version{Token: a.Token, Revision: 1}
	want := publish.Receipt{
		Key: a.Key, Token: a.Token, Revision: 1, ManifestDigest: publish.ManifestDigest(files), Final: true, Primary: "dir/b.png",
		Files: 2, Bytes: 9, PublishedAt: got.PublishedAt, Publisher: "worker a", SourceRevision: &revision,
		Metadata: map[string]string{"camera": "left", "ünïcode": "multi\nline \"✓\"", "empty": ""}, Current: &version,
	}
	s.same("receipt", got, want)
	if got.PublishedAt.IsZero() {
		s.Error("the receipt has no time")
	}
	s.files(a, files...)
	g := s.generation(a)
	s.same("state", [2]any{g.State, g.Revision}, [2]any{publish.StateSealed, int64(1)})
	s.same("receipts", g.Receipts, []publish.Receipt{want})
}

// testProgressive: X, Y, X under one token are three revisions, not a replay; each shows what is complete so far.
func testProgressive(s *suite) {
	a := s.acquire(s.key("k"), "a")
	var previous *publish.Version
	for i, content := range []string{"X", "Y", "X"} {
		s.upload(a, "f", content)
		receipt := s.publish(publish.PublishRequest{Grant: a})
		version := publish.Version{Token: a.Token, Revision: int64(i + 1)}
		s.same("replayed", receipt.Replayed, false)
		s.same("version", receipt.Version(), version)
		s.same("previous", receipt.Previous, previous)
		s.same("digest", receipt.ManifestDigest, publish.ManifestDigest([]publish.File{fileOf("f", content)}))
		s.current(a.Key, version)
		s.files(a, fileOf("f", content))
		s.same("state", s.generation(a).State, publish.StateOpen)
		previous = &version
	}
	s.begin(a, "g") // It isn't complete yet, so the next revision goes without it.
	s.upload(a, "h", "new")
	s.publish(publish.PublishRequest{Grant: a})
	s.files(a, fileOf("f", "X"), fileOf("h", "new"))
	s.upload(a, "g", "late")
	receipt := s.publish(final(a))
	s.same("final", receipt.Version(), publish.Version{Token: a.Token, Revision: 5})
	s.files(a, fileOf("f", "X"), fileOf("g", "late"), fileOf("h", "new"))
}

// testIncomplete: a final publish needs every path complete and lists those that aren't, sorted.
func testIncomplete(s *suite) {
	a := s.acquire(s.key("k"), "a")
	_, err := s.Store.Publish(s.Context(), final(a))
	s.refused(err, publish.Error{Code: publish.ErrGenerationIncomplete, Key: a.Key, Token: a.Token})
	for _, path := range []publish.Path{"z", "b/c", "Z", "é"} {
		s.begin(a, path+"-pending")
		s.fail(s.begin(a, path+"-failed"))
		s.begin(a, path+"-mixed")
		s.fail(s.begin(a, path+"-mixed"))
		s.upload(a, path+"-complete", "one")
	}
	_, err = s.Store.Publish(s.Context(), final(a))
	s.refused(err, publish.Error{
		Code: publish.ErrGenerationIncomplete, Key: a.Key, Token: a.Token,
		Pending: []publish.Path{"Z-pending", "b/c-pending", "z-pending", "é-pending"},
		Failed:  []publish.Path{"Z-failed", "Z-mixed", "b/c-failed", "b/c-mixed", "z-failed", "z-mixed", "é-failed", "é-mixed"},
	})
	s.current(a.Key, publish.Version{})
	s.same("state", s.generation(a).State, publish.StateOpen)
}

func testPrimary(s *suite) {
	a := s.acquire(s.key("k"), "a")
	s.upload(a, "a.png", "one")
	receipt := s.publish(publish.PublishRequest{Grant: a}) // The only file is the primary one.
	s.same("primary of one file", receipt.Primary, publish.Path("a.png"))
	s.upload(a, "b.glb", "two")
	receipt = s.publish(publish.PublishRequest{Grant: a})
	s.same("primary of two files", receipt.Primary, publish.Path(""))
	s.same("pointer's type", s.pointer(a.Key).ContentType, "")
	for _, missing := range []publish.Path{"c", "a", "A.png"} {
		_, err := s.Store.Publish(s.Context(), publish.PublishRequest{Grant: a, Final: true, Primary: missing})
		s.refused(err, publish.Error{Code: publish.ErrGenerationIncomplete, Missing: []publish.Path{missing}})
	}
	s.upload(a, "deleted", "x")
	s.remove(a, "deleted")
	_, err := s.Store.Publish(s.Context(), publish.PublishRequest{Grant: a, Primary: "deleted"})
	s.refused(err, publish.Error{Code: publish.ErrGenerationIncomplete, Missing: []publish.Path{"deleted"}})
	receipt = s.publish(publish.PublishRequest{Grant: a, Primary: "b.glb", Final: true})
	s.same("primary as asked for", receipt.Primary, publish.Path("b.glb"))
	s.same("pointer's type", s.pointer(a.Key).ContentType, "model/gltf-binary")
}

func testManifestDigest(s *suite) {
	a := s.acquire(s.key("k"), "a")
	files := []publish.File{}
	for _, name := range nastyNames() {
		s.upload(a, publish.Path(name), name)
		files = append(files, fileOf(publish.Path(name), name))
	}
	right := publish.ManifestDigest(files)
	for name, wrong := range map[string]publish.Digest{
		"one file less": publish.ManifestDigest(files[1:]),
		"all zeros":     {},
		"other bytes":   publish.ManifestDigest(append([]publish.File{fileOf(files[0].Path, "other")}, files[1:]...)),
	} {
		s.Log(name)
		req := final(a)
		req.ManifestDigest = &wrong
		_, err := s.Store.Publish(s.Context(), req)
		s.refused(err, publish.Error{Code: publish.ErrDigestMismatch, Promised: wrong.String(), Came: right.String()})
	}
	s.current(a.Key, publish.Version{})
	req := final(a)
	req.ManifestDigest = &right
	s.same("digest", s.publish(req).ManifestDigest, right)
}

// testIfMatch: a compare-and-set on the version, create-only, and the version that stands against them.
func testIfMatch(s *suite) {
	a := s.acquire(s.key("k"), "a")
	s.upload(a, "f", "one")
	_, err := s.Store.Publish(s.Context(), publish.PublishRequest{Grant: a, IfMatch: &publish.Version{Token: 1, Revision: 1}})
	if got := s.refused(err, publish.Error{Code: publish.ErrPreconditionFailed, Key: a.Key}); got.Current != nil {
		s.Errorf("a key without a pointer has the version %s", got.Current)
	}
	s.publish(publish.PublishRequest{Grant: a, IfNoneMatch: true})
	current := publish.Version{Token: a.Token, Revision: 1}
	s.upload(a, "f", "two")
	for _, req := range []publish.PublishRequest{
		{Grant: a, IfNoneMatch: true},
		{Grant: a, IfMatch: &publish.Version{Token: a.Token, Revision: 2}},
		{Grant: a, IfMatch: &publish.Version{Token: a.Token + 1, Revision: 1}},
	} {
		_, err := s.Store.Publish(s.Context(), req)
		s.refused(err, publish.Error{Code: publish.ErrPreconditionFailed, Current: &current})
	}
	receipt := s.publish(publish.PublishRequest{Grant: a, IfMatch: &current})
	s.same("version", receipt.Version(), publish.Version{Token: a.Token, Revision: 2})
}

// testOlderSource: an output that was made from an older input doesn't replace a newer one's, even under a newer token.
func testOlderSource(s *suite) {
	a := s.acquire(s.key("k"), "a")
	s.upload(a, "f", "one")
	source := func(grant publish.Grant, revision int64) publish.PublishRequest {
		return publish.PublishRequest{Grant: grant, SourceRevision: &revision}
	}
	s.publish(source(a, 7))
	b := s.takeOver(a.Key, "b")
	s.upload(b, "f", "two")
	_, err := s.Store.Publish(s.Context(), source(b, 6))
	s.refused(err, publish.Error{Code: publish.ErrOlderSource, Key: a.Key, Token: b.Token})
	s.current(a.Key, publish.Version{Token: a.Token, Revision: 1})
	s.publish(source(b, 7)) // The same source may be published again.
	s.upload(b, "f", "three")
	_, err = s.Store.Publish(s.Context(), source(b, 5))
	s.refused(err, publish.Error{Code: publish.ErrOlderSource})
	s.publish(publish.PublishRequest{Grant: b}) // Who names no source isn't compared.
	s.upload(b, "f", "four")
	s.publish(source(b, 1)) // Nor is who follows one without.
}

func testPublishReleases(s *suite) {
	a := s.acquire(s.key("k"), "a")
	s.upload(a, "f", "one")
	incomplete := s.begin(a, "g")
	_, err := s.Store.Publish(s.Context(), publish.PublishRequest{Grant: a, Final: true, Release: true})
	s.refused(err, publish.Error{Code: publish.ErrGenerationIncomplete})
	if lease, err := s.Store.Lease(s.Context(), a.Key); err != nil || !lease.Held {
		s.Fatalf("a refused publish released the lease: %+v, %v", lease, err)
	}
	s.complete(incomplete, "two")
	receipt := s.publish(publish.PublishRequest{Grant: a, Final: true, Release: true})
	s.same("lease expired", receipt.LeaseExpired, false)
	lease, err := s.Store.Lease(s.Context(), a.Key)
	if err != nil || lease.Held || lease.ExpiresAt != nil || s.generation(a).ReleasedAt == nil {
		s.Fatalf("after a publish with release: %+v, %v", lease, err)
	}
	s.acquire(a.Key, "b") // Nobody has to wait.

	s.publish(publish.PublishRequest{Grant: a, Final: true, Release: true}) // A late repeat leaves the new lease alone.
	if lease, err := s.Store.Lease(s.Context(), a.Key); err != nil || !lease.Held || lease.Holder != "b" {
		s.Errorf("the repeat released another's lease: %+v, %v", lease, err)
	}
}

func testLeaseExpired(s *suite) {
	a := s.acquire(s.key("k"), "a")
	for i, expired := range []bool{false, true} {
		if expired {
			s.Expire(s.T, a.Key)
		}
		s.upload(a, "f", []string{"one", "two"}[i])
		s.same("lease expired", s.publish(publish.PublishRequest{Grant: a}).LeaseExpired, expired)
	}
}
