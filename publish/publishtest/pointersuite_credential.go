package publishtest

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"time"

	"github.com/pawlhq/pawl/publish"
)

func credentialTests() []pointerTest {
	return []pointerTest{
		{name: "kept", run: testCredentialKept},
		{name: "listed", run: testCredentialsListed, alone: true},
		{name: "name", run: testCredentialName},
		{name: "repeated", run: testCredentialRepeated},
		{name: "ends", run: testCredentialEnds},
		{name: "revoked", run: testCredentialRevoked},
		{name: "replaced", run: testCredentialReplaced},
		{name: "replaced-refused", run: testCredentialReplacedRefused},
		{name: "replaced-repeated", run: testCredentialReplacedRepeated},
		{name: "used", run: testCredentialUsed},
		{name: "audit", run: testCredentialAudit, alone: true},
		{name: "race-name", run: raceCredentialName},
		{name: "race-repeated", run: raceCredentialRepeated},
		{name: "race-replaced", run: raceCredentialReplaced},
		{name: "race-revoked", run: raceCredentialRevoked},
	}
}

// newCredential is a request for a credential of a name that only this subtest uses.
func (s *suite) newCredential(name string) publish.NewCredential {
	return publish.NewCredential{
		ID: publish.NewCredentialID(), Hash: publish.NewSecret().Hash(), Name: s.prefix + " " + name, Lifetime: publish.DefaultLifetime, By: "mia@ws-12",
		Scopes:    publish.Scopes{{Verb: publish.VerbPublish, Prefix: "renders/"}, {Verb: publish.VerbRead}},
		RequestID: publish.NewLeaseID(),
	}
}

func replacement(of publish.CredentialID) publish.Replacement {
	return publish.Replacement{
		Of: of, ID: publish.NewCredentialID(), Hash: publish.NewSecret().Hash(), Lifetime: publish.DefaultLifetime, Overlap: time.Hour, By: "jo",
		RequestID: publish.NewLeaseID(),
	}
}

func (s *suite) create(req publish.NewCredential) publish.Credential {
	s.Helper()
	made, err := s.Store.CreateCredential(s.Context(), req)
	s.ok(err)
	return made
}

func (s *suite) replace(req publish.Replacement) publish.Credential {
	s.Helper()
	made, err := s.Store.ReplaceCredential(s.Context(), req)
	s.ok(err)
	return made
}

// good checks whether the text with a hash lets its owner in.
func (s *suite) good(hash publish.Digest, want bool) {
	s.Helper()
	_, err := s.Store.FindCredential(s.Context(), hash)
	if want {
		s.ok(err)
		return
	}
	s.refused(err, publish.Error{Code: publish.ErrUnauthorized})
}

func (s *suite) credential(id publish.CredentialID) publish.Credential {
	s.Helper()
	c, err := s.Store.Credential(s.Context(), id)
	s.ok(err)
	return c
}

// A credential is kept as it was asked for, and found by its hash alone.
func testCredentialKept(s *suite) {
	req := s.newCredential("a")
	made := s.create(req)
	want := publish.Credential{
		ID: req.ID, Name: req.Name, Scopes: req.Scopes, State: publish.CredentialActive, CreatedAt: made.CreatedAt, CreatedBy: "mia@ws-12",
		ExpiresAt: &publish.Time{Time: made.CreatedAt.Add(time.Duration(req.Lifetime))},
	}
	s.same("what was made", made, want)
	s.same("time", time.Since(made.CreatedAt.Time).Abs() < time.Hour, true)
	s.same("what is kept", s.credential(req.ID), want)
	found, err := s.Store.FindCredential(s.Context(), req.Hash)
	s.ok(err)
	s.same("what is found", found.Credential, want)
	s.same("what is left", found.Left > time.Duration(req.Lifetime)-time.Hour && found.Left <= time.Duration(req.Lifetime), true)

	other := s.newCredential("b")
	other.Lifetime = publish.Never
	s.same("the end", s.create(other).ExpiresAt, (*publish.Time)(nil))
	found, err = s.Store.FindCredential(s.Context(), other.Hash)
	s.ok(err)
	s.same("what is found", found.ID, other.ID)
	s.same("it is good for ever", found.Left < 0, true)
	s.good(publish.NewSecret().Hash(), false)
	_, err = s.Store.Credential(s.Context(), publish.NewCredentialID())
	s.refused(err, publish.Error{Code: publish.ErrNotFound, Operation: publish.OperationCredential})
}

