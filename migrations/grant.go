package migrations

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
)

// ErrRole reports a role that no rights can be granted to.
var ErrRole = errors.New("the role can't be used")

// rights is what a server does to each table beside SELECT: it adds receipts and audit entries and never changes them, removes no key and no file, and
// knows nothing of TRUNCATE. A server has what its functions do, since they run with the rights of who calls them.
var rights = map[string]string{
	"audit":             "INSERT",
	"broken_leases":     "INSERT",
	"caller_leases":     "INSERT, UPDATE, DELETE",
	"credentials":       "INSERT, UPDATE",
	"duties":            "INSERT, UPDATE, DELETE",
	"effect_tokens":     "INSERT, UPDATE, DELETE",
	"effects":           "INSERT, UPDATE",
	"epochs":            "INSERT, UPDATE", // UPDATE is what LOCK TABLE asks for.
	"event_feed":        "UPDATE",
	"events":            "INSERT, DELETE",
	"files":             "INSERT, UPDATE",
	"generation_sums":   "INSERT, UPDATE, DELETE",
	"generations":       "INSERT, UPDATE",
	"goose_db_version":  "",
	"installation":      "",
	"keys":              "INSERT, UPDATE",
	"pins":              "INSERT, UPDATE, DELETE",
	"policies":          "INSERT, DELETE",
	"receipts":          "INSERT",
	"rejected_keys":     "INSERT, UPDATE, DELETE",
	"rejections":        "INSERT, UPDATE, DELETE",
	"sessions":          "INSERT, UPDATE, DELETE",
	"secrets":           "",
	"stores":            "INSERT, UPDATE",
	"unnumbered_events": "INSERT, DELETE",
	"witnesses":         "INSERT, DELETE",
}

// everyRight is for a table that rights doesn't list. A test keeps that from happening.
const everyRight = "INSERT, UPDATE, DELETE"

// Grant gives a role what a server needs, on the schema as it is, and takes all else on it away: so it is called again after each Up that has made tables. The
// role must be there, and must not have the rights of the schema's owner, who makes the call: for others it is ErrOwner. Errors of the role are ErrRole.
func Grant(ctx context.Context, dsn, role string) error {
	config, err := parse(dsn)
	if err != nil {
		return err
	}
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return fmt.Errorf("connecting to Postgres: %w", err)
	}
	defer conn.Close(context.WithoutCancel(ctx)) //nolint:errcheck // The commit was checked.
	if err := checkOwner(ctx, conn); err != nil {
		return err
	}
	if err := checkRole(ctx, conn, role); err != nil {
		return err
	}
	tables, err := tablesOf(ctx, conn)
	if err != nil {
		return err
	}
	to := pgx.Identifier{role}.Sanitize()
	statements := []string{
		"REVOKE ALL ON ALL TABLES IN SCHEMA pawl FROM " + to,
		"REVOKE ALL ON ALL SEQUENCES IN SCHEMA pawl FROM " + to,
		"REVOKE ALL ON SCHEMA pawl FROM " + to,
		"GRANT USAGE ON SCHEMA pawl TO " + to,
		"GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA pawl TO " + to,
		"GRANT SELECT ON ALL TABLES IN SCHEMA pawl TO " + to,
	}
	for _, table := range tables {
		more, listed := rights[table]
		if !listed {
			more = everyRight
		}
		if more != "" {
			statements = append(statements, "GRANT "+more+" ON "+pgx.Identifier{"pawl", table}.Sanitize()+" TO "+to)
		}
	}
	err = pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, strings.Join(statements, ";\n"), pgx.QueryExecModeSimpleProtocol)
		return err
	})
	if err != nil {
		return fmt.Errorf("granting rights to %s: %w", to, err)
	}
	return nil
}

// checkRole refuses roles that are more than the grant would make of them.
func checkRole(ctx context.Context, conn *pgx.Conn, role string) error {
	var there, owns bool
	const roleSQL = `
SELECT EXISTS (SELECT FROM pg_roles WHERE rolname = $1),
	coalesce((SELECT pg_has_role(r.oid, n.nspowner, 'USAGE') FROM pg_roles r, pg_namespace n WHERE r.rolname = $1 AND n.nspname = 'pawl'), false)`
	if err := conn.QueryRow(ctx, roleSQL, role).Scan(&there, &owns); err != nil {
		return fmt.Errorf("looking for the role: %w", err)
	}
	switch {
	case !there:
		return fmt.Errorf("%w: there is no role %q; make it first: CREATE ROLE %s LOGIN PASSWORD '…'", ErrRole, role, pgx.Identifier{role}.Sanitize())
	case owns:
		return fmt.Errorf("%w: %q has all rights of the schema's owner; name a role for the servers that has not, and is no superuser", ErrRole, role)
	}
	return nil
}

// tablesOf lists the tables of the schema.
func tablesOf(ctx context.Context, conn *pgx.Conn) ([]string, error) {
	const tablesSQL = `SELECT relname FROM pg_class WHERE relnamespace = 'pawl'::regnamespace AND relkind IN ('r', 'p') ORDER BY relname`
	rows, err := conn.Query(ctx, tablesSQL)
	if err == nil {
		var tables []string
		if tables, err = pgx.CollectRows(rows, pgx.RowTo[string]); err == nil {
			return tables, nil
		}
	}
	return nil, fmt.Errorf("listing the tables: %w", err)
}
