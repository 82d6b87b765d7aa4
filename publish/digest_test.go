package publish_test

import (
	"strings"
	"testing"

	"github.com/pawlhq/pawl/publish"
)

// FuzzParseDigest: an accepted digest prints as it was written, but for the case of its digits; that of a header has one form only.
func FuzzParseDigest(f *testing.F) {
	sum := publish.Digest{1, 2, 0xff}
	for _, text := range []string{
		sum.String(), strings.ToUpper(sum.String()), sum.String()[2:], sum.ByteSequence(), strings.Trim(sum.ByteSequence(), ":"), "::", ":", "",
		strings.Replace(sum.ByteSequence(), "=:", ":", 1), strings.Replace(sum.ByteSequence(), "A=:", "B=:", 1), sum.ByteSequence() + "\n",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if digest, err := publish.ParseDigest(text); err == nil && digest.String() != strings.ToLower(text) {
			t.Fatalf("%q became %s", text, digest)
		}
		// Without the strictness about bits behind the last byte, and line breaks, two texts would name one digest.
		if digest, ok := publish.ParseByteSequence(text); ok && digest.ByteSequence() != text {
			t.Fatalf("%q became %s", text, digest.ByteSequence())
		}
	})
}
