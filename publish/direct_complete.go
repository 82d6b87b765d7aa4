package publish

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"strconv"
	"sync/atomic"
	"time"
)

// Verification says how the SHA-256 of bytes that a client has sent to the store itself is proved where the store can't do it. It is
// never taken on trust that they came as they were sent.
type Verification string

const (
	// VerifyCRC64NVME compares the CRC-64/NVME that the store has computed of the whole object with the one that the client has computed
	// together with the SHA-256, from the same reading of its file. That shows every change on the way, and a file that changed
	// between hashing and sending, and costs nothing; it doesn't show a client that lies about its own file. Where the store or
	// the client has none, the object is read back. The default.
	VerifyCRC64NVME Verification = "crc64nvme"
	// VerifyRead always reads the object back and hashes it, unless the store has its SHA-256.
	VerifyRead Verification = "read"
)

// completeWithin is how long CompleteDirect waits for a verification before it answers that it isn't done: below the time after which
// common proxies give up.
const completeWithin = 20 * time.Second

// Completion is the answer to CompleteDirect.
type Completion struct {
	UploadResult
	// Done reports that the file is stored. Otherwise its bytes are still being verified: ask again.
	Done bool
	// Verified is how many bytes have been read back so far.
	Verified int64
}

// CompleteDirect makes the file of what a client has sent, once length and digest are proved to be those that were promised. It may
// be called again at any time, from many clients at once: that is how one waits, and what one does after a lost answer.
// What is missing is length-mismatch, and the upload can be gone on with; wrong bytes are digest-mismatch, and the upload has failed.
func (s *Service) CompleteDirect(ctx context.Context, grant Grant, id DirectID) (Completion, error) {
	if s.Direct == nil {
		return Completion{}, notOffered()
	}
	upload, err := s.findDirect(ctx, grant, id, true)
	if err != nil {
		return Completion{}, err
	}
	c := s.completions.of(ctx, upload, func(ctx context.Context, c *completion) (UploadResult, error) {
		return s.complete(ctx, upload, id.Parts, &c.verified)
	})
	if c == nil {
		return over(upload)
	}
	wait := s.CompleteWithin
	if wait == 0 {
		wait = completeWithin
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-c.done:
		s.completions.forget(c)
		return Completion{UploadResult: c.result, Done: true, Verified: c.verified.Load()}, c.err
	case <-timer.C:
		return Completion{Verified: c.verified.Load()}, nil
	case <-ctx.Done():
		return Completion{}, ctx.Err()
	}
}

// over answers for an upload that had ended before.
func over(upload DirectUpload) (Completion, error) {
	if upload.State == UploadFailed {
		return Completion{}, overError(upload)
	}
	return Completion{Done: true, UploadResult: UploadResult{
		File: upload.File, Key: upload.Grant.Key, Token: upload.Grant.Token, Overtaken: upload.State == UploadDropped,
		Identical: upload.State == UploadStored, SupersededBy: upload.SupersededBy,
	}}, nil
}

// complete does the work of CompleteDirect.
func (s *Service) complete(ctx context.Context, upload DirectUpload, id PartsID, verified *atomic.Int64) (result UploadResult, err error) {
	leave := s.inFlight.enter(upload.Upload)
	defer func() { leave(err == nil && !result.Overtaken) }()
	if upload.parts() > 0 {
		if err := s.finishParts(ctx, upload, id); err != nil {
			return UploadResult{}, err
		}
	}
	// A crash here leaves a whole object and a pending row: the client completes again.
	err = s.prove(ctx, upload, verified)
	if errors.Is(err, errWrongBytes) {
		// The client gets to know what was wrong, whatever becomes of the rest.
		if left := s.giveUp(ctx, upload, err); left != nil {
			s.log().WarnContext(ctx, "object_left", "object", upload.Object(), "error", left)
		}
	}
	if err != nil {
		return UploadResult{}, err
	}
	result, err = s.Pointers.CompleteUpload(ctx, upload.Upload, upload.File)
	if err != nil {
		err = s.refused(ctx, err)
		if errors.Is(err, ErrTooLarge) {
			s.drop(ctx, upload.Upload, err)
		}
		return UploadResult{}, err
	}
	s.observe().Uploaded(result)
	return result, nil
}

