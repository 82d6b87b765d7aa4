package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"

	"github.com/spf13/cobra"

	"github.com/pawlhq/pawl/blobstore"
	"github.com/pawlhq/pawl/internal/redact"
	"github.com/pawlhq/pawl/pointer"
	"github.com/pawlhq/pawl/publish"
)

func (a *app) doctorCommand() *cobra.Command {
	var flags serverFlags
	var adopt bool
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Try out the settings, Postgres and the blob store, and say what to change",
		Long: "Try out what a server would work with, by the same settings: Postgres (PAWL_DATABASE_URL), the blob store (PAWL_BLOBS,\n" +
			"PAWL_S3_…), and whether they are each other's. Objects of the check are removed again. The exit code is 0 when Pawl can work\n" +
			"like this, 78 when it can't.\n\n" +
			"--adopt-bucket makes the blob store, a bucket or a folder, the database's own, whatever they were before: after its objects\n" +
			"were moved, or when the database or the store was lost. Never adopt a store that another database uses.",
		Args: cobra.NoArgs,
		RunE: a.verb(func(ctx context.Context, _ []string) error {
			settings, err := a.serverSettings(flags, slog.LevelWarn)
			if err != nil {
				return err
			}
			if settings.blobs == "" {
				return configError{errors.New("PAWL_BLOBS is not set; set it to the store that shall be tried out, e.g. s3://bucket/prefix?endpoint=https://s3.example")}
			}
			if adopt && settings.databaseURL == "" {
				return configError{errors.New("PAWL_DATABASE_URL is not set; --adopt-bucket needs the database that shall own the store")}
			}
			if err := a.doctor(ctx, settings, adopt); err != nil {
				return settings.redacted(err)
			}
			return nil
		}),
	}
	cmd.Flags().StringVar(&flags.blobs, "blobs", "", "where bytes live: file:///folder or s3://bucket/prefix?endpoint=… (PAWL_BLOBS)")
	cmd.Flags().BoolVar(&adopt, "adopt-bucket", false, "make the blob store the database's own")
	return cmd
}

func (a *app) doctor(ctx context.Context, settings serverSettings, adopt bool) error {
	blobs, err := blobstore.Open(ctx, settings.blobs, settings.store.options())
	if err != nil {
		return configError{err}
	}
	defer blobs.Close() //nolint:errcheck // It closes connections.
	findings, err := a.matchFindings(ctx, settings, blobs, adopt)
	if err != nil {
		return err
	}
	findings = append(findings, a.authFinding(settings), settings.contentFinding())
	findings = append(findings, signInFindings(ctx, settings)...)
	report := blobs.Diagnose(ctx, blobstore.DiagnoseOptions{Origins: settings.origins()})
	if err := ctx.Err(); err != nil {
		return context.Cause(ctx)
	}
	report.Findings = append(findings, report.Findings...)
	for i, f := range report.Findings {
		report.Findings[i].Seen, report.Findings[i].Cure = redact.Text(f.Seen, settings.secrets()), redact.Text(f.Cure, settings.secrets())
	}
	if err := a.printReport(report); err != nil {
		return err
	}
	if report.Worst() == blobstore.LevelFail {
		return configError{errors.New("these settings don't work yet; see the lines with FAIL")}
	}
	return nil
}

// printReport prints one line a check.
func (a *app) printReport(report blobstore.Report) error {
	if a.json {
		return a.printJSON(report)
	}
	a.table(func(w io.Writer) {
		for _, f := range report.Findings {
			level := string(f.Level)
			if f.Level == blobstore.LevelFail {
				level = "FAIL"
			}
			line := f.Name + ": " + f.Seen
			if f.Cure != "" {
				line += " — " + f.Cure
			}
			row(w, "%s\t%s", level, line)
		}
	})
	return nil
}

// matchFindings looks at the database, and whether it and the store are each other's.
func (a *app) matchFindings(ctx context.Context, settings serverSettings, blobs blobstore.Store, adopt bool) ([]blobstore.Finding, error) {
	const database, identity = "database", "identity"
	if settings.databaseURL == "" {
		return []blobstore.Finding{{
			Name: database, Level: blobstore.LevelNote, Cure: "set PAWL_DATABASE_URL",
			Seen: "it wasn't looked at, nor whether the blob store is its own",
		}}, nil
	}
	pointers, err := pointer.Open(ctx, settings.databaseURL, settings.pointerOptions())
	if err != nil {
		return nil, configError{fmt.Errorf("PAWL_DATABASE_URL: %w", err)}
	}
	defer pointers.Close()
	findings, err := databaseFindings(ctx, pointers, settings.requireSynchronous)
	if err != nil {
		return []blobstore.Finding{{Name: database, Level: blobstore.LevelFail, Seen: message(err), Cure: "start it, or correct PAWL_DATABASE_URL"}}, nil
	}
	if err := errors.Join(prepareSchema(ctx, settings.databaseURL, false), pointers.Check(ctx)); err != nil {
		return append(findings, blobstore.Finding{Name: database, Level: blobstore.LevelFail, Seen: message(err), Cure: "migrate it, or correct PAWL_DATABASE_URL"}), nil
	}
	findings = append(findings, blobstore.Finding{Name: database, Level: blobstore.LevelOK, Seen: "it answers, and its schema is this program's"})
	ctx, cancel := context.WithTimeout(ctx, matchTimeout)
	defer cancel()
	compare := publish.CompareStore
	if adopt {
		compare = publish.AdoptStore
	}
	id, err := compare(ctx, pointers, blobs)
	var other *publish.OtherStoreError
	found := blobstore.Finding{Name: identity, Level: blobstore.LevelOK, Seen: fmt.Sprintf("the blob store is the database's own (%s)", id)}
	switch {
	case errors.As(err, &other):
		found = blobstore.Finding{Name: identity, Level: blobstore.LevelFail, Seen: otherStore(other).Error()}
	case err != nil:
		found = blobstore.Finding{Name: identity, Level: blobstore.LevelFail, Seen: message(err), Cure: "see the checks of the store below"}
	case id == "":
		found.Seen = "the first start will mark the blob store as the database's own"
	}
	return append(findings, found), nil
}
