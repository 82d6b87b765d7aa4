package publishtest

import (
	"github.com/pawlhq/pawl/publish"
)

func uploadTests() []pointerTest {
	return []pointerTest{
		{name: "result", run: testUploadResult},
		{name: "objects", run: testUploadObjects},
		{name: "last-started", run: testLastStartedCounts},
		{name: "pending-behind", run: testPendingBehindComplete},
		{name: "repeat", run: testCompleteRepeated},
		{name: "failed", run: testFailedUpload},
		{name: "fail-late", run: testFailChangesNothingElse},
		{name: "identical", run: testIdentical},
		{name: "replay-sealed", run: testReplaySealed},
	}
}

func testUploadResult(s *suite) {
	a := s.acquire(s.key("k"), "a")
	for i, content := range []string{"one", "two", ""} {
		got := s.upload(a, "dir/f.png", content)
		s.same("result", got, publish.UploadResult{File: fileOf("dir/f.png", content), Key: a.Key, Token: a.Token, Replaced: i > 0})
	}
	s.same("uploads", s.generation(a).Uploads, publish.UploadCounts{Unpublished: 1})
	s.files(a) // Nothing is published yet.
	s.publish(final(a))
	s.files(a, fileOf("dir/f.png", ""))
}

// testUploadObjects: a StoredFile leads to the object of the upload that counts, and no two uploads share one.
func testUploadObjects(s *suite) {
	a := s.acquire(s.key("k"), "a")
	first, second := s.begin(a, "f"), s.begin(a, "f")
	if second.Number <= first.Number || first.Object() == second.Object() {
		s.Errorf("uploads %+v and %+v", first, second)
	}
	s.complete(second, "same")
	s.publish(final(a))
	file, err := s.Store.CurrentFile(s.Context(), a.Key, "f")
	if err != nil {
		s.Fatal(err)
	}
	s.same("stored file", file, publish.StoredFile{File: fileOf("f", "same"), Token: a.Token, Object: second.Object(), Sealed: true, Published: true})
}

// testLastStartedCounts: of two uploads of a path the one that started last counts, whichever ends first.
func testLastStartedCounts(s *suite) {
	a := s.acquire(s.key("k"), "a")
	for _, path := range []publish.Path{"in order", "overtaken"} {
		first, second := s.begin(a, path), s.begin(a, path)
		if path == "in order" {
			result := s.complete(first, "first")
			s.same("first", [2]bool{result.Replaced, result.Overtaken}, [2]bool{false, false})
			result = s.complete(second, "second")
			s.same("second", [2]bool{result.Replaced, result.Overtaken}, [2]bool{true, false})
			continue
		}
		result := s.complete(second, "second")
		s.same("second", [2]bool{result.Replaced, result.Overtaken}, [2]bool{false, false})
		for range 2 { // Its repeat tells the same.
			result = s.complete(first, "first")
			s.same("first", result.Overtaken, true)
		}
	}
	s.publish(final(a))
	s.files(a, fileOf("in order", "second"), fileOf("overtaken", "second"))
}

// testPendingBehindComplete: a file counts as long as nothing newer is complete, but a newer start keeps the set
// from its final publish.
func testPendingBehindComplete(s *suite) {
	a := s.acquire(s.key("k"), "a")
	first, second := s.begin(a, "f"), s.begin(a, "f")
	s.complete(first, "first")
	_, err := s.Store.Publish(s.Context(), final(a))
	s.refused(err, publish.Error{Code: publish.ErrGenerationIncomplete, Pending: []publish.Path{"f"}})
	s.publish(publish.PublishRequest{Grant: a})
	s.files(a, fileOf("f", "first"))
	s.fail(second)
	_, err = s.Store.Publish(s.Context(), final(a))
	s.refused(err, publish.Error{Code: publish.ErrGenerationIncomplete, Failed: []publish.Path{"f"}})
	s.upload(a, "f", "third")
	s.publish(final(a))
	s.files(a, fileOf("f", "third"))
	s.same("uploads", s.generation(a).Uploads, publish.UploadCounts{}) // The failed one is settled.
}

// testCompleteRepeated: the answer was lost, the repeat changes nothing, also after a publish.
func testCompleteRepeated(s *suite) {
	a := s.acquire(s.key("k"), "a")
	upload := s.begin(a, "f")
	s.complete(upload, "one")
	again := s.complete(upload, "one")
	s.same("file", again.File, fileOf("f", "one"))
	s.same("overtaken", again.Overtaken, false)
	first := s.publish(publish.PublishRequest{Grant: a})
	s.complete(upload, "one")
	s.same("uploads", s.generation(a).Uploads, publish.UploadCounts{})
	s.same("replayed", s.publish(publish.PublishRequest{Grant: a}).Version(), first.Version())
}

