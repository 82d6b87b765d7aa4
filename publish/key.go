package publish

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// The limits of names, in bytes of UTF-8. One object name holds a key, a path and about 60 bytes more, which
// stays under the 1,024 bytes that S3 allows; a segment stays under the 255 bytes that file systems allow.
const (
	MaxNameBytes    = 400
	MaxSegmentBytes = 200
)

// Key is the name that workers contend for and readers resolve, e.g. "thumbs/image-52". It is the ownership
// domain: lease, token sequence, fence and pointer all belong to the same key. Make one with ParseKey.
type Key string

// Path is the name of a file inside a generation. Make one with ParsePath.
type Path string

// ParseKey checks that name is a legal key: 1 to 400 bytes of UTF-8, segments split by "/" of at most 200
// bytes, no empty, ".", ".." or "-" segment, no control character, backslash, U+FFFD or bidi control. Everything
// else is legal and kept byte for byte. The error is an *Error of kind invalid-key.
//
// That names are in Unicode's normal form NFC is checked by the adapters, which have the tables for it.
func ParseKey(name string) (Key, error) {
	if why := nameFault(name, false); why != "" {
		return "", InvalidField(ErrInvalidKey, "key", why)
	}
	return Key(name), nil
}

// ParsePath checks that name is a legal path of a file: the rule of keys, except that "-" is allowed as a
// segment. The error is an *Error of kind invalid-path.
func ParsePath(name string) (Path, error) {
	if why := nameFault(name, true); why != "" {
		return "", InvalidField(ErrInvalidPath, "path", why)
	}
	return Path(name), nil
}

// ParsePrefix checks the prefix of a listing: the empty string, or any beginning of a legal key. The error is an
// *Error of kind invalid-request.
func ParsePrefix(prefix string) (string, error) {
	if prefix == "" {
		return "", nil
	}
	segments, slash := strings.CutSuffix(prefix, "/")
	why := nameFault(segments, false)
	if why != "" && !slash {
		// The last segment may yet grow past "." or "-".
		why = nameFault(prefix+"x", false)
	}
	if why != "" {
		return "", invalid("prefix", "%s", why)
	}
	return prefix, nil
}

// nameFault says what is wrong with a name, or "" if it is legal.
func nameFault(name string, dashSegment bool) string {
	switch {
	case name == "":
		return "is empty; give 1 to 400 bytes"
	case len(name) > MaxNameBytes:
		return "is longer than 400 bytes; shorten it"
	case !utf8.ValidString(name):
		return "is not valid UTF-8; encode it as UTF-8"
	}
	for segment := range strings.SplitSeq(name, "/") {
		switch {
		case segment == "":
			return "has an empty segment; remove the leading, trailing or doubled slash"
		case segment == "." || segment == "..":
			return `has a "` + segment + `" segment; write the name out, without relative parts`
		case segment == "-" && !dashSegment:
			return `has a "-" segment, which ends a key in a URL; rename that segment`
		case len(segment) > MaxSegmentBytes:
			return "has a segment longer than 200 bytes; shorten it"
		}
	}
	for _, r := range name {
		switch {
		case r == '\\':
			return "has a backslash; use / between segments"
		case unicode.IsControl(r):
			return "has a control character; remove it"
		case r == utf8.RuneError:
			return "has U+FFFD, which stands for lost characters; give the original name"
		case isBidiControl(r):
			return "has a character that reorders text (bidi control); remove it"
		case r == '\u2028' || r == '\u2029':
			return "has a line or paragraph separator; remove it"
		}
	}
	return ""
}

// isBidiControl reports whether r is a mark, embedding, override or isolate of the bidirectional algorithm (Unicode's property
// Bidi_Control, UAX #9, section 2), which can make a name look like another one, or like nothing at all.
func isBidiControl(r rune) bool { return unicode.Is(unicode.Bidi_Control, r) }
