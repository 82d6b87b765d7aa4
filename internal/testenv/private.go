//go:build unix

package testenv

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawlhq/pawl/internal/devpg"
)

// PrivateServer is a Postgres server for one test, which may kill it, restart it and promote it. It has one
// migrated database.
type PrivateServer struct {
	server   *devpg.Server
	database string
	primary  *PrivateServer // nil unless this began as a standby
}

// PrivatePostgres starts a server for this test alone, which ends with the test. The settings (names and values
// in turn, as in postgresql.conf) override the usual ones.
func PrivatePostgres(t testing.TB, settings ...string) *PrivateServer {
	t.Helper()
	s := startPrivate(t, TempDir(t), settings)
	s.database = newName("t")
	if err := (&cluster{admin: s.server.DSN("postgres")}).copyTemplate(t.Context(), s.database); err != nil {
		t.Fatalf("fresh database: %v", err)
	}
	return s
}

func startPrivate(t testing.TB, dir string, settings []string) *PrivateServer {
	t.Helper()
	config := map[string]string{}
	for i := 0; i+1 < len(settings); i += 2 {
		config[settings[i]] = settings[i+1]
	}
	server, err := devpg.Start(t.Context(), devpg.Options{Dir: dir, ExtraConfig: config})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), setupTimeout)
		defer cancel()
		if err := server.Stop(ctx); err != nil {
			t.Error(err)
		}
	})
	return &PrivateServer{server: server}
}

// DSN names the migrated database. It stays the same over Restart.
func (s *PrivateServer) DSN() string { return s.server.DSN(s.database) }

// Kill ends the server with SIGKILL.
func (s *PrivateServer) Kill(t testing.TB) {
	t.Helper()
	s.server.Kill()
}

// Restart starts the server again on the same data; one that still runs is shut down first.
func (s *PrivateServer) Restart(t testing.TB) {
	t.Helper()
	if err := s.server.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// Standby starts a server that streams from this one, asynchronously, and answers reads.
func (s *PrivateServer) Standby(t testing.TB) *PrivateServer {
	t.Helper()
	dir := TempDir(t)
	if err := s.server.BaseBackup(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	standby := startPrivate(t, dir, nil)
	standby.database, standby.primary = s.database, s
	return standby
}

// CatchUp waits until this standby has replayed all that its primary has written so far.
func (s *PrivateServer) CatchUp(t testing.TB) {
	t.Helper()
	lsn := scanText(t, s.primary.DSN(), `SELECT pg_current_wal_lsn()::text`)
	Eventually(t, 30*time.Second, func() error {
		if scanText(t, s.DSN(), `SELECT (pg_last_wal_replay_lsn() >= '`+lsn+`')::text`) != "true" {
			return errors.New("the standby is behind")
		}
		return nil
	})
}

// Disconnect stops the stream from the primary to this standby, so that it falls behind, and returns when the
// stream has ended.
func (s *PrivateServer) Disconnect(t testing.TB) {
	t.Helper()
	// ALTER SYSTEM refuses to run in the transaction that two statements at once would be.
	execute(t, s.DSN(), `ALTER SYSTEM SET primary_conninfo = ''`)
	execute(t, s.DSN(), `SELECT pg_reload_conf()`)
	Eventually(t, 30*time.Second, func() error {
		if scanText(t, s.DSN(), `SELECT count(*)::text FROM pg_stat_wal_receiver`) != "0" {
			return errors.New("the standby still streams")
		}
		return nil
	})
}

// Promote makes a standby a primary, on a new timeline, and returns when it takes writes.
func (s *PrivateServer) Promote(t testing.TB) {
	t.Helper()
	if scanText(t, s.DSN(), `SELECT pg_promote(wait => true, wait_seconds => 60)::text`) != "true" {
		t.Fatal("the standby did not become a primary within 60 s")
	}
}

// PostgresProgram returns the path of a PostgreSQL program such as pg_dump.
func PostgresProgram(t testing.TB, name string) string {
	t.Helper()
	path, err := devpg.Program(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func execute(t testing.TB, dsn, sql string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.WithoutCancel(t.Context())) //nolint:errcheck // The statement was answered.
	if _, err := conn.Exec(t.Context(), sql); err != nil {
		t.Fatal(err)
	}
}

func scanText(t testing.TB, dsn, sql string) (text string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.WithoutCancel(t.Context())) //nolint:errcheck // The statement was answered.
	if err := conn.QueryRow(t.Context(), sql).Scan(&text); err != nil {
		t.Fatal(err)
	}
	return text
}
