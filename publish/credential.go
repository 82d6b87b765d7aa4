package publish

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash/crc32"
	"strings"
)

// Secret is the text of a credential, e.g. "pawl_c_" and 38 letters and digits: 32 that are random (190 bits), and 6 that are their CRC-32, so that scanners
// find lost ones and typing errors are told from revoked ones. It is shown once, when it is made; only its Hash is kept. It prints and marshals as "[hidden]": call Reveal for the text.
type Secret struct{ text string }

const (
	secretPrefix   = "pawl_c_"
	secretAlphabet = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	secretRandom   = 32
	secretCheck    = 6
)

// NewSecret draws one.
func NewSecret() Secret {
	var random [secretRandom]byte
	for i := range random {
		// 248 is the greatest multiple of 62 in a byte: what is above would prefer some letters.
		for ok := false; !ok; {
			var b [1]byte
			_, _ = rand.Read(b[:]) // crypto/rand.Read never fails: it ends the program instead.
			random[i], ok = secretAlphabet[int(b[0])%len(secretAlphabet)], b[0] < 248
		}
	}
	body := secretPrefix + string(random[:])
	return Secret{body + secretSum(body)}
}

// secretSum is the check of a text, in six digits to the base 62.
func secretSum(body string) string {
	sum := crc32.ChecksumIEEE([]byte(body))
	var digits [secretCheck]byte
	for i := len(digits) - 1; i >= 0; i-- {
		digits[i] = secretAlphabet[sum%uint32(len(secretAlphabet))]
		sum /= uint32(len(secretAlphabet))
	}
	return string(digits[:])
}

// ParseSecret checks the form of a credential. Its errors never hold the text.
func ParseSecret(text string) (Secret, error) {
	body, isSecret := strings.CutPrefix(text, secretPrefix)
	if !isSecret || len(body) != secretRandom+secretCheck || strings.Trim(body, secretAlphabet) != "" {
		return Secret{}, fmt.Errorf("a credential looks like %s and %d letters and digits", secretPrefix, secretRandom+secretCheck)
	}
	if split := len(text) - secretCheck; secretSum(text[:split]) != text[split:] {
		return Secret{}, fmt.Errorf("the credential was changed or cut on the way: its last letters don't fit the others")
	}
	return Secret{text}, nil
}

// IsZero reports whether there is none.
func (s Secret) IsZero() bool { return s.text == "" }

// Reveal returns the text.
func (s Secret) Reveal() string { return s.text }

// Hash is what is kept of it: the SHA-256 of the text. The text is random, so a slow hash would add nothing.
func (s Secret) Hash() [sha256.Size]byte { return sha256.Sum256([]byte(s.text)) }

// String hides it.
func (s Secret) String() string { return "[hidden]" }

// GoString hides it from %#v.
func (s Secret) GoString() string { return s.String() }

// MarshalText hides it from encoders.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// CredentialID names a credential in lists and calls; it is no secret. It is 16 hex digits.
type CredentialID string

// NewCredentialID draws one.
func NewCredentialID() CredentialID {
	var id [8]byte
	_, _ = rand.Read(id[:]) // crypto/rand.Read never fails: it ends the program instead.
	return CredentialID(hex.EncodeToString(id[:]))
}

// Caller is who makes a request, as far as it is known.
type Caller struct {
	// Name is the credential's name, "" for somebody without one.
	Name string
	// Credential is the credential's id, "" without one.
	Credential CredentialID
	Scopes     Scopes
	// Expires is when the credential ends, the zero Time for never.
	Expires Time
}

// Known reports whether the caller has shown a credential.
func (c Caller) Known() bool { return c.Credential != "" }