func testFailedUpload(s *suite) {
	a := s.acquire(s.key("k"), "a")
	upload := s.begin(a, "f")
	s.fail(upload)
	s.fail(upload)
	s.same("uploads", s.generation(a).Uploads, publish.UploadCounts{Failed: 1})
	_, err := s.Store.CompleteUpload(s.Context(), upload, fileOf("f", "one"))
	s.refused(err, publish.Error{Code: publish.ErrGenerationIncomplete, Key: a.Key, Token: a.Token})
	_, err = s.Store.Publish(s.Context(), publish.PublishRequest{Grant: a})
	s.refused(err, publish.Error{Code: publish.ErrGenerationIncomplete})
	s.upload(a, "f", "two")
	s.publish(final(a))
	s.files(a, fileOf("f", "two"))
}

// testFailChangesNothingElse: a late failure report doesn't take back what is complete, overtaken or deleted.
func testFailChangesNothingElse(s *suite) {
	a := s.acquire(s.key("k"), "a")
	overtaken, complete, deleted := s.begin(a, "f"), s.begin(a, "f"), s.begin(a, "g")
	s.complete(complete, "one")
	s.complete(overtaken, "zero")
	s.remove(a, "g")
	for _, upload := range []publish.Upload{overtaken, complete, deleted} {
		s.fail(upload)
	}
	s.same("uploads", s.generation(a).Uploads, publish.UploadCounts{Unpublished: 1})
	s.publish(final(a))
	s.fail(complete)
	s.files(a, fileOf("f", "one"))
}

// testIdentical: a promised digest that is there already needs no upload, but only if that file is the one that counts.
func testIdentical(s *suite) {
	a := s.acquire(s.key("k"), "a")
	ask := func(path publish.Path, content string) publish.UploadStart {
		s.Helper()
		req := beginRequest(a, path)
		req.Digest = fileOf(path, content).SHA256
		start, err := s.Store.BeginUpload(s.Context(), req)
		if err != nil {
			s.Fatal(err)
		}
		return start
	}
	s.upload(a, "f", "one")
	there := fileOf("f", "one")
	for range 2 {
		s.same("existing", ask("f", "one"), publish.UploadStart{Existing: &there})
	}
	s.same("uploads", s.generation(a).Uploads, publish.UploadCounts{Unpublished: 1})
	s.publish(publish.PublishRequest{Grant: a})
	s.same("existing and published", ask("f", "one").Existing, &there)

	for name, start := range map[string]publish.UploadStart{
		"another path": ask("g", "one"), "other bytes": ask("f", "two"), "behind a pending upload": ask("f", "one"),
	} {
		if start.Existing != nil {
			s.Errorf("%s: %+v is said to exist", name, start.Existing)
		}
	}
	s.remove(a, "f")
	if start := ask("f", "one"); start.Existing != nil {
		s.Errorf("a deleted file is said to exist: %+v", start.Existing)
	}
}

// testReplaySealed: a repeated upload-and-publish finds its file in the sealed set, also once that was superseded.
func testReplaySealed(s *suite) {
	a := s.acquire(s.key("k"), "a")
	s.upload(a, "dropped", "zero")
	s.remove(a, "dropped")
	s.upload(a, "f", "one")
	s.publish(final(a))
	there := fileOf("f", "one")
	ask := func(path publish.Path) (publish.UploadStart, error) {
		req := beginRequest(a, path)
		req.ReplaySealed = true
		return s.Store.BeginUpload(s.Context(), req)
	}
	for _, superseded := range []publish.Token{0, 2} {
		if superseded > 0 {
			s.output(s.takeOver(a.Key, "b"), "b")
		}
		start, err := ask("f")
		if err != nil {
			s.Fatal(err)
		}
		s.same("existing", start, publish.UploadStart{Existing: &there, Sealed: true, SupersededBy: superseded})
		refusal := publish.ErrGenerationSealed
		if superseded > 0 {
			refusal = publish.ErrStaleToken
		}
		for _, path := range []publish.Path{"never", "dropped"} {
			_, err = ask(path)
			s.refused(err, publish.Error{Code: refusal})
		}
	}

	c := s.takeOver(a.Key, "c") // An open generation takes the upload as usual.
	s.upload(c, "f", "one")
	req := beginRequest(c, "f")
	req.ReplaySealed = true
	if start, err := s.Store.BeginUpload(s.Context(), req); err != nil || start.Existing != nil || start.Sealed {
		s.Errorf("an open generation answers %+v, %v", start, err)
	}
}
