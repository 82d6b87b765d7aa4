package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/spf13/pflag"

	"github.com/pawlhq/pawl/client"
	"github.com/pawlhq/pawl/publish"
)

// setFlags say how a folder is published.
type setFlags struct {
	primary string
	expect  expectFlags
}

func (f *setFlags) register(flags *pflag.FlagSet) {
	flags.StringVar(&f.primary, "primary", "", "of a folder: path of the entry point of the set (default: the only file)")
	f.expect.register(flags)
}

// onlyForFolders refuses what one file has no use for.
func (f *putFlags) onlyForFolders(a *app) error {
	for _, name := range []string{"primary", "expect", "allow-empty"} {
		if a.flagGiven(name) {
			return usageError{fmt.Errorf("--%s is for a folder; for one file use put and then publish", name)}
		}
	}
	return nil
}

// publishRequest says how the folder becomes the current version. It is final: a folder is a whole set.
func (f *putFlags) publishRequest(a *app) (publish.PublishRequest, error) {
	for _, name := range []string{"path", "content-type"} {
		if a.flagGiven(name) {
			return publish.PublishRequest{}, usageError{fmt.Errorf("--%s is for one file; the files of a folder are published under their own names", name)}
		}
	}
	return a.publishRequest(publishFlags{primary: f.set.primary, expect: f.set.expect})
}

// putFolderVerb does what put does for a file, for a folder.
func (a *app) putFolderVerb(ctx context.Context, key publish.Key, folder string, flags putFlags, lease leaseFlags, given publish.Grant, haveGrant bool) error {
	mode, err := flags.direct.mode()
	if err != nil {
		return err
	}
	req, err := flags.publishRequest(a)
	if err != nil {
		return err
	}
	set, err := a.openSet(ctx, folder)
	if err != nil {
		return err
	}
	defer set.close()
	if !haveGrant && req.Primary != "" && !set.has(req.Primary) {
		return missingError{fmt.Errorf("--primary %q is no file in %s", req.Primary, folder)}
	}
	c, err := a.newClient(quickRetry)
	if err != nil {
		return err
	}
	defer c.Close()
	put := &folderPut{app: a, client: c, set: set, mode: mode, parallel: flags.direct.parallel}
	if haveGrant {
		req.Grant = given
		return put.run(ctx, req, flags.publish)
	}
	acquire, err := a.acquireRequest(key, lease)
	if err != nil {
		return err
	}
	acquired, err := c.Acquire(ctx, acquire)
	if err != nil {
		return orSignal(ctx, err)
	}
	put.app.noticeTokens(acquired)
	keeper := c.KeepLease(ctx, acquired)
	defer a.giveBack(ctx, c, keeper)
	req.Grant, put.abandon = acquired.Grant(), true
	return put.run(ctx, req, true)
}

// folderPut is a folder on its way into a generation.
type folderPut struct {
	*app
	client   *client.Client
	set      *fileSet
	mode     client.DirectMode
	parallel int
	// abandon says that nobody will go on with what a failed upload has begun.
	abandon bool

	meter      meter
	files      atomic.Int64 // that are in the generation
	bytes      atomic.Int64 // of them
	identical  atomic.Int64 // files that were there already
	superseded atomic.Int64 // the newest token heard of

	mu     sync.Mutex
	stored []publish.File // as the server has them
}

// putSet is what put prints as JSON for a folder that it doesn't publish.
type putSet struct {
	Key          publish.Key   `json:"key"`
	Token        publish.Token `json:"token"`
	Files        int64         `json:"files"`
	Bytes        int64         `json:"bytes"`
	Identical    int64         `json:"identical"`
	SupersededBy publish.Token `json:"superseded_by,omitempty"`
}

