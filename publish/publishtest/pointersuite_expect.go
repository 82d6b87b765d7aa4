package publishtest

import (
	"fmt"

	"github.com/pawlhq/pawl/publish"
)

func expectTests() []pointerTest {
	return []pointerTest{
		{name: "case-22", run: testCase22},
		{name: "sequences", run: testExpectSequences},
		{name: "all-lists", run: testExpectAllLists},
		{name: "progressive", run: testExpectProgressive},
		{name: "order", run: testExpectOrder},
		{name: "replay", run: testExpectReplay},
		{name: "malformed", run: testExpectMalformed},
	}
}

// expecting is the request of a final publish that expects files.
func expecting(grant publish.Grant, patterns ...string) publish.PublishRequest {
	return publish.PublishRequest{Grant: grant, Final: true, Expect: patterns}
}

// testCase22: frames 1001 to 1100 are declared; 1050 is missing, then empty. Either is refused with the exact list.
func testCase22(s *suite) {
	a := s.acquire(s.key("k"), "a")
	const missing = publish.Path("beauty.1050.exr")
	for frame := 1001; frame <= 1100; frame++ {
		if path := publish.Path(fmt.Sprintf("beauty.%d.exr", frame)); path != missing {
			s.upload(a, path, "pixels")
		}
	}
	req := expecting(a, "beauty.[1001-1100].exr")
	_, err := s.Store.Publish(s.Context(), req)
	got := s.refused(err, publish.Error{Code: publish.ErrGenerationIncomplete, Key: a.Key, Token: a.Token, Missing: []publish.Path{missing}})
	s.same("other lists", [][]publish.Path{got.Empty, got.Failed, got.Pending}, [][]publish.Path{nil, nil, nil})
	s.current(a.Key, publish.Version{})
	s.same("state", s.generation(a).State, publish.StateOpen)

	s.upload(a, missing, "")
	_, err = s.Store.Publish(s.Context(), req)
	got = s.refused(err, publish.Error{Code: publish.ErrGenerationIncomplete, Empty: []publish.Path{missing}})
	s.same("other lists", [][]publish.Path{got.Missing, got.Failed, got.Pending}, [][]publish.Path{nil, nil, nil})
	s.current(a.Key, publish.Version{})

	s.upload(a, "notes.txt", "") // Nobody expects it, so it may be empty (case 28).
	s.upload(a, missing, "pixels")
	s.same("files", s.publish(req).Files, int64(101))
}

// testExpectSequences: one frame, negative frames, tiles, several patterns that overlap, odd names, and empty files that are allowed.
func testExpectSequences(s *suite) {
	for _, test := range []struct {
		patterns []string
		files    []publish.Path // in byte order
	}{
		{[]string{"a.[7-7].exr", "a.[7].exr"}, []publish.Path{"a.7.exr"}},
		{[]string{"a.[-2-1].exr"}, []publish.Path{"a.-1.exr", "a.-2.exr", "a.0.exr", "a.1.exr"}},
		{[]string{"a.[-001-0001].exr"}, []publish.Path{"a.-001.exr", "a.0000.exr", "a.0001.exr"}},
		{[]string{"t_[0-1]_[0-1].png"}, []publish.Path{"t_0_0.png", "t_0_1.png", "t_1_0.png", "t_1_1.png"}},
		{[]string{"a.[1-3x2]", "a.[3-5x2]", "é [[]1] \"q\""}, []publish.Path{"a.1", "a.3", "a.5", "é [1] \"q\""}},
	} {
		a := s.acquire(s.key(test.patterns[0]), "a")
		for _, path := range test.files {
			s.upload(a, path, "")
		}
		req := expecting(a, test.patterns...)
		_, err := s.Store.Publish(s.Context(), req)
		s.refused(err, publish.Error{Code: publish.ErrGenerationIncomplete, Empty: test.files})
		req.AllowEmpty = true
		for _, path := range test.files {
			s.remove(a, path)
		}
		_, err = s.Store.Publish(s.Context(), req)
		s.refused(err, publish.Error{Code: publish.ErrGenerationIncomplete, Missing: test.files})
		for _, path := range test.files {
			s.upload(a, path, "")
		}
		s.same("files", s.publish(req).Files, int64(len(test.files)))
	}
}

