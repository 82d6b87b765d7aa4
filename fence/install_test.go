package fence_test

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pawlhq/pawl/fence"
	"github.com/pawlhq/pawl/internal/testenv"
	"github.com/pawlhq/pawl/publish"
)

// Workers that all start at once install the fence at once, again and again, and use it right away.
func TestInstallAtOnce(t *testing.T) {
	t.Parallel()
	db := database(t)
	const workers, rounds = 12, 8
	for range rounds {
		run(t, db, `DROP TABLE IF EXISTS pawl_fences`)
		run(t, db, `DROP FUNCTION IF EXISTS pawl_fence, pawl_fence_once`)
		ready, errs := make(chan struct{}), make(chan error, workers)
		for n := range workers {
			go func() {
				conn, err := pgx.ConnectConfig(context.WithoutCancel(t.Context()), db.Config().ConnConfig)
				<-ready
				if err != nil {
					errs <- err
					return
				}
				err = fence.Install(t.Context(), conn)
				if err == nil {
					err = pgx.BeginFunc(t.Context(), conn, func(tx pgx.Tx) error {
						return fence.Check(t.Context(), tx, strings.Repeat("r", n+1), 1)
					})
				}
				errs <- errors.Join(err, conn.Close(context.WithoutCancel(t.Context())))
			}()
		}
		close(ready)
		for range workers {
			if err := <-errs; err != nil {
				t.Error(err)
			}
		}
		if n := query[int](t, db, `SELECT count(*) FROM pawl_fences`); n != workers {
			t.Fatalf("%d fences of %d", n, workers)
		}
	}
}

// A fence that is there keeps its rows and needs no rights of the one who installs it again; a newer version isn't replaced.
func TestInstallAgain(t *testing.T) {
	t.Parallel()
	db := fenced(t)
	run(t, db, `SELECT pawl_fence('r', 7)`)
	role := "worker_" + query[string](t, db, `SELECT current_database()`)
	run(t, db, `CREATE ROLE `+role)
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		if _, err := db.Exec(ctx, `DROP OWNED BY `+role+`; DROP ROLE `+role); err != nil {
			t.Error(err)
		}
	})
	run(t, db, `GRANT SELECT, INSERT, UPDATE ON pawl_fences TO `+role)
	tx := begin(t, db, pgx.ReadCommitted)
	if _, err := tx.Exec(t.Context(), `SET LOCAL ROLE `+role); err != nil {
		t.Fatal(err)
	}
	if err := fence.Install(t.Context(), tx); err != nil {
		t.Fatalf("by a role that owns nothing: %v", err)
	}
	wantStale(t, fence.Check(t.Context(), tx, "r", 6), &fence.StaleError{Resource: "r", Token: 6, Fence: 7})
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}

	run(t, db, `COMMENT ON FUNCTION pawl_fence IS 'Fencing tokens of Pawl, version 1'`)
	tx = begin(t, db, pgx.ReadCommitted)
	if _, err := tx.Exec(t.Context(), `SET LOCAL ROLE `+role); err != nil {
		t.Fatal(err)
	}
	if err := fence.Install(t.Context(), tx); err != nil {
		t.Errorf("an older version, by a role that owns nothing: %v", err)
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}

	const version = `SELECT obj_description('pawl_fence(text, bigint, boolean)'::regprocedure)`
	run(t, db, `COMMENT ON FUNCTION pawl_fence IS 'Fencing tokens of Pawl, version 1000'`)
	if err := fence.Install(t.Context(), db); err != nil {
		t.Fatal(err)
	}
	if got := query[string](t, db, version); !strings.HasSuffix(got, "version 1000") {
		t.Errorf("a newer version was replaced: %s", got)
	}
	run(t, db, `COMMENT ON FUNCTION pawl_fence IS 'Fencing tokens of Pawl, version 0'`)
	if err := fence.Install(t.Context(), db); err != nil {
		t.Fatal(err)
	}
	if got := query[string](t, db, version); !strings.HasSuffix(got, "version 2") {
		t.Errorf("an older version was left: %s", got)
	}
	if at := query[int64](t, db, `SELECT token FROM pawl_fences`); at != 7 {
		t.Errorf("the fence is at %d", at)
	}
}

// A named schema, the search_path's, and one that is missing. The functions find their own table, whatever their caller's search_path
// is, and Install leaves the search_path of a caller's transaction as it was.
func TestInstallInSchema(t *testing.T) {
	t.Parallel()
	db := database(t)
	run(t, db, `CREATE SCHEMA "Bill ""ing"`)
	run(t, db, `CREATE SCHEMA other`)
	named := fence.Schema(`Bill "ing`)
	tx := begin(t, db, pgx.ReadCommitted)
	if _, err := tx.Exec(t.Context(), `SET LOCAL search_path = other, public`); err != nil {
		t.Fatal(err)
	}
	for _, schema := range []fence.Schema{named, ""} {
		if err := schema.Install(t.Context(), tx); err != nil {
			t.Fatal(err)
		}
	}
	var path string
	if err := tx.QueryRow(t.Context(), `SHOW search_path`).Scan(&path); err != nil || path != "other, public" {
		t.Errorf("search_path is %q, %v", path, err)
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}

	for schema, token := range map[fence.Schema]publish.Token{named: 5, "other": 6} {
		err := pgx.BeginFunc(t.Context(), db, func(tx pgx.Tx) error {
			if _, err := tx.Exec(t.Context(), `CREATE TEMP TABLE pawl_fences (no int) ON COMMIT DROP`); err != nil {
				return err
			}
			if err := schema.Check(t.Context(), tx, "r", token-1); err != nil {
				return err
			}
			return schema.CheckOnce(t.Context(), tx, "r", token)
		})
		if err != nil {
			t.Fatalf("%s: %v", schema, err)
		}
		sql := `SELECT token FROM ` + pgx.Identifier{string(schema), "pawl_fences"}.Sanitize()
		if got := query[publish.Token](t, db, sql); got != token {
			t.Errorf("%s: the fence is at %d", schema, got)
		}
	}
	var refused *pgconn.PgError
	if err := fence.Schema("nowhere").Install(t.Context(), db); !errors.As(err, &refused) || refused.Code != "3F000" || refused.Hint == "" {
		t.Errorf("a missing schema: %v", err)
	}
}

