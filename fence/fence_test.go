package fence_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pawlhq/pawl/fence"
	"github.com/pawlhq/pawl/publish"
)

// Tokens of one resource, one transaction each: what passes by either rule.
func TestCheckByRule(t *testing.T) {
	t.Parallel()
	db := fenced(t)
	type step struct {
		token, fence publish.Token // fence is the one that refuses, 0 when the token passes
	}
	for name, c := range map[string]struct {
		check checkFunc
		steps []step
	}{
		"check": {fence.Check, []step{{5, 0}, {7, 0}, {6, 7}, {7, 0}, {1, 7}, {8, 0}, {publish.MaxToken, 0}, {publish.MaxToken - 1, publish.MaxToken}}},
		"once":  {fence.CheckOnce, []step{{5, 0}, {7, 0}, {6, 7}, {7, 7}, {1, 7}, {8, 0}, {publish.MaxToken, 0}, {publish.MaxToken, publish.MaxToken}}},
	} {
		// A second resource with tokens of its own shows that fences are separate.
		other := name + "/other"
		for _, s := range c.steps {
			err := pgx.BeginFunc(t.Context(), db, func(tx pgx.Tx) error { return c.check(t.Context(), tx, name, s.token) })
			if s.fence == 0 {
				if err != nil {
					t.Fatalf("%s: token %d: %v", name, s.token, err)
				}
				continue
			}
			wantStale(t, err, &fence.StaleError{Resource: name, Token: s.token, Fence: s.fence})
		}
		err := pgx.BeginFunc(t.Context(), db, func(tx pgx.Tx) error { return c.check(t.Context(), tx, other, 1) })
		if err != nil {
			t.Errorf("%s: %v", other, err)
		}
	}
}

func wantStale(t *testing.T, err error, want *fence.StaleError) {
	t.Helper()
	var stale *fence.StaleError
	if !errors.As(err, &stale) || !errors.Is(err, fence.ErrStale) || !errors.Is(err, publish.ErrStaleToken) {
		t.Fatalf("got %v, want a stale token", err)
	}
	if diff := cmp.Diff(want, stale, cmpopts.IgnoreUnexported(fence.StaleError{})); diff != "" {
		t.Error(diff)
	}
	if repeated := want.Token == want.Fence; stale.Repeated() != repeated {
		t.Errorf("repeated: %t, want %t", stale.Repeated(), repeated)
	}
}

// What other languages see of a refusal.
func TestStaleInSQL(t *testing.T) {
	t.Parallel()
	db := fenced(t)
	resource := `bil"ling/2026-10 ` + "\U0001F980"
	run(t, db, `SELECT pawl_fence($1, 18)`, resource)
	for function, token := range map[string]int64{"pawl_fence": 17, "pawl_fence_once": 18} {
		// The collation of an argument doesn't matter.
		_, err := db.Exec(t.Context(), `SELECT `+function+`(resource => $1 COLLATE "POSIX", token => $2)`, resource, token)
		var refused *pgconn.PgError
		if !errors.As(err, &refused) {
			t.Fatalf("%s: %v", function, err)
		}
		detail := map[int64]string{
			17: `{"resource" : "bil\"ling/2026-10 🦀", "token" : 17, "fence" : 18}`,
			18: `{"resource" : "bil\"ling/2026-10 🦀", "token" : 18, "fence" : 18}`,
		}[token]
		got := []string{refused.Code, refused.ConstraintName, refused.ColumnName, refused.TableName, refused.Detail}
		if diff := cmp.Diff([]string{fence.SQLState, function, "token", "pawl_fences", detail}, got); diff != "" {
			t.Errorf("%s: %s", function, diff)
		}
		if !strings.Contains(refused.Message, "token 18 has passed") || refused.Hint == "" {
			t.Errorf("%s: %q, %q", function, refused.Message, refused.Hint)
		}
	}
}

// A refused transaction can't be committed, also when the refusal is overlooked, and what it wrote before is gone.
func TestStaleIsNeverCommitted(t *testing.T) {
	t.Parallel()
	db := fenced(t)
	run(t, db, `CREATE TABLE written (by bigint)`)
	run(t, db, `SELECT pawl_fence('r', 18)`)
	for name, check := range map[string]checkFunc{"check": fence.Check, "once": fence.CheckOnce} {
		tx := begin(t, db, pgx.ReadCommitted)
		if _, err := tx.Exec(t.Context(), `INSERT INTO written VALUES (17)`); err != nil {
			t.Fatal(err)
		}
		if err := check(t.Context(), tx, "r", 17); !errors.Is(err, fence.ErrStale) {
			t.Fatalf("%s: %v", name, err)
		}
		if _, err := tx.Exec(t.Context(), `INSERT INTO written VALUES (17)`); err == nil {
			t.Errorf("%s: the transaction goes on", name)
		}
		if err := tx.Commit(t.Context()); !errors.Is(err, pgx.ErrTxCommitRollback) {
			t.Errorf("%s: commit: %v", name, err)
		}
	}
	if n := query[int](t, db, `SELECT count(*) FROM written`); n != 0 {
		t.Errorf("%d rows were committed", n)
	}
	if at := query[int64](t, db, `SELECT token FROM pawl_fences`); at != 18 {
		t.Errorf("the fence is at %d", at)
	}
}

