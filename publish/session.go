package publish

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"time"
)

// Bounds and defaults of sessions.
const (
	// DefaultSessionLifetime is how long a session lasts at most, DefaultSessionIdle how long without a use.
	DefaultSessionLifetime = 12 * time.Hour
	DefaultSessionIdle     = time.Hour
	// MaxSessionLifetime bounds both.
	MaxSessionLifetime = 30 * 24 * time.Hour
	// MinSessionIdle bounds how long a session may be without a use, from below: uses are noted no closer than MinUseNoted.
	MinSessionIdle = 5 * time.Minute
)

// SessionID is what a browser shows instead of a credential, once its person has signed in: 256 random bits. Only its Hash is kept. It prints and marshals as
// "[hidden]": call Reveal for the text.
type SessionID struct{ text string }

// sessionIDLetters is how many letters NewSessionID draws: 52 of 32 kinds are 260 bits.
const sessionIDLetters = 52

// NewSessionID draws one.
func NewSessionID() SessionID { return SessionID{rand.Text() + rand.Text()} }

// ParseSessionID reads the text of one. What isn't one gives the zero SessionID, which no session has.
func ParseSessionID(text string) SessionID {
	if len(text) != sessionIDLetters {
		return SessionID{}
	}
	for i := range len(text) {
		if c := text[i]; (c < 'A' || c > 'Z') && (c < '2' || c > '7') {
			return SessionID{}
		}
	}
	return SessionID{text}
}

// IsZero reports whether there is none.
func (s SessionID) IsZero() bool { return s.text == "" }

// Reveal returns the text.
func (s SessionID) Reveal() string { return s.text }

// Hash is what is kept of it: the SHA-256 of the text.
func (s SessionID) Hash() Digest { return sha256.Sum256([]byte(s.text)) }

// String hides it.
func (s SessionID) String() string { return "[hidden]" }

// GoString hides it from %#v.
func (s SessionID) GoString() string { return s.String() }

// MarshalText hides it from encoders.
func (s SessionID) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// Identity is somebody who is known by another issuer than Pawl.
type Identity struct {
	Name   string
	Scopes Scopes
}

// NewSession is a session to be kept.
type NewSession struct {
	Hash Digest // of its id
	// Subject is the credential that was shown, or what Caller.Credential is of an Identity.
	Subject CredentialID
	// Identity is nil for a credential, which has its name and scopes itself.
	Identity *Identity
	// Lifetime is how long it lasts at most, Idle how long without a use.
	Lifetime, Idle time.Duration
	// Replaces is the hash of the session that the same browser had before, which ends; zero for none.
	Replaces Digest
}

// FoundSession is a session that is good now.
type FoundSession struct {
	Subject CredentialID
	Name    string
	Scopes  Scopes
	// EndsAt is when it ends at the latest, also if it is used on and on.
	EndsAt Time
	// Left is how long it is good if it isn't used, by the database's clock.
	Left time.Duration
	// Unnoted says that no use was noted within MinUseNoted.
	Unnoted bool
}

// SessionStore is the part of PointerStore that keeps sessions, by the SHA-256 of their ids. A session ends with its credential, whether that is revoked or
// runs out. A change is in force for every FindSession that starts after its call has returned.
type SessionStore interface {
	// CreateSession keeps a new one. It is unauthorized for a credential that isn't good now; then nothing is changed.
	CreateSession(ctx context.Context, session NewSession) error
	// FindSession returns the one whose id has this hash, unless it has ended: that is unauthorized, as is none. It is one seek and one round trip.
	FindSession(ctx context.Context, hash Digest) (FoundSession, error)
	// UseSession notes that one is used now, unless a use was noted within MinUseNoted. One that has ended stays so.
	UseSession(ctx context.Context, hash Digest) error
	// EndSession ends one for good. Repeating it, and none, is no error.
	EndSession(ctx context.Context, hash Digest) error
	// EndSessions ends all of a subject.
	EndSessions(ctx context.Context, subject CredentialID) error
}
