package publishtest

import (
	"context"
	"slices"
	"time"

	"github.com/pawlhq/pawl/publish"
)

// sessionRow is a session as the store keeps it.
type sessionRow struct {
	publish.NewSession
	seen, ends time.Time
	revoked    bool
}

// AgeSession lets time pass for one session.
func (p *Pointers) AgeSession(hash publish.Digest, by time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	row := p.sessions[hash]
	if row == nil {
		panic("publishtest: there is no such session")
	}
	row.seen, row.ends = row.seen.Add(-by), row.ends.Add(-by)
}

// foundSession is what a session leads to, false if it has ended.
func (p *Pointers) foundSession(row *sessionRow, now time.Time) (publish.FoundSession, bool) {
	found := publish.FoundSession{Subject: row.Subject, EndsAt: at(row.ends), Unnoted: now.Sub(row.seen) >= publish.MinUseNoted}
	end := row.seen.Add(row.Idle)
	if row.Identity != nil {
		found.Name, found.Scopes = row.Identity.Name, slices.Clone(row.Identity.Scopes)
	} else {
		credential, err := p.credentialOf(row.Subject)
		if err != nil || !credential.good(now) {
			return publish.FoundSession{}, false
		}
		found.Name, found.Scopes = credential.Name, slices.Clone(credential.Scopes)
		if credential.ExpiresAt != nil && credential.ExpiresAt.Before(found.EndsAt.Time) {
			found.EndsAt = *credential.ExpiresAt
		}
	}
	if found.EndsAt.Before(end) {
		end = found.EndsAt.Time
	}
	found.Left = end.Sub(now)
	return found, !row.revoked && found.Left > 0
}

// CreateSession keeps a session; see publish.SessionStore.
func (p *Pointers) CreateSession(ctx context.Context, n publish.NewSession) error {
	_, err := transact(ctx, p, "CreateSession", "", func(now time.Time) (struct{}, error) {
		if n.Identity == nil {
			if credential, err := p.credentialOf(n.Subject); err != nil || !credential.good(now) {
				return struct{}{}, &publish.Error{Code: publish.ErrUnauthorized}
			}
		}
		if p.sessions[n.Hash] != nil {
			panic("publishtest: a session's id was drawn twice")
		}
		if row := p.sessions[n.Replaces]; row != nil {
			row.revoked = true
		}
		p.sessions[n.Hash] = &sessionRow{NewSession: n, seen: now, ends: now.Add(n.Lifetime)}
		return struct{}{}, nil
	})
	return err
}

// FindSession returns a good session by its hash; see publish.SessionStore.
func (p *Pointers) FindSession(ctx context.Context, hash publish.Digest) (publish.FoundSession, error) {
	return transact(ctx, p, "FindSession", "", func(now time.Time) (publish.FoundSession, error) {
		if row := p.sessions[hash]; row != nil {
			if found, good := p.foundSession(row, now); good {
				return found, nil
			}
		}
		return publish.FoundSession{}, &publish.Error{Code: publish.ErrUnauthorized}
	})
}

// UseSession notes the use of a session; see publish.SessionStore.
func (p *Pointers) UseSession(ctx context.Context, hash publish.Digest) error {
	_, err := transact(ctx, p, "UseSession", "", func(now time.Time) (struct{}, error) {
		if row := p.sessions[hash]; row != nil {
			if found, good := p.foundSession(row, now); good && found.Unnoted {
				row.seen = now
			}
		}
		return struct{}{}, nil
	})
	return err
}

// EndSession ends a session; see publish.SessionStore.
func (p *Pointers) EndSession(ctx context.Context, hash publish.Digest) error {
	_, err := transact(ctx, p, "EndSession", "", func(time.Time) (struct{}, error) {
		if row := p.sessions[hash]; row != nil {
			row.revoked = true
		}
		return struct{}{}, nil
	})
	return err
}

// EndSessions ends all sessions of a subject; see publish.SessionStore.
func (p *Pointers) EndSessions(ctx context.Context, subject publish.CredentialID) error {
	_, err := transact(ctx, p, "EndSessions", "", func(time.Time) (struct{}, error) {
		for _, row := range p.sessions {
			if row.Subject == subject {
				row.revoked = true
			}
		}
		return struct{}{}, nil
	})
	return err
}
