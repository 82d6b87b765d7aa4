package publish

import (
	"context"
	"strconv"
	"strings"
	"time"
)

// Bounds and defaults of credentials.
const (
	// MaxCredentialNameBytes bounds the name of a credential, MaxScopes how many scopes it has.
	MaxCredentialNameBytes = 100
	MaxScopes              = 100
	// DefaultLifetime is how long a credential is good for that asks for nothing else, MaxLifetime the longest that isn't Never.
	DefaultLifetime = Lifetime(90 * 24 * time.Hour)
	MaxLifetime     = Lifetime(3650 * 24 * time.Hour)
	// DefaultOverlap is how long a credential that is replaced stays good beside its successor, MaxOverlap the longest.
	DefaultOverlap = 24 * time.Hour
	MaxOverlap     = 30 * 24 * time.Hour
	// MinUseNoted is how far the noted uses of a credential lie apart at least.
	MinUseNoted = time.Minute
)

// Lifetime is how long a credential is good for from its making on; 0 is DefaultLifetime.
type Lifetime time.Duration

// Never is the Lifetime of a credential that has no end.
const Never Lifetime = -1

// ParseLifetime reads "never", whole days as in "90d", or a duration such as "12h". The error is about the field pointer.
func ParseLifetime(pointer, text string) (Lifetime, error) {
	if text == "never" {
		return Never, nil
	}
	span, err := time.ParseDuration(text)
	if digits, isDays := strings.CutSuffix(text, "d"); isDays {
		var days uint64
		days, err = strconv.ParseUint(digits, 10, 16)
		span = time.Duration(days) * 24 * time.Hour
	}
	if lifetime := Lifetime(span); err == nil && lifetime > 0 && lifetime.valid() {
		return lifetime, nil
	}
	return 0, invalid(pointer, `must be from 1s to 3650d, such as "90d" or "12h", or "never"`)
}

func (l Lifetime) valid() bool {
	return l == 0 || l == Never || l >= Lifetime(time.Second) && l <= MaxLifetime
}

// String returns what ParseLifetime reads; "" for 0.
func (l Lifetime) String() string {
	const day = Lifetime(24 * time.Hour)
	switch {
	case l == 0:
		return ""
	case l == Never:
		return "never"
	case l%day == 0:
		return strconv.FormatInt(int64(l/day), 10) + "d"
	}
	return time.Duration(l).String()
}

// CredentialState says whether a credential is good now, by the database's clock.
type CredentialState string

// The states of a credential.
const (
	CredentialActive  CredentialState = "active"
	CredentialExpired CredentialState = "expired"
	CredentialRevoked CredentialState = "revoked"
)

// Credential is what is known of one, apart from its text, which nobody but its owner knows.
type Credential struct {
	ID        CredentialID    `json:"id"`
	Name      string          `json:"name"`
	Scopes    Scopes          `json:"scopes"`
	State     CredentialState `json:"state"`
	CreatedAt Time            `json:"created_at"`
	CreatedBy Operator        `json:"created_by"`
	// ExpiresAt is when it ends or has ended, nil for never.
	ExpiresAt *Time `json:"expires_at,omitempty"`
	// LastUsedAt is when it was used last, to the minute; nil for not yet.
	LastUsedAt *Time    `json:"last_used_at,omitempty"`
	RevokedAt  *Time    `json:"revoked_at,omitempty"`
	RevokedBy  Operator `json:"revoked_by,omitempty"`
	// Replaces is the one that it was made in the place of, ReplacedBy the one that was made in its place.
	Replaces   CredentialID `json:"replaces,omitempty"`
	ReplacedBy CredentialID `json:"replaced_by,omitempty"`
}

// Good reports whether it opened anything when it was looked at.
func (c Credential) Good() bool { return c.State == CredentialActive }

// CredentialPage is one page of credentials, by their names and, of one name, by their age.
type CredentialPage struct {
	Credentials []Credential `json:"credentials"`
	// Next is the after of the next page, "" on the last one.
	Next CredentialID `json:"next,omitempty"`
}

// ParseCredentialID reads the id of a credential. The error is about the field id.
func ParseCredentialID(text string) (CredentialID, error) {
	if len(text) != 16 || strings.Trim(text, "0123456789abcdef") != "" {
		return "", invalid("id", "must be the 16 hex digits that name a credential in lists")
	}
	return CredentialID(text), nil
}

// NewCredential is a credential to be kept.
type NewCredential struct {
	ID       CredentialID
	Hash     Digest // of its text
	Name     string
	Scopes   Scopes
	Lifetime Lifetime // never 0
	By       Operator
	// RequestID names the request, so that one whose answer was lost can be repeated.
	RequestID LeaseID
}

// Replacement is a credential to be kept in the place of another, of which it gets name and scopes.
type Replacement struct {
	Of       CredentialID
	ID       CredentialID
	Hash     Digest   // of its text
	Lifetime Lifetime // never 0
	// Overlap is how long the other one stays good, from 0 on; it never gets longer than it was.
	Overlap time.Duration
	By      Operator
	// RequestID is as that of NewCredential.
	RequestID LeaseID
}

// FoundCredential is a credential that is good now.
type FoundCredential struct {
	Credential
	// Left is how long it still is, by the database's clock; negative for ever.
	Left time.Duration
	// Unnoted says that no use was noted within MinUseNoted.
	Unnoted bool
}

// CredentialStore is the part of PointerStore that keeps credentials, for ever, by the SHA-256 of their texts. A change is in force for
// every FindCredential that starts after its call has returned, and leaves a row in the audit.
type CredentialStore interface {
	// CreateCredential keeps a new one. A name belongs to one credential at a time: until it is revoked, has expired, or was replaced; the name
	// of another is credential-conflict.
	//
	// A RequestID that has made a credential before, alike in name, scopes and lifetime, that is good and never was used, gives that one the new Hash: its
	// text was lost with the answer. Otherwise it is invalid-request.
	CreateCredential(ctx context.Context, credential NewCredential) (Credential, error)
	// ReplaceCredential keeps a new one and lets the other one end after the overlap. It is credential-conflict for one that was revoked, has expired
	// or was replaced before, and not-found for none. A repeated RequestID is taken as by CreateCredential; the overlap makes it no other request.
	ReplaceCredential(ctx context.Context, replacement Replacement) (Credential, error)
	// RevokeCredential ends one for good, and none of those that it replaces or that replace it. Repeating it changes nothing; not-found for none.
	RevokeCredential(ctx context.Context, id CredentialID, by Operator) (Credential, error)
	// Credential returns one, whatever its state; not-found for none.
	Credential(ctx context.Context, id CredentialID) (Credential, error)
	// Credentials returns those that follow after, which is the last one of the page before or "".
	Credentials(ctx context.Context, after CredentialID, limit int) (CredentialPage, error)
	// FindCredential returns the one whose text has this hash, unless it was revoked or has expired: that is unauthorized, as is none. It is one
	// seek and one round trip.
	FindCredential(ctx context.Context, hash Digest) (FoundCredential, error)
	// UseCredential notes that one is used now, unless a use was noted within MinUseNoted. Of none there is nothing to note.
	UseCredential(ctx context.Context, id CredentialID) error
}
