package blobstore

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/pawlhq/pawl/publish"
)

var _ publish.ReadSigner = (*S3)(nil)

// newSigner makes the client that signs for the public endpoint. It never sends anything.
func newSigner(config s3Config, inner *minio.Client, options minio.Options) (*minio.Client, error) {
	if config.public == "" {
		return inner, nil
	}
	options.Secure = config.publicTLS
	signer, err := minio.New(config.public, &options)
	if err != nil {
		return nil, fmt.Errorf("PAWL_S3_PUBLIC_ENDPOINT can't be used (%s); write https://host:port", err.Error())
	}
	return signer, nil
}

// ReadOrigin is the origin of the addresses that SignGet gives out, such as https://bucket.s3.example.
func (s *S3) ReadOrigin() string { return s.origin }

// readOrigin finds it by signing with keys that open nothing: the real ones may not be known yet, and what comes before a bucket's
// path is the client's to decide.
func readOrigin(config s3Config, options minio.Options) (string, error) {
	options.Creds = credentials.NewStaticV4("nobody", "nothing", "")
	plain, err := minio.New(config.endpoint, &options)
	if err != nil {
		return "", badURL("has an endpoint that can't be used (%s); write endpoint=https://host:port", err.Error())
	}
	signer, err := newSigner(config, plain, options)
	if err != nil {
		return "", err
	}
	signed, err := signer.PresignHeader(context.Background(), http.MethodGet, config.bucket, "x", time.Minute, nil, nil)
	if err != nil {
		return "", badURL("has a bucket that no address can be made for (%s)", err.Error())
	}
	return signed.Scheme + "://" + signed.Host, nil
}

// sign signs one request on the object of that key, under the address by which clients reach the server. The signature
// covers the query and the header, so both must be sent as they are; Content-Length is the sender's own to set. It counts
// from now by this machine's clock, for 1 s to 7 days, but no longer than keys that expire by themselves.
//
// Nobody is asked for anything: only keys that have run out are fetched anew, from where they came.
func (s *S3) sign(ctx context.Context, method, key string, validFor time.Duration, query url.Values, header http.Header) (publish.SignedRequest, error) {
	return s.signBy(ctx, s.signer, method, key, validFor, query, header)
}

// signBy signs for the address of one of the clients.
func (s *S3) signBy(ctx context.Context, by *minio.Client, method, key string, validFor time.Duration, query url.Values, header http.Header) (publish.SignedRequest, error) {
	keys, err := s.keys.GetWithContext(s.core.CredContext())
	if err != nil {
		return publish.SignedRequest{}, s3Error(ctx, "signing a request", err)
	}
	ends := time.Now().Add(validFor)
	if !keys.Expiration.IsZero() && keys.Expiration.Before(ends) {
		ends = keys.Expiration
	}
	u, err := by.PresignHeader(ctx, method, s.bucket, key, validFor, query, header)
	if err != nil {
		return publish.SignedRequest{}, s3Error(ctx, "signing a request", err)
	}
	sent := map[string]string{}
	for name := range header {
		if name != "Content-Length" {
			sent[name] = header.Get(name)
		}
	}
	// A signature has whole seconds.
	return publish.SignedRequest{Method: method, URL: u.String(), Headers: sent, ExpiresAt: publish.Time{Time: ends.Truncate(time.Second)}}, nil
}

// SignGet signs the reading of an object. S3 signs the method too, so the URL is good for GET alone; Range works.
func (s *S3) SignGet(ctx context.Context, name publish.ObjectName, answer publish.AnswerHeaders, validFor time.Duration) (publish.SignedRequest, error) {
	if err := errors.Join(ctx.Err(), checkName(name)); err != nil {
		return publish.SignedRequest{}, err
	}
	query := url.Values{}
	for parameter, value := range map[string]string{
		"response-content-type":        answer.ContentType,
		"response-content-disposition": answer.ContentDisposition,
		"response-cache-control":       answer.CacheControl,
	} {
		if value != "" {
			query.Set(parameter, value)
		}
	}
	return s.sign(ctx, http.MethodGet, s.key(name), validFor, query, nil)
}
