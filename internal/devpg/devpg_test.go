//go:build unix

package devpg_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"go.uber.org/goleak"

	"github.com/pawlhq/pawl/internal/devpg"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestStopAndStartKeepsRows(t *testing.T) {
	t.Parallel()
	dir := tempDir(t)
	s := start(t, devpg.Options{Dir: dir, Durable: true})
	exec(t, s, `CREATE TABLE kept (n int)`)
	exec(t, s, `INSERT INTO kept VALUES (52)`)
	pid := s.PID()
	if err := s.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("process %d is still there after Stop: %v", pid, err)
	}

	s = start(t, devpg.Options{Dir: dir, Durable: true})
	if n := queryInt(t, s, `SELECT n FROM kept`); n != 52 {
		t.Errorf("got %d, want 52", n)
	}
}

func TestKillAndRestartKeepsRows(t *testing.T) {
	t.Parallel()
	s := start(t, devpg.Options{Dir: tempDir(t)})
	exec(t, s, `CREATE TABLE kept (n int)`)
	// An open session makes it harder: it still holds the shared memory when the postmaster is gone.
	conn := connect(t, s)
	for n := range 20 {
		if _, err := conn.Exec(t.Context(), `INSERT INTO kept VALUES ($1)`, n); err != nil {
			t.Fatal(err)
		}
	}
	dsn, done := s.DSN("postgres"), s.Done()
	s.Kill()
	select {
	case <-done:
	default:
		t.Error("Done is open after Kill")
	}
	if err := s.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := queryInt(t, s, `SELECT count(*) FROM kept`); n != 20 {
		t.Errorf("%d rows after kill, want 20", n)
	}
	if got := s.DSN("postgres"); got != dsn {
		t.Errorf("DSN changed from %s to %s", dsn, got)
	}
}

// After a kill of the whole program, its lock is gone and postmaster.pid is left, perhaps with a number that
// some other process has got since.
func TestStartWithStalePID(t *testing.T) {
	t.Parallel()
	dir := tempDir(t)
	s := start(t, devpg.Options{Dir: dir})
	stop(t, s)
	file := filepath.Join(dir, "data", "postmaster.pid")
	for _, stale := range []string{"1\n", "2000000000\n"} {
		if err := os.WriteFile(file, []byte(stale), 0o644); err != nil { //nolint:gosec // PostgreSQL's account must read it.
			t.Fatal(err)
		}
		stop(t, start(t, devpg.Options{Dir: dir}))
	}
}

func TestSecondStartIsRefused(t *testing.T) {
	t.Parallel()
	dir := tempDir(t)
	s := start(t, devpg.Options{Dir: dir})
	_, err := devpg.Start(t.Context(), devpg.Options{Dir: dir})
	inUse, ok := errors.AsType[*devpg.InUseError](err)
	if !ok {
		t.Fatalf("got %v, want InUseError", err)
	}
	if inUse.PID != os.Getpid() {
		t.Errorf("the error names process %d, want %d", inUse.PID, os.Getpid())
	}
	if n := queryInt(t, s, `SELECT 1`); n != 1 {
		t.Error("the first server does not answer any more")
	}
}

// A server that some other program runs on the same data holds no lock of ours.
func TestStartBesideForeignServer(t *testing.T) {
	t.Parallel()
	dir := tempDir(t)
	s := start(t, devpg.Options{Dir: dir})
	// Another folder with the same data is the same situation.
	other := tempDir(t)
	if err := os.Symlink(filepath.Join(dir, "data"), filepath.Join(other, "data")); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	_, err := devpg.Start(ctx, devpg.Options{Dir: other})
	inUse, ok := errors.AsType[*devpg.InUseError](err)
	if !ok || inUse.PID != s.PID() {
		t.Fatalf("got %v, want InUseError with process %d", err, s.PID())
	}
}

func TestUnexpectedEndIsReported(t *testing.T) {
	t.Parallel()
	s := start(t, devpg.Options{Dir: tempDir(t)})
	if err := syscall.Kill(s.PID(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	select {
	case <-s.Done():
	case <-time.After(time.Minute):
		t.Fatal("Done is not closed")
	}
	if err := s.Err(); err == nil || !strings.Contains(err.Error(), "killed") {
		t.Errorf("Err says %v", err)
	}
}

func TestLongFolderName(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(tempDir(t), strings.Repeat("a,long name[", 8), "x")
	s := start(t, devpg.Options{Dir: dir})
	if strings.HasPrefix(s.Socket(), dir) {
		t.Errorf("socket path %s has %d bytes", s.Socket(), len(s.Socket()))
	}
	stop(t, s)
	if _, err := os.Stat(filepath.Dir(s.Socket())); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the socket's folder is left behind: %v", err)
	}
	// A short name with other special characters holds the socket itself.
	dir = filepath.Join(tempDir(t), `a b"[`)
	s = start(t, devpg.Options{Dir: dir})
	if want := filepath.Join(dir, "socket"); filepath.Dir(s.Socket()) != want {
		t.Errorf("socket is in %s, want %s", filepath.Dir(s.Socket()), want)
	}
}

func TestCreateDatabaseTwice(t *testing.T) {
	t.Parallel()
	s := start(t, devpg.Options{Dir: tempDir(t), User: "pawl"})
	for range 2 {
		if err := s.CreateDatabase(t.Context(), `Odd "name"`); err != nil {
			t.Fatal(err)
		}
	}
	conn, err := pgx.Connect(t.Context(), s.DSN(`Odd "name"`))
	if err != nil {
		t.Fatal(err)
	}
	_ = conn.Close(t.Context())
}

func tempDir(t *testing.T) string {
	t.Helper()
	dir, err := devpg.TempDir("pawl-devpg-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

func start(t *testing.T, opts devpg.Options) *devpg.Server {
	t.Helper()
	s, err := devpg.Start(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stop(t, s) })
	return s
}

func stop(t *testing.T, s *devpg.Server) {
	t.Helper()
	if err := s.Stop(context.WithoutCancel(t.Context())); err != nil {
		t.Error(err)
	}
}

func connect(t *testing.T, s *devpg.Server) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), s.DSN("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(context.WithoutCancel(t.Context())) })
	return conn
}

func exec(t *testing.T, s *devpg.Server, sql string) {
	t.Helper()
	if _, err := connect(t, s).Exec(t.Context(), sql); err != nil {
		t.Fatal(err)
	}
}

func queryInt(t *testing.T, s *devpg.Server, sql string) (n int) {
	t.Helper()
	if err := connect(t, s).QueryRow(t.Context(), sql).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}
