package publish

import (
	"encoding/hex"
	"strings"
)

// DirectID names a direct upload in URLs: the upload, and the store's own id of its parts. It is no secret.
type DirectID struct {
	Upload UploadID
	Parts  PartsID
}

// String joins both with a dot.
func (id DirectID) String() string { return id.Upload.String() + "." + string(id.Parts) }

// MarshalText gives the same as String.
func (id DirectID) MarshalText() ([]byte, error) { return []byte(id.String()), nil }

// UnmarshalText reads what MarshalText gives.
func (id *DirectID) UnmarshalText(text []byte) error {
	parsed, err := ParseDirectID(string(text))
	*id = parsed
	return err
}

// maxPartsIDBytes bounds a store's id of an upload in parts; the longest that is known has 200.
const maxPartsIDBytes = 1024

// ParseDirectID reads what String gives. The error is of kind invalid-request.
func ParseDirectID(text string) (DirectID, error) {
	var id DirectID
	upload, parts, found := strings.Cut(text, ".")
	raw, err := hex.DecodeString(upload)
	if !found || err != nil || len(raw) != len(id.Upload) || len(parts) > maxPartsIDBytes || strings.ContainsFunc(parts, notInPartsID) {
		return DirectID{}, invalid("upload", "must be the upload_id that the beginning of the upload was answered with")
	}
	copy(id.Upload[:], raw)
	id.Parts = PartsID(parts)
	return id, nil
}

// notInPartsID reports what can't stand in a store's id.
func notInPartsID(r rune) bool { return r <= ' ' || r > '~' || r == '/' }
