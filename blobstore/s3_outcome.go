package blobstore

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/minio/minio-go/v7"

	"github.com/pawlhq/pawl/publish"
)

// uploadMark is the object's metadata (x-amz-meta-pawl-upload) that tells whose it is: each Put marks its object with a
// random text. After a lost answer, the object of that name is ours if it bears our mark.
const uploadMark = "Pawl-Upload"

// again does what can be done several times, until it succeeds or fails for good, at most as often as attempts says. It
// returns how often it was done.
func (s *S3) again(ctx context.Context, do func() error) (tries int, err error) {
	for {
		err = do()
		tries++
		if err == nil || tries == attempts || ctx.Err() != nil || !isTransient(err) {
			return tries, err
		}
		// Spread out, so that uploads which failed together don't come again together.
		pause := s.pause << (tries - 1)
		select {
		case <-time.After(pause/2 + rand.N(pause/2+1)):
		case <-ctx.Done():
			return tries, err
		}
	}
}

// isTransient reports whether the same request may succeed a little later.
func isTransient(err error) bool {
	answer, ok := errors.AsType[minio.ErrorResponse](err)
	if !ok {
		return isNetwork(err)
	}
	switch answer.StatusCode {
	case http.StatusNotImplemented, http.StatusInsufficientStorage:
		return false
	case http.StatusRequestTimeout, http.StatusConflict, http.StatusTooManyRequests:
		return true
	case http.StatusOK:
		// The server began to answer before it was done. It may also have ended without saying how it went.
		return isTransientCode(answer.Code) || answer.Code == "200 OK" || answer.Code == ""
	}
	return answer.StatusCode >= http.StatusInternalServerError || isTransientCode(answer.Code)
}

func isTransientCode(code string) bool {
	switch code {
	case "InternalError", "ServiceUnavailable", "SlowDown", "RequestTimeout", "ConditionalRequestConflict", "OperationAborted":
		return true
	}
	return false
}

// settle finds out what became of an object of the given size whose last request failed with cause, after it was sent
// as often as tries says. It returns nil if the object is stored: only the answer was lost, or a repeated request met
// what the first one had done. Otherwise it returns why not: ErrObjectExists in the chain if the name is another's.
func (s *S3) settle(ctx context.Context, key, mark string, size int64, tries int, cause error) error {
	if ctx.Err() != nil {
		return cause
	}
	taken := fmt.Errorf("%w: %s", publish.ErrObjectExists, cause.Error())
	refused := minio.ToErrorResponse(cause).Code == minio.PreconditionFailed
	info, err := s.core.StatObject(ctx, s.bucket, key, minio.StatObjectOptions{})
	switch {
	case err == nil && info.UserMetadata[uploadMark] != mark:
		return taken
	case err == nil && info.Size == size:
		return nil
	case err == nil:
		return fmt.Errorf("the object has %d bytes where %d were sent: %s", info.Size, size, cause.Error())
	case refused && minio.ToErrorResponse(err).Code != minio.NoSuchKey && tries == 1:
		return taken // What the server said itself; there was no request of ours before, that it could have met.
	case refused:
		// The other object is gone again, or it may be our own.
		return publish.Unavailable("the blob store", fmt.Errorf("%s (and looking for the object gave: %s)", cause.Error(), err.Error()))
	}
	return cause
}
