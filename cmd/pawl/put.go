package main

import (
	"context"
	"errors"
	"fmt"
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
		Use:   "put KEY FILE|FOLDER",
		Short: "Upload a file or a folder; without a token of your own: acquire, upload, publish and release in one go",
		Long: "Upload a file into the generation of a grant, named by PAWL_TOKEN and PAWL_LEASE_ID or --lease-file; with --publish also publish the\n" +
			"generation. Without a grant: acquire, upload, publish and release in one go. FILE - reads standard input.\n\n" +
			"Where the server offers it, a large file goes to the blob store itself, several parts at once. Under a grant of your own, the same\n" +
			"command after a cut goes on with the parts that are there.\n\n" +
			"Of a FOLDER, all files are uploaded under their names in it, --parallel of them at once, and published together. Before the first byte is\n" +
			"sent, everything that can't be published is listed: names that aren't legal, pipes and devices, links other than those to files in the\n" +
			"folder. What the generation has already isn't sent again. A file that changes meanwhile ends the upload, and nothing is published.",
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
			if info, err := os.Stat(args[1]); err == nil && info.IsDir() {
				return a.putFolderVerb(ctx, key, args[1], flags, lease, given, haveGrant)
			}
			if err := flags.onlyForFolders(a); err != nil {
				return err
			}
			up, err := a.openUpload(ctx, args[1], flags)
			if err != nil {
				return err
			}
			defer up.close()
			c, err := a.newClient(quickRetry)
			if err != nil {
				return err
			}
			defer c.Close()
			shown := a.meter()
			defer shown.Stop()
			up.tell(shown)
			if haveGrant {
				return a.put(ctx, c, given, up, flags.publish)
			}
			acquire, err := a.acquireRequest(key, lease)
			if err != nil {
				return err
			}
			return a.putInOneGo(ctx, c, acquire, up)
		}),
	}
	grant.register(cmd.Flags(), true)
	lease.register(cmd.Flags())
	cmd.Flags().StringVar(&flags.path, "path", "", "name of the file in the generation (default: the base name of FILE)")
	cmd.Flags().StringVar(&flags.contentType, "content-type", "", "media type, for names that tell none")
	cmd.Flags().BoolVar(&flags.publish, "publish", false, "also publish the generation, which seals it")
	a.quietFlag(cmd)
	flags.direct.register(cmd.Flags())
	flags.set.register(cmd.Flags())
	return cmd
}

type putFlags struct {
	path, contentType string
	publish           bool
	direct            directFlags
	set               setFlags
}

// openUpload opens the file and reads a regular one once, for what it promises of it.
func (a *app) openUpload(ctx context.Context, file string, flags putFlags) (*upload, error) {
	mode, err := flags.direct.mode()
	if err != nil {
		return nil, err
	}
	name := flags.path
	if name == "" {
		name = filepath.Base(file)
	}
	if file == "-" && flags.path == "" {
		return nil, usageError{errors.New("standard input has no name: give --path")}
	}
	path, err := a.path(name)
	if err != nil {
		return nil, err
	}
	up := &upload{path: path, notice: a.notice, contentType: flags.contentType, mode: mode, parallel: flags.direct.parallel, body: a.stdin}
	if file == "-" {
		return up, nil
	}
	f, err := os.Open(file)
	if err != nil {
		return nil, missingError{err}
	}
	if err := up.read(ctx, f); err != nil {
		up.close()
		return nil, err
	}
	return up, nil
}

// put uploads under a grant that the caller has.
func (a *app) put(ctx context.Context, c *client.Client, grant publish.Grant, up *upload, andPublish bool) error {
	if andPublish {
		receipt, err := up.publish(ctx, c, grant)
		switch {
		case errors.Is(err, publish.ErrOutcomeUnknown):
			return err // it may be published
		case err != nil:
			return uploadFailure(up.path, err)
		}
		return a.printReceipt(receipt, c.FileURL(receipt.Key, receipt.Token, up.path))
	}
	result, err := up.send(ctx, c, grant)
	if err != nil {
		return uploadFailure(up.path, err)
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
func (a *app) putInOneGo(ctx context.Context, c *client.Client, acquire publish.AcquireRequest, up *upload) error {
	lease, err := c.Acquire(ctx, acquire)
	if err != nil {
		return orSignal(ctx, err)
	}
	a.noticeTokens(lease)
	keeper := c.KeepLease(ctx, lease)
	defer a.giveBack(ctx, c, keeper)
	defer a.noticeExpiry(keeper)()
	// A lease that is lost meanwhile doesn't end the upload: the fence gives the answer, with both tokens.
	err = a.put(ctx, c, lease.Grant(), up, true)
	if err != nil {
		up.abort(ctx, c, lease.Grant()) // Nobody will have this token again, so nobody goes on with it.
	}
	return err
}

// noticeExpiry says so on stderr when the lease expires by the own clock, until the returned function is called, which stops the
// keeper. Work goes on: whether another holder was granted the key meanwhile is for the server to say.
func (a *app) noticeExpiry(keeper *client.Keeper) (stop func()) {
	told := make(chan struct{})
	go func() {
		defer close(told)
		<-keeper.Context().Done()
		if errors.Is(context.Cause(keeper.Context()), client.ErrLeaseExpired) {
			a.notice("%s", expiryNotice(keeper.Lease().Token))
		}
	}()
	return func() {
		keeper.Stop()
		<-told
	}
}

func expiryNotice(token publish.Token) string {
	return fmt.Sprintf("the lease of token %d expired by the own clock: no renewal was answered in time, because the server was away or this process stood still; trying on", token)
}

// releaseTimeout bounds the release of a lease that would expire by itself as well.
const releaseTimeout = 2 * time.Second

// giveBack releases the lease of work that is over. Failing that it expires, so nothing depends on it.
func (a *app) giveBack(ctx context.Context, c *client.Client, keeper *client.Keeper) {
	keeper.Stop()
	if keeper.Err() != nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseTimeout)
	defer cancel()
	lease := keeper.Lease()
	if err := c.Release(ctx, lease.Key, lease.LeaseID); err != nil {
		a.notice("the lease was not released and expires by itself: %v", err)
	}
}