// Credentials are listed by name, those of one name by age, in pages.
func testCredentialsListed(s *suite) {
	a, b := s.create(s.newCredential("a")), s.create(s.newCredential("b"))
	second := s.replace(replacement(a.ID))
	third := s.replace(replacement(second.ID))
	upper := s.create(s.newCredential("B"))
	var got []publish.CredentialID
	for after := publish.CredentialID(""); ; {
		page, err := s.Store.Credentials(s.Context(), after, 2)
		s.ok(err)
		for _, c := range page.Credentials {
			got = append(got, c.ID)
			s.same("what is listed", c, s.credential(c.ID))
		}
		if after = page.Next; after == "" {
			break
		}
	}
	s.same("credentials", got, []publish.CredentialID{upper.ID, a.ID, second.ID, third.ID, b.ID})
	page, err := s.Store.Credentials(s.Context(), publish.NewCredentialID(), 2)
	s.ok(err)
	s.same("after one that isn't there", page, publish.CredentialPage{})
}

// A name is free again once its credential was revoked, has expired, or was replaced by one that ended.
func testCredentialName(s *suite) {
	first := s.create(s.newCredential("a"))
	conflict := func() {
		s.Helper()
		_, err := s.Store.CreateCredential(s.Context(), s.newCredential("a"))
		refusal := s.refused(err, publish.Error{Code: publish.ErrCredentialConflict, Operation: publish.OperationCredential})
		s.same("field", refusal.Fields[0].Pointer, "/name")
	}
	conflict()
	_, err := s.Store.RevokeCredential(s.Context(), first.ID, "ops")
	s.ok(err)
	second := s.create(s.newCredential("a"))
	conflict()
	s.AgeCredential(s.T, second.ID, time.Duration(publish.DefaultLifetime))
	third := s.create(s.newCredential("a"))
	fourth := s.replace(replacement(third.ID))
	conflict()
	_, err = s.Store.RevokeCredential(s.Context(), third.ID, "ops")
	s.ok(err)
	conflict()
	_, err = s.Store.RevokeCredential(s.Context(), fourth.ID, "ops")
	s.ok(err)
	s.create(s.newCredential("a"))
}

// A repeated request gets the same credential with its new text, and the lost one opens nothing. It does not once the credential was used
// or has ended, and a request that is another one is refused.
func testCredentialRepeated(s *suite) {
	req := s.newCredential("a")
	made := s.create(req)
	again := req
	again.ID, again.Hash = publish.NewCredentialID(), publish.NewSecret().Hash()
	s.same("the repetition", s.create(again), made)
	s.good(req.Hash, false)
	s.good(again.Hash, true)

	refused := func(change func(*publish.NewCredential)) {
		s.Helper()
		other := req
		other.ID, other.Hash = publish.NewCredentialID(), publish.NewSecret().Hash()
		change(&other)
		_, err := s.Store.CreateCredential(s.Context(), other)
		refusal := s.refused(err, publish.Error{Code: publish.ErrInvalidRequest})
		s.same("field", refusal.Fields[0].Pointer, "Idempotency-Key")
		if detail := refusal.Fields[0].Detail; regexp.MustCompile("[0-9a-f]{16}").MatchString(detail) {
			s.Errorf("the refusal names a credential, which may be hidden from who asks: %s", detail)
		}
		s.good(other.Hash, false)
		s.good(again.Hash, true)
	}
	refused(func(other *publish.NewCredential) { other.Name = s.prefix + " b" })
	refused(func(other *publish.NewCredential) { other.Scopes = other.Scopes[:1] })
	refused(func(other *publish.NewCredential) { other.Lifetime = publish.Never })
	refused(func(other *publish.NewCredential) { other.Lifetime += publish.Lifetime(time.Second) })
	s.ok(s.Store.UseCredential(s.Context(), made.ID))
	refused(func(*publish.NewCredential) {})
	_, err := s.Store.RevokeCredential(s.Context(), made.ID, "ops")
	s.ok(err)
	_, err = s.Store.CreateCredential(s.Context(), again)
	s.refused(err, publish.Error{Code: publish.ErrInvalidRequest})
}

