package main

import (
	"context"
	"errors"

	"github.com/spf13/cobra"
)

func (a *app) migrateCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "migrate",
		Short: "Bring the schema of the database up to date",
		Long:  "Bring the schema of the database at PAWL_DATABASE_URL up to date. Any number of replicas may do so at once.",
		Args:  cobra.NoArgs,
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
			if a.json {
				return a.printJSON(map[string]bool{"up_to_date": true})
			}
			a.printf("the schema is up to date\n")
			return nil
		}),
	}
}
