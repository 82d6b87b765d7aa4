package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawlhq/pawl/internal/devpg"
	"github.com/pawlhq/pawl/publish"
)

// devDatabase is the database inside the private Postgres.
const devDatabase = "pawl"

func (a *app) devCommand() *cobra.Command {
	var flags serverFlags
	var data string
	cmd := &cobra.Command{
		Use:   "dev",
		Short: "Serve on this machine with nothing set up: a private Postgres and a folder",
		Long: "Serve on this machine alone. What isn't set is brought along: a private Postgres, started from the machine's own\n" +
			"binaries, unless PAWL_DATABASE_URL names one, and a folder for the bytes unless PAWL_BLOBS names a store. Both are kept\n" +
			"under --data. Ctrl-C stops everything.",
		Args: cobra.NoArgs,
		RunE: a.verb(func(ctx context.Context, _ []string) error {
			settings, err := a.serverSettings(flags, slog.LevelWarn)
			if err != nil {
				return err
			}
			if !loopback(settings.listen) {
				return configError{fmt.Errorf("PAWL_LISTEN (or --listen) is %s, but pawl dev asks for no credentials and listens on this machine alone: "+
					"use %s, or pawl serve", settings.listen, defaultListen)}
			}
			if settings.auth.required {
				return configError{fmt.Errorf("PAWL_AUTH is %s, but pawl dev asks for no credentials: use pawl serve, or leave PAWL_AUTH out", authRequired)}
			}
			if data == "" {
				if data, err = devpg.DefaultDir(); err != nil {
					return configError{fmt.Errorf("--data: %w; name a folder", err)}
				}
			}
			return a.dev(ctx, settings, data)
		}),
	}
	// Waiting readers are cut off soon: whoever pressed Ctrl-C waits.
	flags.register(cmd.Flags(), 0, 500*time.Millisecond)
	cmd.Flags().StringVar(&data, "data", "", "folder that keeps the data (default: $XDG_DATA_HOME/pawl, or /var/lib/pawl for root)")
	return cmd
}

func (a *app) dev(ctx context.Context, settings serverSettings, data string) (err error) {
	data, err = filepath.Abs(data)
	if err != nil {
		return configError{fmt.Errorf("--data: %w", err)}
	}
	var ended chan error // nil, which never tells anything, when the database isn't ours
	if settings.databaseURL == "" {
		postgres, err := startPostgres(ctx, data)
		if err != nil {
			return err
		}
		defer func() {
			// The stores are closed by now, so nothing is lost, and stopping takes a moment only.
			if stopErr := postgres.Stop(context.WithoutCancel(ctx)); stopErr != nil {
				err = errors.Join(err, ioError{fmt.Errorf("stopping the private Postgres: %w", stopErr)})
			}
		}()
		settings.databaseURL = postgres.DSN(devDatabase)
		ended = make(chan error, 1)
		go func() {
			<-postgres.Done()
			ended <- unreachableError{fmt.Errorf("the private Postgres has ended by itself: %s", ends(postgres.Err().Error()))}
		}()
	}
	if settings.blobs == "" {
		folder := filepath.Join(data, "blobs")
		if err := os.MkdirAll(folder, 0o700); err != nil {
			return configError{fmt.Errorf("--data: %w; name a folder that can be written", err)}
		}
		settings.blobs = (&url.URL{Scheme: "file", Path: folder}).String()
		settings.ownFolder = true
	}
	srv, err := startServer(ctx, settings, true)
	if err != nil {
		return err
	}
	a.greet(srv.url(), data)
	return srv.serve(ctx, ended)
}

// startPostgres starts the private Postgres and makes its database.
func startPostgres(ctx context.Context, data string) (*devpg.Server, error) {
	// Commits survive a crash of the machine: people keep what they see.
	postgres, err := devpg.Start(ctx, devpg.Options{Dir: filepath.Join(data, "postgres"), Durable: true})
	var inUse *devpg.InUseError
	switch {
	case errors.As(err, &inUse):
		return nil, configError{fmt.Errorf("--data: %w; is another pawl dev running on %s? Stop it, or choose another folder", err, data)}
	case err != nil && ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case err != nil:
		return nil, configError{err}
	}
	if err := postgres.CreateDatabase(ctx, devDatabase); err != nil {
		return nil, errors.Join(publish.Unavailable("the private Postgres", err), postgres.Stop(context.WithoutCancel(ctx)))
	}
	return postgres, nil
}

// greet says where everything is, with commands that work as they are printed, in one shell: each start has a key of its own, whose first
// token is 1. The lease_id is drawn there, and not here: it is a secret, and this text may end in a log.
func (a *app) greet(address, data string) {
	if a.json {
		_ = a.printJSON(map[string]string{"url": address, "data": data}) //nolint:errcheck // checkedWriter remembers it.
		return
	}
	key := address + "/v1/keys/demo/hello-" + strings.ToLower(rand.Text()[:6])
	a.printf("Pawl serves %s/ (data in %s; Ctrl-C stops it)\n\n", address, data)
	a.printf("Take a lease, upload and publish under its token, read the current version:\n\n")
	a.printf("  LEASE=$(head -c16 /dev/urandom | od -An -vtx1 | tr -d ' \\n'); "+
		"curl -sS -X POST %s/-/lease -H 'Content-Type: application/json' -d '{\"holder\":\"me\",\"ttl\":\"1h\",\"lease_id\":\"'$LEASE'\"}'\n", key)
	a.printf("  curl -sS -X PUT '%s/-/generations/1/files/hello.txt?publish=true' -H \"Pawl-Lease: $LEASE\" --data-binary 'Hello from Pawl'\n", key)
	a.printf("  curl -sSL %s/-/current\n", key)
}

// ends shortens a text of many lines, such as a log, to its first line and the last three.
func ends(text string) string {
	lines := strings.Split(strings.TrimPrefix(text, "postgres ended: "), "\n")
	if len(lines) > 4 {
		lines = append(lines[:1], lines[len(lines)-3:]...)
	}
	return strings.Join(lines, "\n  ")
}