// A credential is good until its end, to the moment.
func testCredentialEnds(s *suite) {
	req := s.newCredential("a")
	made := s.create(req)
	s.AgeCredential(s.T, made.ID, time.Duration(req.Lifetime)-time.Hour)
	found, err := s.Store.FindCredential(s.Context(), req.Hash)
	s.ok(err)
	s.same("what is left", found.Left > 0 && found.Left <= time.Hour, true)
	s.AgeCredential(s.T, made.ID, time.Hour)
	s.good(req.Hash, false)
	s.same("state", s.credential(made.ID).State, publish.CredentialExpired)
}

// Revoking ends one credential for good. Repeating it changes nothing, also by somebody else.
func testCredentialRevoked(s *suite) {
	req := s.newCredential("a")
	made := s.create(req)
	next := replacement(made.ID)
	s.replace(next)
	revoked, err := s.Store.RevokeCredential(s.Context(), made.ID, "ops")
	s.ok(err)
	s.same("state", revoked.State, publish.CredentialRevoked)
	s.same("who", revoked.RevokedBy, publish.Operator("ops"))
	s.good(req.Hash, false)
	s.good(next.Hash, true)
	again, err := s.Store.RevokeCredential(s.Context(), made.ID, "jo")
	s.ok(err)
	s.same("the repetition", again, revoked)
	_, err = s.Store.RevokeCredential(s.Context(), publish.NewCredentialID(), "ops")
	s.refused(err, publish.Error{Code: publish.ErrNotFound, Operation: publish.OperationCredential})
	other := s.newCredential("b")
	s.create(other)
	s.good(other.Hash, true)
}

// A credential and its successor are good side by side for the overlap, which makes neither good for longer.
func testCredentialReplaced(s *suite) {
	req := s.newCredential("a")
	old := s.create(req)
	next := replacement(old.ID)
	made := s.replace(next)
	s.same("the successor", made, publish.Credential{
		ID: next.ID, Name: old.Name, Scopes: old.Scopes, State: publish.CredentialActive, CreatedAt: made.CreatedAt, CreatedBy: "jo", Replaces: old.ID,
		ExpiresAt: &publish.Time{Time: made.CreatedAt.Add(time.Duration(next.Lifetime))},
	})
	after := s.credential(old.ID)
	s.same("what replaced it", after.ReplacedBy, made.ID)
	s.same("its end", after.ExpiresAt, &publish.Time{Time: made.CreatedAt.Add(time.Hour)})
	s.good(req.Hash, true)
	s.good(next.Hash, true)
	s.AgeCredential(s.T, old.ID, time.Hour)
	s.good(req.Hash, false)
	s.good(next.Hash, true)

	// One that would end within the overlap ends when it would, one without an end gets one, and no overlap is none.
	s.AgeCredential(s.T, made.ID, time.Duration(next.Lifetime)-time.Minute)
	end := s.credential(made.ID).ExpiresAt
	endless := replacement(made.ID)
	endless.Lifetime = publish.Never
	third := s.replace(endless)
	s.same("the end of the second", s.credential(made.ID).ExpiresAt, end)
	s.same("the end of the third", third.ExpiresAt, (*publish.Time)(nil))
	last := replacement(third.ID)
	last.Overlap = 0
	s.replace(last)
	s.good(endless.Hash, false)
	s.good(last.Hash, true)
}

