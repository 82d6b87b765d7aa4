package web

import (
	"fmt"
	"net/url"
	"strings"

	"github.com/pawlhq/pawl/publish"
)

// links makes every URL that Pawl gives out. They are absolute paths on the host that the client asked, so they hold behind any proxy.
type links struct{ base string }

// key is the address of a key's current pointer.
func (l links) key(key publish.Key) string { return l.base + keysRoot + "/" + escapeName(string(key)) }

// current is the address that redirects to the current primary file.
func (l links) current(key publish.Key) string { return l.key(key) + "/-/current" }

// policies is the address of the page of policies behind a prefix; "" is the first.
func (l links) policies(after string) string {
	if after == "" {
		return l.base + "/policies"
	}
	return l.base + "/policies?after=" + url.QueryEscape(after)
}

// shown is where a pointer leads people: to its current primary file, or to the list of its files.
func (l links) shown(pointer publish.Pointer) string {
	if pointer.Primary == "" {
		return l.files(pointer.Key, pointer.Token)
	}
	return l.current(pointer.Key)
}

// generation is the address of what was written under one token of a key.
func (l links) generation(key publish.Key, token publish.Token) string {
	return fmt.Sprintf("%s/-/generations/%d", l.key(key), token)
}

// files is the address of the list of a generation's files.
func (l links) files(key publish.Key, token publish.Token) string {
	return l.generation(key, token) + "/files"
}

// file is the permanent address of a file; "" when there is no path.
func (l links) file(key publish.Key, token publish.Token, path publish.Path) string {
	if path == "" {
		return ""
	}
	return l.files(key, token) + "/" + escapeName(string(path))
}

// upload is the address of a direct upload.
func (l links) upload(key publish.Key, token publish.Token, id publish.DirectID) string {
	return l.generation(key, token) + "/uploads/" + url.PathEscape(id.String())
}

// fileAt is the permanent address of a file in one revision of its generation, or in the latest one when the revision is 0.
func (l links) fileAt(key publish.Key, version publish.Version, path publish.Path) string {
	address := l.file(key, version.Token, path)
	if address == "" || version.Revision == 0 {
		return address
	}
	return fmt.Sprintf("%s?revision=%d", address, version.Revision)
}

// filesAt is the list of the files of one revision of a generation, or of the latest one when the revision is 0.
func (l links) filesAt(key publish.Key, version publish.Version) string {
	if version.Revision == 0 {
		return l.files(key, version.Token)
	}
	return fmt.Sprintf("%s?revision=%d", l.files(key, version.Token), version.Revision)
}

// archive is the address of all files of a generation as one.
func (l links) archive(key publish.Key, token publish.Token, format archiveFormat) string {
	return l.generation(key, token) + format.suffix
}

// resolved is the address of the primary file in the version that a key resolved to, nil without one. In an open
// generation only an address with the revision stays what was resolved.
func (l links) resolved(r publish.Resolved) *string {
	version := r.Version()
	if r.Final {
		version.Revision = 0
	}
	if address := l.fileAt(r.Key, version, r.Primary); address != "" {
		return &address
	}
	return nil
}

// problem is the address of the page about a kind of error.
func (l links) problem(code publish.Code) string { return l.base + "/problems/" + string(code) }

// browse is the address of the page of pointers below a prefix, behind a place in its list; "" is the first page.
func (l links) browse(prefix, after string) string {
	return l.browseAt(browseQuery{Prefix: prefix, After: after})
}

// keyPage is the address of the page about a key.
func (l links) keyPage(key publish.Key) string {
	return l.base + keyPages + "/" + escapeName(string(key))
}

// escapeName percent-encodes a key or a path for a URL: all but "/" and RFC 3986's unreserved characters. That is more
// than url.PathEscape does: "+", "&" and ";" mean something to some tools even in a path.
func escapeName(name string) string {
	const hex = "0123456789ABCDEF"
	var b strings.Builder
	for i := range len(name) {
		c := name[i]
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', strings.IndexByte("-._~/", c) >= 0:
			b.WriteByte(c)
		default:
			b.WriteByte('%')
			b.WriteByte(hex[c>>4])
			b.WriteByte(hex[c&15])
		}
	}
	return b.String()
}
