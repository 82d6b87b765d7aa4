//go:build unix

package testenv_test

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawlhq/pawl/internal/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

func TestDatabasesAreApart(t *testing.T) {
	t.Parallel()
	testFreshDatabases(t, testenv.Postgres)
}

func TestDockerPostgres(t *testing.T) {
	t.Parallel()
	testFreshDatabases(t, testenv.DockerPostgres)
}

func testFreshDatabases(t *testing.T, fresh func(testing.TB) string) {
	a, b := connect(t, fresh(t)), connect(t, fresh(t))
	if _, err := a.Exec(t.Context(), `CREATE TABLE only_here ()`); err != nil {
		t.Fatal(err)
	}
	var there bool
	if err := b.QueryRow(t.Context(), `SELECT to_regclass('only_here') IS NOT NULL`).Scan(&there); err != nil {
		t.Fatal(err)
	}
	if there {
		t.Error("two tests share a database")
	}
	// A copy of the template must not count as a restored backup.
	var same bool
	const current = `SELECT lineage = pawl.lineage() FROM pawl.epochs ORDER BY epoch DESC LIMIT 1`
	if err := b.QueryRow(t.Context(), current).Scan(&same); err != nil {
		t.Fatal(err)
	}
	if !same {
		t.Error("a fresh database looks restored")
	}
}

func TestStandbyIsPromoted(t *testing.T) {
	t.Parallel()
	primary := testenv.PrivatePostgres(t)
	execute(t, primary.DSN(), `CREATE TABLE kept AS SELECT 52 AS n`)
	standby := primary.Standby(t)
	standby.CatchUp(t)
	standby.Disconnect(t)
	execute(t, primary.DSN(), `INSERT INTO kept VALUES (1), (2)`)
	primary.Kill(t)
	standby.Promote(t)
	execute(t, standby.DSN(), `INSERT INTO kept VALUES (53)`)
	primary.Restart(t)
	for dsn, want := range map[string]int{standby.DSN(): 2, primary.DSN(): 3} {
		var rows int
		if err := connect(t, dsn).QueryRow(t.Context(), `SELECT count(*) FROM kept`).Scan(&rows); err != nil {
			t.Fatal(err)
		}
		if rows != want {
			t.Errorf("%d rows in %s, want %d", rows, dsn, want)
		}
	}
}

func execute(t *testing.T, dsn, sql string) {
	t.Helper()
	if _, err := connect(t, dsn).Exec(t.Context(), sql); err != nil {
		t.Fatal(err)
	}
}

func TestS3(t *testing.T) {
	t.Parallel()
	testBucket(t, testenv.S3Bucket(t))
}

func TestDockerS3(t *testing.T) {
	t.Parallel()
	testBucket(t, testenv.DockerS3(t))
}

// testBucket asks without credentials: the server must answer, and say no.
func testBucket(t *testing.T, s testenv.S3) {
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.Endpoint+"/"+s.Bucket, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusForbidden {
		t.Errorf("status %s, want 403", response.Status)
	}
}

func TestProxyLosesAnswer(t *testing.T) {
	t.Parallel()
	for _, fault := range []struct {
		name    string
		arm     func(*testenv.FaultProxy) <-chan struct{}
		applied int
	}{
		{"request never arrives", func(p *testenv.FaultProxy) <-chan struct{} { return p.CutRequest("commit") }, 0},
		{"answer is lost", func(p *testenv.FaultProxy) <-chan struct{} { return p.LoseAnswer("commit") }, 1},
	} {
		t.Run(fault.name, func(t *testing.T) {
			t.Parallel()
			direct := testenv.Postgres(t)
			proxy, dsn := testenv.PostgresProxy(t, direct)
			conn := connect(t, dsn)
			if _, err := conn.Exec(t.Context(), `CREATE TABLE n (n int)`); err != nil {
				t.Fatal(err)
			}
			tx, err := conn.Begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if _, err := tx.Exec(t.Context(), `INSERT INTO n VALUES ($1)`, 1); err != nil {
				t.Fatal(err)
			}
			happened := fault.arm(proxy)
			if err := tx.Commit(t.Context()); err == nil {
				t.Error("commit succeeded over a cut connection")
			}
			<-happened
			var rows int
			if err := connect(t, direct).QueryRow(t.Context(), `SELECT count(*) FROM n`).Scan(&rows); err != nil {
				t.Fatal(err)
			}
			if rows != fault.applied {
				t.Errorf("%d rows, want %d", rows, fault.applied)
			}
		})
	}
}

func TestProxyPauseAndRefuse(t *testing.T) {
	t.Parallel()
	proxy, dsn := testenv.PostgresProxy(t, testenv.Postgres(t))
	conn := connect(t, dsn)
	proxy.Pause()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := conn.Ping(ctx); err == nil {
		t.Error("an answer came through a paused proxy")
	}
	proxy.Resume()
	testenv.Eventually(t, 10*time.Second, func() error { return ping(t, dsn) })
	proxy.Refuse(true)
	if err := ping(t, dsn); err == nil {
		t.Error("a refusing proxy took a connection")
	}
	proxy.Refuse(false)
	if err := ping(t, dsn); err != nil {
		t.Error(err)
	}
}

func ping(t *testing.T, dsn string) error {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		return err
	}
	return errors.Join(conn.Ping(t.Context()), conn.Close(t.Context()))
}

func connect(t *testing.T, dsn string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(context.WithoutCancel(t.Context())) }) //nolint:errcheck // It may be cut already.
	return conn
}
