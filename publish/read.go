package publish

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
)

// Pointer is what a key currently resolves to.
type Pointer struct {
	Key            Key               `json:"key"`
	Token          Token             `json:"token"`
	Revision       int64             `json:"revision"`
	ManifestDigest Digest            `json:"manifest_digest"`
	Final          bool              `json:"final"`
	Primary        Path              `json:"primary,omitempty"`
	ContentType    string            `json:"content_type,omitempty"` // of the primary file
	Files          int64             `json:"files"`
	Bytes          int64             `json:"bytes"`
	PublishedAt    Time              `json:"published_at"`
	Publisher      string            `json:"publisher"`
	SourceRevision *int64            `json:"source_revision,omitempty"`
	Metadata       map[string]string `json:"metadata,omitempty"`
	// Pinned is why the pointer is kept where it is, nil while it may move.
	Pinned *Pin `json:"pinned,omitempty"`
	// URL is the permanent address of the primary file, set by the server.
	URL string `json:"url,omitempty"`
}

// Version is the pointer's version.
func (p Pointer) Version() Version { return Version{Token: p.Token, Revision: p.Revision} }

// StoredFile is a file with what it takes to serve it.
type StoredFile struct {
	File
	Token  Token
	Object ObjectName
	// Sealed reports that the file at this address never changes: the generation had its final publish, or the address names
	// a revision.
	Sealed bool
	// Published reports that a published revision names the file. A file that isn't published is for its
	// publisher alone.
	Published bool
}

// ReadStore is the part of PointerStore that readers use. It takes no lock.
type ReadStore interface {
	// Pointer returns the key's current pointer, or not-found when the key never had one, retired when it was taken away.
	Pointer(ctx context.Context, key Key) (Pointer, error)
	// CurrentFile finds a file of the current version: the primary one when path is empty. A set without a primary file is
	// not-found with its Paths (at most 1,000 of them). A key without a pointer is not-found or retired.
	CurrentFile(ctx context.Context, key Key, path Path) (StoredFile, error)
	// File finds a file of a generation as its last published revision names it. With the grant's own LeaseID it
	// finds the complete upload that would be published next. generation-collected when it was given up.
	File(ctx context.Context, key Key, token Token, path Path, id LeaseID) (StoredFile, error)
	// FileAt finds a file as one published revision names it, also when a later one has replaced or dropped it. A revision that
	// was never published is not-found with its number; generation-collected as for File.
	FileAt(ctx context.Context, key Key, version Version, path Path) (StoredFile, error)
}

// MaxPointerWait bounds WaitPointer.
const MaxPointerWait = 55 * time.Second

// pointerPoll is how often a waiting reader looks for a new version.
const pointerPoll = 250 * time.Millisecond

// Pointer returns what a key currently resolves to.
func (s *Service) Pointer(ctx context.Context, key Key) (Pointer, error) {
	pointer, err := s.Pointers.Pointer(ctx, key)
	return pointer, s.refused(ctx, noPointer(err))
}

// noPointer says of a key without a current version what is true of one that was never granted, too.
func noPointer(err error) error {
	missing := refusalOf(err, ErrNotFound)
	if missing == nil || missing.Detail != "" || missing.Token != 0 {
		return err
	}
	return NoPointer(missing.Key)
}

// NoKey is the answer about a key that never existed, where the key itself is looked for; NoPointer is it where its current version is, NoGeneration where one
// of its generations is. Whoever may not know of a key is answered the same.
func NoKey(key Key) *Error { return explained(&Error{Code: ErrNotFound, Key: key}) }

// NoPointer is the answer about a key that has no current version.
func NoPointer(key Key) *Error {
	return &Error{Code: ErrNotFound, Key: key, Detail: "nothing was published under this key"}
}

// NoGeneration is the answer about a generation that doesn't exist.
func NoGeneration(key Key, token Token) *Error {
	return explained(&Error{Code: ErrNotFound, Key: key, Token: token})
}

func explained(e *Error) *Error {
	e.Detail = explain(e)
	return e
}

