package publishtest

import (
	"fmt"
	"time"

	"github.com/pawlhq/pawl/publish"
)

// The sweep looks at the whole store, so each of its tests has one alone.
func sweepTests() []pointerTest {
	return []pointerTest{
		{name: "due", run: testSweepDue, alone: true},
		{name: "published", run: testSweepPublished, alone: true},
		{name: "idle", run: testSweepIdle, alone: true},
		{name: "kept", run: testSweepKept, alone: true},
		{name: "direct", run: testSweepDirect, alone: true},
		{name: "pages", run: testSweepPages, alone: true},
		{name: "dropped-late", run: testSweepDroppedLate, alone: true},
	}
}

// sweepGrace is what the suite gives, so long that nothing in it becomes due by itself.
const sweepGrace = time.Hour

// due asks for what is due, and checks which paths that are.
func (s *suite) due(want ...publish.Path) []publish.DueUpload {
	s.Helper()
	due, err := s.Store.DueUploads(s.Context(), sweepGrace, 2*sweepGrace, nil, 100)
	s.ok(err)
	var paths []publish.Path
	for _, upload := range due {
		paths = append(paths, upload.Path)
	}
	s.same("due", paths, want)
	return due
}

func (s *suite) swept(due []publish.DueUpload, want int) {
	s.Helper()
	got, err := s.Store.Swept(s.Context(), due)
	s.ok(err)
	s.same("swept", got, want)
}

func (s *suite) failIdle(want int) {
	s.Helper()
	got, err := s.Store.FailIdleUploads(s.Context(), sweepGrace, 2*sweepGrace, 100)
	s.ok(err)
	s.same("failed", got, want)
}

// testSweepDue: what failed or was replaced is due once, after the grace; what is stored or pending never is.
func testSweepDue(s *suite) {
	key := s.key("k")
	a := s.acquire(key, "a")
	failed := s.begin(a, "failed")
	s.fail(failed)
	replaced := s.begin(a, "replaced")
	s.complete(replaced, "old")
	s.upload(a, "replaced", "new")
	s.upload(a, "stored", "x")
	s.begin(a, "pending")
	s.upload(a, "removed", "x")
	s.remove(a, "removed")
	overtaken := s.begin(a, "overtaken")
	s.upload(a, "overtaken", "later")
	s.complete(overtaken, "earlier")
	s.due()
	s.Age(s.T, key, sweepGrace)
	due := s.due("failed", "replaced", "removed", "overtaken")
	for i, upload := range []publish.Upload{failed, replaced} {
		if due[i].Object() != upload.Object() || due[i].Number != upload.Number {
			s.Errorf("due is %+v, want the object %s", due[i], upload.Object())
		}
	}
	s.same("states", []publish.UploadState{due[0].State, due[1].State}, []publish.UploadState{publish.UploadFailed, publish.UploadDropped})
	s.swept(due[:1], 1)
	s.due("replaced", "removed", "overtaken")
	s.swept(due, 3)
	s.swept(due, 0)
	s.due()
	s.Age(s.T, key, 100*sweepGrace)
	s.due()
}

// testSweepPublished: a file that a revision has named is never due, although it was replaced or deleted since.
func testSweepPublished(s *suite) {
	key := s.key("k")
	a := s.acquire(key, "a")
	s.upload(a, "f", "one")
	s.upload(a, "g", "one")
	s.publish(publish.PublishRequest{Grant: a})
	s.upload(a, "f", "two")
	s.remove(a, "g")
	s.upload(a, "f", "three")
	s.publish(final(a))
	b := s.takeOver(key, "b")
	s.output(b, "newer")
	s.Age(s.T, key, 100*sweepGrace)
	due := s.due("f")
	s.same("state", due[0].State, publish.UploadDropped) // "two"
}

