package publishtest

import (
	"github.com/pawlhq/pawl/publish"
)

func fenceTests() []pointerTest {
	return []pointerTest{
		{name: "case-01", run: testCase01},
		{name: "case-02", run: testCase02},
		{name: "case-10", run: testCase10},
		{name: "stale", run: testStaleFacts},
		{name: "holder", run: testStaleHolder},
		{name: "accepted", run: testFenceAccepted},
		{name: "granted", run: testFenceGranted},
		{name: "prefixes", run: testFencePrefixes},
		{name: "complete", run: testFencedInTheMiddle},
		{name: "released", run: testReleasedHolder},
	}
}

// testCase01: a slow renderer comes back after its successor has published.
func testCase01(s *suite) {
	a := s.acquire(s.key("k"), "a")
	late := s.begin(a, "out.png")
	b := s.takeOver(a.Key, "b")
	s.output(b, "b")

	_, err := s.Store.CompleteUpload(s.Context(), late, fileOf("out.png", "a"))
	want := publish.Error{
		Code: publish.ErrStaleToken, Key: a.Key, Operation: publish.OperationUpload, Path: "out.png", Token: a.Token,
		AcceptedToken: b.Token, GrantedToken: b.Token, Holder: "b", Worker: "a", Repeat: 1, Next: "acquire",
	}
	s.refused(err, want)
	_, err = s.Store.Publish(s.Context(), final(a))
	want.Operation, want.Path = publish.OperationPublish, ""
	s.refused(err, want)

	s.current(a.Key, publish.Version{Token: b.Token, Revision: 1})
	s.files(b, fileOf("out.png", "b"))
	s.same("rejections", len(s.generation(a).Rejections), 2)
}

// testCase02: one job is redelivered while all its earlier runs live on.
func testCase02(s *suite) {
	grants := s.grants(s.key("k"), 6)
	for _, grant := range grants[1:] {
		s.upload(grant, "out.png", "run")
	}
	s.publish(final(grants[6]))
	for _, grant := range grants[1:6] {
		_, err := s.Store.Publish(s.Context(), final(grant))
		s.refused(err, publish.Error{Code: publish.ErrStaleToken, Token: grant.Token, AcceptedToken: 6, Holder: "worker 6"})
	}
	s.current(grants[1].Key, publish.Version{Token: 6, Revision: 1})
}

// testCase10: two jobs take the same key by accident, one after the other.
func testCase10(s *suite) {
	a := s.acquire(s.key("k"), "job one")
	s.upload(a, "f", "one")
	s.publish(publish.PublishRequest{Grant: a, Final: true, IfNoneMatch: true, Release: true})
	b := s.acquire(a.Key, "job two")
	s.upload(b, "f", "two")
	current := publish.Version{Token: a.Token, Revision: 1}
	_, err := s.Store.Publish(s.Context(), publish.PublishRequest{Grant: b, Final: true, IfNoneMatch: true})
	s.refused(err, publish.Error{Code: publish.ErrPreconditionFailed, Current: &current})
	s.current(a.Key, current)
	history, err := s.Store.History(s.Context(), a.Key, 0, 10)
	if err != nil || len(history.Generations) != 2 {
		s.Fatalf("history: %+v, %v", history, err)
	}
	s.same("holders", []string{history.Generations[0].Holder, history.Generations[1].Holder}, []string{"job two", "job one"})
}

