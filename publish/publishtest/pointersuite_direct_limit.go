package publishtest

import (
	"github.com/pawlhq/pawl/publish"
)

func directLimitTests() []pointerTest {
	return []pointerTest{
		{name: "open uploads", run: testDirectLimit},
		{name: "what ends an upload", run: testDirectLimitEnds},
		{name: "sweep", run: testDirectLimitSweep, alone: true},
		{name: "what is no further upload", run: testDirectLimitResume},
		{name: "other refusals", run: testDirectLimitStale},
	}
}

// beginAs begins a direct upload of a path's own content, as one of at most n open ones of a caller.
func (s *suite) beginAs(grant publish.Grant, path publish.Path, caller publish.CredentialID, n int64) (publish.DirectStart, error) {
	req := s.promise(grant, path, string(path), nil)
	req.MaxUploads = n
	return s.Store.BeginDirect(s.as(caller), req)
}

// oneOf begins an upload that is within the limit.
func (s *suite) oneOf(grant publish.Grant, path publish.Path, caller publish.CredentialID, n int64) publish.DirectStart {
	s.Helper()
	start, err := s.beginAs(grant, path, caller, n)
	if err != nil {
		s.Fatalf("%s as one of %d uploads: %v", path, n, err)
	}
	return start
}

// tooManyOpen begins an upload that is above the limit.
func (s *suite) tooManyOpen(grant publish.Grant, caller publish.CredentialID, n int64) {
	s.Helper()
	_, err := s.beginAs(grant, "refused", caller, n)
	s.refused(err, publish.Error{
		Code: publish.ErrQuotaExceeded, Key: grant.Key, Token: grant.Token, Path: "refused", Operation: publish.OperationUpload,
		Limit: n, Unit: publish.UnitUploads,
	})
}

// testDirectLimit: each caller has as many as are allowed, of all keys; who has no name, or no limit, has any number. What is refused leaves nothing, and uploads
// through a server don't count.
func testDirectLimit(s *suite) {
	a, b := s.callerOf("a"), s.callerOf("b")
	k, l := s.acquire(s.key("k"), "w"), s.acquire(s.key("l"), "w")
	_, err := s.Store.BeginUpload(s.as(a), beginRequest(k, "through"))
	s.ok(err)
	s.oneOf(k, "1", a, 2)
	s.oneOf(l, "2", a, 2)
	s.tooManyOpen(k, a, 2)
	s.tooManyOpen(l, a, 1)
	s.oneOf(l, "3", b, 1)
	s.tooManyOpen(l, b, 1)
	s.oneOf(l, "4", a, 0)
	s.tooManyOpen(k, a, 3) // What was begun without a limit counts.
	for _, path := range []publish.Path{"5", "6"} {
		s.oneOf(l, path, "", 1)
	}
	s.oneOf(k, "7", a, 4)
	_, err = s.Store.Publish(s.Context(), final(k))
	s.refused(err, publish.Error{Code: publish.ErrGenerationIncomplete, Pending: []publish.Path{"1", "7", "through"}})
}

// testDirectLimitEnds: an upload counts until it ends, however it does.
func testDirectLimitEnds(s *suite) {
	a := s.callerOf("a")
	grant := s.acquire(s.key("k"), "w")
	for path, end := range map[publish.Path]func(publish.Upload){
		"completed": func(u publish.Upload) { s.complete(u, "x") },
		"aborted":   s.fail,
		"deleted":   func(publish.Upload) { s.remove(grant, "deleted") },
		"replaced":  func(publish.Upload) { s.upload(grant, "replaced", "later") },
	} {
		start := s.oneOf(grant, path, a, 1)
		s.tooManyOpen(grant, a, 1)
		end(start.Upload)
	}
	fenced := s.oneOf(grant, "fenced", a, 1)
	next := s.takeOver(grant.Key, "x")
	s.output(next, "newer")
	s.tooManyOpen(s.acquire(s.key("l"), "w"), a, 1)
	_, err := s.Store.CompleteUpload(s.Context(), fenced.Upload, fenced.File)
	s.refused(err, publish.Error{Code: publish.ErrStaleToken, AcceptedToken: next.Token, GrantedToken: next.Token})
	s.oneOf(s.acquire(s.key("m"), "w"), "last", a, 1)
}

// testDirectLimitSweep: who has gone away without a word has room again after the sweep.
func testDirectLimitSweep(s *suite) {
	a, key := s.callerOf("a"), s.key("k")
	grant := s.acquire(key, "w")
	s.oneOf(grant, "left", a, 1)
	s.Age(s.T, key, 2*sweepGrace)
	s.tooManyOpen(grant, a, 1)
	s.failIdle(1)
	s.oneOf(grant, "f", a, 1)
}

// testDirectLimitResume: going on with an upload is no further one, and nor is what is there already. Another promise for the path is.
func testDirectLimitResume(s *suite) {
	a, b := s.callerOf("a"), s.callerOf("b")
	grant := s.acquire(s.key("k"), "w")
	s.upload(grant, "there", "there")
	first := s.oneOf(grant, "f", a, 1)
	for _, caller := range []publish.CredentialID{a, b} {
		if again := s.oneOf(grant, "f", caller, 1); !again.Resumed || again.ID != first.ID {
			s.Errorf("begun again: %+v", again)
		}
	}
	if start := s.oneOf(grant, "there", a, 1); start.Existing == nil {
		s.Errorf("what is there was begun: %+v", start)
	}
	s.oneOf(grant, "g", b, 1) // It is a's that b went on with.
	s.oneOf(grant, "more", a, 0)
	if again := s.oneOf(grant, "f", a, 1); !again.Resumed {
		s.Error("what was begun before the limit was lowered isn't gone on with")
	}
	other := s.promise(grant, "f", "another", nil)
	other.MaxUploads = 1
	_, err := s.Store.BeginDirect(s.as(a), other)
	s.refused(err, publish.Error{Code: publish.ErrQuotaExceeded, Path: "f", Limit: 1, Unit: publish.UnitUploads})
	s.findDirect(publish.BeginDirectRequest{Grant: grant, ID: first.ID, Promise: first.Promise, PartSize: first.PartSize}, publish.UploadPending)
}

// testDirectLimitStale: who has too many open, and is fenced, learns that it is fenced: waiting for room would be in vain.
func testDirectLimitStale(s *suite) {
	a, key := s.callerOf("a"), s.key("k")
	grant := s.acquire(key, "w")
	s.oneOf(grant, "f", a, 1)
	next := s.takeOver(key, "x")
	s.output(next, "newer")
	_, err := s.beginAs(grant, "g", a, 1)
	s.refused(err, publish.Error{Code: publish.ErrStaleToken, AcceptedToken: next.Token, GrantedToken: next.Token})
}
