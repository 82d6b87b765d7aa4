package publishtest

import (
	"github.com/pawlhq/pawl/publish"
)

func grantTests() []pointerTest {
	return []pointerTest{
		{name: "unknown-key", run: testUnknownKey},
		{name: "unknown-token", run: testUnknownToken},
		{name: "lease-lost", run: testForeignLease},
		{name: "bound", run: testBoundToItsGrant},
		{name: "order-of-checks", run: testOrderOfChecks},
		{name: "condemned", run: testCondemned},
		{name: "sealed", run: testSealed},
	}
}

func testUnknownKey(s *suite) {
	grant := publish.Grant{Key: s.key("k"), Token: 1, LeaseID: publish.NewLeaseID()}
	for name, change := range s.changes(grant, "f") {
		s.Log(name)
		s.refused(change(), publish.Error{Code: publish.ErrNotFound, Key: grant.Key})
	}
	s.refused(s.Store.FailUpload(s.Context(), publish.Upload{Grant: grant, Path: "f"}, "x"), publish.Error{Code: publish.ErrNotFound, Key: grant.Key})
}

// testUnknownToken: a token above any grant is refused, and doesn't move the fence: a forged 2^53-1 would lock the key for ever.
func testUnknownToken(s *suite) {
	a := s.acquire(s.key("k"), "a")
	operations := map[string]string{
		"begin": publish.OperationUpload, "complete": publish.OperationUpload,
		"delete": publish.OperationDelete, "publish": publish.OperationPublish, "effect": publish.OperationEffect,
	}
	for _, token := range []publish.Token{a.Token + 1, publish.MaxToken} {
		forged := publish.Grant{Key: a.Key, Token: token, LeaseID: a.LeaseID}
		for name, change := range s.changes(forged, "f") {
			s.refused(change(), publish.Error{
				Code: publish.ErrUnknownToken, Key: a.Key, Token: token, GrantedToken: a.Token, Operation: operations[name],
			})
		}
		err := s.Store.FailUpload(s.Context(), publish.Upload{Grant: forged, Path: "f"}, "x")
		s.refused(err, publish.Error{Code: publish.ErrUnknownToken, Token: token})
	}
	s.output(a, "one")
	history, err := s.Store.History(s.Context(), a.Key, 0, 10)
	if err != nil || len(history.Generations) != 1 || len(history.Lost) != 0 || len(history.Generations[0].Rejections) != 0 {
		s.Errorf("an unknown token left a trace: %+v, %v", history, err)
	}
}

// testForeignLease: the token is public, so it alone changes nothing.
func testForeignLease(s *suite) {
	a := s.acquire(s.key("k"), "a")
	b := s.takeOver(a.Key, "b")
	pending := s.begin(a, "p")
	for _, grant := range []publish.Grant{
		{Key: a.Key, Token: a.Token, LeaseID: publish.NewLeaseID()},
		{Key: a.Key, Token: a.Token, LeaseID: b.LeaseID}, // Another grant's own.
		{Key: a.Key, Token: b.Token, LeaseID: a.LeaseID},
		{Key: a.Key, Token: b.Token}, // None at all.
	} {
		want := publish.Error{Code: publish.ErrLeaseLost, Key: a.Key, Token: grant.Token, GrantedToken: b.Token}
		for _, change := range s.changes(grant, "p") {
			s.refused(change(), want)
		}
		s.refused(s.Store.FailUpload(s.Context(), publish.Upload{Grant: grant, Path: "p", ID: pending.ID, Number: pending.Number}, "x"), want)
		stolen := pending
		stolen.Grant = grant
		_, err := s.Store.CompleteUpload(s.Context(), stolen, fileOf("p", "x"))
		s.refused(err, want)
	}
	s.same("uploads", s.generation(a).Uploads, publish.UploadCounts{Pending: 1})
}

// testBoundToItsGrant: what was uploaded under one token isn't part of another's generation.
func testBoundToItsGrant(s *suite) {
	a := s.acquire(s.key("k"), "a")
	s.upload(a, "a.png", "a")
	blocking := s.begin(a, "pending.png")
	b := s.takeOver(a.Key, "b")
	_, err := s.Store.Publish(s.Context(), final(b))
	s.refused(err, publish.Error{Code: publish.ErrGenerationIncomplete, Token: b.Token})

	moved := blocking
	moved.Grant = b
	_, err = s.Store.CompleteUpload(s.Context(), moved, fileOf("pending.png", "a"))
	s.refused(err, publish.Error{Code: publish.ErrNotFound})

	s.upload(b, "b.png", "b")
	s.publish(final(b)) // A's pending upload doesn't block B.
	s.files(b, fileOf("b.png", "b"))
	s.files(a)
}

