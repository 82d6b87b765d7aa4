package publishtest

import (
	"fmt"

	"github.com/pawlhq/pawl/publish"
)

func reuseTests() []pointerTest {
	return []pointerTest{
		{name: "case-23", run: testCase23},
		{name: "untouched-only", run: testReuseUntouched},
		{name: "chain", run: testReuseChain},
		{name: "whole-set", run: testReuseWholeSet},
		{name: "base", run: testReuseBase},
		{name: "refused", run: testReuseRefused},
		{name: "order-of-checks", run: testReuseOrder},
		{name: "replay", run: testReuseReplay},
		{name: "progressive", run: testReuseProgressive},
		{name: "deleted", run: testReuseDeleted},
		{name: "granted-mode", run: testReuseGrantedMode},
		{name: "race-of-publishes", run: testReuseRace},
		{name: "race-with-uploads", run: testReuseUploadRace},
	}
}

// reusing is a final publish that carries files over.
func reusing(grant publish.Grant, from publish.Token) publish.PublishRequest {
	return publish.PublishRequest{Grant: grant, Final: true, ReuseFrom: from}
}

// object is the object that a published file is read from.
func (s *suite) object(grant publish.Grant, path publish.Path) publish.ObjectName {
	s.Helper()
	file, err := s.Store.File(s.Context(), grant.Key, grant.Token, path, publish.LeaseID{})
	if err != nil {
		s.Fatalf("file %s of %d: %v", path, grant.Token, err)
	}
	return file.Object
}

// testCase23: frames 1001-1010, of which 1007 and 1008 are rendered again; the rest is reused from the named generation, unless
// that one isn't current any more.
func testCase23(s *suite) {
	a := s.acquire(s.key("k"), "a")
	frame := func(n int) publish.Path { return publish.Path(fmt.Sprintf("beauty.%d.exr", n)) }
	objects := map[publish.Path]publish.ObjectName{}
	put := func(grant publish.Grant, n int, content string) {
		upload := s.begin(grant, frame(n))
		s.complete(upload, content)
		objects[frame(n)] = upload.Object()
	}
	for n := 1001; n <= 1010; n++ {
		put(a, n, "old")
	}
	first := s.publish(final(a))
	s.same("reused by the first", [3]any{first.ReuseFrom, first.ReusedFiles, first.ReusedBytes}, [3]any{publish.Token(0), int64(0), int64(0)})

	b := s.takeOver(a.Key, "b")
	put(b, 1007, "again")
	put(b, 1008, "again")
	req := reusing(b, a.Token)
	req.Expect = []string{"beauty.[1001-1010].exr"}
	receipt := s.publish(req)
	s.same("receipt", [5]any{receipt.Files, receipt.Bytes, receipt.ReuseFrom, receipt.ReusedFiles, receipt.ReusedBytes},
		[5]any{int64(10), int64(34), a.Token, int64(8), int64(24)})
	var want []publish.File
	for n := 1001; n <= 1010; n++ {
		content := "old"
		if n == 1007 || n == 1008 {
			content = "again"
		}
		want = append(want, fileOf(frame(n), content))
		s.same("object", s.object(b, frame(n)), objects[frame(n)])
		current, err := s.Store.CurrentFile(s.Context(), b.Key, frame(n))
		s.ok(err)
		s.same("current file", current, publish.StoredFile{
			File: fileOf(frame(n), content), Token: b.Token, Object: objects[frame(n)], Sealed: true, Published: true,
		})
	}
	s.files(b, want...)
	s.same("digest", receipt.ManifestDigest, publish.ManifestDigest(want))
	s.same("shown", s.generation(b).Receipts, []publish.Receipt{receipt})

	c := s.takeOver(a.Key, "c") // A's isn't current any more.
	put(c, 1009, "third")
	_, err := s.Store.Publish(s.Context(), reusing(c, a.Token))
	s.refused(err, publish.Error{
		Code: publish.ErrPreconditionFailed, Key: a.Key, Token: c.Token, ReuseFrom: a.Token,
		Current: &publish.Version{Token: b.Token, Revision: 1},
	})
	s.current(a.Key, publish.Version{Token: b.Token, Revision: 1})
	req = reusing(c, a.Token)
	req.ReuseStale = true
	s.same("unless asked for", s.publish(req).ReusedFiles, int64(9))
	s.files(c, append(append(filesNamed("old", frame, 1001, 1008), fileOf(frame(1009), "third")), fileOf(frame(1010), "old"))...)
}

func filesNamed(content string, name func(int) publish.Path, from, to int) []publish.File {
	var files []publish.File
	for n := from; n <= to; n++ {
		files = append(files, fileOf(name(n), content))
	}
	return files
}

