package web

import (
	"errors"
	"net/url"
	"strings"

	"golang.org/x/text/unicode/norm"

	"github.com/pawlhq/pawl/publish"
)

// keyURL is a URL of a key, taken apart: the key, and the decoded rest behind "/-/".
type keyURL struct {
	key     publish.Key
	tail    string
	hasTail bool
}

// wirePath gives the path of a URL as the client sent it. URL.EscapedPath does the same but for a path with bytes that should have been escaped:
// that one it escapes anew from the decoded form, in which a key's "%2F-%2F" has become a "/-/".
func wirePath(u *url.URL) string {
	if u.RawPath != "" {
		return u.RawPath
	}
	return u.EscapedPath()
}

// splitKeyURL takes the path of a URL of a key, behind its root, apart: at the first literal "/-/" the key ends, then each side is
// decoded exactly once. So "%2F" in a key equals "/", and an escaped "-" segment can't end a key.
func splitKeyURL(escaped string) (keyURL, error) {
	rawKey, rawTail, hasTail := strings.Cut(escaped, "/-/")
	name, err := url.PathUnescape(strings.TrimPrefix(rawKey, "/"))
	if err != nil {
		return keyURL{}, publish.InvalidField(publish.ErrInvalidKey, "key", "has a broken percent-encoding; encode it anew")
	}
	key, err := parseKey(name)
	if err != nil {
		return keyURL{}, err
	}
	tail, err := url.PathUnescape(rawTail)
	if err != nil {
		return keyURL{}, publish.InvalidField(publish.ErrInvalidPath, "path", "has a broken percent-encoding; encode it anew")
	}
	if tail == "-" || strings.HasPrefix(tail, "-/") {
		// The key would end in "/-"; no route begins with that.
		if _, err := parseKey(string(key) + "/-"); err != nil {
			return keyURL{}, err
		}
	}
	return keyURL{key: key, tail: tail, hasTail: hasTail}, nil
}

// parseKey checks a decoded key: the domain's rule, and those that depend on Unicode's tables and on URLs.
func parseKey(name string) (publish.Key, error) {
	key, err := publish.ParseKey(name)
	if err != nil {
		return "", err
	}
	if why := encodingFault(name, true); why != "" {
		return "", publish.InvalidField(publish.ErrInvalidKey, "key", why)
	}
	return key, nil
}

// parsePath checks a decoded path of a file as parseKey does.
func parsePath(name string) (publish.Path, error) {
	path, err := publish.ParsePath(name)
	if err != nil {
		return "", err
	}
	if why := encodingFault(name, false); why != "" {
		return "", publish.InvalidField(publish.ErrInvalidPath, "path", why)
	}
	return path, nil
}

// parsePrefix checks the beginning of a key that a query names.
func parsePrefix(pointer, text string) (string, error) {
	prefix, err := publish.ParsePrefix(text)
	if err != nil {
		return "", pointAt(pointer, err)
	}
	if why := encodingFault(prefix, true); why != "" {
		return "", publish.InvalidField(publish.ErrInvalidRequest, pointer, why)
	}
	return prefix, nil
}

// encodingFault says what is wrong with a name that the domain allows, or "".
//
// A name that another decoding would turn into other segments is refused: somewhere between client and store
// there is a proxy or a tool that decodes twice. A percent sign as such is legal.
func encodingFault(name string, isKey bool) string {
	if !norm.NFC.IsNormalString(name) {
		return "is not in NFC; normalise it, e.g. to " + escapeName(norm.NFC.String(name))
	}
	for segment := range strings.SplitSeq(name, "/") {
		again := unescapeLeniently(segment)
		if again == segment {
			continue
		}
		if strings.ContainsAny(again, `/\`) || again == "." || again == ".." || isKey && again == "-" {
			return "is percent-encoded twice; encode it once, and write it without relative parts"
		}
	}
	return ""
}

// unescapeLeniently decodes what is a valid percent-encoding and leaves the rest as it is, as lenient tools do.
func unescapeLeniently(text string) string {
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		if text[i] == '%' && i+2 < len(text) {
			if decoded, err := url.PathUnescape(text[i : i+3]); err == nil {
				b.WriteString(decoded)
				i += 2
				continue
			}
		}
		b.WriteByte(text[i])
	}
	return b.String()
}

// pointAt gives an error about one field the name that the field has in this request.
func pointAt(pointer string, err error) error {
	var refusal *publish.Error
	if !errors.As(err, &refusal) || len(refusal.Fields) != 1 {
		return err
	}
	return publish.InvalidField(refusal.Code, pointer, refusal.Fields[0].Detail)
}
