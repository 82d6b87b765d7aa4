package publish

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"
)

// UploadID names one upload: 128 random bits, so that every object has a name of its own. It is no secret.
type UploadID [16]byte

// String gives 32 hex digits.
func (id UploadID) String() string { return fmt.Sprintf("%x", id[:]) }

// Upload is one attempt to store one file: a row that is written before its first byte is read.
type Upload struct {
	Grant Grant
	Path  Path
	ID    UploadID
	// Number orders the uploads of one path by their start: of several complete ones the greatest counts.
	Number int64
}

// Object is the name under which the upload's bytes are stored.
func (u Upload) Object() ObjectName { return objectName(u.Grant.Key, u.Grant.Token, u.ID, u.Path) }

func objectName(key Key, token Token, id UploadID, path Path) ObjectName {
	return ObjectName(fmt.Sprintf("%s/-/%d/%s/%s", key, token, id, path))
}

// File is one file of a generation.
type File struct {
	Path        Path   `json:"path"`
	Size        int64  `json:"size"` // bytes
	SHA256      Digest `json:"sha256"`
	ContentType string `json:"content_type"`
}

// UploadRequest asks to store one file under a grant.
type UploadRequest struct {
	Grant Grant
	Path  Path
	// ContentType is what the client says; the table in content_type.go overrules it.
	ContentType string
	// Size is the declared length in bytes, -1 when unknown.
	Size int64
	// Digest is the promised SHA-256, zero when the client promises none.
	Digest Digest
	// Body is read once, as a stream, and only after the grant was found in order.
	Body io.Reader
}

// UploadResult tells what became of an upload that was stored.
type UploadResult struct {
	File
	Key   Key   `json:"key"`
	Token Token `json:"token"`
	// Replaced reports that the path had a complete file before.
	Replaced bool `json:"replaced"`
	// Identical reports that the generation had this very file already, under the same content type: the body was not read.
	Identical bool `json:"identical,omitempty"`
	// Overtaken reports that an upload of the same path that started later (or its deletion) was complete first: that
	// one counts, this one doesn't.
	Overtaken bool `json:"overtaken,omitempty"`
	// SupersededBy is the newest token of the key when that is greater than this one, else 0. The upload stands,
	// but its publish may be refused.
	SupersededBy Token `json:"superseded_by,omitempty"`
}

// UploadStart is the answer to BeginUpload: either an Upload to carry out, or the file that is there already.
type UploadStart struct {
	Upload Upload
	// Existing is the file that counts at this path, when no upload is needed to have it (see BeginUpload).
	Existing *File
	// Sealed reports that Existing belongs to a generation that had its final publish.
	Sealed bool
	// MaxFileBytes is what the key's policy allows, 0 for no limit.
	MaxFileBytes int64
	SupersededBy Token
}

// BeginUploadRequest asks for the row of a new upload.
type BeginUploadRequest struct {
	Grant Grant
	Path  Path
	ID    UploadID
	// Digest is what the body is promised to be, zero when unknown.
	Digest Digest
	// ReplaySealed asks for the existing file of a sealed generation instead of a refusal, so that a repeated
	// upload-and-publish can be compared and replayed.
	ReplaySealed bool
}

// UploadStore is the part of PointerStore that knows the files of generations. Every call checks the grant
// (not-found, unknown-token, lease-lost) and, but for FailUpload, the fence (stale-token, generation-collected, generation-sealed), in
// this order. A stale request is recorded as a rejection before it is refused. Calls lock only the generation, in
// share, so that uploads of one generation run side by side. Each call is one transaction.
type UploadStore interface {
	// BeginUpload writes the pending row that makes the path incomplete until an upload that started later (or this
	// one) is complete. When Digest is that of the complete file which counts at the path, nothing is written and that
	// file is returned as Existing. With ReplaySealed, a sealed generation's file at the path is returned likewise, before the fence
	// is asked.
	BeginUpload(ctx context.Context, req BeginUploadRequest) (UploadStart, error)
	// CompleteUpload registers the stored bytes: the file counts from the generation's next revision on, unless an
	// upload of the path that started later is complete already (Overtaken). Repeating it is harmless. When it is
	// refused, the path stays incomplete; so it is when the generation would be above the store's GenerationLimits with it (too-large, with
	// Operation). Uploads that are completed at the same moment may get past those, but not past the publish.
	CompleteUpload(ctx context.Context, upload Upload, file File) (UploadResult, error)
	// FailUpload marks a pending upload as failed, with why for people. It changes no other state of an upload.
	FailUpload(ctx context.Context, upload Upload, why string) error
	// DeleteFile drops the path from the open generation: files, pending and failed uploads. A file that the last published
	// revision names stays readable until the next one is published. A path that has no upload here but a file in an earlier
	// generation of the key is kept from being carried over by ReuseFrom. not-found when it has neither.
	DeleteFile(ctx context.Context, grant Grant, path Path) error
}

