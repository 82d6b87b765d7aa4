package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawlhq/pawl/client"
	"github.com/pawlhq/pawl/publish"
)

func (a *app) putCommand() *cobra.Command {
	var grant grantFlags
	var lease leaseFlags
	var flags putFlags
	cmd := &cobra.Command{
		Use:   "put KEY FILE",
		Short: "Upload a file; without a token of your own: acquire, upload, publish and release in one go",
		Long: "Upload a file into the generation of a grant, named by PAWL_TOKEN and PAWL_LEASE_ID or --lease-file; with --publish also publish the\n" +
			"generation. Without a grant: acquire, upload, publish and release in one go. FILE - reads standard input.",
		Args: cobra.ExactArgs(2),
		RunE: a.verb(func(ctx context.Context, args []string) error {
			key, err := a.key(args[0])
			if err != nil {
				return err
			}
			given, haveGrant, err := a.grant(key, grant)
			if err != nil {
				return err
			}
			req, closeFile, err := a.putRequest(args[1], flags)
			if err != nil {
				return err
			}
			defer closeFile()
			c, err := a.newClient(quickRetry)
			if err != nil {
				return err
			}
			defer c.Close()
			if req.Grant = given; haveGrant {
				return a.put(ctx, c, req, flags.publish)
			}
			acquire, err := a.acquireRequest(key, lease)
			if err != nil {
				return err
			}
			return a.putInOneGo(ctx, c, acquire, req)
		}),
	}
	grant.register(cmd.Flags(), true)
	lease.register(cmd.Flags())
	cmd.Flags().StringVar(&flags.path, "path", "", "name of the file in the generation (default: the base name of FILE)")
	cmd.Flags().StringVar(&flags.contentType, "content-type", "", "media type, for names that tell none")
	cmd.Flags().BoolVar(&flags.publish, "publish", false, "also publish the generation, which seals it")
	return cmd
}

type putFlags struct {
	path, contentType string
	publish           bool
}

// putRequest opens the file. That of a regular file carries its digest, so that a repetition is recognised.
func (a *app) putRequest(file string, flags putFlags) (publish.UploadRequest, func(), error) {
	fail := func(err error) (publish.UploadRequest, func(), error) { return publish.UploadRequest{}, nil, err }
	name := flags.path
	if name == "" {
		name = filepath.Base(file)
	}
	if file == "-" && flags.path == "" {
		return fail(usageError{errors.New("standard input has no name: give --path")})
	}
	path, err := a.path(name)
	if err != nil {
		return fail(err)
	}
	req := publish.UploadRequest{Path: path, ContentType: flags.contentType, Size: -1, Body: a.stdin}
	if file == "-" {
		return req, func() {}, nil
	}
	f, err := os.Open(file)
	if err != nil {
		return fail(missingError{err})
	}
	if err := describe(f, &req); err != nil {
		_ = f.Close() //nolint:errcheck // Nothing was written.
		return fail(err)
	}
	return req, func() { _ = f.Close() }, nil //nolint:errcheck // Nothing was written.
}

// describe sets the body of an upload to an open file, with its size and digest when it is a regular one.
func describe(f *os.File, req *publish.UploadRequest) error {
	info, err := f.Stat()
	switch {
	case err != nil:
		return ioError{err}
	case info.IsDir():
		return usageError{fmt.Errorf("%s is a folder; give a file", f.Name())}
	}
	req.Body, req.Size = f, -1
	if !info.Mode().IsRegular() {
		return nil
	}
	h := sha256.New()
	if req.Size, err = io.Copy(h, f); err != nil {
		return ioError{err}
	}
	req.Digest = publish.Digest(h.Sum(nil))
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return ioError{err}
	}
	return nil
}

// put uploads under a grant that the caller has.
func (a *app) put(ctx context.Context, c *client.Client, req publish.UploadRequest, andPublish bool) error {
	if andPublish {
		receipt, err := c.UploadAndPublish(ctx, req)
		switch {
		case errors.Is(err, publish.ErrOutcomeUnknown):
			return err // it may be published
		case err != nil:
			return uploadFailure(req.Path, err)
		}
		return a.printReceipt(receipt, c.FileURL(receipt.Key, receipt.Token, req.Path))
	}
	result, err := c.Upload(ctx, req)
	if err != nil {
		return uploadFailure(req.Path, err)
	}
	if result.SupersededBy != 0 {
		a.notice("token %d was granted meanwhile; the publish of token %d may be refused", result.SupersededBy, result.Token)
	}
	if a.json {
		return a.printJSON(result)
	}
	a.printf("uploaded %s: %d bytes, sha256 %s\n", result.Path, result.Size, result.SHA256)
	return nil
}

// putInOneGo acquires, uploads, publishes and releases, and renews the lease meanwhile.
func (a *app) putInOneGo(ctx context.Context, c *client.Client, acquire publish.AcquireRequest, req publish.UploadRequest) error {
	lease, err := c.Acquire(ctx, acquire)
	if err != nil {
		return err
	}
	keeper := c.KeepLease(ctx, lease)
	defer a.giveBack(ctx, c, keeper)
	// A lease that is lost meanwhile doesn't end the upload: the fence gives the answer, with both tokens.
	req.Grant = lease.Grant()
	return a.put(ctx, c, req, true)
}

// giveBack releases the lease of work that is over. Failing that it expires, so nothing depends on it.
func (a *app) giveBack(ctx context.Context, c *client.Client, keeper *client.Keeper) {
	keeper.Stop()
	if keeper.Err() != nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	lease := keeper.Lease()
	if err := c.Release(ctx, lease.Key, lease.LeaseID); err != nil {
		a.notice("the lease was not released and expires by itself: %v", err)
	}
}
