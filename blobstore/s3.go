package blobstore

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"sync/atomic"
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
	// attempts is how often a request is sent that can be sent again, firstPause apart and then twice as much each
	// time. The pauses add up to about 1 s.
	attempts   = 4
	firstPause = 200 * time.Millisecond
	// defaultPartMemory is the memory for parts unless Options say otherwise, in bytes.
	defaultPartMemory = 64 << 20
	// MinPartMemory is the least that Options.PartMemory can be, in bytes: one part's.
	MinPartMemory = partSize
	// idleConnections is how many connections to the server stay open for the next requests.
	idleConnections = 64
)

// S3 keeps objects in a bucket, under their own names behind a prefix. A body of known length up to one part's
// is streamed in one request; every other one is sent in parts, from memory that all uploads share.
//
// Put sends If-None-Match: *, so no object is overwritten on servers that honour it. Names are new each time, so
// nothing depends on it.
type S3 struct {
	// core has the requests that S3 knows, without the client's own idea of how to upload: above one part that
	// would overwrite, and it would take 500 MiB of memory for a body of unknown length.
	core *minio.Core
	// once sends each request once: where it matters whether an earlier one may have been carried out.
	once      *minio.Core
	signer    *minio.Client // signs requests for the public endpoint; see sign
	origin    string        // see ReadOrigin
	keys      *credentials.Credentials
	transport *http.Transport
	bucket    string
	prefix    string
	region    string
	pathStyle *bool // see s3Config
	memory    *partMemory
	pause     time.Duration // firstPause, but for tests
	capable   atomic.Pointer[Capabilities]
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
	keys := config.credentials()
	options := minio.Options{
		Creds:        keys,
		Secure:       config.secure,
		Region:       config.region, // Set, so that the client doesn't ask for it first.
		BucketLookup: lookup,
		Transport:    transport,
		MaxRetries:   attempts,
		// Over TLS a streamed body ends with its checksum, as every current S3 SDK has it. See putWhole.
		TrailingHeaders: config.secure,
	}
	core, err := minio.NewCore(config.endpoint, &options)
	if err != nil {
		return nil, badURL("has an endpoint that can't be used (%s); write endpoint=https://host:port", err.Error())
	}
	options.MaxRetries = 1
	once, err := minio.NewCore(config.endpoint, &options)
	if err != nil {
		return nil, badURL("has an endpoint that can't be used (%s); write endpoint=https://host:port", err.Error())
	}
	signer, err := newSigner(config, core.Client, options)
	if err != nil {
		return nil, err
	}
	origin, err := readOrigin(config, options)
	if err != nil {
		return nil, err
	}
	return &S3{
		core: core, once: once, signer: signer, keys: keys, transport: transport, bucket: config.bucket, prefix: config.prefix,
		region: config.region, pathStyle: config.pathStyle, origin: origin,
		memory: newPartMemory(cmp.Or(config.partMemory, defaultPartMemory), partSize), pause: firstPause,
	}, nil
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