// finishParts makes an object of the parts, if all of them have come.
func (s *Service) finishParts(ctx context.Context, upload DirectUpload, id PartsID) error {
	parts, err := s.goodParts(ctx, upload, id)
	if errors.Is(err, ErrObjectNotFound) {
		return nil // Finished before, or never begun: the object tells.
	}
	if err != nil {
		return err
	}
	if len(parts) != upload.parts() {
		var came int64
		for _, part := range parts {
			came += part.Size
		}
		return incomplete(upload, came)
	}
	err = s.Direct.FinishParts(ctx, upload.Object(), id, parts)
	if errors.Is(err, ErrObjectExists) {
		return nil // By an earlier request, or not: its bytes tell.
	}
	return err
}

// incomplete is the error of an upload of which not everything has come. It can be gone on with.
func incomplete(upload DirectUpload, came int64) error {
	return &Error{
		Code: ErrLengthMismatch, Key: upload.Grant.Key, Token: upload.Grant.Token, Path: upload.File.Path,
		Detail:   "not everything has come; begin the upload again with the same promise, send what it lacks, then complete it",
		Promised: strconv.FormatInt(upload.Size, 10), Came: strconv.FormatInt(came, 10),
	}
}

// errWrongBytes is in the chain of an error that says that what has come is not what was promised.
var errWrongBytes = errors.New("the store has other bytes than those that were promised")

// prove compares the object with what was promised: its length, and the strongest digest that can be had.
func (s *Service) prove(ctx context.Context, upload DirectUpload, verified *atomic.Int64) error {
	proof, err := s.Direct.Prove(ctx, upload.Object())
	switch {
	case errors.Is(err, ErrObjectNotFound):
		return incomplete(upload, 0)
	case err != nil:
		return err
	case proof.Size != upload.Size:
		return &Error{
			Code: ErrLengthMismatch, Key: upload.Grant.Key, Token: upload.Grant.Token, Path: upload.File.Path,
			Detail:   "the store has another length than was promised; this upload has failed, begin another one",
			Promised: strconv.FormatInt(upload.Size, 10), Came: strconv.FormatInt(proof.Size, 10), Cause: errWrongBytes,
		}
	case !proof.SHA256.IsZero():
		return upload.compare(upload.SHA256.String(), proof.SHA256.String())
	case s.Verification != VerifyRead && upload.CRC64NVME != nil && proof.CRC64NVME != nil:
		return upload.compare("crc64nvme "+FormatCRC64NVME(*upload.CRC64NVME), "crc64nvme "+FormatCRC64NVME(*proof.CRC64NVME))
	}
	return s.readBack(ctx, upload, verified)
}

func (d DirectUpload) compare(promised, came string) error {
	if promised == came {
		return nil
	}
	return &Error{
		Code: ErrDigestMismatch, Key: d.Grant.Key, Token: d.Grant.Token, Path: d.File.Path, Promised: promised, Came: came,
		Detail: "the bytes in the store are not those that were promised; this upload has failed", Cause: errWrongBytes,
	}
}

// readBack hashes the object as the store gives it out.
func (s *Service) readBack(ctx context.Context, upload DirectUpload, verified *atomic.Int64) error {
	body, err := s.Blobs.Open(ctx, upload.Object(), 0, -1)
	if err != nil {
		return fmt.Errorf("reading the upload back: %w", err)
	}
	defer body.Close() //nolint:errcheck // It was only read.
	h := sha256.New()
	buffer := make([]byte, 256<<10)
	for {
		n, err := body.Read(buffer)
		_, _ = h.Write(buffer[:n]) // hash.Hash.Write never returns an error.
		verified.Add(int64(n))
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fmt.Errorf("reading the upload back: %w", err)
		}
	}
	return upload.compare(upload.SHA256.String(), Digest(h.Sum(nil)).String())
}
