package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pawlhq/pawl/publish"
)

// expectFlags say what a publish must find.
type expectFlags struct {
	patterns   []string
	allowEmpty bool
}

func (f *expectFlags) register(flags *pflag.FlagSet) {
	flags.StringArrayVar(&f.patterns, "expect", nil, "path that must be complete and not empty, or a pattern of paths such as 'beauty.[1001-1100].exr';\n"+
		"[1001-1100x2] takes every second, [0001-0100] is padded, [[] is a literal [; may be given several times")
	flags.BoolVar(&f.allowEmpty, "allow-empty", false, "let expected files be empty")
}

// expect reads the patterns from the command line.
func (a *app) expect(f expectFlags) ([]string, error) {
	var patterns []string
	for _, pattern := range f.patterns {
		patterns = append(patterns, a.nfc("expect", pattern))
	}
	if _, err := publish.ExpandExpect(patterns); err != nil {
		return nil, usageError{err}
	}
	return patterns, nil
}

// reuseFlags say from which generation files are carried over.
type reuseFlags struct {
	from  string
	stale bool
}

func (f *reuseFlags) register(flags *pflag.FlagSet) {
	flags.StringVar(&f.from, "reuse-from", "", "token of the generation that this one replaces: files at paths that aren't uploaded or deleted here are\n"+
		"carried over from it, without copying")
	flags.BoolVar(&f.stale, "reuse-stale", false, "let --reuse-from name a generation that isn't current any more")
}

// reuse reads the token from the command line; 0 means none.
func (f reuseFlags) reuse() (publish.Token, error) {
	if f.from == "" {
		if f.stale {
			return 0, usageError{errors.New("--reuse-stale: is of no use without --reuse-from")}
		}
		return 0, nil
	}
	token, err := publish.ParseToken(f.from)
	if err != nil {
		return 0, usageError{fmt.Errorf("--reuse-from: %w", err)}
	}
	return token, nil
}

// publishFlags say how to publish.
type publishFlags struct {
	primary, manifestDigest, ifMatch  string
	metadata                          []string
	sourceRevision                    int64
	progressive, createOnly, giveBack bool
	expect                            expectFlags
	reuse                             reuseFlags
}

func (a *app) publishCommand() *cobra.Command {
	var grant grantFlags
	var flags publishFlags
	cmd := &cobra.Command{
		Use:   "publish KEY",
		Short: "Make the uploaded files the key's current version, unless a newer token was accepted",
		Args:  cobra.ExactArgs(1),
		RunE: a.verb(func(ctx context.Context, args []string) error {
			key, err := a.key(args[0])
			if err != nil {
				return err
			}
			req, err := a.publishRequest(flags)
			if err != nil {
				return err
			}
			if req.Grant, err = a.needGrant(key, grant); err != nil {
				return err
			}
			c, err := a.newClient(quickRetry)
			if err != nil {
				return err
			}
			defer c.Close()
			receipt, err := c.Publish(ctx, req)
			if err != nil {
				return err
			}
			url := ""
			if receipt.Primary != "" {
				url = c.FileURL(receipt.Key, receipt.Token, receipt.Primary)
			}
			return a.printReceipt(receipt, url)
		}),
	}
	grant.register(cmd.Flags(), true)
	flags.register(cmd.Flags())
	cmd.MarkFlagsMutuallyExclusive("if-match", "create-only")
	return cmd
}

func (f *publishFlags) register(flags *pflag.FlagSet) {
	flags.BoolVar(&f.progressive, "progressive", false, "publish what is complete so far and leave the generation open")
	flags.StringVar(&f.primary, "primary", "", "path of the entry point of the set (default: the only file)")
	f.expect.register(flags)
	f.reuse.register(flags)
	flags.StringArrayVar(&f.metadata, "metadata", nil, "name=value that is kept with the version; may be given several times")
	flags.StringVar(&f.manifestDigest, "manifest-digest", "", "digest of the manifest that you mean to publish (64 hex digits)")
	flags.StringVar(&f.ifMatch, "if-match", "", `publish only if this is the current version, e.g. "17.1"`)
	flags.BoolVar(&f.createOnly, "create-only", false, "publish only if the key has no current version")
	flags.BoolVar(&f.giveBack, "release", false, "give the lease back with the publish")
	flags.Int64Var(&f.sourceRevision, "source-revision", 0, "number that orders the inputs; older ones are refused")
}

func (a *app) publishRequest(f publishFlags) (publish.PublishRequest, error) {
	req := publish.PublishRequest{Final: !f.progressive, Release: f.giveBack, IfNoneMatch: f.createOnly, AllowEmpty: f.expect.allowEmpty, ReuseStale: f.reuse.stale}
	var err error
	if req.Metadata, err = pairs("metadata", f.metadata); err != nil {
		return req, err
	}
	if req.Expect, err = a.expect(f.expect); err != nil {
		return req, err
	}
	if req.ReuseFrom, err = f.reuse.reuse(); err != nil {
		return req, err
	}
	if f.primary != "" {
		if req.Primary, err = a.path(f.primary); err != nil {
			return req, err
		}
	}
	if f.manifestDigest != "" {
		digest, err := publish.ParseDigest(f.manifestDigest)
		if err != nil {
			return req, usageError{fmt.Errorf("--manifest-digest: %w", err)}
		}
		req.ManifestDigest = &digest
	}
	if f.ifMatch != "" {
		version, err := publish.ParseVersion(strings.Trim(f.ifMatch, `"`))
		if err != nil {
			return req, usageError{fmt.Errorf("--if-match: %w", err)}
		}
		req.IfMatch = &version
	}
	if a.flagGiven("source-revision") {
		req.SourceRevision = &f.sourceRevision
	}
	return req, nil
}
