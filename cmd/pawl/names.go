package main

import (
	"golang.org/x/text/unicode/norm"

	"github.com/pawlhq/pawl/publish"
)

// nfc brings a name into Unicode's normal form NFC, which is the only one that the server takes: macOS and some input
// methods give another one for the same letters.
func (a *app) nfc(what, name string) string {
	normal := norm.NFC.String(name)
	if normal != name {
		a.notice("%s %q was not in NFC; it is sent as %+q", what, name, normal)
	}
	return normal
}

// key reads a key from the command line.
func (a *app) key(name string) (publish.Key, error) {
	key, err := publish.ParseKey(a.nfc("key", name))
	if err != nil {
		return "", usageError{err}
	}
	return key, nil
}

// path reads the path of a file from the command line.
func (a *app) path(name string) (publish.Path, error) {
	path, err := publish.ParsePath(a.nfc("path", name))
	if err != nil {
		return "", usageError{err}
	}
	return path, nil
}
