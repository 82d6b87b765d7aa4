package blobstore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"

	"github.com/pawlhq/pawl/publish"
)

// setting is the name under which users give the URL; every error about the URL starts with it.
const setting = "PAWL_BLOBS"

// Options are what a store needs beside its URL. Keys never stand in a URL, which ends up in logs.
type Options struct {
	// AccessKey and SecretKey are the keys themselves (PAWL_S3_ACCESS_KEY, PAWL_S3_SECRET_KEY). AccessKeyFile and
	// SecretKeyFile name files that hold them instead (PAWL_S3_ACCESS_KEY_FILE, PAWL_S3_SECRET_KEY_FILE); they are read again
	// once a second, so keys can be rotated. Without any of them the keys come from where AWS's own tools look; see awsKeys.
	AccessKey, SecretKey         string
	AccessKeyFile, SecretKeyFile string
	// OnKeys is told each time that other keys come into use, with every text that must not show in a log. It may be nil.
	OnKeys func(secrets ...string)
	// PublicEndpoint is the server's address as clients reach it, such as https://s3.example (PAWL_S3_PUBLIC_ENDPOINT). Signed
	// requests carry it. "" stands for the endpoint in the URL.
	PublicEndpoint string
	// CAFile names a PEM file with certificates that are trusted besides the system's (PAWL_S3_CA_FILE).
	CAFile string
	// PartMemory is how much memory all uploads to S3 together may take for their parts, in bytes; 0 stands for 64 MiB.
	// It is used in steps of 16 MiB. Bodies of unknown length wait when it is in use.
	PartMemory int64
}

// Store is a publish.BlobStore that bears a mark, can be tried out, and holds resources until it is closed.
type Store interface {
	publish.BlobStore
	publish.MarkedStore
	io.Closer

	// Diagnose tries out all that Pawl needs, on objects of its own, and removes them. It takes at most a minute.
	Diagnose(ctx context.Context, opts DiagnoseOptions) Report
}

// Open returns the store that rawURL names:
//
//	file:///srv/pawl/blobs
//	s3://bucket/prefix?endpoint=https://host:port&region=eu-central-1&path_style=true
//
// A directory is opened and its leftovers are swept; an S3 server isn't asked anything yet, so that Pawl also
// starts while the server is down: Check tells. Every error names the setting and says how to cure it.
func Open(ctx context.Context, rawURL string, opts Options) (Store, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	u, err := url.Parse(rawURL)
	if err != nil {
		// The *url.Error itself repeats the URL, and with it any password that someone put there.
		if parseErr, ok := errors.AsType[*url.Error](err); ok {
			err = parseErr.Err
		}
		return nil, badURL("is not a URL (%v); write file:///folder or s3://bucket/prefix?endpoint=https://host:port", err)
	}
	switch u.Scheme {
	case "file":
		path, err := dirPath(u)
		if err != nil {
			return nil, err
		}
		return OpenDir(path)
	case "s3":
		config, err := parseS3(u, opts)
		if err != nil {
			return nil, err
		}
		return newS3(config)
	case "":
		return nil, badURL("has no scheme; write file:///folder or s3://bucket/prefix?endpoint=https://host:port")
	}
	return nil, badURL("has the unknown scheme %q; use file:// or s3://", u.Scheme)
}

// badURL makes an error about the URL: what is wrong, and how to put it right.
func badURL(format string, args ...any) error {
	return fmt.Errorf(setting+" "+format, args...)
}
