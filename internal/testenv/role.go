//go:build unix

package testenv

import (
	"context"
	"errors"
	"net/url"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
)

// Role makes a login role without any rights, for this test alone, and returns its name and the address at which it reaches dsn's database.
func Role(t testing.TB, dsn string) (name, roleDSN string) {
	t.Helper()
	name = newName("role")
	const password = "canary-of-a-role"
	ctx, cancel := context.WithTimeout(t.Context(), setupTimeout)
	defer cancel()
	if err := execAll(ctx, dsn, `CREATE ROLE `+name+` LOGIN PASSWORD '`+password+`'`); err != nil {
		t.Fatalf("a role: %v", err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), setupTimeout)
		defer cancel()
		if err := execAll(ctx, dsn, `DROP OWNED BY `+name, `DROP ROLE `+name); err != nil {
			t.Logf("drop role: %v", err)
		}
	})
	return name, withUser(dsn, name, password)
}

// execAll runs statements on one connection.
func execAll(ctx context.Context, dsn string, statements ...string) error {
	conn, err := pgx.Connect(ctx, dsn)
	for _, sql := range statements {
		if err == nil {
			_, err = conn.Exec(ctx, sql)
		}
	}
	if conn != nil {
		err = errors.Join(err, conn.Close(ctx))
	}
	return err
}

// withUser returns the DSN with another user, in either of the two spellings of a DSN.
func withUser(dsn, name, password string) string {
	u, err := url.Parse(dsn)
	if err != nil || !strings.Contains(dsn, "://") {
		return dsn + " user=" + name + " password=" + password // The last one counts.
	}
	query := u.Query()
	u.User = nil
	query.Set("user", name)
	query.Set("password", password)
	u.RawQuery = strings.ReplaceAll(query.Encode(), "+", "%20")
	return u.String()
}