// A check that was never sent leaves no transaction behind that could be committed unchecked.
func TestUnsentCheckIsNeverCommitted(t *testing.T) {
	t.Parallel()
	db := fenced(t)
	run(t, db, `CREATE TABLE written (by bigint)`)
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	tx := begin(t, db, pgx.ReadCommitted)
	if _, err := tx.Exec(t.Context(), `INSERT INTO written VALUES (17)`); err != nil {
		t.Fatal(err)
	}
	if err := fence.Check(gone, tx, "r", 17); !errors.Is(err, context.Canceled) || errors.Is(err, fence.ErrStale) {
		t.Fatalf("got %v", err)
	}
	if err := tx.Commit(t.Context()); err == nil || query[int](t, db, `SELECT count(*) FROM written`) != 0 {
		t.Errorf("it was committed: %v", err)
	}
}

func TestWrongArguments(t *testing.T) {
	t.Parallel()
	db := fenced(t)
	for _, c := range []struct {
		resource string
		token    publish.Token
		kind     error
		says     string
	}{
		{"r", 0, publish.ErrInvalidToken, "token: must be an integer from 1 to 9007199254740991"},
		{"r", -1, publish.ErrInvalidToken, "it is -1"},
		{"r", -1 << 63, publish.ErrInvalidToken, "it is -9223372036854775808"},
		{"r", publish.MaxToken + 1, publish.ErrInvalidToken, "it is 9007199254740992"},
		{"", 1, publish.ErrInvalidRequest, "resource: must be 1 to 400 bytes"},
		{strings.Repeat("é", 200) + "x", 1, publish.ErrInvalidRequest, "it has 401"},
		{"a\x00b", 1, publish.ErrInvalidRequest, "resource: must be valid text"},
		{"a\xff", 1, publish.ErrInvalidRequest, "resource: must be valid text"},
		{"cafe\u0301", 1, publish.ErrInvalidRequest, "resource: must be in Unicode's form NFC"},
	} {
		for name, check := range map[string]checkFunc{"check": fence.Check, "once": fence.CheckOnce} {
			err := pgx.BeginFunc(t.Context(), db, func(tx pgx.Tx) error { return check(t.Context(), tx, c.resource, c.token) })
			if !errors.Is(err, c.kind) || errors.Is(err, fence.ErrStale) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%s(%q, %d): %v", name, c.resource, c.token, err)
			}
		}
	}
	for _, arguments := range []string{"NULL, 1", "'r', NULL"} {
		var refused *pgconn.PgError
		if _, err := db.Exec(t.Context(), `SELECT pawl_fence(`+arguments+`)`); !errors.As(err, &refused) || refused.Code != "22023" {
			t.Errorf("pawl_fence(%s): %v", arguments, err)
		}
	}
	if n := query[int](t, db, `SELECT count(*) FROM pawl_fences`); n != 0 {
		t.Errorf("%d fences were set", n)
	}
	// All 400 bytes and any characters are legal, and names that only look the same differ.
	for _, resource := range []string{strings.Repeat("é", 200), " ", "\n", "A", "a", "\u0430", "caf\u00e9"} {
		err := pgx.BeginFunc(t.Context(), db, func(tx pgx.Tx) error { return fence.CheckOnce(t.Context(), tx, resource, 1) })
		if err != nil {
			t.Errorf("%q: %v", resource, err)
		}
	}
}

func TestNotInstalled(t *testing.T) {
	t.Parallel()
	db := database(t)
	for _, schema := range []fence.Schema{"", "nowhere"} {
		err := pgx.BeginFunc(t.Context(), db, func(tx pgx.Tx) error { return schema.Check(t.Context(), tx, "r", 1) })
		if err == nil || errors.Is(err, fence.ErrStale) || !strings.Contains(err.Error(), "call fence.Install") {
			t.Errorf("%q: %v", schema, err)
		}
	}
}