// testStaleFacts: the same stale request counts up in one record, another one has a record of its own.
func testStaleFacts(s *suite) {
	a := s.acquire(s.key("k"), "a")
	b := s.takeOver(a.Key, "b")
	receipt := s.output(b, "b")
	requests := []struct {
		operation string
		path      publish.Path
		send      func() error
	}{
		{publish.OperationUpload, "f", s.changes(a, "f")["begin"]},
		{publish.OperationUpload, "f", s.changes(a, "f")["complete"]}, // The same operation on the same path.
		{publish.OperationUpload, "g", s.changes(a, "g")["begin"]},
		{publish.OperationDelete, "f", s.changes(a, "f")["delete"]},
		{publish.OperationPublish, "", s.changes(a, "f")["publish"]},
		{publish.OperationPublish, "", s.changes(a, "f")["publish"]},
	}
	repeats := map[string]int{}
	overrun := map[string]int64{}
	for _, request := range requests {
		id := request.operation + " " + string(request.path)
		repeats[id]++
		refusal := s.refused(request.send(), publish.Error{
			Code: publish.ErrStaleToken, Key: a.Key, Operation: request.operation, Path: request.path, Token: a.Token,
			AcceptedToken: b.Token, GrantedToken: b.Token, Holder: "b", SupersededAt: &receipt.PublishedAt,
			Repeat: repeats[id], Next: "acquire", Worker: "a",
		})
		if overrun[id] = refusal.OverrunMillis; refusal.OverrunMillis < 0 {
			s.Errorf("an overrun of %d ms", refusal.OverrunMillis)
		}
	}
	found := map[string]publish.Rejection{}
	for _, rejection := range s.generation(a).Rejections {
		found[rejection.Operation+" "+string(rejection.Path)] = rejection
	}
	s.same("number of records", len(found), len(repeats))
	for id, repeat := range repeats {
		got := found[id]
		if got.FirstAt.IsZero() || got.LastAt.Before(got.FirstAt.Time) || repeat == 1 && !got.LastAt.Equal(got.FirstAt.Time) {
			s.Errorf("%s: from %s to %s", id, got.FirstAt, got.LastAt)
		}
		s.same("rejection of "+id, got, publish.Rejection{
			Token: a.Token, Operation: got.Operation, Path: got.Path, Code: publish.ErrStaleToken, Holder: "a", AcceptedToken: b.Token, GrantedToken: b.Token,
			SupersededBy: "b", SupersededAt: &receipt.PublishedAt, FirstAt: got.FirstAt, LastAt: got.LastAt,
			Repeat: repeat, OverrunMillis: overrun[id],
		})
	}
	s.same("the winner's rejections", len(s.generation(b).Rejections), 0)
}

// testStaleHolder: the holder that is named is the one whose publish fences, not whoever came after.
func testStaleHolder(s *suite) {
	g := s.grants(s.key("k"), 4)
	s.upload(g[3], "f", "1")
	first := s.publish(publish.PublishRequest{Grant: g[3]})
	s.upload(g[3], "f", "2")
	s.publish(publish.PublishRequest{Grant: g[3]})
	_, err := s.Store.Publish(s.Context(), final(g[1]))
	s.refused(err, publish.Error{
		Code: publish.ErrStaleToken, AcceptedToken: 3, GrantedToken: 4, Holder: "worker 3", Worker: "worker 1",
		SupersededAt: &first.PublishedAt, // Since its first publish.
	})
}

// testFenceAccepted: in the default mode only a publish fences: an expired holder that was superseded by a grant alone
// goes on, and is told so.
func testFenceAccepted(s *suite) {
	a := s.acquire(s.key("k"), "a")
	b := s.takeOver(a.Key, "b")
	start, err := s.Store.BeginUpload(s.Context(), beginRequest(a, "f"))
	if err != nil {
		s.Fatal(err)
	}
	s.same("superseded by, at the start", start.SupersededBy, b.Token)
	s.same("superseded by, at the end", s.complete(start.Upload, "a").SupersededBy, b.Token)
	s.upload(a, "g", "a")
	s.remove(a, "g")
	receipt := s.publish(final(a))
	s.same("superseded by", receipt.SupersededBy, b.Token)
	s.same("lease expired", receipt.LeaseExpired, true)
	s.current(a.Key, publish.Version{Token: a.Token, Revision: 1})

	s.same("the newer one's upload", s.upload(b, "f", "b").SupersededBy, publish.Token(0))
	receipt = s.publish(final(b))
	s.same("superseded by", receipt.SupersededBy, publish.Token(0))
	s.same("lease expired", receipt.LeaseExpired, false)
	s.same("previous", receipt.Previous, &publish.Version{Token: a.Token, Revision: 1})
	s.current(a.Key, publish.Version{Token: b.Token, Revision: 1})
}