// GenerationLimits bound what one generation may hold, on top of what the policy of its key says. 0 is no limit.
type GenerationLimits struct {
	// Files bounds the files of its set. Those that it carries over count at its publish.
	Files int64
	// Bytes bounds the files that it has uploaded itself.
	Bytes int64
}

// UnitFiles is the Unit of a Limit that counts files.
const UnitFiles = "files"

// failTimeout bounds the marking of a failed upload, which goes on after its client went away.
const failTimeout = 10 * time.Second

// finishTimeout bounds what is left of an upload or a deletion when its client went away.
const finishTimeout = time.Minute

// Upload stores one file under a grant. The grant is checked before the body is read. A file counts only once
// all its bytes are stored and their length and digest are those that were promised; whatever else happens leaves the path
// incomplete. A client that goes away once it has sent everything is not missed: ffmpeg waits for no answer.
func (s *Service) Upload(ctx context.Context, req UploadRequest) (UploadResult, error) {
	result, _, err := s.upload(ctx, req, false)
	return result, err
}

// UploadAndPublish stores one file and publishes its generation, for outputs of one file. Repeating it after the
// answer was lost is a replay when the bytes are the same: with a promised digest the body isn't read at all,
// otherwise it is hashed, dropped and compared.
func (s *Service) UploadAndPublish(ctx context.Context, req UploadRequest, pub PublishRequest) (Receipt, error) {
	if err := pub.validate(); err != nil {
		return Receipt{}, s.RefuseUpload(ctx, req.Grant, req.Path, err)
	}
	result, sealed, err := s.upload(ctx, req, true)
	if err != nil {
		return Receipt{}, err
	}
	if result.Overtaken && !sealed {
		return Receipt{}, &Error{
			Code: ErrGenerationIncomplete, Key: req.Grant.Key, Token: req.Grant.Token,
			Detail: "another upload of this path, which started later, counts; it publishes",
		}
	}
	return s.Publish(ctx, pub)
}

// RefuseUpload marks the path of an upload as failed that is refused before its body is read, and returns the reason. Many uploaders
// don't look at answers, so a refusal must show at the final publish. A request that isn't from a grant in order has
// nothing to mark.
func (s *Service) RefuseUpload(ctx context.Context, grant Grant, path Path, why error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), failTimeout) // As in fail: the client may be gone.
	defer cancel()
	start, err := s.begin(ctx, BeginUploadRequest{Grant: grant, Path: path, ID: s.newUploadID()})
	if refused := s.refused(ctx, err); refused == nil {
		s.fail(ctx, start.Upload, why)
	} else if errors.Is(refused, ErrUnavailable) || errors.Is(refused, ErrOutcomeUnknown) {
		return refused // Sent again, it is refused and marked.
	}
	return why
}

// upload does the work of Upload. With replay, a sealed generation's identical file is a success (sealed is true).
func (s *Service) upload(ctx context.Context, req UploadRequest, replay bool) (result UploadResult, sealed bool, err error) {
	ctx, cancel := outlive(ctx, finishTimeout) // A body that is cut ends by itself.
	defer cancel()
	begin := BeginUploadRequest{Grant: req.Grant, Path: req.Path, ID: s.newUploadID(), Digest: req.Digest, ReplaySealed: replay}
	contentType := ContentType(req.Path, req.ContentType)
	start, err := s.beginAs(ctx, begin, contentType)
	if err != nil {
		return UploadResult{}, false, s.refused(ctx, err)
	}
	body := measure(req, s.maxFileBytes(start.MaxFileBytes))
	if start.Existing != nil {
		same, err := sameFile(*start.Existing, req, contentType, body)
		if err != nil {
			return UploadResult{}, false, err
		}
		if same {
			return UploadResult{
				File: *start.Existing, Key: req.Grant.Key, Token: req.Grant.Token, Replaced: true,
				Identical: true, SupersededBy: start.SupersededBy,
			}, start.Sealed, nil
		}
		// Another file for a sealed generation: ask again without replay, to be refused and recorded as the case is.
		begin.ReplaySealed = false
		if start, err = s.Pointers.BeginUpload(ctx, begin); err != nil {
			return UploadResult{}, false, s.refused(ctx, err)
		}
		sealed := &Error{Code: ErrGenerationSealed, Key: req.Grant.Key, Token: req.Grant.Token}
		return UploadResult{}, false, s.refused(ctx, sealed)
	}

	// A crash from here on leaves a pending row, which blocks the final publish, and at most one object that
	// no manifest names.
	upload := start.Upload
	leave := s.inFlight.enter(upload)
	defer func() { leave(err == nil && !result.Overtaken) }()
	if err := s.store(ctx, upload, req, body, contentType); err != nil {
		s.fail(ctx, upload, err)
		return UploadResult{}, false, err
	}
	// A crash here leaves a whole object and a pending row: still harmless, still blocking.
	file := File{Path: req.Path, Size: body.n, SHA256: body.sum(), ContentType: contentType}
	result, err = s.Pointers.CompleteUpload(ctx, upload, file)
	if err != nil {
		err = s.refused(ctx, err)
		if errors.Is(err, ErrTooLarge) {
			s.drop(ctx, upload, err)
		}
		return UploadResult{}, false, err
	}
	s.observe().Uploaded(result)
	return result, false, nil
}