// testReuseUntouched: what a generation has uploaded, is uploading, failed to upload or deleted isn't filled in silence.
func testReuseUntouched(s *suite) {
	a := s.acquire(s.key("k"), "a")
	for _, path := range []publish.Path{"deleted", "failed", "kept", "pending", "redone", "unpublished"} {
		s.upload(a, path, "old")
	}
	s.remove(a, "unpublished")
	s.publish(final(a))
	b := s.takeOver(a.Key, "b")
	pending := s.begin(b, "pending")
	failed := s.begin(b, "failed")
	s.fail(failed)
	s.upload(b, "deleted", "new")
	s.remove(b, "deleted")
	s.upload(b, "redone", "new")
	_, err := s.Store.Publish(s.Context(), reusing(b, a.Token))
	s.refused(err, publish.Error{Code: publish.ErrGenerationIncomplete, Failed: []publish.Path{"failed"}, Pending: []publish.Path{"pending"}})
	s.same("left behind", s.generation(b).Uploads, publish.UploadCounts{Pending: 1, Failed: 1, Unpublished: 1})

	progressive := publish.PublishRequest{Grant: b, ReuseFrom: a.Token}
	s.publish(progressive) // It publishes what is complete: neither the old file nor the new one.
	s.files(b, fileOf("kept", "old"), fileOf("redone", "new"))
	s.complete(pending, "new")
	s.remove(b, "failed")
	s.same("reused", s.publish(reusing(b, a.Token)).ReusedFiles, int64(1))
	s.files(b, fileOf("kept", "old"), fileOf("pending", "new"), fileOf("redone", "new"))
	s.files(a, filesOfContent("old", "deleted", "failed", "kept", "pending", "redone")...)
}

func filesOfContent(content string, paths ...publish.Path) []publish.File {
	var files []publish.File
	for _, path := range paths {
		files = append(files, fileOf(path, content))
	}
	return files
}

// testReuseChain: what is carried over again references its first object, whatever becomes of the generations between.
func testReuseChain(s *suite) {
	a := s.acquire(s.key("k"), "a")
	upload := s.begin(a, "f")
	s.complete(upload, "one")
	s.publish(final(a))
	last := a
	for i, path := range []publish.Path{"g", "h", "i"} {
		next := s.takeOver(a.Key, "next")
		s.upload(next, path, "more")
		receipt := s.publish(reusing(next, last.Token))
		s.same("reused", [2]int64{receipt.Files, receipt.ReusedFiles}, [2]int64{int64(i) + 2, int64(i) + 1})
		s.same("object", s.object(next, "f"), upload.Object())
		if i == 1 {
			s.Condemn(s.T, a.Key, last.Token)
		}
		last = next
	}
	s.files(last, fileOf("f", "one"), fileOf("g", "more"), fileOf("h", "more"), fileOf("i", "more"))
	s.Condemn(s.T, a.Key, a.Token)
	s.same("object of a condemned generation", s.object(last, "f"), upload.Object())
}

// testReuseWholeSet: what is expected, the primary file and the digest are looked for in the whole set.
func testReuseWholeSet(s *suite) {
	a := s.acquire(s.key("k"), "a")
	s.upload(a, "a.svg", "one")
	s.upload(a, "empty", "")
	s.publish(final(a))
	b := s.takeOver(a.Key, "b")
	s.upload(b, "b", "two")
	set := []publish.File{fileOf("a.svg", "one"), fileOf("b", "two"), fileOf("empty", "")}
	try := func(change func(*publish.PublishRequest)) error {
		req := reusing(b, a.Token)
		change(&req)
		_, err := s.Store.Publish(s.Context(), req)
		return err
	}
	s.refused(try(func(r *publish.PublishRequest) { r.Expect = []string{"[1-2]", "a.svg", "b", "empty"} }), publish.Error{
		Code: publish.ErrGenerationIncomplete, Missing: []publish.Path{"1", "2"}, Empty: []publish.Path{"empty"},
	})
	s.refused(try(func(r *publish.PublishRequest) { r.Primary = "c" }), publish.Error{
		Code: publish.ErrGenerationIncomplete, Missing: []publish.Path{"c"},
	})
	own := publish.ManifestDigest([]publish.File{fileOf("b", "two")})
	s.refused(try(func(r *publish.PublishRequest) { r.ManifestDigest = &own }), publish.Error{
		Code: publish.ErrDigestMismatch, Promised: own.String(), Came: publish.ManifestDigest(set).String(),
	})
	s.current(a.Key, publish.Version{Token: a.Token, Revision: 1})
	s.ok(try(func(r *publish.PublishRequest) {
		r.Primary, r.Expect, r.AllowEmpty = "a.svg", []string{"a.svg", "b", "empty"}, true
		r.ManifestDigest = new(publish.ManifestDigest(set))
	}))
	s.same("type of a carried primary file", s.pointer(a.Key).ContentType, "image/svg+xml")
	s.files(b, set...)

	c := s.takeOver(a.Key, "c") // Nothing of its own: the set is what was there, and its only file the primary one.
	for _, path := range []publish.Path{"a.svg", "empty"} {
		s.remove(c, path)
	}
	receipt := s.publish(reusing(c, b.Token))
	s.same("primary", receipt.Primary, publish.Path("b"))
	s.same("reused", [2]int64{receipt.Files, receipt.ReusedFiles}, [2]int64{1, 1})
}