// testOrderOfChecks pairs faults of one request and expects the answer about the first, as API.md orders them.
func testOrderOfChecks(s *suite) {
	a := s.acquire(s.key("k"), "a")
	receipt := s.output(a, "a")
	b := s.takeOver(a.Key, "b")
	s.output(b, "b")

	above := publish.Grant{Key: a.Key, Token: b.Token + 1, LeaseID: publish.NewLeaseID()}
	_, err := s.Store.Publish(s.Context(), final(above))
	s.refused(err, publish.Error{Code: publish.ErrUnknownToken}) // before lease-lost

	foreign := publish.Grant{Key: a.Key, Token: a.Token, LeaseID: publish.NewLeaseID()}
	_, err = s.Store.Publish(s.Context(), final(foreign))
	s.refused(err, publish.Error{Code: publish.ErrLeaseLost}) // before replay and stale-token
	if found := s.generation(a).Rejections; len(found) != 0 {
		s.Errorf("a request that isn't the holder's was recorded: %+v", found)
	}

	replay := s.publish(final(a)) // replay before stale-token
	s.same("replayed version", replay.Version(), receipt.Version())

	s.Condemn(s.T, a.Key, a.Token)
	s.refused(s.changes(a, "f")["begin"](), publish.Error{Code: publish.ErrStaleToken}) // before generation-collected

	s.refused(s.changes(b, "f")["begin"](), publish.Error{Code: publish.ErrGenerationSealed})
	_, err = s.Store.Publish(s.Context(), publish.PublishRequest{Grant: b, IfNoneMatch: true, Final: true, Primary: "other"})
	s.refused(err, publish.Error{Code: publish.ErrGenerationSealed}) // before the preconditions

	c := s.takeOver(a.Key, "c")
	_, err = s.Store.Publish(s.Context(), publish.PublishRequest{Grant: c, IfNoneMatch: true, Final: true})
	s.refused(err, publish.Error{Code: publish.ErrPreconditionFailed}) // before generation-incomplete
}

func testCondemned(s *suite) {
	a := s.acquire(s.key("k"), "a")
	s.upload(a, "f", "a")
	pending := s.begin(a, "g")
	s.Condemn(s.T, a.Key, a.Token)
	want := publish.Error{Code: publish.ErrGenerationCollected, Key: a.Key, Token: a.Token}
	for _, change := range s.changes(a, "f") {
		s.refused(change(), want)
	}
	_, err := s.Store.CompleteUpload(s.Context(), pending, fileOf("g", "g"))
	s.refused(err, want)
	for _, id := range []publish.LeaseID{{}, a.LeaseID} {
		_, err := s.Store.File(s.Context(), a.Key, a.Token, "f", id)
		s.refused(err, publish.Error{Code: publish.ErrGenerationCollected})
	}
	g := s.generation(a)
	s.same("state", g.State, publish.StateCondemned)
	s.same("uploads", g.Uploads, publish.UploadCounts{Failed: 1, Unpublished: 1})
	s.current(a.Key, publish.Version{})
	s.output(s.takeOver(a.Key, "b"), "b") // The key goes on.
}

func testSealed(s *suite) {
	a := s.acquire(s.key("k"), "a")
	first, second := s.begin(a, "f"), s.begin(a, "f")
	s.complete(second, "second")
	s.publish(final(a))
	g := s.generation(a)
	if g.State != publish.StateSealed || g.SealedAt == nil || !g.Current {
		s.Errorf("a sealed generation reads as %+v", g)
	}
	want := publish.Error{Code: publish.ErrGenerationSealed, Key: a.Key, Token: a.Token}
	for name, change := range s.changes(a, "f") {
		if name != "publish" && name != "effect" { // The one would be a replay, the other is allowed.
			s.refused(change(), want)
		}
	}
	_, err := s.Store.CompleteUpload(s.Context(), first, fileOf("f", "first"))
	s.refused(err, want)
	_, err = s.Store.CompleteUpload(s.Context(), second, fileOf("f", "second"))
	s.refused(err, want)
	_, err = s.Store.Publish(s.Context(), publish.PublishRequest{Grant: a})
	s.refused(err, want)
	s.files(a, fileOf("f", "second"))
	s.current(a.Key, publish.Version{Token: a.Token, Revision: 1})
}