// drop marks an upload as failed whose bytes are stored, then removes them. What isn't removed is left to the sweep.
func (s *Service) drop(ctx context.Context, upload Upload, why error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), failTimeout)
	defer cancel()
	err := s.Pointers.FailUpload(ctx, upload, why.Error())
	if err == nil {
		err = s.Blobs.Discard(ctx, upload.Object())
	}
	if err != nil {
		s.log().WarnContext(ctx, "object_left", "object", upload.Object(), "error", err)
	}
}

// store streams the body into the blob store and turns a fault of the body into an error that names it.
func (s *Service) store(ctx context.Context, upload Upload, req UploadRequest, body *measuredBody, contentType string) error {
	if req.Size > body.limit {
		return body.tooLarge()
	}
	err := s.Blobs.Put(ctx, upload.Object(), body, req.Size, contentType)
	if err == nil {
		body.finish()
	}
	if body.err != nil {
		return body.err // whatever the store made of it, the body was not good
	}
	var known *Error
	switch {
	case err == nil && body.whole():
		return nil
	case err == nil:
		return &Error{Code: ErrInternal, Detail: "the blob store stopped before the end of the body"}
	case errors.As(err, &known), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	default:
		return &Error{Code: ErrInternal, Detail: "the blob store failed", Cause: fmt.Errorf("storing %s: %w", upload.Object(), err)}
	}
}

// outlive gives a context that ends some time after its parent.
func outlive(parent context.Context, by time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(parent))
	stop := context.AfterFunc(parent, func() {
		select {
		case <-time.After(by):
			cancel()
		case <-ctx.Done():
		}
	})
	return ctx, func() { stop(); cancel() }
}

// fail marks the upload as failed, also when its client went away. If that can't be done either, the row
// stays pending, which blocks the final publish just as well.
func (s *Service) fail(ctx context.Context, upload Upload, cause error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), failTimeout)
	defer cancel()
	if err := s.Pointers.FailUpload(ctx, upload, cause.Error()); err != nil {
		s.log().WarnContext(ctx, "upload_left_pending", "key", upload.Grant.Key, "token", upload.Grant.Token, "path", upload.Path, "error", err)
	}
}

// sameFile reports whether the request carries the file that is there already. Without a promised digest
// the body is hashed and dropped.
func sameFile(there File, req UploadRequest, contentType string, body *measuredBody) (bool, error) {
	if contentType != there.ContentType {
		return false, nil
	}
	if !req.Digest.IsZero() {
		return req.Digest == there.SHA256, nil
	}
	if req.Size >= 0 && req.Size != there.Size {
		return false, nil
	}
	if _, err := io.Copy(io.Discard, body); err != nil {
		return false, err
	}
	return body.sum() == there.SHA256, nil
}

// DeleteFile drops a path from an open generation; see UploadStore. As for an upload, its client need not wait.
func (s *Service) DeleteFile(ctx context.Context, grant Grant, path Path) error {
	ctx, cancel := outlive(ctx, finishTimeout)
	defer cancel()
	leave, err := s.arrivals.enter(ctx, grant, path)
	defer leave()
	if err != nil {
		return err
	}
	return s.refused(ctx, s.Pointers.DeleteFile(ctx, grant, path))
}
