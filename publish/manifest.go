package publish

import (
	"crypto/sha256"
	"fmt"
	"hash"
)

// ManifestHash computes the digest of a manifest file by file, for listings that are too long to hold. Make one with
// NewManifestHash. It is for one goroutine.
type ManifestHash struct {
	hash hash.Hash
	last Path
	err  error
}

// NewManifestHash begins a manifest.
func NewManifestHash() *ManifestHash {
	m := &ManifestHash{hash: sha256.New()}
	m.hash.Write([]byte("pawl-manifest-1\n")) // It never returns an error.
	return m
}

// Add takes the next file. Files come sorted by path in byte order, each path once; Digest tells if they didn't.
func (m *ManifestHash) Add(f File) {
	if f.Path <= m.last && m.err == nil {
		m.err = fmt.Errorf("the listing isn't sorted: %q follows %q", f.Path, m.last)
	}
	m.last = f.Path
	fmt.Fprintf(m.hash, "%s\t%d\t%s\t%s\n", f.SHA256, f.Size, f.ContentType, f.Path) //nolint:errcheck // A hash takes every byte.
}

// Digest is the digest of the files so far; see ManifestDigest for its form.
func (m *ManifestHash) Digest() (Digest, error) {
	if m.err != nil {
		return Digest{}, m.err
	}
	return Digest(m.hash.Sum(nil)), nil
}