// A role whose search_path begins with a schema of its own finds the fence that is there, and makes no second one that would let stale
// tokens pass. It is brought up to date by its owner only. A function of that name that isn't ours is no fence.
func TestInstallFindsTheFence(t *testing.T) {
	t.Parallel()
	db := database(t)
	run(t, db, `CREATE SCHEMA mine`)
	run(t, db, `CREATE SCHEMA "The ""fences"`)
	run(t, db, `CREATE FUNCTION public.pawl_fence(text, bigint, boolean) RETURNS void LANGUAGE sql AS ''`)
	install := func(tx pgx.Tx, path string) error {
		if _, err := tx.Exec(t.Context(), `SET LOCAL search_path = `+path); err != nil {
			return err
		}
		return fence.Install(t.Context(), tx)
	}
	const first, second = `"The ""fences", public`, `mine, "The ""fences", public`
	err := pgx.BeginFunc(t.Context(), db, func(tx pgx.Tx) error {
		return errors.Join(install(tx, first), fence.Check(t.Context(), tx, "two", 18))
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, version := range []int{0, 2} { // An older one is replaced where it is.
		run(t, db, fmt.Sprintf(`COMMENT ON FUNCTION "The ""fences".pawl_fence IS 'Fencing tokens of Pawl, version %d'`, version))
		tx := begin(t, db, pgx.ReadCommitted)
		if err := install(tx, second); err != nil {
			t.Fatal(err)
		}
		wantStale(t, fence.Check(t.Context(), tx, "two", 17), &fence.StaleError{Resource: "two", Token: 17, Fence: 18})
	}
	if err := pgx.BeginFunc(t.Context(), db, func(tx pgx.Tx) error { return install(tx, second) }); err != nil {
		t.Fatal(err)
	}
	const where = `SELECT string_agg(relnamespace::regnamespace::text, ',') FROM pg_class WHERE relname = 'pawl_fences'`
	if got := query[string](t, db, where); got != `"The ""fences"` {
		t.Errorf("fences are in %s", got)
	}
	// Who names a schema means that one.
	if err := fence.Schema("mine").Install(t.Context(), db); err != nil {
		t.Fatal(err)
	}
	if n := query[int](t, db, `SELECT count(*) FROM pg_class WHERE relname = 'pawl_fences'`); n != 2 {
		t.Errorf("%d fences", n)
	}
}

// psql takes the file as it is, twice.
func TestInstallByPsql(t *testing.T) {
	t.Parallel()
	dsn := testenv.Postgres(t)
	for range 2 {
		cmd := command(t, "psql", "--no-psqlrc", "-v", "ON_ERROR_STOP=1", "-d", dsn, "-f", "fence.sql",
			"-c", `SELECT pawl_fence('r', 7), pawl_fence('r', 7)`)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	out, err := command(t, "psql", "--no-psqlrc", "-v", "VERBOSITY=verbose", "-d", dsn, "-c", `SELECT pawl_fence_once('r', 7)`).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "PWF01") {
		t.Errorf("%v\n%s", err, out)
	}
}

// A database of another encoding, which knows no normal forms, is fenced all the same.
func TestInstallInOtherEncoding(t *testing.T) {
	t.Parallel()
	db := database(t)
	config := db.Config().ConnConfig
	config.Database += "_latin1"
	name := pgx.Identifier{config.Database}.Sanitize()
	if _, err := db.Exec(t.Context(), `CREATE DATABASE `+name+` ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0`); err != nil {
		t.Fatal(err)
	}
	conn, err := pgx.ConnectConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		if err := conn.Close(ctx); err != nil {
			t.Error(err)
		}
		if _, err := db.Exec(ctx, `DROP DATABASE `+name); err != nil {
			t.Error(err)
		}
	})
	check := func(token publish.Token) error {
		return pgx.BeginFunc(t.Context(), conn, func(tx pgx.Tx) error { return fence.Check(t.Context(), tx, "caf\u00e9", token) })
	}
	if err := errors.Join(fence.Install(t.Context(), conn), check(18)); err != nil {
		t.Fatal(err)
	}
	wantStale(t, check(17), &fence.StaleError{Resource: "caf\u00e9", Token: 17, Fence: 18})
}

func command(t *testing.T, name string, args ...string) *exec.Cmd {
	t.Helper()
	return exec.CommandContext(t.Context(), name, args...)
}