// testExpectAllLists: one refusal has all that is wrong. An expected path without a complete file is missing, whatever became of its
// uploads; a complete one stays expected to be whole while it is uploaded again.
func testExpectAllLists(s *suite) {
	a := s.acquire(s.key("k"), "a")
	s.begin(a, "pending")
	s.fail(s.begin(a, "failed"))
	s.upload(a, "again", "whole")
	s.begin(a, "again")
	s.upload(a, "empty", "")
	s.upload(a, "deleted", "whole")
	s.remove(a, "deleted")
	s.upload(a, "Z", "") // Byte order: before the small letters.
	s.begin(a, "unexpected")
	_, err := s.Store.Publish(s.Context(), expecting(a, "pending", "failed", "again", "never", "empty", "deleted", "Z", "empty", "never"))
	s.refused(err, publish.Error{
		Code:    publish.ErrGenerationIncomplete,
		Missing: []publish.Path{"deleted", "failed", "never", "pending"}, Empty: []publish.Path{"Z", "empty"},
		Failed: []publish.Path{"failed"}, Pending: []publish.Path{"again", "pending", "unexpected"},
	})
}

// testExpectProgressive: what isn't final yet may lack frames; the final publish looks.
func testExpectProgressive(s *suite) {
	a := s.acquire(s.key("k"), "a")
	s.upload(a, "a.1", "one")
	req := publish.PublishRequest{Grant: a, Expect: []string{"a.[1-2]"}}
	s.same("version", s.publish(req).Version(), publish.Version{Token: a.Token, Revision: 1})
	req.Final = true
	_, err := s.Store.Publish(s.Context(), req)
	s.refused(err, publish.Error{Code: publish.ErrGenerationIncomplete, Missing: []publish.Path{"a.2"}})
	s.upload(a, "a.2", "")
	s.same("version", s.publish(publish.PublishRequest{Grant: a}).Version(), publish.Version{Token: a.Token, Revision: 2})
	s.remove(a, "a.1") // What earlier revisions name doesn't count.
	s.upload(a, "a.2", "two")
	_, err = s.Store.Publish(s.Context(), req)
	got := s.refused(err, publish.Error{Code: publish.ErrGenerationIncomplete, Missing: []publish.Path{"a.1"}})
	s.same("empty", got.Empty, []publish.Path(nil))
	s.upload(a, "a.1", "one")
	s.same("version", s.publish(req).Version(), publish.Version{Token: a.Token, Revision: 3})
}

// testExpectOrder: what the fence and the preconditions say comes before completeness.
func testExpectOrder(s *suite) {
	a := s.acquire(s.key("k"), "a")
	s.upload(a, "f", "one")
	req := expecting(a, "g")
	req.IfMatch = &publish.Version{Token: a.Token, Revision: 1}
	_, err := s.Store.Publish(s.Context(), req)
	s.refused(err, publish.Error{Code: publish.ErrPreconditionFailed})
	b := s.takeOver(a.Key, "b")
	s.output(b, "newer")
	_, err = s.Store.Publish(s.Context(), req)
	s.refused(err, publish.Error{Code: publish.ErrStaleToken, Token: a.Token, AcceptedToken: b.Token})
}

// testExpectReplay: the same request again is a replay. So is one that expects something else of the same files and finds
// it; one that doesn't find it was never published.
func testExpectReplay(s *suite) {
	a := s.acquire(s.key("k"), "a")
	s.upload(a, "a.1", "one")
	s.upload(a, "a.2", "")
	req := expecting(a, "a.[1-2]")
	req.AllowEmpty = true
	first := s.publish(req)
	first.Replayed = true
	s.same("replay", s.publish(req), first)
	s.same("without", s.publish(final(a)), first)
	s.same("less", s.publish(expecting(a, "a.1")), first)
	for _, other := range []publish.PublishRequest{expecting(a, "a.[1-2]"), expecting(a, "a.[1-3]")} {
		_, err := s.Store.Publish(s.Context(), other)
		s.refused(err, publish.Error{Code: publish.ErrGenerationSealed, Token: a.Token})
	}
	b := s.takeOver(a.Key, "b")
	second := s.output(b, "b")
	superseded := s.publish(req)
	s.same("superseded", superseded.Replayed, true)
	s.same("current", *superseded.Current, second.Version())
	s.Condemn(s.T, a.Key, a.Token) // Its files may go, its outcome is still told.
	s.same("condemned", s.publish(req).Replayed, true)
}

func testExpectMalformed(s *suite) {
	a := s.acquire(s.key("k"), "a")
	s.upload(a, "f", "one")
	_, err := s.Store.Publish(s.Context(), expecting(a, "f", "[2-1]"))
	s.refused(err, publish.Error{Code: publish.ErrInvalidRequest})
	s.current(a.Key, publish.Version{})
}
