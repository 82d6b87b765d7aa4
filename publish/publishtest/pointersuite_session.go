package publishtest

import (
	"time"

	"github.com/pawlhq/pawl/publish"
)

func sessionTests() []pointerTest {
	return []pointerTest{
		{name: "kept", run: testSessionKept},
		{name: "identity", run: testSessionIdentity},
		{name: "needs-credential", run: testSessionNeedsCredential},
		{name: "idle", run: testSessionIdle},
		{name: "lifetime", run: testSessionLifetime},
		{name: "credential-revoked", run: testSessionCredentialRevoked},
		{name: "credential-expired", run: testSessionCredentialExpired},
		{name: "replaced", run: testSessionReplaced},
		{name: "ended", run: testSessionEnded},
		{name: "all-ended", run: testSessionsEnded},
		{name: "gone", run: testSessionsGone, alone: true},
		{name: "race-revoked", run: raceSessionRevoked},
	}
}

func newSession(of publish.CredentialID) publish.NewSession {
	return publish.NewSession{Hash: publish.NewSessionID().Hash(), Subject: of, Lifetime: 12 * time.Hour, Idle: time.Hour}
}

// signIn keeps a session of a credential.
func (s *suite) signIn(of publish.CredentialID) publish.Digest {
	s.Helper()
	session := newSession(of)
	s.ok(s.Store.CreateSession(s.Context(), session))
	return session.Hash
}

func (s *suite) session(hash publish.Digest) publish.FoundSession {
	s.Helper()
	found, err := s.Store.FindSession(s.Context(), hash)
	s.ok(err)
	return found
}

func (s *suite) noSession(hash publish.Digest) {
	s.Helper()
	_, err := s.Store.FindSession(s.Context(), hash)
	s.refused(err, publish.Error{Code: publish.ErrUnauthorized})
}

// A session is its credential's, and found by its hash alone.
func testSessionKept(s *suite) {
	made := s.create(s.newCredential("a"))
	hash := s.signIn(made.ID)
	found := s.session(hash)
	s.same("whose it is", publish.FoundSession{Subject: found.Subject, Name: found.Name, Scopes: found.Scopes},
		publish.FoundSession{Subject: made.ID, Name: made.Name, Scopes: made.Scopes})
	s.same("a use is noted", found.Unnoted, false)
	s.same("what is left", found.Left > 50*time.Minute && found.Left <= time.Hour, true)
	s.same("the end", found.EndsAt.Sub(made.CreatedAt.Time) >= 12*time.Hour && found.EndsAt.Sub(made.CreatedAt.Time) < 13*time.Hour, true)
	s.noSession(publish.NewSessionID().Hash())
	s.noSession(publish.Digest{})
}

// Whoever is known by another issuer has a name and scopes of the session's own.
func testSessionIdentity(s *suite) {
	session := newSession("oidc-" + publish.CredentialID(s.prefix))
	session.Identity = &publish.Identity{Name: "mia@example.com", Scopes: publish.Scopes{{Verb: publish.VerbOperate, Prefix: "renders/"}, {Verb: publish.VerbRead}}}
	s.ok(s.Store.CreateSession(s.Context(), session))
	found := s.session(session.Hash)
	s.same("subject", found.Subject, session.Subject)
	s.same("who it is", publish.Identity{Name: found.Name, Scopes: found.Scopes}, *session.Identity)
}

// What isn't good begins no session, and ends none.
func testSessionNeedsCredential(s *suite) {
	good := s.signIn(s.create(s.newCredential("good")).ID)
	revoked, expired := s.create(s.newCredential("revoked")), s.create(s.newCredential("expired"))
	_, err := s.Store.RevokeCredential(s.Context(), revoked.ID, "ops")
	s.ok(err)
	s.AgeCredential(s.T, expired.ID, time.Duration(publish.DefaultLifetime))
	for _, id := range []publish.CredentialID{revoked.ID, expired.ID, publish.NewCredentialID()} {
		session := newSession(id)
		session.Replaces = good
		s.refused(s.Store.CreateSession(s.Context(), session), publish.Error{Code: publish.ErrUnauthorized})
		s.noSession(session.Hash)
	}
	s.session(good)
}

// A session ends when it isn't used. A use is noted once a minute, and brings none back.
func testSessionIdle(s *suite) {
	hash := s.signIn(s.create(s.newCredential("a")).ID)
	s.AgeSession(s.T, hash, 10*time.Second)
	s.ok(s.Store.UseSession(s.Context(), hash))
	s.same("noted within a minute", s.session(hash).Left <= time.Hour-10*time.Second, true)
	s.AgeSession(s.T, hash, 55*time.Minute)
	s.same("a use is to be noted", s.session(hash).Unnoted, true)
	s.ok(s.Store.UseSession(s.Context(), hash))
	found := s.session(hash)
	s.same("a use is to be noted", found.Unnoted, false)
	s.same("it lasts again", found.Left > 55*time.Minute, true)
	s.AgeSession(s.T, hash, time.Hour)
	s.noSession(hash)
	s.ok(s.Store.UseSession(s.Context(), hash))
	s.noSession(hash)
	s.ok(s.Store.UseSession(s.Context(), publish.NewSessionID().Hash()))
}