// run uploads all files, and publishes them when told to.
func (p *folderPut) run(ctx context.Context, req publish.PublishRequest, andPublish bool) error {
	p.meter = p.app.meter()
	defer p.meter.Stop()
	p.meter.Expect(len(p.set.files), p.set.bytes)
	grant := req.Grant
	err := inParallel(ctx, p.parallel, slices.Values(p.set.files), func(ctx context.Context, file setFile) error {
		return p.send(ctx, grant, file)
	})
	sealed := andPublish && errors.Is(err, publish.ErrGenerationSealed)
	if err != nil && !sealed {
		return err
	}
	if err := p.set.unchanged(ctx); err != nil {
		return err
	}
	p.meter.Stop()
	if andPublish {
		// What becomes current is this folder, whole, and nothing else that somebody has put into the generation.
		digest := publish.ManifestDigest(p.stored)
		if sealed {
			// Perhaps by an earlier run of this command, whose answer was lost. The digest of all files tells.
			if digest, err = p.set.manifestDigest(ctx, p.parallel); err != nil {
				return err
			}
		}
		req.ManifestDigest = &digest
		receipt, err := p.client.Publish(ctx, req)
		if errors.Is(err, publish.ErrDigestMismatch) {
			return otherSetError{p.set.folder, req.Grant}
		}
		if err != nil {
			return err
		}
		url := ""
		if receipt.Primary != "" {
			url = p.client.FileURL(receipt.Key, receipt.Token, receipt.Primary)
		}
		return p.printReceipt(receipt, url)
	}
	result := putSet{
		Key: grant.Key, Token: grant.Token, Files: p.files.Load(), Bytes: p.bytes.Load(), Identical: p.identical.Load(),
		SupersededBy: publish.Token(p.superseded.Load()),
	}
	if result.SupersededBy != 0 {
		p.notice("token %d was granted meanwhile; the publish of token %d may be refused", result.SupersededBy, result.Token)
	}
	if p.json {
		return p.printJSON(result)
	}
	p.printf("uploaded %d file(s), %d bytes, of which %d file(s) were there already\n", result.Files, result.Bytes, result.Identical)
	return nil
}

// changedError is a file that isn't what it was when its upload began.
type changedError struct{ name string }

func (e changedError) Error() string {
	return fmt.Sprintf("%s changed while it was uploaded; nothing was published. Put a folder that nobody writes into", e.name)
}
func (changedError) exitCode() int { return exitDigest }

// otherSetError is a generation that holds something else than the folder.
type otherSetError struct {
	folder string
	grant  publish.Grant
}

func (e otherSetError) Error() string {
	return fmt.Sprintf("the generation of token %d holds something else than %s, from another put or an earlier one; nothing was published. "+
		"Delete what doesn't belong there, or publish what is there: pawl publish %s", e.grant.Token, e.folder, e.grant.Key)
}
func (otherSetError) exitCode() int { return exitDigest }

// send uploads one file.
func (p *folderPut) send(ctx context.Context, grant publish.Grant, file setFile) error {
	f, err := p.set.open(file)
	if err != nil {
		return err
	}
	up := &upload{path: file.path, mode: p.mode, parallel: max(1, p.parallel/max(1, min(p.parallel, len(p.set.files)))), sent: p.meter.Add}
	defer up.close()
	before, err := f.Stat()
	if err != nil {
		return errors.Join(ioError{err}, f.Close())
	}
	if err := up.read(ctx, f); err != nil {
		return err
	}
	result, err := up.send(ctx, p.client, grant)
	if after, statErr := f.Stat(); statErr == nil && (!sameContent(before, after) || up.size != before.Size()) {
		err = changedError{file.name}
	}
	if err != nil {
		if p.abandon {
			up.abort(ctx, p.client, grant)
		}
		return uploadFailure(file.path, err)
	}
	if result.Identical {
		p.identical.Add(1)
		p.meter.Add(up.size) // Nothing of it was sent.
	}
	p.mu.Lock()
	p.stored = append(p.stored, result.File)
	p.mu.Unlock()
	p.files.Add(1)
	p.bytes.Add(result.Size)
	for seen := p.superseded.Load(); int64(result.SupersededBy) > seen && !p.superseded.CompareAndSwap(seen, int64(result.SupersededBy)); {
		seen = p.superseded.Load()
	}
	p.meter.FileDone()
	return nil
}

// sameContent reports whether nobody has written into a file between two looks at it, as far as its length and time tell. Its digest tells the rest.
func sameContent(before, after os.FileInfo) bool {
	return before.Size() == after.Size() && before.ModTime().Equal(after.ModTime())
}
