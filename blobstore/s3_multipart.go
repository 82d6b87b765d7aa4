package blobstore

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"github.com/minio/minio-go/v7"

	"github.com/pawlhq/pawl/publish"
)

// abortTimeout bounds the clean-up after a failed upload, which goes on when the caller has already left.
const abortTimeout = 30 * time.Second

// multipart is one multipart upload. Its parts are visible to nobody until complete.
type multipart struct {
	s           *S3
	key         string
	contentType string
	id          string
	parts       []minio.CompletePart
}

func (m *multipart) start(ctx context.Context) error {
	id, err := m.s.core.NewMultipartUpload(ctx, m.s.bucket, m.key, minio.PutObjectOptions{ContentType: m.contentType})
	m.id = id
	return err
}

// send uploads the next part.
func (m *multipart) send(ctx context.Context, bytesOfPart []byte) error {
	number := len(m.parts) + 1
	if number > maxParts {
		return &publish.Error{
			Code:   publish.ErrTooLarge,
			Detail: fmt.Sprintf("a body of undeclared length may have at most %d bytes in this blob store; declare its length", int64(partSize)*maxParts),
			Limit:  int64(partSize) * maxParts,
		}
	}
	part, err := m.s.core.PutObjectPart(ctx, m.s.bucket, m.key, m.id, number, bytes.NewReader(bytesOfPart), int64(len(bytesOfPart)),
		minio.PutObjectPartOptions{})
	if err != nil {
		return err
	}
	m.parts = append(m.parts, minio.CompletePart{PartNumber: number, ETag: part.ETag})
	return nil
}

// complete makes the parts an object, unless there is one of that name. It is the only step that can have happened
// although it failed.
func (m *multipart) complete(ctx context.Context) error {
	_, err := m.s.core.CompleteMultipartUpload(ctx, m.s.bucket, m.key, m.id, m.parts, createOnly(m.contentType))
	return err
}

// abort removes the parts after the failure cause, which it returns. The caller's context may be the cause, so it
// doesn't bound this.
func (m *multipart) abort(ctx context.Context, cause error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), abortTimeout)
	defer cancel()
	err := m.s.core.AbortMultipartUpload(ctx, m.s.bucket, m.key, m.id)
	if err == nil || minio.ToErrorResponse(err).Code == minio.NoSuchUpload {
		return cause
	}
	return &leftParts{cause: cause, abort: err}
}

// leftParts is a failed upload whose parts couldn't be removed.
type leftParts struct{ cause, abort error }

func (e *leftParts) Error() string {
	return fmt.Sprintf("%v (and its parts are left in the bucket: %v)", e.cause, e.abort)
}

func (e *leftParts) Unwrap() error { return e.cause }
