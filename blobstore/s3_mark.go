package blobstore

import (
	"bytes"
	"context"
	"errors"
	"io"

	"github.com/minio/minio-go/v7"

	"github.com/pawlhq/pawl/publish"
)

// maxMark bounds what is read of a mark, in bytes.
const maxMark = 4 << 10

// Mark returns the store's id.
func (s *S3) Mark(ctx context.Context) (publish.StoreID, error) {
	from, _, _, err := s.core.GetObject(ctx, s.bucket, s.prefix+MarkName, minio.GetObjectOptions{})
	if err != nil {
		return "", s3Error(ctx, "reading "+MarkName, err)
	}
	text, err := io.ReadAll(io.LimitReader(from, maxMark))
	if err := errors.Join(err, from.Close()); err != nil {
		return "", s3Error(ctx, "reading "+MarkName, err)
	}
	return decodeMark(text)
}

// SetMark puts the mark.
func (s *S3) SetMark(ctx context.Context, id publish.StoreID) error {
	opts := minio.PutObjectOptions{ContentType: "application/json"}
	opts.SetMatchETagExcept("*")
	text := encodeMark(id)
	_, err := s.once.PutObject(ctx, s.bucket, s.prefix+MarkName, bytes.NewReader(text), int64(len(text)), "", "", opts)
	if minio.ToErrorResponse(err).Code == minio.PreconditionFailed {
		return publish.ErrObjectExists
	}
	if err != nil {
		return s3Error(ctx, "putting "+MarkName, err)
	}
	return nil
}
