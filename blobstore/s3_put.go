package blobstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/minio/minio-go/v7"

	"github.com/pawlhq/pawl/publish"
)

// partSize is the size of all parts of a multipart upload but the last, in bytes, and so the memory that an upload
// takes. S3 wants at least 5 MiB and at most maxParts parts; a body of known length gets larger parts once that is
// needed, above 156 GiB.
const (
	partSize = 16 << 20
	maxParts = 10_000
)

// Put uploads the object. The server completes it only when all of it has come, so a crash at any step leaves no
// object; what it may leave is an unfinished multipart upload, for which the bucket needs a lifecycle rule.
func (s *S3) Put(ctx context.Context, name publish.ObjectName, from io.Reader, size int64, contentType string) error {
	if err := errors.Join(ctx.Err(), checkName(name)); err != nil {
		return err
	}
	b := newBody(ctx, from, size)
	err := s.put(ctx, s.key(name), b, contentType)
	whole, fault := b.stop()
	switch {
	case fault != nil:
		return fmt.Errorf("blob store: storing %s: %w", name, fault)
	case err != nil:
		return s3Error(ctx, "storing "+string(name), err)
	case !whole:
		return fmt.Errorf("blob store: storing %s: the server said that it has stored the object before it had all of it", name)
	}
	return nil
}

// put picks the way of upload.
func (s *S3) put(ctx context.Context, key string, b *body, contentType string) error {
	if b.size < 0 || b.size > partSize {
		return s.putParts(ctx, key, b, contentType)
	}
	if b.size == 0 {
		// A request without a body would never look whether there is one.
		if _, err := fillPart(b, make([]byte, 1)); err != nil {
			return err
		}
	}
	// The body can't be rewound, and the client sees that, so a failed request isn't sent again.
	return s.putWhole(ctx, key, struct{ io.Reader }{b}, b.size, contentType)
}

// putWhole sends size bytes in one request. Without TLS the client signs it piece by piece, and over TLS it sends a
// checksum behind it, so that bytes which were changed or cut off on the way are refused. The declared length isn't
// enough for that: some servers keep the head of a body whose connection broke, as an object.
func (s *S3) putWhole(ctx context.Context, key string, from io.Reader, size int64, contentType string) error {
	_, err := s.core.PutObject(ctx, s.bucket, key, from, size, "", "", createOnly(contentType))
	return err
}

// createOnly makes the options of a request that must not overwrite. Each request gets its own.
func createOnly(contentType string) minio.PutObjectOptions {
	opts := minio.PutObjectOptions{ContentType: contentType}
	opts.SetMatchETagExcept("*")
	return opts
}

// putParts sends the body in parts from memory, so that a part which fails can be sent again. A body that turns
// out to fit into one part goes as one request.
func (s *S3) putParts(ctx context.Context, key string, b *body, contentType string) error {
	buffer, free := s.part(b.size)
	defer free()
	n, err := fillPart(b, buffer)
	if err != nil {
		return err
	}
	if n < len(buffer) {
		return s.putWhole(ctx, key, bytes.NewReader(buffer[:n]), int64(n), contentType)
	}
	upload := &multipart{s: s, key: key, contentType: contentType}
	if err := upload.start(ctx); err != nil {
		return err
	}
	for n > 0 && err == nil {
		if err = upload.send(ctx, buffer[:n]); err == nil {
			n, err = fillPart(b, buffer)
		}
	}
	if err == nil {
		err = upload.complete(ctx)
	}
	if err != nil {
		return upload.abort(ctx, err)
	}
	return nil
}

// part returns a buffer for the parts of a body of the given size, and what gives it back.
func (s *S3) part(size int64) ([]byte, func()) {
	if size > partSize*maxParts {
		const step = 1 << 20
		need := (size + maxParts - 1) / maxParts
		return make([]byte, (need+step-1)/step*step), func() {}
	}
	buffer := s.parts.Get().(*[]byte) //nolint:errcheck // The pool has nothing else.
	return *buffer, func() { s.parts.Put(buffer) }
}

// fillPart reads b until buffer is full or b has ended.
func fillPart(b *body, buffer []byte) (int, error) {
	n := 0
	for n < len(buffer) {
		more, err := b.Read(buffer[n:])
		n += more
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return 0, err
		}
	}
	return n, nil
}
