package blobstore

import (
	"context"
	"errors"

	"github.com/minio/minio-go/v7"

	"github.com/pawlhq/pawl/publish"
)

// Delete removes the object. S3 answers the same whether there was one or not, so it returns nil for both. In a bucket
// with versions, the bytes stay until a lifecycle rule removes them.
func (s *S3) Delete(ctx context.Context, name publish.ObjectName) error {
	if err := errors.Join(ctx.Err(), checkName(name)); err != nil {
		return err
	}
	if err := s.core.RemoveObject(ctx, s.bucket, s.key(name), minio.RemoveObjectOptions{}); err != nil {
		return s3Error(ctx, "deleting "+string(name), err)
	}
	return nil
}

// Discard aborts the unfinished uploads of that name, then removes the object: in this order, so that none of them
// can become an object behind its back.
func (s *S3) Discard(ctx context.Context, name publish.ObjectName) error {
	if err := errors.Join(ctx.Err(), checkName(name)); err != nil {
		return err
	}
	m := &multipart{upload: &upload{s: s, key: s.key(name)}}
	if err := m.remove(ctx, func(string) bool { return true }); err != nil {
		return s3Error(ctx, "discarding the parts of "+string(name), err)
	}
	return s.Delete(ctx, name)
}
