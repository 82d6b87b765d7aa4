package client

import (
	"net/url"
	"strconv"
	"strings"

	"github.com/pawlhq/pawl/publish"
)

// escapeName percent-encodes each segment of a key or path. All but RFC 3986's unreserved characters are encoded, also
// those that a path may hold as they are ("+", ";", "&"): some proxies and stores read them otherwise.
func escapeName(name string) string {
	const hex = "0123456789ABCDEF"
	var b strings.Builder
	for i := range len(name) {
		switch c := name[i]; {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '-', c == '.', c == '_', c == '~', c == '/':
			b.WriteByte(c)
		default:
			b.WriteByte('%')
			b.WriteByte(hex[c>>4])
			b.WriteByte(hex[c&15])
		}
	}
	return b.String()
}

// keyURL builds every address under a key: resource is what stands behind "/-/", already escaped; "" means the
// key itself.
func (c *Client) keyURL(key publish.Key, resource string, query url.Values) string {
	segments := strings.Split(escapeName(string(key)), "/")
	for i, segment := range segments {
		if segment == "-" {
			segments[i] = "%2D" // No key has such a segment: the server is to refuse it, and not to end the key there.
		}
	}
	address := c.base + "/v1/keys/" + strings.Join(segments, "/")
	if resource != "" {
		address += "/-/" + resource
	}
	if len(query) > 0 {
		address += "?" + query.Encode()
	}
	return address
}

func generationPath(token publish.Token) string {
	return "generations/" + strconv.FormatInt(int64(token), 10)
}

func filePath(token publish.Token, path publish.Path) string {
	return generationPath(token) + "/files/" + escapeName(string(path))
}

// FilesURL is the address under which the files of a generation lie, with a trailing slash: what a worker that speaks
// HTTP itself writes into.
func (c *Client) FilesURL(key publish.Key, token publish.Token) string {
	return c.keyURL(key, generationPath(token)+"/files/", nil)
}

// FileURL is the permanent address of one file.
func (c *Client) FileURL(key publish.Key, token publish.Token, path publish.Path) string {
	return c.keyURL(key, filePath(token, path), nil)
}

// FileAtURL is the permanent address of a file in one published revision: what it gives never changes, also while the
// generation is open.
func (c *Client) FileAtURL(key publish.Key, version publish.Version, path publish.Path) string {
	return c.keyURL(key, filePath(version.Token, path), url.Values{"revision": {strconv.FormatInt(version.Revision, 10)}})
}