// What was revoked, has expired or was replaced can't be replaced; the refusal says which.
func testCredentialReplacedRefused(s *suite) {
	refused := func(id publish.CredentialID, says string) {
		s.Helper()
		_, err := s.Store.ReplaceCredential(s.Context(), replacement(id))
		refusal := s.refused(err, publish.Error{Code: publish.ErrCredentialConflict, Operation: publish.OperationCredential})
		s.same("field", refusal.Fields, []publish.Field{{Pointer: "id", Detail: says}})
	}
	revoked, expired, replaced := s.create(s.newCredential("a")), s.create(s.newCredential("b")), s.create(s.newCredential("c"))
	_, err := s.Store.RevokeCredential(s.Context(), revoked.ID, "ops")
	s.ok(err)
	refused(revoked.ID, "is that of a revoked credential; make a new one")
	s.AgeCredential(s.T, expired.ID, time.Duration(publish.DefaultLifetime))
	refused(expired.ID, "is that of an expired credential; make a new one")
	next := s.replace(replacement(replaced.ID))
	refused(replaced.ID, fmt.Sprintf("is that of a credential which was replaced already, by %s; rotate that one", next.ID))
	_, err = s.Store.ReplaceCredential(s.Context(), replacement(publish.NewCredentialID()))
	s.refused(err, publish.Error{Code: publish.ErrNotFound, Operation: publish.OperationCredential})
}

// A repeated replacement is the same successor with its new text, whatever the overlap; under the id of another request it is refused.
func testCredentialReplacedRepeated(s *suite) {
	req := s.newCredential("a")
	old := s.create(req)
	next := replacement(old.ID)
	made := s.replace(next)
	again := next
	again.ID, again.Hash, again.Overlap = publish.NewCredentialID(), publish.NewSecret().Hash(), 0
	s.same("the repetition", s.replace(again), made)
	s.good(req.Hash, true)
	s.good(next.Hash, false)
	s.good(again.Hash, true)

	other := replacement(s.create(s.newCredential("b")).ID)
	for _, id := range []publish.LeaseID{next.RequestID, req.RequestID} {
		other.RequestID = id
		_, err := s.Store.ReplaceCredential(s.Context(), other)
		s.refused(err, publish.Error{Code: publish.ErrInvalidRequest})
	}
	create := s.newCredential("a")
	create.RequestID = next.RequestID
	_, err := s.Store.CreateCredential(s.Context(), create)
	s.refused(err, publish.Error{Code: publish.ErrInvalidRequest})
	s.good(again.Hash, true)
}

// A use is noted once a minute.
func testCredentialUsed(s *suite) {
	req := s.newCredential("a")
	made := s.create(req)
	s.same("before", made.LastUsedAt, (*publish.Time)(nil))
	unnoted := func(want bool) {
		s.Helper()
		found, err := s.Store.FindCredential(s.Context(), req.Hash)
		s.ok(err)
		s.same("whether a use is to be noted", found.Unnoted, want)
	}
	unnoted(true)
	use := func() publish.Time {
		s.Helper()
		s.ok(s.Store.UseCredential(s.Context(), made.ID))
		used := s.credential(made.ID).LastUsedAt
		if used == nil {
			s.Fatal("the use isn't noted")
		}
		return *used
	}
	first := use()
	s.AgeCredential(s.T, made.ID, 10*time.Second)
	unnoted(false)
	s.same("the next use", use(), publish.Time{Time: first.Add(-10 * time.Second)})
	s.AgeCredential(s.T, made.ID, publish.MinUseNoted)
	unnoted(true)
	if next := use(); next.Before(first.Time) {
		s.Errorf("a use a minute after %s is noted at %s", first, next)
	}
	s.ok(s.Store.UseCredential(s.Context(), publish.NewCredentialID()))
}

