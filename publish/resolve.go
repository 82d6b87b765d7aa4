package publish

import (
	"context"
	"fmt"
)

// MaxResolveKeys is how many keys one Resolve may name; a key that stands twice counts twice.
const MaxResolveKeys = 1000

// Resolved is what one key resolved to. Found is false when the key has no current version or never was; then all but Key is
// empty.
type Resolved struct {
	Key   Key  `json:"key"`
	Found bool `json:"found"`
	// Retired reports that the key has had a current version, which was taken away.
	Retired        bool   `json:"retired,omitempty"`
	Token          Token  `json:"token,omitempty"`
	Revision       int64  `json:"revision,omitempty"`
	ManifestDigest Digest `json:"manifest_digest,omitzero"`
	// Final is false while the generation is open: then its permanent addresses show its latest revision, but for those that
	// name one.
	Final   bool `json:"final,omitempty"`
	Primary Path `json:"primary,omitempty"`
	// URL is the permanent address of the primary file in this very version, set by the server; nil when there is none.
	URL *string `json:"url"`
}

// Version is the version that the key resolved to.
func (r Resolved) Version() Version { return Version{Token: r.Token, Revision: r.Revision} }

// ResolveStore is the part of PointerStore that resolves many keys at once.
type ResolveStore interface {
	// Resolve looks all keys up at one point in time and returns one entry for each, in their order: a publish shows in
	// either all of the answer or nothing of it. It takes no lock.
	Resolve(ctx context.Context, keys []Key) ([]Resolved, error)
}

// Resolve looks up to MaxResolveKeys keys up at one point in time; see ResolveStore. A key outside the reach resolves as one that never was, and the store isn't
// asked for it.
func (s *Service) Resolve(ctx context.Context, reach Reach, keys []Key) ([]Resolved, error) {
	if len(keys) == 0 || len(keys) > MaxResolveKeys {
		return nil, invalid("/keys", "must hold 1 to %d keys", MaxResolveKeys)
	}
	var wrong []Field
	for i, key := range keys {
		if why := nameFault(string(key), false); why != "" {
			wrong = append(wrong, Field{Pointer: fmt.Sprintf("/keys/%d", i), Detail: why})
		}
	}
	if wrong != nil {
		return nil, InvalidFields(ErrInvalidKey, wrong)
	}
	resolved := make([]Resolved, len(keys))
	var places []int // of the keys that are asked for
	var asked []Key
	for i, key := range keys {
		resolved[i].Key = key
		if reach.Has(key) {
			places, asked = append(places, i), append(asked, key)
		}
	}
	if len(asked) == 0 {
		return resolved, nil
	}
	found, err := s.Pointers.Resolve(ctx, asked)
	if err != nil {
		return nil, s.refused(ctx, err)
	}
	for i, place := range places {
		resolved[place] = found[i]
	}
	return resolved, nil
}