// testSweepIdle: a pending upload without a sign of life is failed first, which nothing undoes, and due after the grace.
func testSweepIdle(s *suite) {
	key := s.key("k")
	a := s.acquire(key, "a")
	dead, alive := s.begin(a, "dead"), s.begin(a, "alive")
	s.failIdle(0)
	s.Age(s.T, key, sweepGrace)
	s.ok(s.Store.KeepUploads(s.Context(), []publish.Upload{alive}))
	s.due()
	s.failIdle(1)
	s.failIdle(0)
	s.due()
	_, err := s.Store.CompleteUpload(s.Context(), dead, fileOf("dead", "late"))
	s.refused(err, publish.Error{Code: publish.ErrGenerationIncomplete, Failed: []publish.Path{"dead"}})
	s.complete(alive, "in time")
	s.Age(s.T, key, sweepGrace)
	s.failIdle(0)
	s.swept(s.due("dead"), 1)
	// The path can be uploaded again.
	s.upload(a, "dead", "again")
	s.same("files", s.publish(final(a)).Files, int64(2))
}

// testSweepKept: an upload that was replaced while it runs isn't due, and one that was swept is due again once it shows a sign of life.
func testSweepKept(s *suite) {
	key := s.key("k")
	a := s.acquire(key, "a")
	slow := s.begin(a, "f")
	s.upload(a, "f", "later")
	keep := func() { s.Helper(); s.ok(s.Store.KeepUploads(s.Context(), []publish.Upload{slow})) }
	s.Age(s.T, key, sweepGrace)
	keep()
	s.due()
	s.Age(s.T, key, sweepGrace)
	due := s.due("f")
	keep() // while it is being swept
	s.swept(due, 0)
	s.due()
	s.Age(s.T, key, sweepGrace)
	s.swept(s.due("f"), 1)
	s.due()
	keep() // after it was swept
	s.due()
	s.Age(s.T, key, sweepGrace)
	s.swept(s.due("f"), 1)
	s.ok(s.Store.KeepUploads(s.Context(), nil))
	unknown := slow
	unknown.Number, unknown.Grant.Key = 1<<40, s.key("unknown")
	s.ok(s.Store.KeepUploads(s.Context(), []publish.Upload{unknown}))
}

// testSweepDirect: direct uploads have more time, and are due twice: what was signed for them may be used after they were swept. Case 20.
func testSweepDirect(s *suite) {
	key := s.key("k")
	a := s.acquire(key, "a")
	s.beginDirect(s.promise(a, "f", "content", nil))
	s.Age(s.T, key, sweepGrace)
	s.failIdle(0)
	s.Age(s.T, key, sweepGrace)
	s.failIdle(1)
	s.Age(s.T, key, sweepGrace)
	s.due()
	s.Age(s.T, key, sweepGrace)
	due := s.due("f")
	s.swept(due, 1)
	s.swept(due, 0) // by another process, at the same time
	s.due()
	s.Age(s.T, key, 2*sweepGrace)
	s.swept(s.due("f"), 1)
	s.Age(s.T, key, 100*sweepGrace)
	s.due()
}

func testSweepPages(s *suite) {
	key := s.key("k")
	a := s.acquire(key, "a")
	var want []publish.Path
	for i := range 7 {
		path := publish.Path(fmt.Sprintf("f%d", i))
		s.fail(s.begin(a, path))
		want = append(want, path)
	}
	s.Age(s.T, key, sweepGrace)
	var after *publish.DueUpload
	var got []publish.Path
	for range 4 {
		page, err := s.Store.DueUploads(s.Context(), sweepGrace, sweepGrace, after, 3)
		s.ok(err)
		for _, upload := range page {
			got = append(got, upload.Path)
			after = &upload
		}
	}
	s.same("pages", got, want)
}

// testSweepDroppedLate: a file's grace counts from its replacement, not from its upload. Somebody may be reading it.
func testSweepDroppedLate(s *suite) {
	key := s.key("k")
	a := s.acquire(key, "a")
	s.upload(a, "f", "old")
	s.Age(s.T, key, 100*sweepGrace)
	s.upload(a, "f", "new")
	s.due()
	s.Age(s.T, key, sweepGrace)
	s.due("f")
}
