package migrations_test

import (
	"os"
	"regexp"
	"testing"

	"github.com/pawlhq/pawl/migrations"
)

// Who is signed out is told from who isn't known, and the audit has it. The statements are those of the document.
func TestSignOut(t *testing.T) {
	t.Parallel()
	ctx, dsn, conn := connect(t)
	text, err := os.ReadFile("../docs/credentials-oidc.md")
	if err != nil {
		t.Fatal(err)
	}
	documented := regexp.MustCompile("(?s)```sql\n(SELECT DISTINCT[^;]*);.*?\n(SELECT pawl.sign_out[^;]*);").FindSubmatch(text)
	if documented == nil {
		t.Fatal("the document doesn't say how somebody is signed out")
	}
	who, signOut := string(documented[1]), regexp.MustCompile(`'oidc-[^']*'`).ReplaceAllString(string(documented[2]), "$$1")
	add := func(hash, subject, left, revoked string) string {
		return `INSERT INTO pawl.sessions (hash, subject, name, scopes, created_at, seen_at, ends_at, idle, revoked_at) VALUES
			(sha256('` + hash + `'), '` + subject + `', 'acme ` + subject + `', '{read}', now(), now(), now() + interval '` + left + `', '1 hour', ` + revoked + `)`
	}
	run(t, conn, []string{
		add("1", "oidc-mia", "1 hour", "NULL"), add("2", "oidc-mia", "1 hour", "NULL"), add("3", "oidc-mia", "1 hour", "now()"), add("4", "oidc-mia", "-1 hour", "NULL"),
		add("5", "oidc-jo", "1 hour", "NULL"), add("6", "oidc-eve", "1 hour", "now()"),
	})
	var listed string
	if err := conn.QueryRow(ctx, `SELECT string_agg(subject || ' ' || name, ',' ORDER BY subject) FROM (`+who+`) w`).Scan(&listed); err != nil || listed != "oidc-jo acme oidc-jo,oidc-mia acme oidc-mia" {
		t.Errorf("signed in are %q, %v", listed, err)
	}
	for _, step := range []struct{ subject, want string }{{"oidc-nobody", `{"ended": 0}`}, {"oidc-mia", `{"ended": 2}`}, {"oidc-mia", `{"ended": 0}`}} {
		var got string
		if err := conn.QueryRow(ctx, signOut, step.subject).Scan(&got); err != nil || got != step.want {
			t.Errorf("%s: %s, %v; want %s", step.subject, got, err, step.want)
		}
	}
	var entries, left string
	if err := conn.QueryRow(ctx, `SELECT coalesce(string_agg(action || ' ' || subject || ' ' || after::text, ','), ''), (SELECT string_agg(subject, ',') FROM (`+who+`) w)
		FROM pawl.audit WHERE actor = session_user`).Scan(&entries, &left); err != nil || entries != `sign-out oidc-mia {"ended": 2}` || left != "oidc-jo" {
		t.Errorf("the audit has %q, signed in are %q, %v", entries, left, err)
	}
	if err := down(ctx, dsn, 29); err != nil {
		t.Fatal(err)
	}
	if err := migrations.Up(ctx, dsn); err != nil {
		t.Fatal(err)
	}
	run(t, conn, []string{`SELECT pawl.sign_out('oidc-jo', 'ops')`})
}
