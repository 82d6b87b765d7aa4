package publishtest

import (
	"github.com/pawlhq/pawl/publish"
)

func deleteTests() []pointerTest {
	return []pointerTest{
		{name: "unknown-path", run: testDeleteUnknown},
		{name: "every-state", run: testDeleteEveryState},
		{name: "pending", run: testDeletePending},
		{name: "published", run: testDeletePublished},
	}
}

func testDeleteUnknown(s *suite) {
	a := s.acquire(s.key("k"), "a")
	s.upload(a, "tileset/0.glb", "one")
	for _, path := range []publish.Path{"f", "tileset", "tileset/0", "tileset/0.glb/x"} {
		err := s.Store.DeleteFile(s.Context(), a, path)
		s.refused(err, publish.Error{Code: publish.ErrNotFound, Key: a.Key})
	}
}

// testDeleteEveryState: whatever became of a path's uploads, deleting it takes it out of the set; repeating that is harmless.
func testDeleteEveryState(s *suite) {
	a := s.acquire(s.key("k"), "a")
	s.upload(a, "kept", "kept")
	s.upload(a, "complete", "one")
	s.begin(a, "pending")
	s.fail(s.begin(a, "failed"))
	s.upload(a, "mixed", "one")
	s.begin(a, "mixed")
	s.fail(s.begin(a, "mixed"))
	for range 2 {
		for _, path := range []publish.Path{"complete", "pending", "failed", "mixed"} {
			s.remove(a, path)
		}
	}
	s.same("uploads", s.generation(a).Uploads, publish.UploadCounts{Unpublished: 1})
	s.publish(final(a))
	s.files(a, fileOf("kept", "kept"))
}

// testDeletePending: an upload that was running when its path was deleted is overtaken; one that starts after that counts.
func testDeletePending(s *suite) {
	a := s.acquire(s.key("k"), "a")
	s.upload(a, "kept", "kept")
	running := s.begin(a, "f")
	s.remove(a, "f")
	s.same("overtaken", s.complete(running, "old").Overtaken, true)
	s.publish(publish.PublishRequest{Grant: a})
	s.files(a, fileOf("kept", "kept"))
	result := s.upload(a, "f", "new")
	s.same("a new upload", [2]bool{result.Replaced, result.Overtaken}, [2]bool{false, false})
	s.publish(final(a))
	s.files(a, fileOf("f", "new"), fileOf("kept", "kept"))
}

// testDeletePublished: what a revision has published stays readable until the next one goes without it.
func testDeletePublished(s *suite) {
	a := s.acquire(s.key("k"), "a")
	s.upload(a, "f", "one")
	s.upload(a, "g", "two")
	s.publish(publish.PublishRequest{Grant: a})
	s.remove(a, "f")
	s.files(a, fileOf("f", "one"), fileOf("g", "two"))
	if _, err := s.Store.CurrentFile(s.Context(), a.Key, "f"); err != nil {
		s.Errorf("a published file, deleted for the next revision: %v", err)
	}
	_, err := s.Store.File(s.Context(), a.Key, a.Token, "f", a.LeaseID) // Its publisher sees what comes next.
	s.refused(err, publish.Error{Code: publish.ErrNotFound})
	s.publish(publish.PublishRequest{Grant: a})
	s.files(a, fileOf("g", "two"))
	_, err = s.Store.CurrentFile(s.Context(), a.Key, "f")
	s.refused(err, publish.Error{Code: publish.ErrNotFound})

	s.remove(a, "g")
	_, err = s.Store.Publish(s.Context(), publish.PublishRequest{Grant: a})
	s.refused(err, publish.Error{Code: publish.ErrGenerationIncomplete}) // Nothing would be left.
	s.files(a, fileOf("g", "two"))
}