// A session that is used all the time ends too.
func testSessionLifetime(s *suite) {
	hash := s.signIn(s.create(s.newCredential("a")).ID)
	for range 15 {
		s.AgeSession(s.T, hash, 45*time.Minute)
		s.ok(s.Store.UseSession(s.Context(), hash))
	}
	s.same("what is left is up to its end", s.session(hash).Left <= 45*time.Minute, true)
	s.AgeSession(s.T, hash, 45*time.Minute)
	s.ok(s.Store.UseSession(s.Context(), hash))
	s.noSession(hash)
}

// A session of a credential that is revoked is over at once; one of its successor isn't.
func testSessionCredentialRevoked(s *suite) {
	old := s.create(s.newCredential("a"))
	hash := s.signIn(old.ID)
	next := s.replace(replacement(old.ID))
	other := s.signIn(next.ID)
	s.session(hash) // The overlap lasts.
	_, err := s.Store.RevokeCredential(s.Context(), old.ID, "ops")
	s.ok(err)
	s.noSession(hash)
	s.session(other)
}

// A session is good no longer than its credential.
func testSessionCredentialExpired(s *suite) {
	made := s.create(s.newCredential("a"))
	hash := s.signIn(made.ID)
	s.AgeCredential(s.T, made.ID, time.Duration(publish.DefaultLifetime)-10*time.Minute)
	found := s.session(hash)
	s.same("what is left", found.Left <= 10*time.Minute, true)
	s.same("the end", found.EndsAt, *s.credential(made.ID).ExpiresAt)
	s.AgeCredential(s.T, made.ID, 10*time.Minute)
	s.noSession(hash)
}

// Whoever signs in anew leaves no session behind in that browser.
func testSessionReplaced(s *suite) {
	a, b := s.create(s.newCredential("a")), s.create(s.newCredential("b"))
	first, beside := s.signIn(a.ID), s.signIn(a.ID)
	session := newSession(b.ID)
	session.Replaces = first
	s.ok(s.Store.CreateSession(s.Context(), session))
	s.noSession(first)
	s.session(beside)
	s.same("whose it is", s.session(session.Hash).Subject, b.ID)
	session = newSession(b.ID)
	session.Replaces = publish.NewSessionID().Hash() // of nobody
	s.ok(s.Store.CreateSession(s.Context(), session))
}

// What was ended stays so.
func testSessionEnded(s *suite) {
	made := s.create(s.newCredential("a"))
	hash, beside := s.signIn(made.ID), s.signIn(made.ID)
	for range 2 {
		s.ok(s.Store.EndSession(s.Context(), hash))
		s.noSession(hash)
	}
	s.AgeSession(s.T, hash, 2*time.Minute)
	s.ok(s.Store.UseSession(s.Context(), hash))
	s.noSession(hash)
	s.session(beside)
	s.ok(s.Store.EndSession(s.Context(), publish.NewSessionID().Hash()))
}

// All sessions of a subject end, and no others.
func testSessionsEnded(s *suite) {
	a, b := s.create(s.newCredential("a")), s.create(s.newCredential("b"))
	first, second, other := s.signIn(a.ID), s.signIn(a.ID), s.signIn(b.ID)
	for range 2 {
		s.ok(s.Store.EndSessions(s.Context(), a.ID))
		s.noSession(first)
		s.noSession(second)
		s.session(other)
	}
	s.session(s.signIn(a.ID))
}

// Whoever signs in takes sessions away that are long over, and none that lasts.
func testSessionsGone(s *suite) {
	made := s.create(s.newCredential("a"))
	lasting := s.signIn(made.ID)
	for range 3 {
		s.AgeSession(s.T, s.signIn(made.ID), 13*time.Hour)
	}
	s.session(s.signIn(made.ID))
	s.session(lasting)
}

// raceSessionRevoked: whichever of a sign-in and the revocation comes first, there is no session afterwards.
func raceSessionRevoked(s *suite) {
	for range raceRounds / 4 {
		made := s.create(s.newCredential("a"))
		session := newSession(made.ID)
		errs := together(2, func(i int) error {
			if i == 0 {
				_, err := s.Store.RevokeCredential(s.Context(), made.ID, "ops")
				return err
			}
			return s.Store.CreateSession(s.Context(), session)
		})
		s.ok(errs[0])
		if errs[1] != nil {
			s.refused(errs[1], publish.Error{Code: publish.ErrUnauthorized})
		}
		s.noSession(session.Hash)
	}
}
