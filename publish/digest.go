package publish

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"strings"
)

// Digest is a SHA-256. Its text form is 64 lower-case hex digits. The zero value means "none".
type Digest [sha256.Size]byte

// ParseDigest reads 64 hex digits.
func ParseDigest(text string) (Digest, error) {
	var d Digest
	raw, err := hex.DecodeString(text)
	if err != nil || len(raw) != len(d) {
		return d, invalid("digest", "must be a SHA-256 as 64 hex digits")
	}
	copy(d[:], raw)
	return d, nil
}

// IsZero reports whether there is no digest.
func (d Digest) IsZero() bool { return d == Digest{} }

// String gives 64 hex digits.
func (d Digest) String() string { return hex.EncodeToString(d[:]) }

// MarshalText writes 64 hex digits.
func (d Digest) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText reads 64 hex digits.
func (d *Digest) UnmarshalText(text []byte) error {
	parsed, err := ParseDigest(string(text))
	if err != nil {
		return err
	}
	*d = parsed
	return nil
}

// ByteSequence gives the digest as it stands in Repr-Digest behind "sha-256=" (RFC 9530): base64 between colons.
func (d Digest) ByteSequence() string { return ":" + base64.StdEncoding.EncodeToString(d[:]) + ":" }

// ParseByteSequence reads what ByteSequence gives. 32 zero bytes are well-formed, though the zero Digest stands for "none": no bytes
// that anybody knows have that SHA-256, so a promise of it is one that doesn't hold.
func ParseByteSequence(value string) (Digest, bool) {
	var digest Digest
	inner, opened := strings.CutPrefix(value, ":")
	inner, closed := strings.CutSuffix(inner, ":")
	raw, err := base64.StdEncoding.Strict().DecodeString(inner)
	if !opened || !closed || err != nil || len(raw) != len(digest) {
		return Digest{}, false
	}
	copy(digest[:], raw)
	return digest, digest.ByteSequence() == value // The decoder skips line breaks, wherever they stand.
}
