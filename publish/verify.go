package publish

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
)

// Fault is a kind of finding of Verify.
type Fault string

// The faults that Verify finds. The first group is damage: readers don't get what was published.
const (
	FaultMissing    Fault = "missing"     // a kept file names an object that isn't there
	FaultSize       Fault = "size"        // the object has another size than the file
	FaultDigest     Fault = "digest"      // the object has other bytes than the file (found by Deep alone)
	FaultUnreadable Fault = "unreadable"  // the object is listed but can't be read (found by Deep alone)
	FaultPointer    Fault = "pointer"     // the current version of a key has no receipt, isn't kept, or isn't whole
	FaultOrphan     Fault = "orphan"      // no row knows the object: a history that the database lost has it, see Recover
	FaultLeftover   Fault = "leftover"    // the object's row says that it was removed
	FaultMarker     Fault = "lost-marker" // a marker of a publish that the database doesn't know
)

// Damage says that published files are affected.
func (f Fault) Damage() bool {
	switch f {
	case FaultMissing, FaultSize, FaultDigest, FaultUnreadable, FaultPointer:
		return true
	case FaultOrphan, FaultLeftover, FaultMarker:
	}
	return false
}

// VerifyFinding is one thing that isn't as it should be.
type VerifyFinding struct {
	Fault  Fault      `json:"fault"`
	Key    Key        `json:"key"`
	Token  Token      `json:"token"`
	Path   Path       `json:"path,omitempty"`
	Object ObjectName `json:"object,omitempty"`
	// Size is what the object has, in bytes, or what it should have when it is missing.
	Size   int64  `json:"size"`
	Detail string `json:"detail,omitempty"`
}

// VerifyReport sums up what Verify has seen.
type VerifyReport struct {
	// Objects and Bytes are those of the blob store; Needed are the objects that files of kept generations name.
	Objects  int64 `json:"objects"`
	Bytes    int64 `json:"bytes"`
	Needed   int64 `json:"needed"`
	Pointers int64 `json:"pointers"`
	// Deep says that all needed bytes were read; DeepBytes is how many.
	Deep      bool            `json:"deep"`
	DeepBytes int64           `json:"deep_bytes,omitempty"`
	Foreign   int64           `json:"foreign"` // objects under the prefix that aren't Pawl's
	Faults    map[Fault]int64 `json:"faults"`
	// OrphanBytes are those of orphans and leftovers.
	OrphanBytes int64 `json:"orphan_bytes"`
	// Damaged says that published files are affected.
	Damaged bool `json:"damaged"`
}

// VerifyOptions say what to verify.
type VerifyOptions struct {
	// Prefix is a key; it and the keys below it are looked at. "" is all keys.
	Prefix Key
	// Deep reads every needed object and compares its SHA-256.
	Deep bool
	// Found is called with each finding, as it is found; an error ends the walk. Nil leaves the findings to the report's counts.
	Found func(VerifyFinding) error
}

// Verify compares the blob store with what Postgres knows: every pointer is whole, every file of a kept generation has its object, with its size
// and, with Deep, its bytes; and which objects nobody knows. It is one pass through the blob store's list and one through Postgres, with bounded
// memory, and changes nothing. Servers may work meanwhile: what is in doubt is looked at twice.
//
// The error says that the walk couldn't be finished; faults are no error.
func Verify(ctx context.Context, objects ObjectStore, blobs BlobStore, opts VerifyOptions) (VerifyReport, error) {
	v := &verification{
		blobs: blobs, opts: opts,
		report: VerifyReport{Deep: opts.Deep, Faults: map[Fault]int64{}},
	}
	for pointer, err := range objects.Pointers(ctx, opts.Prefix) {
		if err != nil {
			return v.report, fmt.Errorf("walking pointers: %w", err)
		}
		v.report.Pointers++
		if pointer.Fault != "" {
			if err := v.found(VerifyFinding{Fault: FaultPointer, Key: pointer.Key, Token: pointer.Version.Token, Detail: pointer.Fault}); err != nil {
				return v.report, err
			}
		}
	}
	walk := &objectWalk{
		objects: objects, blobs: blobs, prefix: opts.Prefix,
		agreed: func(w walked) error { return v.agreed(ctx, w) }, lost: v.lost, missing: v.missing,
		foreign: func(ObjectInfo) { v.report.Foreign++ },
	}
	err := walk.run(ctx)
	return v.report, err
}

// verification is one Verify under way.
type verification struct {
	blobs  BlobStore
	opts   VerifyOptions
	report VerifyReport
}

func (v *verification) found(f VerifyFinding) error {
	v.report.Faults[f.Fault]++
	v.report.Damaged = v.report.Damaged || f.Fault.Damage()
	if v.opts.Found == nil {
		return nil
	}
	return v.opts.Found(f)
}

func (v *verification) count(w walked) {
	v.report.Objects++
	v.report.Bytes += w.stored.Size
}

func (v *verification) agreed(ctx context.Context, w walked) error {
	v.count(w)
	if !w.facts.Needed {
		return nil
	}
	v.report.Needed++
	f := findingOf(w)
	if w.stored.Size != w.facts.Size {
		f.Fault, f.Detail = FaultSize, fmt.Sprintf("%d bytes instead of %d", w.stored.Size, w.facts.Size)
		return v.found(f)
	}
	if !v.opts.Deep {
		return nil
	}
	digest, n, err := hashObject(ctx, v.blobs, w.parts.Name())
	v.report.DeepBytes += n
	switch {
	case err == nil && digest == w.facts.SHA256:
		return nil
	case err == nil:
		f.Fault, f.Detail = FaultDigest, fmt.Sprintf("SHA-256 %s instead of %s", digest, w.facts.SHA256)
	case ctx.Err() != nil, errors.Is(err, ErrUnavailable):
		return err
	default:
		f.Fault, f.Detail = FaultUnreadable, err.Error()
	}
	return v.found(f)
}

func (v *verification) lost(w walked) error {
	v.count(w)
	v.report.OrphanBytes += w.stored.Size
	f := findingOf(w)
	switch {
	case w.parts.Marker:
		f.Fault = FaultMarker
	case w.facts.Known:
		f.Fault = FaultLeftover
	default:
		f.Fault = FaultOrphan
	}
	return v.found(f)
}

func (v *verification) missing(w walked) error {
	v.report.Needed++
	f := findingOf(w)
	f.Fault, f.Size = FaultMissing, w.facts.Size
	return v.found(f)
}

func findingOf(w walked) VerifyFinding {
	f := VerifyFinding{Key: w.parts.Key, Token: w.parts.Token, Path: w.parts.Path, Object: w.parts.Name()}
	if w.stored != nil {
		f.Size = w.stored.Size
	}
	return f
}

// statObject tells whether there is an object, and what it is.
func statObject(ctx context.Context, blobs BlobStore, name ObjectName) (info ObjectInfo, found bool, err error) {
	info, err = blobs.Stat(ctx, name)
	if errors.Is(err, ErrObjectNotFound) {
		return info, false, nil
	}
	return info, err == nil, err
}

// hashObject reads a whole object and gives its SHA-256 and its length in bytes.
func hashObject(ctx context.Context, blobs BlobStore, name ObjectName) (digest Digest, n int64, err error) {
	body, err := blobs.Open(ctx, name, 0, -1)
	if err != nil {
		return Digest{}, 0, err
	}
	defer body.Close() //nolint:errcheck // It is only read.
	hash := sha256.New()
	if n, err = io.Copy(hash, body); err != nil {
		return Digest{}, n, fmt.Errorf("reading %s: %w", name, err)
	}
	return Digest(hash.Sum(nil)), n, nil
}
