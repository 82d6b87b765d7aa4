package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawlhq/pawl/publish"
)

func (a *app) verifyCommand() *cobra.Command {
	var flags storesFlags
	var deep bool
	var every time.Duration
	cmd := &cobra.Command{
		Use:   "verify",
		Short: "Compare the blob store with Postgres: what is missing, damaged, or nobody's",
		Long: "Compare the blob store with Postgres, by the settings of a server (PAWL_DATABASE_URL, PAWL_BLOBS, PAWL_S3_…): every pointer is whole,\n" +
			"every file of a kept generation has its object, with its size, and with --deep with its SHA-256; and which objects no row knows.\n" +
			"It is one pass through the bucket's list beside one through the database, in bounded memory, and changes nothing. Servers\n" +
			"may work meanwhile; a standby of the database will do.\n\n" +
			"One line a finding, and a sum; with --json one object a line, the sum last. The exit code is 65 when published files are\n" +
			"missing or damaged, 82 when nothing lies at the --prefix. Orphans and leftovers cost space alone, and leave it 0; `pawl recover`\n" +
			"tells more about orphans. Foreign objects aren't Pawl's, and are left alone.\n" +
			"--every 24h goes on until it is stopped, and then exits with 65 if the last pass has found damage.",
		Args: cobra.NoArgs,
		RunE: a.verb(func(ctx context.Context, _ []string) error {
			prefix, err := a.prefixKey(flags)
			if err != nil {
				return err
			}
			if every < 0 {
				return usageError{fmt.Errorf("--every must not be negative")}
			}
			return a.withStores(ctx, flags, func(ctx context.Context, both *bothStores) error {
				for {
					err := a.verify(ctx, both, publish.VerifyOptions{Prefix: prefix, Deep: deep})
					if every == 0 {
						return err
					}
					if err != nil {
						a.notice("%s", message(err))
					}
					if !pause(ctx, every) {
						return err
					}
				}
			})
		}),
	}
	flags.register(cmd.Flags())
	cmd.Flags().BoolVar(&deep, "deep", false, "read all bytes and compare their SHA-256")
	cmd.Flags().DurationVar(&every, "every", 0, "verify again and again, with this time between two passes")
	return cmd
}

// damageError says that what was published isn't there as it should be.
type damageError struct{ error }

func (damageError) exitCode() int { return exitDigest }

func (a *app) verify(ctx context.Context, both *bothStores, opts publish.VerifyOptions) error {
	opts.Found = a.printFinding
	report, err := publish.Verify(ctx, both.pointers, both.blobs, opts)
	if err != nil {
		return fmt.Errorf("verifying: %w", err)
	}
	if a.json {
		err = a.printJSON(report)
	} else {
		a.printf("%d pointer(s), %d object(s) of %d bytes, of which %d needed\n", report.Pointers, report.Objects, report.Bytes, report.Needed)
		a.printf("%d missing, %d damaged, %d orphan(s) and %d leftover(s) of %d bytes, %d foreign object(s)\n", report.Faults[publish.FaultMissing],
			report.Faults[publish.FaultSize]+report.Faults[publish.FaultDigest]+report.Faults[publish.FaultUnreadable]+report.Faults[publish.FaultPointer],
			report.Faults[publish.FaultOrphan]+report.Faults[publish.FaultMarker], report.Faults[publish.FaultLeftover], report.OrphanBytes,
			report.Foreign)
		err = a.unwritten()
	}
	if err == nil && opts.Prefix != "" && report.Pointers+report.Needed+report.Objects+report.Foreign == 0 {
		return refusedError{fmt.Errorf("--prefix %s: there is no such key with a version or an object, and none below it; a prefix is a key, as pawl ls shows them", opts.Prefix)}
	}
	if err == nil && report.Damaged {
		err = damageError{fmt.Errorf("published files are missing or damaged; see the lines above, and put the objects back from the store's backup or publish these keys again")}
	}
	return err
}

func (a *app) printFinding(f publish.VerifyFinding) error {
	if a.json {
		return a.printJSON(f)
	}
	what := string(f.Object)
	if what == "" {
		what = string(f.Key)
	}
	if f.Detail != "" {
		what += ": " + f.Detail
	}
	a.printf("%s\t%s\n", f.Fault, what)
	return a.unwritten()
}
