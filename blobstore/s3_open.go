package blobstore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/minio/minio-go/v7"

	"github.com/pawlhq/pawl/publish"
)

// Open asks for the range in one request and returns its body. It isn't asked for again in the middle: who reads can
// do that, and knows up to where it came.
func (s *S3) Open(ctx context.Context, name publish.ObjectName, offset, length int64) (io.ReadCloser, error) {
	if err := errors.Join(ctx.Err(), checkName(name), checkRange(offset, length)); err != nil {
		return nil, err
	}
	doing := "opening " + string(name)
	if length == 0 {
		return s.openNothing(ctx, name, offset, length)
	}
	var opts minio.GetObjectOptions
	ranged := offset > 0 || length > 0
	if ranged {
		end := int64(0) // In SetRange: to the end.
		if length > 0 {
			end = offset + length - 1
		}
		if err := opts.SetRange(offset, end); err != nil {
			return nil, fmt.Errorf("blob store: %s: %s", doing, err.Error())
		}
	}
	from, info, header, err := s.core.GetObject(ctx, s.bucket, s.key(name), opts)
	if minio.ToErrorResponse(err).StatusCode == http.StatusRequestedRangeNotSatisfiable {
		return s.openNothing(ctx, name, offset, length)
	}
	if err != nil {
		return nil, s3Error(ctx, doing, err)
	}
	switch {
	case ranged && header.Get("Content-Range") == "":
		err = fmt.Errorf("blob store: %s: the server doesn't know ranges", doing)
	case length > 0 && info.Size != length:
		err = fmt.Errorf("blob store: %s: the server has %d bytes where %d should be: %w", doing, info.Size, length, io.ErrUnexpectedEOF)
	default:
		return &s3Reader{ctx: ctx, doing: doing, from: from, left: info.Size}, nil
	}
	_ = from.Close() //nolint:errcheck // The refused answer isn't read.
	return nil, err
}

// openNothing serves ranges that have no bytes, which S3 can't express, and finds out what is wrong with those that
// the server has refused. It only looks that the object reaches up to there.
func (s *S3) openNothing(ctx context.Context, name publish.ObjectName, offset, length int64) (io.ReadCloser, error) {
	info, err := s.Stat(ctx, name)
	if err != nil {
		return nil, err
	}
	left, err := within(info.Size, offset, length)
	if err == nil && left > 0 {
		err = errors.New("the server refuses a range that the object has")
	}
	if err != nil {
		return nil, fmt.Errorf("blob store: opening %s: %w", name, err)
	}
	return http.NoBody, nil
}

// s3Reader reads the body of an answer and notices when it breaks off.
type s3Reader struct {
	ctx   context.Context // of the Open call, which bounds the reading
	doing string
	from  io.ReadCloser
	left  int64 // bytes
}

func (r *s3Reader) Read(p []byte) (int, error) {
	n, err := r.from.Read(p)
	r.left -= int64(n)
	switch {
	case err == nil:
		return n, nil
	case !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF):
		return n, s3Error(r.ctx, r.doing, err)
	case r.left > 0 || errors.Is(err, io.ErrUnexpectedEOF):
		return n, publish.Unavailable("the blob store", fmt.Errorf("%s: the answer broke off: %w", r.doing, io.ErrUnexpectedEOF))
	}
	return n, io.EOF
}

func (r *s3Reader) Close() error { return r.from.Close() }

// Stat asks for the object's size.
func (s *S3) Stat(ctx context.Context, name publish.ObjectName) (publish.ObjectInfo, error) {
	if err := errors.Join(ctx.Err(), checkName(name)); err != nil {
		return publish.ObjectInfo{}, err
	}
	info, err := s.core.StatObject(ctx, s.bucket, s.key(name), minio.StatObjectOptions{})
	if err != nil {
		return publish.ObjectInfo{}, s3Error(ctx, "looking at "+string(name), err)
	}
	return publish.ObjectInfo{Name: name, Size: info.Size}, nil
}
