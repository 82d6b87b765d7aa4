package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/pawlhq/pawl/migrations"
	"github.com/pawlhq/pawl/publish"
)

func (a *app) migrateCommand() *cobra.Command {
	var grant string
	cmd := &cobra.Command{
		Use:   "migrate",
		Short: "Bring the schema of the database up to date",
		Long: "Bring the schema of the database at PAWL_DATABASE_URL up to date. Any number of replicas may do so at once.\n\n" +
			"--grant ROLE then gives a role that the servers log in as what they need, and no more: it can add to the audit, but not change it.\n" +
			"Give it with each version: new tables are granted by it, too.",
		Args: cobra.NoArgs,
		RunE: a.verb(func(ctx context.Context, _ []string) error {
			var settings serverSettings
			var err error
			if settings.databaseURL, settings.database, err = a.databaseURL(); err != nil {
				return err
			}
			if settings.databaseURL == "" {
				return configError{errors.New("PAWL_DATABASE_URL is not set; set it to the address of the Postgres to migrate")}
			}
			if err := prepareSchema(ctx, settings.databaseURL, true); err != nil {
				return settings.redacted(err)
			}
			if grant != "" {
				switch err := migrations.Grant(ctx, settings.databaseURL, grant); {
				case errors.Is(err, migrations.ErrRole):
					return configError{fmt.Errorf("--grant: %w", err)}
				case errors.Is(err, migrations.ErrOwner):
					return configError{fmt.Errorf("PAWL_DATABASE_URL: %w", err)}
				case err != nil:
					return settings.redacted(publish.Unavailable("Postgres (PAWL_DATABASE_URL)", err))
				}
			}
			if a.json {
				return a.printJSON(map[string]bool{"up_to_date": true})
			}
			a.printf("the schema is up to date\n")
			if grant != "" {
				a.printf("%s has the rights of a server\n", grant)
			}
			return nil
		}),
	}
	cmd.Flags().StringVar(&grant, "grant", "", "role that the servers log in as; it gets the rights of a server, and loses all others on the schema")
	return cmd
}
