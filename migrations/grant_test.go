package migrations_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pawlhq/pawl/internal/testenv"
	"github.com/pawlhq/pawl/migrations"
)

// A server's role gets what is listed for each table and no more, whatever it had before, and can do nothing to the audit but read it and add to it.
func TestGrant(t *testing.T) {
	t.Parallel()
	ctx, dsn, conn := connect(t)
	role, roleDSN := testenv.Role(t, dsn)
	run(t, conn, []string{`GRANT ALL ON ALL TABLES IN SCHEMA pawl TO ` + role, `GRANT ALL ON SCHEMA pawl TO ` + role})
	for range 2 {
		if err := migrations.Grant(ctx, dsn, role); err != nil {
			t.Fatal(err)
		}
	}
	const have = `
SELECT c.relname, string_agg(p, ', ' ORDER BY n) FROM pg_class c,
	unnest(ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE', 'TRUNCATE', 'REFERENCES', 'TRIGGER']) WITH ORDINALITY t(p, n)
WHERE c.relnamespace = 'pawl'::regnamespace AND c.relkind IN ('r', 'p') AND has_table_privilege($1, c.oid, p) GROUP BY c.relname`
	rows, err := conn.Query(ctx, have, role)
	if err != nil {
		t.Fatal(err)
	}
	type table struct{ Name, Rights string }
	tables, err := pgx.CollectRows(rows, pgx.RowToStructByPos[table])
	if err != nil || len(tables) < 15 {
		t.Fatalf("%d tables, %v", len(tables), err)
	}
	for _, table := range tables {
		want, listed := migrations.Rights[table.Name]
		if !listed {
			t.Errorf("the table %s is new: list in grant.go what a server does to it", table.Name)
		} else if want = strings.TrimSuffix("SELECT, "+want, ", "); table.Rights != want {
			t.Errorf("%s: the role has %s, want %s", table.Name, table.Rights, want)
		}
	}

	server, err := pgx.Connect(ctx, roleDSN)
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close(ctx) //nolint:errcheck // The test is over.
	run(t, server, []string{`SELECT pawl.note('mia', 'policy', 'k', NULL, NULL)`, `SET pawl.change_audit = on`})
	for sql, code := range map[string]string{
		`UPDATE pawl.audit SET actor = 'jo'`: "42501", `DELETE FROM pawl.audit`: "42501", `TRUNCATE pawl.audit`: "42501",
		`ALTER TABLE pawl.audit DISABLE TRIGGER ALL`: "42501", `DROP TABLE pawl.audit`: "42501", `CREATE TABLE pawl.mine (n int)`: "42501",
		`UPDATE pawl.receipts SET files = 0`: "42501", `DELETE FROM pawl.keys`: "42501",
	} {
		_, err := server.Exec(ctx, sql)
		var refused *pgconn.PgError
		if !errors.As(err, &refused) || refused.Code != code {
			t.Errorf("%s: %v", sql, err)
		}
	}
	if err := migrations.Check(ctx, roleDSN); err != nil {
		t.Errorf("the role can't look at the schema's version: %v", err)
	}
}

// The trigger holds those whom rights don't hold, until they say that they mean it.
func TestAuditIsAppendOnlyForItsOwner(t *testing.T) {
	t.Parallel()
	ctx, dsn, conn := connect(t)
	role, roleDSN := testenv.Role(t, dsn)
	run(t, conn, []string{
		`SELECT pawl.note('mia', 'policy', 'k', NULL, NULL)`, `GRANT USAGE ON SCHEMA pawl TO ` + role, `GRANT ALL ON pawl.audit TO ` + role,
	})
	// With all rights and the setting, but not as the owner.
	careless, err := pgx.Connect(ctx, roleDSN)
	if err != nil {
		t.Fatal(err)
	}
	defer careless.Close(ctx) //nolint:errcheck // The test is over.
	run(t, careless, []string{`SET pawl.change_audit = on`})
	changes := []string{`UPDATE pawl.audit SET actor = 'jo'`, `DELETE FROM pawl.audit WHERE false`, `DELETE FROM pawl.audit`, `TRUNCATE pawl.audit`}
	for _, sql := range changes {
		for name, conn := range map[string]*pgx.Conn{"owner": conn, "other": careless} {
			_, err := conn.Exec(ctx, sql)
			var refused *pgconn.PgError
			if !errors.As(err, &refused) || refused.ConstraintName != "audit_append_only" || !strings.Contains(refused.Hint, "SET pawl.change_audit = on") {
				t.Errorf("%s, as %s: %v", sql, name, err)
			}
		}
	}
	run(t, conn, []string{`SET pawl.change_audit = on`})
	run(t, conn, changes)
}

// A role that doesn't own the schema may look whether it is up to date, as any replica does, and is told who owns it when it wants more.
func TestOthersThanTheOwner(t *testing.T) {
	t.Parallel()
	ctx, dsn, conn := connect(t)
	role, roleDSN := testenv.Role(t, dsn)
	var owner string
	if err := conn.QueryRow(ctx, `SELECT current_user`).Scan(&owner); err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf("it belongs to %q, and this is %q; use the address with which %q logs in", owner, role, owner)
	refused := func(what string, err error) {
		if !errors.Is(err, migrations.ErrOwner) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", what, err, want)
		}
	}
	refused("up, without any rights", migrations.Up(ctx, roleDSN))
	if err := migrations.Grant(ctx, dsn, role); err != nil {
		t.Fatal(err)
	}
	refused("grant", migrations.Grant(ctx, roleDSN, role))
	if err := migrations.Up(ctx, roleDSN); err != nil {
		t.Errorf("up, with nothing to do: %v", err)
	}
	run(t, conn, []string{`DELETE FROM pawl.goose_db_version WHERE version_id = (SELECT max(version_id) FROM pawl.goose_db_version)`})
	refused("up, with something to do", migrations.Up(ctx, roleDSN))
}

func TestGrantToBadRoles(t *testing.T) {
	t.Parallel()
	ctx, dsn, conn := connect(t)
	var owner string
	if err := conn.QueryRow(ctx, `SELECT current_user`).Scan(&owner); err != nil {
		t.Fatal(err)
	}
	for role, want := range map[string]string{`no"body`: `CREATE ROLE "no""body" LOGIN`, owner: "all rights of the schema's owner"} {
		if err := migrations.Grant(ctx, dsn, role); !errors.Is(err, migrations.ErrRole) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", role, err)
		}
	}
}
