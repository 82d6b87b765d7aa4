package pointer

import (
	"context"
	"time"

	"github.com/pawlhq/pawl/publish"
)

const createSessionSQL = `SELECT pawl.create_session($1, $2, $3, $4, $5, $6, $7)`

// CreateSession keeps a session; see migration 00024.
func (s *Store) CreateSession(ctx context.Context, n publish.NewSession) error {
	var name *string
	var scopes []string
	if n.Identity != nil {
		name, scopes = &n.Identity.Name, scopeTexts(n.Identity.Scopes)
	}
	var replaces []byte
	if n.Replaces != (publish.Digest{}) {
		replaces = n.Replaces[:]
	}
	_, err := s.change(ctx, createSessionSQL, n.Hash[:], string(n.Subject), name, scopes, n.Lifetime.Milliseconds(), n.Idle.Milliseconds(), replaces)
	return err
}

const findSessionSQL = `
SELECT jsonb_build_object('subject', s.subject, 'name', coalesce(c.name, s.name), 'scopes', coalesce(c.scopes, s.scopes),
	'ends_at', least(s.ends_at, c.expires_at), 'left_ms', floor(extract(epoch FROM l.l) * 1000)::bigint, 'unnoted', pawl.session_unnoted(s, t.t))
FROM (SELECT clock_timestamp() AS t) t, pawl.sessions s LEFT JOIN pawl.credentials c ON c.id = s.credential, pawl.session_left(s, c, t.t) AS l(l)
WHERE s.hash = $1 AND l.l > interval '0'`

// FindSession returns a good session by its hash.
func (s *Store) FindSession(ctx context.Context, hash publish.Digest) (publish.FoundSession, error) {
	var row struct {
		Subject publish.CredentialID `json:"subject"`
		Name    string               `json:"name"`
		Scopes  publish.Scopes       `json:"scopes"`
		EndsAt  publish.Time         `json:"ends_at"`
		LeftMS  int64                `json:"left_ms"`
		Unnoted bool                 `json:"unnoted"`
	}
	found, err := s.read(ctx, &row, findSessionSQL, hash[:])
	if err == nil && !found {
		err = &publish.Error{Code: publish.ErrUnauthorized}
	}
	if err != nil {
		return publish.FoundSession{}, err
	}
	return publish.FoundSession{
		Subject: row.Subject, Name: row.Name, Scopes: row.Scopes, EndsAt: row.EndsAt, Left: time.Duration(row.LeftMS) * time.Millisecond, Unnoted: row.Unnoted,
	}, nil
}

const useSessionSQL = `SELECT pawl.use_session($1)`

// UseSession notes that a session is used.
func (s *Store) UseSession(ctx context.Context, hash publish.Digest) error {
	_, err := s.change(ctx, useSessionSQL, hash[:])
	return err
}

const endSessionSQL = `SELECT pawl.end_session($1)`

// EndSession ends a session.
func (s *Store) EndSession(ctx context.Context, hash publish.Digest) error {
	_, err := s.change(ctx, endSessionSQL, hash[:])
	return err
}

const endSessionsSQL = `SELECT pawl.end_sessions($1)`

// EndSessions ends all sessions of a subject.
func (s *Store) EndSessions(ctx context.Context, subject publish.CredentialID) error {
	_, err := s.change(ctx, endSessionsSQL, string(subject))
	return err
}
