package migrations_test

import (
	"strings"
	"testing"

	"github.com/pawlhq/pawl/migrations"
)

// Going back behind migration 00012 and coming again keeps the installation's id, on which idempotency keys rest that third parties have
// seen. It is refused once effects were asked for: what is older would forget which of them are done.
func TestEffectsGoDown(t *testing.T) {
	t.Parallel()
	ctx, dsn, conn := connect(t)
	prefix := func(answer string) string {
		_, after, _ := strings.Cut(answer, `"effect_prefix": "`)
		return strings.Split(after, `"`)[0]
	}
	call := func(sql string) (answer string) {
		t.Helper()
		if err := conn.QueryRow(ctx, sql).Scan(&answer); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
		return answer
	}
	const acquire, renew = `SELECT pawl.acquire('k', sha256('A'), 'A', 60000, '{}')`, `SELECT pawl.renew('k', sha256('A'), NULL)`
	before := prefix(call(acquire))
	if err := down(ctx, dsn, 11); err != nil {
		t.Fatal(err)
	}
	if got := call(renew); prefix(got) != "" || !strings.Contains(got, `"token": 1`) {
		t.Errorf("the schema before answers a renewal with %s", got)
	}
	if err := migrations.Up(ctx, dsn); err != nil {
		t.Fatal(err)
	}
	if again := prefix(call(renew)); again != before || len(before) != len("pawl-")+32+len("-") {
		t.Errorf("the prefix was %q and is %q", before, again)
	}
	call(`SELECT pawl.effect('k', 1, sha256('A'), 'charge', true, 'ch_1')`)
	if err := down(ctx, dsn, 11); err == nil || !strings.Contains(err.Error(), "effects were asked for") {
		t.Errorf("going down with effects: %v", err)
	}
}