// Every change of a credential is one entry, with who made it and neither text nor hash; what changes nothing leaves none.
func testCredentialAudit(s *suite) {
	req := s.newCredential("a")
	old := s.create(req)
	s.create(req)
	next := replacement(old.ID)
	made := s.replace(next)
	s.replace(next)
	for _, by := range []publish.Operator{"ops", "jo"} {
		_, err := s.Store.RevokeCredential(s.Context(), made.ID, by)
		s.ok(err)
	}
	_, err := s.Store.CreateCredential(s.Context(), s.newCredential("b"))
	s.ok(err)
	_, err = s.Store.CreateCredential(s.Context(), s.newCredential("b"))
	s.refused(err, publish.Error{Code: publish.ErrCredentialConflict})
	page, err := s.Store.Audit(s.Context(), publish.AuditRequest{Reach: publish.Everything, Limit: 10})
	s.ok(err)
	var got []string
	for _, e := range slices.Backward(page.Entries) {
		got = append(got, fmt.Sprintf("%s %s %t %t", e.By, e.Action, e.Before != nil, e.After != nil))
		s.same("the subject is an id", len(e.Subject), len(made.ID))
	}
	s.same("audit", got, []string{
		"mia@ws-12 create-credential false true", "jo rotate-credential true true", "ops revoke-credential true false",
		"mia@ws-12 create-credential false true",
	})
	s.same("subject", page.Entries[2].Subject, string(old.ID))
}

// raceCredentialName: of many that want one name exactly one gets it.
func raceCredentialName(s *suite) {
	for round := range raceRounds / 8 {
		errs := together(8, func(int) error {
			_, err := s.Store.CreateCredential(s.Context(), s.newCredential(fmt.Sprint(round)))
			return err
		})
		s.onlyOne(errs, publish.ErrCredentialConflict)
	}
}

// onlyOne checks that exactly one call was carried out, and that the others were refused as they should.
func (s *suite) onlyOne(errs []error, code publish.Code) {
	s.Helper()
	done := 0
	for _, err := range errs {
		if err == nil {
			done++
		} else {
			s.refused(err, publish.Error{Code: code})
		}
	}
	s.same("how many were done", done, 1)
}

// raceCredentialRepeated: of one request that comes many times one credential is made, and one of its texts is good.
func raceCredentialRepeated(s *suite) {
	for round := range raceRounds / 8 {
		req := s.newCredential(fmt.Sprint(round))
		hashes, made := make([]publish.Digest, 8), make([]publish.Credential, 8)
		errs := together(8, func(i int) (err error) {
			mine := req
			mine.ID, mine.Hash = publish.NewCredentialID(), publish.NewSecret().Hash()
			hashes[i] = mine.Hash
			made[i], err = s.Store.CreateCredential(s.Context(), mine)
			return err
		})
		s.ok(errors.Join(errs...))
		good := 0
		for i, hash := range hashes {
			s.same("the credential", made[i], made[0])
			if _, err := s.Store.FindCredential(s.Context(), hash); err == nil {
				good++
			}
		}
		s.same("how many texts are good", good, 1)
	}
}

// raceCredentialReplaced: a credential has one successor.
func raceCredentialReplaced(s *suite) {
	for round := range raceRounds / 8 {
		old := s.create(s.newCredential(fmt.Sprint(round)))
		errs := together(8, func(int) error {
			_, err := s.Store.ReplaceCredential(s.Context(), replacement(old.ID))
			return err
		})
		s.onlyOne(errs, publish.ErrCredentialConflict)
	}
}

// raceCredentialRevoked: whichever of a revocation and a replacement comes first, the old text opens nothing afterwards, and the name is either free or the
// successor's.
func raceCredentialRevoked(s *suite) {
	for round := range raceRounds {
		req := s.newCredential(fmt.Sprint(round))
		old := s.create(req)
		next := replacement(old.ID)
		errs := together(2, func(i int) error {
			if (i+round)%2 == 0 {
				_, err := s.Store.RevokeCredential(s.Context(), old.ID, "ops")
				return err
			}
			_, err := s.Store.ReplaceCredential(s.Context(), next)
			return err
		})
		revoked, replaced := errs[round%2], errs[1-round%2]
		s.ok(revoked)
		s.good(req.Hash, false)
		s.good(next.Hash, replaced == nil)
		if replaced != nil {
			s.refused(replaced, publish.Error{Code: publish.ErrCredentialConflict})
			s.create(s.newCredential(fmt.Sprint(round)))
		}
	}
}
