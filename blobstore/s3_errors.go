package blobstore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"

	"github.com/minio/minio-go/v7"

	"github.com/pawlhq/pawl/publish"
)

// s3Error translates what the client library said; doing says what was going on. Only texts of the library's errors
// go on, so no type of it leaves the package.
func s3Error(ctx context.Context, doing string, err error) error {
	if known, ok := errors.AsType[*publish.Error](err); ok {
		return known
	}
	if ended := ctx.Err(); ended != nil {
		return fmt.Errorf("blob store: %s: %w", doing, ended)
	}
	if errors.Is(err, publish.ErrObjectExists) {
		return fmt.Errorf("blob store: %s: %w", doing, err)
	}
	text := fmt.Errorf("blob store: %s: %s", doing, err.Error())
	answer, ok := errors.AsType[minio.ErrorResponse](err)
	if !ok {
		if isNetwork(err) || errors.Is(err, errNoKeys) {
			return publish.Unavailable("the blob store", text)
		}
		return text
	}
	text = fmt.Errorf("%w (%s, status %d, request %q)", text, answer.Code, answer.StatusCode, answer.RequestID)
	return answerError(answer.Code, answer.StatusCode, text)
}

// answerError finds the kind of an error that the server has answered.
func answerError(code string, status int, text error) error {
	switch code {
	case minio.NoSuchKey:
		return fmt.Errorf("%w: %w", publish.ErrObjectNotFound, text)
	case minio.NoSuchBucket:
		return fmt.Errorf("%w; make the bucket, or correct %s", text, setting)
	case minio.AccessDenied, "InvalidAccessKeyId", "SignatureDoesNotMatch":
		return fmt.Errorf("%w; check PAWL_S3_ACCESS_KEY, PAWL_S3_SECRET_KEY and the bucket's policy", text)
	case "QuotaExceeded", "XMinioStorageFull", "XMinioAdminBucketQuotaExceeded":
		return quotaExceeded(text)
	case "NotImplemented":
		return fmt.Errorf("%w; this server lacks something that Pawl needs", text)
	case minio.NoSuchUpload: // Someone has aborted it; a new one may go better.
		return publish.Unavailable("the blob store", text)
	}
	if isTransientCode(code) {
		return publish.Unavailable("the blob store", text)
	}
	switch {
	case status == http.StatusOK: // It began to answer and then failed, or never said how it went.
		return publish.Unavailable("the blob store", text)
	case status == http.StatusInsufficientStorage:
		return quotaExceeded(text)
	case status >= http.StatusInternalServerError, status == http.StatusTooManyRequests, status == http.StatusRequestTimeout,
		status == http.StatusConflict: // Requests met inside the server, and this one wasn't carried out.
		return publish.Unavailable("the blob store", text)
	}
	return text
}

func quotaExceeded(cause error) error {
	return &publish.Error{
		Code:   publish.ErrQuotaExceeded,
		Detail: "the blob store's bucket has no space left; nothing was stored. Raise its quota or free some space, then send it again",
		Cause:  cause,
	}
}

// isNetwork reports whether the error came from the way to the server.
func isNetwork(err error) bool {
	if _, ok := errors.AsType[*url.Error](err); ok {
		return true
	}
	if _, ok := errors.AsType[net.Error](err); ok {
		return true
	}
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
}