// WaitPointer returns the current pointer as soon as its version is another one than seen, or when wait is over. seen
// nil waits for the next publish of a key without a pointer, whether it never had one or was retired. A retirement that the caller can't have seen yet ends the
// wait as well, with retired: of a version that was seen, or after the first look.
func (s *Service) WaitPointer(ctx context.Context, key Key, seen *Version, wait time.Duration) (Pointer, error) {
	if wait < 0 || wait > MaxPointerWait {
		return Pointer{}, invalid("wait", "must be from 0s to %s", MaxPointerWait)
	}
	deadline := time.Now().Add(wait)
	knowsRetired := seen == nil // and it was so at the first look
	for {
		pointer, err := s.Pointers.Pointer(ctx, key)
		retired := errors.Is(err, ErrRetired)
		waiting := errors.Is(err, ErrNotFound) || retired && knowsRetired || err == nil && seen != nil && pointer.Version() == *seen
		knowsRetired = knowsRetired && retired
		left := time.Until(deadline)
		if !waiting || left <= 0 {
			return pointer, s.refused(ctx, noPointer(err))
		}
		select {
		case <-ctx.Done():
			return Pointer{}, ctx.Err()
		case <-time.After(min(pointerPoll, left)):
		}
	}
}

// CurrentFile finds a file of the current version; see ReadStore.
func (s *Service) CurrentFile(ctx context.Context, key Key, path Path) (StoredFile, error) {
	file, err := s.Pointers.CurrentFile(ctx, key, path)
	return file, s.refused(ctx, noPointer(err))
}

// File finds a file of a generation; see ReadStore.
func (s *Service) File(ctx context.Context, key Key, token Token, path Path, id LeaseID) (StoredFile, error) {
	file, err := s.Pointers.File(ctx, key, token, path, id)
	return file, s.refused(ctx, err)
}

// FileAt finds a file of a published revision; see ReadStore.
func (s *Service) FileAt(ctx context.Context, key Key, version Version, path Path) (StoredFile, error) {
	file, err := s.Pointers.FileAt(ctx, key, version, path)
	return file, s.refused(ctx, err)
}

// OpenFile opens the bytes of a file from offset on; length -1 means to the end. A missing object is generation-collected when the
// generation was given up since the file was looked up, else an internal error: a manifest names it, so it should be there.
func (s *Service) OpenFile(ctx context.Context, file StoredFile, offset, length int64) (io.ReadCloser, error) {
	body, err := s.Blobs.Open(ctx, file.Object, offset, length)
	if errors.Is(err, ErrObjectNotFound) {
		key, _, _ := strings.Cut(string(file.Object), "/-/")
		g, look := s.Pointers.Generation(ctx, Key(key), file.Token)
		if look == nil && (g.State == StateCondemned || g.State == StateCollected) {
			return nil, s.refused(ctx, &Error{Code: ErrGenerationCollected, Key: g.Key, Token: g.Token})
		}
		return nil, &Error{Code: ErrInternal, Cause: fmt.Errorf("opening %s: %w", file.Object, err), Detail: fmt.Sprintf(
			"the object of file %q of generation %d of %s is missing in the blob store; see what else is by pawl verify, and put it back from the store's backup or publish the key again",
			file.Path, file.Token, key)}
	}
	if err != nil {
		return nil, fmt.Errorf("opening %s: %w", file.Object, err)
	}
	return body, nil
}

// SignedReadFor is how long a signed reading may be begun. One that was begun goes on.
const SignedReadFor = 15 * time.Minute

// SignRead signs the reading of a file at the store. offered is false where the file is streamed by OpenFile: always, unless Reads is set,
// and for a file that isn't published, which is for its publisher alone.
func (s *Service) SignRead(ctx context.Context, file StoredFile, answer AnswerHeaders) (signed SignedRequest, offered bool, err error) {
	if s.Reads == nil || !file.Published {
		return SignedRequest{}, false, nil
	}
	signed, err = s.Reads.SignGet(ctx, file.Object, answer, SignedReadFor)
	switch {
	case errors.Is(err, errors.ErrUnsupported):
		return SignedRequest{}, false, nil
	case err != nil:
		return SignedRequest{}, false, fmt.Errorf("signing the reading of %s: %w", file.Object, err)
	}
	return signed, true, nil
}
