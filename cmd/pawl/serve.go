package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/spf13/cobra"
)

func (a *app) serveCommand() *cobra.Command {
	var flags serverFlags
	var migrate bool
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Serve the REST API and the page, on a Postgres and a store of your own",
		Long: "Serve the REST API and the page. Any number of replicas may run on one Postgres and one store.\n\n" +
			"Settings: PAWL_DATABASE_URL and PAWL_BLOBS (both needed), PAWL_S3_ACCESS_KEY and PAWL_S3_SECRET_KEY (or AWS's own ways; these\n" +
			"and PAWL_DATABASE_URL also as _FILE, or as systemd's credentials pawl.database-url and so on), PAWL_S3_CA_FILE,\n" +
			"PAWL_S3_PUBLIC_ENDPOINT, PAWL_S3_PART_MEMORY, PAWL_S3_VERIFY, PAWL_CORS_ORIGINS, PAWL_READS,\n" +
			"PAWL_LISTEN, PAWL_HOSTS, PAWL_ORIGIN, PAWL_BASE_PATH, PAWL_TLS_CERT and PAWL_TLS_KEY, PAWL_TRUSTED_PROXIES, PAWL_EMBED, PAWL_CONTENT_ORIGIN,\n" +
			"PAWL_AUTH (required, none), PAWL_PUBLIC_READ, PAWL_OIDC, PAWL_SESSION_LIFETIME, PAWL_SESSION_IDLE, PAWL_ALLOW_UNAUTHENTICATED,\n" +
			"PAWL_LOG_FORMAT (text, json), PAWL_LOG_LEVEL,\n" +
			"PAWL_SWEEP_GRACE, PAWL_SWEEP_INTERVAL, PAWL_COLLECT (on, off), PAWL_COLLECT_GRACE, PAWL_COLLECT_INTERVAL, PAWL_MARKERS,\n" +
			"PAWL_EVENTS_KEEP, PAWL_EVENTS_POLL, PAWL_EVENTS_HEARTBEAT, PAWL_EVENTS_STREAMS, PAWL_REQUIRE_SYNCHRONOUS.\n\n" +
			"Limits, each with a default: PAWL_LIMIT_HEADERS, PAWL_LIMIT_JSON, PAWL_LIMIT_FILE, PAWL_LIMIT_GENERATION, PAWL_LIMIT_FILES,\n" +
			"PAWL_LIMIT_RATE, PAWL_LIMIT_BURST, PAWL_LIMIT_UPLOADS, PAWL_LIMIT_DIRECT, PAWL_LIMIT_LEASES, PAWL_LIMIT_CONNECTIONS, PAWL_LIMIT_IDLE.",
		Args: cobra.NoArgs,
		RunE: a.verb(func(ctx context.Context, _ []string) error {
			settings, err := a.serverSettings(flags, slog.LevelInfo)
			if err != nil {
				return err
			}
			if err := a.checkServe(settings); err != nil {
				return err
			}
			srv, err := startServer(ctx, settings, migrate)
			if err != nil {
				return err
			}
			return srv.serve(ctx, nil)
		}),
	}
	flags.register(cmd.Flags(), 3*time.Second, 20*time.Second)
	cmd.Flags().BoolVar(&flags.requireSynchronous, "require-synchronous", false,
		"refuse to start, and to grant, on a database that may lose commits (PAWL_REQUIRE_SYNCHRONOUS)")
	cmd.Flags().BoolVar(&migrate, "migrate", false, "bring the database's schema up to date first")
	return cmd
}

// checkServe names the setting that is missing or wrong, and the cure.
func (a *app) checkServe(s serverSettings) error {
	switch {
	case s.databaseURL == "":
		return configError{errors.New("PAWL_DATABASE_URL is not set; set it to the address of a Postgres, e.g. postgres://pawl@db.example/pawl, or try `pawl dev`, which brings its own")}
	case s.blobs == "":
		return configError{errors.New("PAWL_BLOBS is not set; set it to where bytes should live, e.g. file:///var/lib/pawl/blobs or s3://bucket/prefix?endpoint=https://s3.example")}
	case !loopback(s.listen) && !s.auth.required && a.getenv("PAWL_ALLOW_UNAUTHENTICATED") != "true":
		return configError{fmt.Errorf("PAWL_LISTEN is %s, which other machines can reach, and nobody is asked for a credential: "+
			"set PAWL_AUTH=%s and make credentials with `pawl credential create`, listen on %s behind a proxy that authenticates, "+
			"or set PAWL_ALLOW_UNAUTHENTICATED=true in a trusted network", s.listen, authRequired, defaultListen)}
	}
	return nil
}
