package publish

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
)

// writePlace makes the Next of a page: a place as text that says nothing to its reader.
func writePlace(place any) string {
	text, err := json.Marshal(place)
	if err != nil {
		panic("publish: a place that is no JSON: " + err.Error()) // Places are made of texts, numbers and times.
	}
	return base64.RawURLEncoding.EncodeToString(text)
}

// readPlace reads what writePlace has made, and reports whether it was that. The names in it are for the caller to check: anybody can write a place, and
// a store fails on texts that no key can have.
func readPlace(text string, place any) bool {
	raw, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil {
		return false
	}
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.DisallowUnknownFields()
	if decoder.Decode(place) != nil {
		return false
	}
	_, err = decoder.Token()
	return errors.Is(err, io.EOF)
}

func errAfter() *Error { return invalid("after", "must be the next of the page before") }
