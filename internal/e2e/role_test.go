package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pawlhq/pawl/internal/testenv"
)

// Servers may log in as a role of their own, which owns nothing: `pawl migrate --grant` gives it what they need. Their address is in a file. Whatever
// they do stands in the audit, which that role can't change.
func TestServersHaveARoleOfTheirOwn(t *testing.T) {
	t.Parallel()
	dsn := testenv.Postgres(t)
	role, roleDSN := testenv.Role(t, dsn)
	url := filepath.Join(t.TempDir(), "database-url")
	if err := os.WriteFile(url, []byte(roleDSN+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for grant, code := range map[string]int{role: 0, "nobody-there": 78} {
		migrate := start(t, []string{"PAWL_DATABASE_URL=" + dsn}, binary(t), "migrate", "--grant", grant)
		if got := migrate.exit(); got != code || code == 0 && !strings.Contains(migrate.out.String(), role+" has the rights of a server") ||
			code != 0 && !strings.Contains(migrate.errs.String(), `--grant: the role can't be used: there is no role "nobody-there"; make it first: CREATE ROLE`) {
			t.Fatalf("--grant %s: %d: %s%s", grant, got, migrate.out.String(), migrate.errs.String())
		}
	}
	other := start(t, []string{"PAWL_DATABASE_URL=" + roleDSN}, binary(t), "migrate", "--grant", role)
	if code := other.exit(); code != 78 || !strings.Contains(other.errs.String(), "PAWL_DATABASE_URL: this takes the owner of the schema pawl") {
		t.Errorf("--grant by another than the owner: %d: %s%s", code, other.out.String(), other.errs.String())
	}
	for address, want := range map[string]string{roleDSN: "ok: Pawl's role can add to it", dsn: "note: "} {
		if found := doctorOf(t, 0, address); !strings.HasPrefix(found["postgres audit"], want) {
			t.Errorf("the doctor says of the audit %q, want %q", found["postgres audit"], want)
		}
	}
	s := serve(t, "", directory(t), "PAWL_DATABASE_URL_FILE="+url, "PAWL_LOG_LEVEL=debug")
	out := filepath.Join(t.TempDir(), "out.txt")
	for _, text := range []string{"one", "two"} {
		if err := os.WriteFile(out, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if p := s.pawl("run", "--key", "k", "--", "sh", "-c", `cp "$0" "$PAWL_OUT/out.txt"`, out); p.exit() != 0 {
			t.Fatal(p.errs.String())
		}
	}
	for _, args := range [][]string{
		{"rollback", "k", "--to", "1", "--reason", "r", "--pin", "--by", "mia"},
		{"unpin", "k", "--by", "mia"},
		{"acquire", "k"},
		{"break-lease", "k", "--token", "4", "--reason", "r", "--by", "mia"},
		{"retire", "k", "--reason", "r", "--by", "mia"},
		{"policy", "set", "k", "--keep-generations", "1", "--by", "mia"},
		{"policy", "unset", "k", "--by", "mia"},
		{"history", "k"},
		{"rejections"},
	} {
		if p := s.pawl(args...); p.exit() != 0 {
			t.Errorf("%q: %s", args, p.errs.String())
		}
	}
	audit := s.pawl("audit", "--export")
	if code := audit.exit(); code != 0 || strings.Count(audit.out.String(), `"from":"127.0.0.1"`) != 7 || strings.Count(audit.out.String(), "\n") != 7 {
		t.Errorf("%d: the audit is %s%s", code, audit.out.String(), audit.errs.String())
	}
	for _, sql := range []string{`UPDATE pawl.audit SET actor = 'jo'`, `DELETE FROM pawl.audit`, `TRUNCATE pawl.audit`} {
		psql := start(t, nil, "psql", "-v", "ON_ERROR_STOP=1", "-d", roleDSN, "-c", sql)
		if code := psql.exit(); code == 0 || !strings.Contains(psql.errs.String(), "permission denied for table audit") {
			t.Errorf("%s: %d: %s", sql, code, psql.errs.String())
		}
	}
	if log := s.out.String() + s.errs.String(); strings.Contains(log, "canary") || strings.Contains(log, "permission denied") {
		t.Errorf("the log is %s", log)
	}
}
