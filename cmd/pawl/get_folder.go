package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/pawlhq/pawl/client"
	"github.com/pawlhq/pawl/publish"
)

// folderFlags say how get fills a folder.
type folderFlags struct {
	dir      string
	replace  bool
	parallel int
}

func (f folderFlags) check() error {
	if f.parallel < 1 || f.parallel > 64 {
		return usageError{fmt.Errorf("--parallel is %d; it must be from 1 to 64", f.parallel)}
	}
	return nil
}

// gottenFolder is what get --dir prints as JSON.
type gottenFolder struct {
	Key            publish.Key     `json:"key"`
	Version        publish.Version `json:"version"`
	ManifestDigest publish.Digest  `json:"manifest_digest"`
	Files          int64           `json:"files"`
	Bytes          int64           `json:"bytes"`
	// Fetched are the bytes that came from the server; the others were there.
	Fetched int64  `json:"fetched"`
	Folder  string `json:"folder"`
}

// getFolder makes a folder hold exactly the files of a version.
func (a *app) getFolder(ctx context.Context, c *client.Client, key publish.Key, token publish.Token, flags folderFlags) error {
	t, err := a.openTarget(ctx, flags.dir)
	if err != nil {
		return err
	}
	defer t.close()
	result, err := a.fill(ctx, c, t, key, token, flags)
	if err != nil {
		return err
	}
	result.Folder = flags.dir
	if a.json {
		return a.printJSON(result)
	}
	a.printf("%s: version %s of %s, %d file(s), %d bytes, of which %d were fetched\n",
		flags.dir, result.Version, key, result.Files, result.Bytes, result.Fetched)
	return nil
}

// fill does what getFolder is for.
func (a *app) fill(ctx context.Context, c *client.Client, t *target, key publish.Key, token publish.Token, flags folderFlags) (gottenFolder, error) {
	var none gottenFolder
	pointer, err := findVersion(ctx, c, key, token)
	if err != nil {
		return none, err
	}
	l, err := list(ctx, c, pointer)
	if err != nil {
		return none, err
	}
	if err := l.checkNames(false); err != nil {
		return none, err
	}
	if err := t.mayReplace(flags.replace); err != nil {
		return none, err
	}
	result := gottenFolder{Key: key, Version: l.Version(), ManifestDigest: l.ManifestDigest, Files: l.Files, Bytes: l.Bytes}
	name := setName(key, pointer.Token, l.ManifestDigest)
	if err := t.tidy(name); err != nil {
		return none, err
	}
	_, known, err := t.present()
	if err != nil {
		return none, err
	}
	if known != nil && known.ManifestDigest == l.ManifestDigest && t.holds(ctx, l, flags.parallel) {
		known.Key, known.Version = key, l.Version()
		return result, errors.Join(t.remember([]placed{*known}), t.tidy(""))
	}
	if result.Fetched, err = a.assemble(ctx, c, t, l, name, known != nil, flags.parallel); err != nil {
		return none, err
	}
	inOneStep, err := t.place(placed{Key: key, Version: l.Version(), ManifestDigest: l.ManifestDigest}, flags.replace)
	if err != nil {
		return none, err
	}
	if !inOneStep {
		a.notice("this file system can't swap two folders: %s was away for a moment", flags.dir)
	}
	if err := t.tidy(""); err != nil {
		a.notice("%s is in place; the folder of before could not be removed: %v", flags.dir, err)
	}
	return result, nil
}

// assemble puts all files of a version together in the hidden folder, and returns how many bytes it fetched for that.
func (a *app) assemble(ctx context.Context, c *client.Client, t *target, l listing, name string, ours bool, parallel int) (int64, error) {
	s := assembly{client: c, listing: l, path: t.join(name)}
	if err := s.open(); err != nil {
		return 0, err
	}
	defer s.root.Close() //nolint:errcheck // What was written is synced on its own.
	if err := s.checkDisk(); err != nil {
		return 0, err
	}
	if ours {
		var err error
		if s.present, err = os.OpenRoot(t.path); err != nil {
			return 0, ioError{err}
		}
		defer s.present.Close() //nolint:errcheck // It is only read.
	}
	s.meter = a.meter()
	defer s.meter.Stop()
	s.meter.Expect(len(l.files), l.Bytes)
	if _, _, err := s.clear(); err != nil {
		return 0, err
	}
	if err := inParallel(ctx, parallel, slices.Values(l.files), s.obtain); err != nil {
		return 0, err
	}
	return s.fetched.Load(), s.finish()
}

// assembly is a set that is being put together in the folder at path: files under parts/ while they come, under set/ once they are good.
// Everything goes through root, which no name leads out of.
type assembly struct {
	client  *client.Client
	listing listing
	path    string
	root    *os.Root
	present *os.Root // the folder as it is, when it is ours; else nil
	meter   meter
	fetched atomic.Int64
}

// checkDisk refuses names that this disk takes for the same.
func (s *assembly) checkDisk() error {
	const probe = "parts/Probe"
	f, err := s.root.Create(probe)
	if err != nil {
		return ioError{err}
	}
	_ = f.Close() //nolint:errcheck // It is empty.
	_, err = s.root.Lstat(strings.ToLower(probe))
	if removal := s.root.Remove(probe); removal != nil {
		return ioError{removal}
	}
	if err == nil {
		return s.listing.checkNames(true)
	}
	return nil
}
