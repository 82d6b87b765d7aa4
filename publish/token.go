package publish

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"time"
)

// Token is a fencing token: an integer, strictly greater than every earlier one of its key, issued with each
// grant. It is public: it orders, it does not authorise.
type Token int64

// MaxToken is the greatest token, 2^53-1: every JSON client reads it exactly.
const MaxToken Token = 1<<53 - 1

// ParseToken reads a token from 1 to MaxToken, in plain decimal digits without sign or leading zero. The error is
// an *Error of kind invalid-token.
func ParseToken(text string) (Token, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 1 || n > int64(MaxToken) || strconv.FormatInt(n, 10) != text {
		return 0, InvalidField(ErrInvalidToken, "token", "must be an integer from 1 to 9007199254740991, in digits alone")
	}
	return Token(n), nil
}

// UnmarshalJSON accepts a JSON integer as ParseToken does; 1e3, 1.0, "7", 0 and null are refused.
func (t *Token) UnmarshalJSON(data []byte) error {
	parsed, err := ParseToken(string(data))
	if err != nil {
		return err
	}
	*t = parsed
	return nil
}

// Version names one published state of a key: revision counts the publishes inside the generation of a token.
type Version struct {
	Token    Token `json:"token"`
	Revision int64 `json:"revision"`
}

// String gives the version as it stands in an ETag: "<token>.<revision>".
func (v Version) String() string { return fmt.Sprintf("%d.%d", v.Token, v.Revision) }

// ParseVersion reads "<token>.<revision>".
func ParseVersion(text string) (Version, error) {
	token, revision, found := strings.Cut(text, ".")
	t, err := ParseToken(token)
	if !found || err != nil {
		return Version{}, invalid("version", `must look like "17.1": a token, a dot and a revision`)
	}
	r, err := ParseToken(revision)
	if err != nil {
		return Version{}, invalid("version", `must look like "17.1": a token, a dot and a revision`)
	}
	return Version{Token: t, Revision: int64(r)}, nil
}

// LeaseID names one grant and is known to its holder alone: 128 random bits. It prints as a placeholder, so that it
// can't slip into a log; Hex gives it away. The zero value means "none".
type LeaseID struct{ bits [16]byte }

// NewLeaseID draws a lease id from crypto/rand.
func NewLeaseID() LeaseID {
	var id LeaseID
	_, _ = rand.Read(id.bits[:]) // crypto/rand.Read never fails: it ends the program instead.
	return id
}

// ParseLeaseID reads 32 hex digits. The error never repeats the text, which may be a secret.
func ParseLeaseID(text string) (LeaseID, error) {
	var id LeaseID
	raw, err := hex.DecodeString(text)
	if err != nil || len(raw) != len(id.bits) || bytes.Equal(raw, id.bits[:]) {
		return LeaseID{}, invalid("lease_id", "must be 32 hex digits, random and new for each attempt")
	}
	copy(id.bits[:], raw)
	return id, nil
}

// IsZero reports whether there is no lease id.
func (id LeaseID) IsZero() bool { return id == LeaseID{} }

// Hex gives the secret as 32 hex digits.
func (id LeaseID) Hex() string { return hex.EncodeToString(id.bits[:]) }

// SHA256 gives what stores keep of a lease id.
func (id LeaseID) SHA256() Digest { return Digest(sha256.Sum256(id.bits[:])) }

// String hides the secret.
func (id LeaseID) String() string { return "lease-id(hidden)" }

// GoString hides the secret from %#v.
func (id LeaseID) GoString() string { return id.String() }

// LogValue hides the secret from slog.
func (id LeaseID) LogValue() slog.Value { return slog.StringValue(id.String()) }

// MarshalText writes the secret for its holder: in the answer to an acquire, in a client's request.
func (id LeaseID) MarshalText() ([]byte, error) { return []byte(id.Hex()), nil }

// UnmarshalText reads 32 hex digits.
func (id *LeaseID) UnmarshalText(text []byte) error {
	parsed, err := ParseLeaseID(string(text))
	if err != nil {
		return err
	}
	*id = parsed
	return nil
}

// Time is a point in time by the database's clock. Its JSON form is RFC 3339 in UTC with milliseconds.
type Time struct{ time.Time }

const timeLayout = "2006-01-02T15:04:05.000Z07:00"

// MarshalJSON writes RFC 3339 UTC with milliseconds.
func (t Time) MarshalJSON() ([]byte, error) {
	return []byte(`"` + t.UTC().Format(timeLayout) + `"`), nil
}

// Text writes t as its JSON form has it, without quotes; "" for the zero Time.
func (t Time) Text() string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(timeLayout)
}
