package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawlhq/pawl/blobstore"
	"github.com/pawlhq/pawl/pointer"
	"github.com/pawlhq/pawl/publish"
)

func (a *app) collectCommand() *cobra.Command {
	var flags serverFlags
	opts := publish.CollectOptions{}
	cmd := &cobra.Command{
		Use:   "collect",
		Short: "Delete generations that no policy keeps, by the settings of a server",
		Long: "Give up generations that neither a policy nor the grace keeps, and delete their files. A server does so by itself; this does it now.\n" +
			"It needs PAWL_DATABASE_URL and PAWL_BLOBS, as serve does, and no server.\n\n" +
			"Kept are: what is current; published generations, unless the policy of their key limits their number or age; and those that were\n" +
			"never published for 7 days after the last upload, or as long as the policy says. Files that a kept generation reuses stay.\n\n" +
			"It may be killed at any time, and run beside others. The exit code is 74 when something could not be deleted: the next run tries again.",
		Args: cobra.NoArgs,
		RunE: a.verb(func(ctx context.Context, _ []string) error {
			settings, err := a.serverSettings(flags, slog.LevelWarn)
			if err != nil {
				return err
			}
			if err := checkCollect(settings, opts); err != nil {
				return err
			}
			if err := a.collect(ctx, settings, opts); err != nil {
				return settings.redacted(err)
			}
			return nil
		}),
	}
	cmd.Flags().StringVar(&flags.blobs, "blobs", "", "where bytes live: file:///folder or s3://bucket/prefix?endpoint=… (PAWL_BLOBS)")
	cmd.Flags().StringVar(&opts.Prefix, "prefix", "", "look only at this key and what lies below it")
	cmd.Flags().DurationVar(&opts.Grace, "grace", publish.DefaultCollectGrace, "keep whatever was replaced or worked on within this time")
	cmd.Flags().BoolVar(&opts.DryRun, "dry-run", false, "change nothing, say what would be deleted at least")
	cmd.Flags().IntVar(&opts.Rate, "rate", 0, "delete at most so many objects in a second (0: no limit)")
	cmd.Flags().IntVar(&opts.Limit, "limit", 0, "give up at most so many generations (0: no limit)")
	return cmd
}

// checkCollect names the setting that is missing or wrong, and the cure.
func checkCollect(s serverSettings, opts publish.CollectOptions) error {
	switch {
	case s.databaseURL == "":
		return configError{errors.New("PAWL_DATABASE_URL is not set; set it to that of the server")}
	case s.blobs == "":
		return configError{errors.New("PAWL_BLOBS is not set; set it to that of the server")}
	case opts.Grace < 0:
		return usageError{fmt.Errorf("--grace is %s; it can't be negative", opts.Grace)}
	case opts.Rate < 0:
		return usageError{fmt.Errorf("--rate is %d; give a number of objects a second, or 0", opts.Rate)}
	case opts.Limit < 0:
		return usageError{fmt.Errorf("--limit is %d; give a number of generations, or 0", opts.Limit)}
	}
	if opts.Prefix != "" {
		if _, err := publish.ParseKey(opts.Prefix); err != nil {
			return usageError{fmt.Errorf("--prefix: %w; it ends at a segment's border, without a slash", err)}
		}
	}
	return nil
}

func (a *app) collect(ctx context.Context, s serverSettings, opts publish.CollectOptions) error {
	pointers, err := pointer.Open(ctx, s.databaseURL, s.pointerOptions())
	if err != nil {
		return configError{fmt.Errorf("PAWL_DATABASE_URL: %w", err)}
	}
	defer pointers.Close()
	if err := prepareSchema(ctx, s.databaseURL, false); err != nil {
		return err
	}
	blobs, err := blobstore.Open(ctx, s.blobs, s.store.options())
	if err != nil {
		return configError{err}
	}
	defer blobs.Close() //nolint:errcheck // It closes connections.
	gate := newStoreGate(blobs)
	start := &storeStart{gate: gate, ids: pointers, log: s.log}
	if err := start.open(ctx); err != nil {
		return err
	}
	if err := gate.check(); err != nil {
		return err
	}
	service := &publish.Service{Pointers: pointers, Blobs: gate, Log: s.log}
	defer service.Close()
	report, err := service.Collect(ctx, opts)
	if printed := a.printCollected(report, opts.DryRun); err == nil {
		err = printed
	}
	if err == nil && report.Errors > 0 {
		err = ioError{fmt.Errorf("%d deletions failed; the log says why, and the next run tries them again", report.Errors)}
	}
	return err
}

func (a *app) printCollected(report publish.CollectReport, dryRun bool) error {
	if a.json {
		return a.printJSON(report)
	}
	if dryRun {
		a.printf("would give up %d generations and delete %d objects of %d bytes; nothing was changed\n", report.Condemned, report.Objects, report.Bytes)
		return nil
	}
	a.printf("gave up %d generations; collected %d: %d objects of %d bytes, %d unfinished uploads\n",
		report.Condemned, report.Collected, report.Objects, report.Bytes, report.Aborted)
	if report.More {
		a.notice("there is more; run it again")
	}
	return nil
}

const defaultCollectInterval = 10 * time.Minute

// collectSettings say how a server collects by itself.
type collectSettings struct {
	off             bool
	grace, interval time.Duration
}

func (a *app) collectSettings() (s collectSettings, err error) {
	switch text := a.getenv("PAWL_COLLECT"); text {
	case "", "on":
	case "off":
		s.off = true
	default:
		return s, configError{fmt.Errorf("PAWL_COLLECT is %q; it must be on or off", text)}
	}
	if s.grace, err = a.sweepTime("PAWL_COLLECT_GRACE", publish.DefaultCollectGrace); err != nil {
		return s, err
	}
	s.interval, err = a.sweepTime("PAWL_COLLECT_INTERVAL", defaultCollectInterval)
	return s, err
}
