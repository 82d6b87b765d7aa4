package blobstore

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/pawlhq/pawl/publish"
)

var _ Store = (*S3)(nil)

// Every step in which nothing but the network and the server decide is bounded; the transfer of a body isn't.
const (
	connectTimeout = 10 * time.Second
	// answerTimeout counts from the end of a request's body to the header of the answer. Completing a large
	// multipart upload takes some stores the better part of a minute.
	answerTimeout = 2 * time.Minute
	// attempts is how often a request is sent that can be sent again. The pauses between add up to about 2 s.
	attempts = 4
	// idleConnections is how many connections to the server stay open for the next requests.
	idleConnections = 64
)

// S3 keeps objects in a bucket, under their own names behind a prefix. A body of known length up to one part's
// is streamed in one request; every other one is sent in parts, with one part in memory at a time.
//
// Put sends If-None-Match: *, so no object is overwritten on servers that honour it. Names are new each time, so
// nothing depends on it.
type S3 struct {
	// core has the requests that S3 knows, without the client's own idea of how to upload: above one part that
	// would overwrite, and it would take 500 MiB of memory for a body of unknown length.
	core      *minio.Core
	transport *http.Transport
	bucket    string
	prefix    string
	parts     sync.Pool // of *[]byte, partSize long
}

func newS3(config s3Config) (*S3, error) {
	dialer := &net.Dialer{Timeout: connectTimeout, KeepAlive: 15 * time.Second}
	transport := &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           dialer.DialContext,
		TLSClientConfig:       &tls.Config{RootCAs: config.roots, MinVersion: tls.VersionTLS12},
		TLSHandshakeTimeout:   connectTimeout,
		ResponseHeaderTimeout: answerTimeout,
		ExpectContinueTimeout: time.Second,
		IdleConnTimeout:       time.Minute,
		MaxIdleConnsPerHost:   idleConnections,
		DisableCompression:    true, // Objects are handed out as they were stored.
		ReadBufferSize:        64 << 10,
		WriteBufferSize:       64 << 10,
	}
	lookup := minio.BucketLookupAuto
	if config.pathStyle != nil && *config.pathStyle {
		lookup = minio.BucketLookupPath
	} else if config.pathStyle != nil {
		lookup = minio.BucketLookupDNS
	}
	core, err := minio.NewCore(config.endpoint, &minio.Options{
		Creds:        credentials.NewStaticV4(config.accessKey, config.secretKey, ""),
		Secure:       config.secure,
		Region:       config.region, // Set, so that the client doesn't ask for it first.
		BucketLookup: lookup,
		Transport:    transport,
		MaxRetries:   attempts,
		// Over TLS a streamed body ends with its checksum, as every current S3 SDK has it. See putWhole.
		TrailingHeaders: config.secure,
	})
	if err != nil {
		return nil, badURL("has an endpoint that can't be used (%s); write endpoint=https://host:port", err.Error())
	}
	s := &S3{core: core, transport: transport, bucket: config.bucket, prefix: config.prefix}
	s.parts.New = func() any { b := make([]byte, partSize); return &b }
	return s, nil
}

// key is the object's name in the bucket.
func (s *S3) key(name publish.ObjectName) string { return s.prefix + string(name) }

// Close drops the idle connections. Calls that are under way go on.
func (s *S3) Close() error {
	s.transport.CloseIdleConnections()
	return nil
}

// Check asks for the bucket.
func (s *S3) Check(ctx context.Context) error {
	found, err := s.core.BucketExists(ctx, s.bucket)
	if err != nil {
		return s3Error(ctx, "checking the bucket "+s.bucket, err)
	}
	if !found {
		return publish.Unavailable("the blob store's bucket", fmt.Errorf("there is no bucket %q: make it, or correct %s", s.bucket, setting))
	}
	return nil
}
