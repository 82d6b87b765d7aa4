package publish

import (
	"context"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// PublishRequest asks to make a generation's files the current version of its key.
type PublishRequest struct {
	Grant Grant
	// Final seals the generation: its set of files can't change any more. A publish that isn't final flips the
	// pointer to what is complete so far and leaves the generation open.
	Final bool
	// Primary is the entry point of the set. If it is empty the only file is the primary one.
	Primary Path
	// SourceRevision orders the inputs that outputs were made from: a publish with a lower one than the current
	// version's is refused as older-source, even under a newer token. nil means none.
	SourceRevision *int64
	// Metadata is kept with the receipt and shown, at most MaxMetadataBytes. Names are one line and not empty, values any UTF-8
	// without NUL.
	Metadata map[string]string
	// ManifestDigest says what the caller believes it publishes; nil means it doesn't say. All zeros are a promise too, one that no
	// manifest keeps.
	ManifestDigest *Digest
	// Expect names the files that a final publish must find complete, by the patterns of EachExpected. A publish that
	// isn't final doesn't look for them yet.
	Expect []string
	// AllowEmpty lets expected files have no bytes. Files that nobody expects by name may be empty anyway.
	AllowEmpty bool
	// ReuseFrom carries files of an earlier generation of the key over by reference, 0 for none: every file of its last
	// published revision whose path this generation has neither uploaded, nor tried to, nor deleted. No bytes are copied. It
	// must be the version that this generation replaces, unless ReuseStale allows any published one.
	ReuseFrom  Token
	ReuseStale bool
	// Release gives the lease back in the same transaction.
	Release bool
	// IfMatch makes the publish a compare-and-set on the current version, IfNoneMatch create-only.
	IfMatch     *Version
	IfNoneMatch bool
}

// Receipt is the lasting record of one publish.
type Receipt struct {
	Key            Key    `json:"key"`
	Token          Token  `json:"token"`
	Revision       int64  `json:"revision"`
	ManifestDigest Digest `json:"manifest_digest"`
	Final          bool   `json:"final"`
	Primary        Path   `json:"primary,omitempty"`
	Files          int64  `json:"files"`
	Bytes          int64  `json:"bytes"`
	PublishedAt    Time   `json:"published_at"`
	// Publisher is the holder of the grant, as the worker calls itself; Actor is whose request it was.
	Publisher string `json:"publisher"`
	Actor
	SourceRevision *int64            `json:"source_revision,omitempty"`
	Metadata       map[string]string `json:"metadata,omitempty"`
	// Replayed reports that this publish had been made before: the request was a repeat.
	Replayed bool `json:"replayed"`
	// Current is the key's version at the time of this answer: another one than the receipt's when it has
	// been superseded since.
	Current *Version `json:"current"`
	// Previous is what was current before this publish.
	Previous *Version `json:"previous"`
	// LeaseExpired reports that the lease had run out when the publish was accepted.
	LeaseExpired bool `json:"lease_expired"`
	// ReuseFrom is the generation whose files the request asked to carry over, 0 if none. ReusedFiles and ReusedBytes are
	// how much of the set lies in objects of earlier generations, also if an earlier publish of the generation carried it over.
	ReuseFrom   Token `json:"reuse_from,omitempty"`
	ReusedFiles int64 `json:"reused_files,omitempty"`
	ReusedBytes int64 `json:"reused_bytes,omitempty"`
	// RollbackTo is the version that a rollback has brought back, nil for the publish of a worker. Reason is why.
	RollbackTo *Version `json:"rollback_to,omitempty"`
	Reason     string   `json:"reason,omitempty"`
	// SupersededBy is the newest token of the key when that is greater than the receipt's, else 0.
	SupersededBy Token `json:"superseded_by,omitempty"`
	// URL is the permanent address of the primary file, set by the server.
	URL string `json:"url,omitempty"`
}

// Version is the version that the receipt is about.
func (r Receipt) Version() Version { return Version{Token: r.Token, Revision: r.Revision} }

// PublishStore is the part of PointerStore that flips pointers.
type PublishStore interface {
	// Publish checks, in one transaction that has locked the key and then the generation: that the grant exists and is the
	// caller's (not-found, unknown-token, lease-lost); whether the request repeats the generation's latest
	// publish (then it returns that receipt, Replayed); the fence (stale-token, recorded as a rejection);
	// generation-collected and generation-sealed; a pin (pinned) and the policy's size (too-large); older-source and the preconditions (precondition-failed), that of ReuseFrom
	// among them; that every path is complete and what is expected is there (generation-incomplete, with all of its lists, each sorted) and the manifest is the
	// promised one (digest-mismatch), and that the set keeps to the store's GenerationLimits (too-large). Then it flips the pointer with the comparison of tokens in the same statement, and
	// writes the receipt.
	//
	// Expect and AllowEmpty are checks, as ManifestDigest is: a receipt doesn't keep them. A repeat is a replay if what was
	// published passes its checks, which it does when the request is the same.
	//
	// ReuseFrom is part of what makes a repeat equal; ReuseStale is not. Completeness, the primary file and the manifest are those of the whole
	// set. A generation that was never granted or has published nothing is not-found; one that was given up is
	// generation-collected; one that isn't what this generation replaces is precondition-failed, all three with ReuseFrom. Files that were
	// carried over stay in the set of an open generation until they are uploaded or deleted; naming the same generation again changes
	// nothing then. A file that is carried over again references its first object.
	//
	// An error of kind outcome-unknown means that the commit's answer was lost; repeating the request tells.
	Publish(ctx context.Context, req PublishRequest) (Receipt, error)
}

// Publish flips the pointer; see PublishStore.
func (s *Service) Publish(ctx context.Context, req PublishRequest) (Receipt, error) {
	if err := req.validate(); err != nil {
		return Receipt{}, err
	}
	receipt, err := s.Pointers.Publish(ctx, req)
	if err != nil {
		return Receipt{}, s.refused(ctx, err)
	}
	s.unnumbered.raise()
	s.observe().Published(receipt)
	s.mark(ctx, receipt)
	return narrowed(ctx, receipt), nil
}

func (r PublishRequest) validate() error {
	if err := validateMetadata(r.Metadata); err != nil {
		return err
	}
	if err := EachExpected(r.Expect, func(int, Path) error { return nil }); err != nil {
		return err
	}
	switch {
	case r.SourceRevision != nil && (*r.SourceRevision < 0 || *r.SourceRevision > int64(MaxToken)):
		return invalid("/source_revision", "must be an integer from 0 to %d", MaxToken)
	case r.ReuseFrom != 0 && r.ReuseFrom >= r.Grant.Token:
		return invalid("/reuse_from", "must be an earlier token than the generation's own, %d", r.Grant.Token)
	case r.ReuseFrom == 0 && r.ReuseStale:
		return invalid("/reuse_stale", "is of no use without reuse_from; name the generation to reuse, or leave it out")
	case r.IfMatch != nil && r.IfNoneMatch:
		return invalid("If-Match", "can't stand together with If-None-Match; send one of them")
	}
	return nil
}

// ManifestDigest is the digest of the manifest of files: the SHA-256 of a header line and one line a file, sorted by path in
// byte order:
//
//	pawl-manifest-1\n
//	<sha256 hex> TAB <size> TAB <content type> TAB <path> LF
//
// Names and types have no control characters, so the form is unambiguous.
func ManifestDigest(files []File) Digest {
	sorted := slices.SortedFunc(slices.Values(files), func(a, b File) int { return strings.Compare(string(a.Path), string(b.Path)) })
	m := NewManifestHash()
	for _, f := range sorted {
		m.Add(f)
	}
	return Digest(m.hash.Sum(nil))
}

// textFault says what is wrong with a one-line text for people, or "".
func textFault(text string) string {
	if !utf8.ValidString(text) {
		return "is not valid UTF-8"
	}
	for _, r := range text {
		if unicode.IsControl(r) || r == utf8.RuneError || isBidiControl(r) {
			return "has a control character; remove it"
		}
	}
	return ""
}