// testFenceGranted: in the mode granted a newer grant fences at once.
func testFenceGranted(s *suite) {
	s.setFenceMode(s.prefix, publish.FenceGranted)
	a := s.acquire(s.key("k"), "a")
	late := s.begin(a, "f")
	s.Expire(s.T, a.Key)
	s.upload(a, "g", "a") // Expiry alone fences nothing.
	b := s.acquire(a.Key, "b")
	granted := s.generation(b).GrantedAt
	want := publish.Error{Code: publish.ErrStaleToken, Token: a.Token, GrantedToken: b.Token, Holder: "b", Worker: "a", SupersededAt: &granted, Next: "acquire"}
	for _, change := range s.changes(a, "f") {
		refusal := s.refused(change(), want)
		s.same("accepted token", refusal.AcceptedToken, publish.Token(0))
	}
	_, err := s.Store.CompleteUpload(s.Context(), late, fileOf("f", "a"))
	s.refused(err, want)
	s.current(a.Key, publish.Version{})
	s.output(b, "b")
}

// testFencePrefixes: a policy is for whole segments, and the longest prefix wins.
func testFencePrefixes(s *suite) {
	s.setFenceMode(string(s.key("x")), publish.FenceGranted)
	s.setFenceMode(string(s.key("x/open")), publish.FenceAccepted)
	s.setFenceMode(string(s.key("x/open/strict")), publish.FenceGranted)
	s.setFenceMode(string(s.key("100%_")), publish.FenceGranted)
	for name, granted := range map[string]bool{
		"x": true, "x/y": true, "x/y/z": true, "xy": false, "x-y": false, "X": false, "w": false,
		"x/open": false, "x/open/a": false, "x/opened": true, "x/open/strict": true, "x/open/strict/a": true,
		"100%_": true, "100%_/a": true, "100a": false, "100ab/a": false,
	} {
		a := s.acquire(s.key(name), "a")
		s.upload(a, "f", "a")
		s.takeOver(a.Key, "b")
		_, err := s.Store.Publish(s.Context(), final(a))
		if granted {
			s.refused(err, publish.Error{Code: publish.ErrStaleToken})
		} else if err != nil {
			s.Errorf("%s: %v", name, err)
		}
	}
}

// testFencedInTheMiddle: an upload that is fenced between its start and its end ends as failed.
func testFencedInTheMiddle(s *suite) {
	a := s.acquire(s.key("k"), "a")
	late := s.begin(a, "f")
	s.upload(a, "g", "a")
	s.output(s.takeOver(a.Key, "b"), "b")
	s.same("before", s.generation(a).Uploads, publish.UploadCounts{Pending: 1, Unpublished: 1})
	_, err := s.Store.CompleteUpload(s.Context(), late, fileOf("f", "a"))
	s.refused(err, publish.Error{Code: publish.ErrStaleToken, Path: "f"})
	s.same("after", s.generation(a).Uploads, publish.UploadCounts{Failed: 1, Unpublished: 1})
	s.fail(late) // Marking it once more needs no fence and changes nothing.
	s.same("at last", s.generation(a).Uploads, publish.UploadCounts{Failed: 1, Unpublished: 1})
}

// testReleasedHolder: a holder that gave its lease back may still publish while nobody else has.
func testReleasedHolder(s *suite) {
	a := s.acquire(s.key("k"), "a")
	s.upload(a, "f", "a")
	if err := s.Store.Release(s.Context(), a.Key, a.LeaseID); err != nil {
		s.Fatal(err)
	}
	receipt := s.publish(publish.PublishRequest{Grant: a})
	s.same("lease expired", receipt.LeaseExpired, true)
	b := s.acquire(a.Key, "b")
	s.output(b, "b")
	_, err := s.Store.Publish(s.Context(), final(a))
	refusal := s.refused(err, publish.Error{Code: publish.ErrStaleToken, Holder: "b"})
	if refusal.OverrunMillis < 0 || refusal.OverrunMillis > suiteTTL.Milliseconds() {
		s.Errorf("an overrun of %d ms", refusal.OverrunMillis)
	}
}
