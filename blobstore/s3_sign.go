package blobstore

import (
	"context"
	"net/http"
	"net/url"
	"time"

	"github.com/pawlhq/pawl/publish"
)

// sign makes a request on an object that its bearer may carry out until it expires. The signature covers the header, too, which must
// be sent as it is; Content-Length is the sender's own to set. Nobody is called for it, but for keys that expire.
func (s *S3) sign(ctx context.Context, method, key string, validFor time.Duration, query url.Values, header http.Header) (publish.SignedRequest, error) {
	expires := time.Now().Add(validFor).UTC().Truncate(time.Millisecond)
	signed, err := s.core.PresignHeader(ctx, method, s.bucket, key, validFor, query, header)
	if err != nil {
		return publish.SignedRequest{}, s3Error(ctx, "signing a request", err)
	}
	header = header.Clone()
	header.Del("Content-Length")
	return publish.SignedRequest{Method: method, URL: signed.String(), Header: header, ExpiresAt: expires}, nil
}
