package publish

import (
	"cmp"
	"context"
	"time"
)

// SignInRequest asks for a session.
type SignInRequest struct {
	// Caller is who has shown a credential, or, with ByIssuer, is known by another issuer than Pawl.
	Caller   Caller
	ByIssuer bool
	// Lifetime and Idle are those of NewSession; 0 is the default.
	Lifetime, Idle time.Duration
	// Replaces is the session that the browser has shown, zero for none. It ends.
	Replaces SessionID
}

// SignIn begins a session, always under a new id. It is unauthorized for a credential that has ended meanwhile.
func (s *Service) SignIn(ctx context.Context, req SignInRequest) (SessionID, error) {
	id := NewSessionID()
	session := NewSession{
		Hash: id.Hash(), Subject: req.Caller.Credential,
		Lifetime: cmp.Or(req.Lifetime, DefaultSessionLifetime), Idle: cmp.Or(req.Idle, DefaultSessionIdle),
	}
	if req.ByIssuer {
		session.Identity = &Identity{Name: req.Caller.Name, Scopes: req.Caller.Scopes}
	}
	if !req.Replaces.IsZero() {
		session.Replaces = req.Replaces.Hash()
		defer s.sessions.forgetHash(session.Replaces)
	}
	if err := s.Pointers.CreateSession(ctx, session); err != nil {
		return SessionID{}, s.refused(ctx, err)
	}
	return id, nil
}

// Session tells whose a session is, which may be up to 5 s ago that Postgres was asked, and notes that it is used. One that isn't known or has ended is
// unauthorized. The Scopes are shared: don't change them.
func (s *Service) Session(ctx context.Context, id SessionID) (Caller, error) {
	if id.IsZero() {
		return Caller{}, s.refused(ctx, &Error{Code: ErrUnauthorized})
	}
	hash := id.Hash()
	return s.sessions.ask(ctx, hash, s.now, func(ctx context.Context) (Caller, time.Duration, error) {
		found, err := s.Pointers.FindSession(ctx, hash)
		if err != nil {
			return Caller{}, 0, s.refused(ctx, err)
		}
		if found.Unnoted {
			s.noteSession(ctx, hash, found.Subject)
		}
		return found.caller(), min(callerKept, found.Left), nil
	})
}

// SessionStill is Session without a use, and without what is remembered: for a request that lasts. A page that is left open and listens doesn't keep
// its person signed in.
func (s *Service) SessionStill(ctx context.Context, id SessionID) (Caller, error) {
	found, err := s.Pointers.FindSession(ctx, id.Hash())
	if err != nil {
		return Caller{}, s.refused(ctx, err)
	}
	return found.caller(), nil
}

func (f FoundSession) caller() Caller {
	return Caller{Name: f.Name, Credential: f.Subject, Scopes: f.Scopes, Expires: f.EndsAt}
}

// noteSession notes a use of a session in Postgres, while the request goes on.
func (s *Service) noteSession(ctx context.Context, hash Digest, subject CredentialID) {
	s.sessions.note(ctx, subject, func(ctx context.Context) {
		// The next look does it then.
		if err := s.Pointers.UseSession(ctx, hash); err != nil && ctx.Err() == nil {
			s.log().WarnContext(ctx, "session_use_not_noted", "credential", string(subject), "error", err)
		}
	})
}

// SignOut ends a session: in this process at once, in others as soon as they forget it, within 5 s. Repeating it is no error.
func (s *Service) SignOut(ctx context.Context, id SessionID) error {
	if id.IsZero() {
		return nil
	}
	defer s.sessions.forgetHash(id.Hash()) // Also after a lost answer.
	return s.refused(ctx, s.Pointers.EndSession(ctx, id.Hash()))
}

// SignOutEverywhere ends all sessions of a caller, as SignOut does.
func (s *Service) SignOutEverywhere(ctx context.Context, caller Caller) error {
	defer s.sessions.forget(caller.Credential)
	return s.refused(ctx, s.Pointers.EndSessions(ctx, caller.Credential))
}
