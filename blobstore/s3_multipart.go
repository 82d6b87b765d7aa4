package blobstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/minio/minio-go/v7"
)

// abortTimeout bounds the clean-up after a failed upload, which goes on when the caller has already left.
const abortTimeout = 30 * time.Second

// multipart is one multipart upload. Its parts are visible to nobody until complete.
type multipart struct {
	*upload
	id      string // "" before start has succeeded
	sending sync.WaitGroup
	slots   chan struct{} // parallelParts long
	cut     atomic.Bool   // A request for a part got no answer.

	mu    sync.Mutex
	parts []minio.CompletePart // in the order in which they were sent
	size  int64                // bytes in parts
}

// start begins the upload. It returns how often it was sent: each time but the last may have begun another one.
func (m *multipart) start(ctx context.Context) (tries int, err error) {
	m.slots = make(chan struct{}, parallelParts)
	return m.s.again(ctx, func() error {
		id, err := m.s.once.NewMultipartUpload(ctx, m.s.bucket, m.key, m.options())
		if err == nil && id == "" {
			return errors.New("the server gave no id for a multipart upload")
		}
		m.id = id
		return err
	})
}

// sendOnce sends one part. Sending it again replaces what has come of it.
func (m *multipart) sendOnce(ctx context.Context, number int, from io.Reader, length int64) error {
	sent, err := m.s.once.PutObjectPart(ctx, m.s.bucket, m.key, m.id, number, from, length, minio.PutObjectPartOptions{})
	if err != nil {
		if _, answered := errors.AsType[minio.ErrorResponse](err); !answered {
			m.cut.Store(true)
		}
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.parts = append(m.parts, minio.CompletePart{PartNumber: number, ETag: sent.ETag})
	m.size += length
	return nil
}

// complete makes the parts an object, unless there is one of that name.
func (m *multipart) complete(ctx context.Context) error {
	slices.SortFunc(m.parts, func(a, b minio.CompletePart) int { return cmp.Compare(a.PartNumber, b.PartNumber) })
	tries, err := m.s.again(ctx, func() error {
		var opts minio.PutObjectOptions
		opts.SetMatchETagExcept("*")
		_, err := m.s.once.CompleteMultipartUpload(ctx, m.s.bucket, m.key, m.id, m.parts, opts)
		return err
	})
	if err == nil {
		return nil
	}
	return m.s.settle(ctx, m.key, m.mark, m.size, tries, err)
}

// cleanUp removes what the upload has left: its parts unless it is stored, and other uploads that were begun if start
// was sent more than once or has failed. It returns the failure cause. The caller's context may be the cause, so it
// doesn't bound this.
func (m *multipart) cleanUp(ctx context.Context, stored bool, starts int, cause error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), abortTimeout)
	defer cancel()
	var err error
	if m.id != "" && !stored {
		// Whatever the answer is, what counts is that the upload is gone.
		_ = m.s.core.AbortMultipartUpload(ctx, m.s.bucket, m.key, m.id) //nolint:errcheck // See above.
		err = m.remove(ctx, func(id string) bool { return id == m.id })
	}
	if m.id == "" || starts > 1 {
		// Nobody else uploads under this name, and if somebody did, theirs would fail, which is harmless.
		err = errors.Join(err, m.remove(ctx, func(id string) bool { return id != m.id }))
	}
	if err == nil || cause == nil {
		return cause
	}
	return &leftParts{cause: cause, abort: err}
}

// remove aborts the uploads under this name whose ids are picked, until they are gone. The server may still be at
// work on a request of which the answer was cut off, and bring an upload back with it: then it looks twice.
func (m *multipart) remove(ctx context.Context, pick func(id string) bool) error {
	var failed error
	looks := 1
	if m.cut.Load() {
		looks = 2
	}
	for try := range attempts + 1 {
		if try > 0 {
			select {
			case <-time.After(m.s.pause << (try - 1)):
			case <-ctx.Done():
				return errors.Join(failed, ctx.Err())
			}
		}
		found, err := m.s.core.ListMultipartUploads(ctx, m.s.bucket, m.key, "", "", "", 1000)
		failed = err
		for _, other := range found.Uploads {
			if other.Key == m.key && pick(other.UploadID) {
				err = errors.New("the upload is still there")
				failed = errors.Join(err, failed, m.s.core.AbortMultipartUpload(ctx, m.s.bucket, m.key, other.UploadID))
			}
		}
		if err == nil {
			if looks--; looks == 0 {
				return nil
			}
		}
	}
	return failed
}

// leftParts is a failed upload whose parts couldn't be removed.
type leftParts struct{ cause, abort error }

func (e *leftParts) Error() string {
	return fmt.Sprintf("%v (and its parts are left in the bucket: %v)", e.cause, e.abort)
}

func (e *leftParts) Unwrap() error { return e.cause }
