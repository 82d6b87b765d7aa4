package blobstore

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"

	"github.com/minio/minio-go/v7"

	"github.com/pawlhq/pawl/publish"
)

// Put uploads the object. The server completes it only when all of it has come, so a crash at any step leaves no
// object; what it may leave is an unfinished multipart upload, for which the bucket needs a lifecycle rule.
//
// Every failed request ends in one of four ways: the object is stored all the same, ErrObjectExists, an Error of kind
// unavailable (sending the body again may help), or another error.
func (s *S3) Put(ctx context.Context, name publish.ObjectName, from io.Reader, size int64, contentType string) error {
	if err := errors.Join(ctx.Err(), checkName(name)); err != nil {
		return err
	}
	b := newBody(ctx, from, size)
	u := &upload{s: s, key: s.key(name), contentType: contentType, mark: rand.Text()}
	err := u.put(ctx, b)
	whole, fault := b.stop()
	switch {
	case fault != nil:
		err = fmt.Errorf("blob store: storing %s: %w", name, fault)
	case err != nil:
		err = s3Error(ctx, "storing "+string(name), err)
		if errors.Is(err, publish.ErrObjectNotFound) {
			return errors.New(err.Error()) // An answer that makes no sense here, and to the caller neither.
		}
	case !whole:
		err = fmt.Errorf("blob store: storing %s: the server said that it has stored the object before it had all of it", name)
	}
	return err
}

// upload is one Put.
type upload struct {
	s           *S3
	key         string
	contentType string
	mark        string // see uploadMark
}

// put picks the way of upload.
func (u *upload) put(ctx context.Context, b *body) error {
	if b.size < 0 || b.size > u.s.memory.chunk {
		return u.putParts(ctx, b)
	}
	if b.size == 0 {
		// A request without a body would never look whether there is one.
		if _, err := fillPart(b, make([]byte, 1)); err != nil {
			return err
		}
	}
	// The body can't be rewound, so a failed request isn't sent again.
	err := u.putWhole(ctx, struct{ io.Reader }{b}, b.size)
	if err == nil {
		return nil
	}
	if _, fault := b.stop(); fault != nil {
		return err
	}
	return u.s.settle(ctx, u.key, u.mark, b.size, 1, err)
}

// putMemory sends a body of the given size that is in memory in one request, and again if that fails.
func (u *upload) putMemory(ctx context.Context, reader func() io.Reader, size int64) error {
	tries, err := u.s.again(ctx, func() error { return u.putWhole(ctx, reader(), size) })
	if err == nil {
		return nil
	}
	return u.s.settle(ctx, u.key, u.mark, size, tries, err)
}

// putWhole sends size bytes in one request. Without TLS the client signs it piece by piece, and over TLS it sends a
// checksum behind it, so that bytes which were changed or cut off on the way are refused. The declared length isn't
// enough for that: some servers keep the head of a body whose connection broke, as an object.
func (u *upload) putWhole(ctx context.Context, from io.Reader, size int64) error {
	opts := u.options()
	opts.SetMatchETagExcept("*")
	_, err := u.s.once.PutObject(ctx, u.s.bucket, u.key, from, size, "", "", opts)
	return err
}

// options makes the options of one request; no two may share them.
func (u *upload) options() minio.PutObjectOptions {
	return minio.PutObjectOptions{ContentType: u.contentType, UserMetadata: map[string]string{uploadMark: u.mark}}
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
