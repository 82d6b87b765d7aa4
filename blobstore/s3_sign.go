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
	expires := time.Now().Add(validFor)
	signed, err := s.core.PresignHeader(ctx, method, s.bucket, key, validFor, query, header)
	if err != nil {
		return publish.SignedRequest{}, s3Error(ctx, "signing a request", err)
	}
	headers := map[string]string{}
	for name := range header {
		if name != "Content-Length" {
			headers[name] = header.Get(name)
		}
	}
	return publish.SignedRequest{Method: method, URL: signed.String(), Headers: headers, ExpiresAt: publish.Time{Time: expires}}, nil
}
