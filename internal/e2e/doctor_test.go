package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/pawlhq/pawl/internal/testenv"
)

// doctorOf runs pawl doctor on a database and returns its findings by name, "level: seen — cure".
func doctorOf(t *testing.T, wantExit int, dsn string, args ...string) map[string]string {
	t.Helper()
	p := start(t, []string{"PAWL_DATABASE_URL=" + dsn, "PAWL_BLOBS=" + directory(t)}, binary(t), append([]string{"doctor", "--json"}, args...)...)
	if code := p.exit(); code != wantExit {
		t.Errorf("it ended with %d, want %d: %s", code, wantExit, p.errs.String())
	}
	var report struct {
		Findings []struct{ Name, Level, Seen, Cure string }
	}
	if err := json.Unmarshal([]byte(p.out.String()), &report); err != nil {
		t.Fatalf("%v: %s", err, p.out.String())
	}
	found := map[string]string{}
	for _, f := range report.Findings {
		if before, more := found[f.Name]; more {
			f.Cure += "; " + before
		}
		found[f.Name] = f.Level + ": " + f.Seen + " — " + f.Cure
	}
	return found
}

// The doctor looks at Postgres itself, and serve refuses one that may lose commits when that is wished.
func TestDoctorPostgres(t *testing.T) {
	t.Parallel()
	primary := testenv.PrivatePostgres(t, "fsync", "off")
	found := doctorOf(t, 0, primary.DSN())
	for name, want := range map[string]string{
		"postgres version": "ok:", "postgres role": "ok: a primary", "postgres encoding": "ok: UTF8", "postgres lineage": "ok:", "postgres clock": "ok:",
		"postgres pooler": "ok: none", "postgres commits": "warn: fsync is off",
		"postgres audit": "note: Pawl's role has the rights of the table's owner",
	} {
		if !strings.Contains(found[name], want) {
			t.Errorf("%s is %q, want %q", name, found[name], want)
		}
	}
	s := launch(t, primary.DSN(), directory(t), "PAWL_REQUIRE_SYNCHRONOUS=true")
	if code := s.exit(); code != 78 || !strings.Contains(s.errs.String(), "fsync is off") || !strings.Contains(s.errs.String(), "set fsync = on") {
		t.Errorf("serve ended with %d: %s", code, s.errs.String())
	}
	standby := primary.Standby(t)
	standby.CatchUp(t)
	collect := start(t, []string{"PAWL_DATABASE_URL=" + standby.DSN(), "PAWL_BLOBS=" + directory(t)}, binary(t), "collect")
	if code := collect.exit(); code != 69 || !strings.Contains(collect.errs.String(), "as a standby doesn't") || strings.Contains(collect.errs.String(), "blob store can't") {
		t.Errorf("collect on a standby ends with %d: %s", code, collect.errs.String())
	}
	if found := doctorOf(t, 78, standby.DSN()); !strings.HasPrefix(found["postgres role"], "fail: a standby") || !strings.Contains(found["postgres role"], "PAWL_DATABASE_URL") {
		t.Errorf("the role of a standby is %q", found["postgres role"])
	}
}

// A role without any rights but to its own database is enough, as on managed services. Where such a role may not read the system identifier, the doctor says
// what to grant.
func TestDoctorPlainRole(t *testing.T) {
	t.Parallel()
	admin := testenv.PrivatePostgres(t).DSN()
	execSQL(t, admin, `CREATE ROLE plain LOGIN`)
	execSQL(t, admin, `CREATE DATABASE plain OWNER plain`)
	u, err := url.Parse(admin)
	if err != nil {
		t.Fatal(err)
	}
	query := u.Query()
	query.Set("user", "plain")
	u.Path, u.RawQuery = "/plain", query.Encode()
	blobs := directory(t)
	s := serve(t, u.String(), blobs)
	s.ship("k", "W", "made by a plain role")
	if found := doctorOf(t, 0, u.String(), "--blobs", blobs); !strings.HasPrefix(found["postgres lineage"], "ok:") {
		t.Errorf("the lineage is %q", found["postgres lineage"])
	}
	superuser, err := url.Parse(admin)
	if err != nil {
		t.Fatal(err)
	}
	superuser.Path = "/plain"
	execSQL(t, superuser.String(), `REVOKE EXECUTE ON FUNCTION pg_control_system() FROM PUBLIC`)
	if found := doctorOf(t, 78, u.String(), "--blobs", blobs); !strings.HasPrefix(found["postgres lineage"], "fail:") || !strings.Contains(found["postgres lineage"], "GRANT EXECUTE") {
		t.Errorf("the lineage is %q", found["postgres lineage"])
	}
}

// Poolers of both kinds are told apart.
func TestDoctorPooler(t *testing.T) {
	t.Parallel()
	dsn := testenv.PrivatePostgres(t).DSN()
	for mode, want := range map[string]string{"session": "ok: a pooler that keeps sessions", "transaction": "warn: a pooler shares sessions"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			// What PgBouncer of before 1.21 can't share between transactions are prepared statements.
			through := pgbouncer(t, dsn, mode) + "?default_query_exec_mode=exec"
			if found := doctorOf(t, 0, through); !strings.HasPrefix(found["postgres pooler"], want) {
				t.Errorf("the pooler is %q, want %q", found["postgres pooler"], want)
			}
		})
	}
}

// pgbouncer starts a pooler of its own before a database and returns its address.
func pgbouncer(t *testing.T, dsn, mode string) string {
	t.Helper()
	program, err := exec.LookPath("pgbouncer")
	if err != nil {
		program = "/usr/sbin/pgbouncer" // Debian keeps it out of the PATH of users.
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := listener.Addr().(*net.TCPAddr)
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	query := u.Query()
	runAs := ""
	if os.Geteuid() == 0 {
		// It refuses to be root. The server's user can reach its socket.
		info, err := os.Stat(query.Get("host"))
		if err != nil {
			t.Fatal(err)
		}
		owner, err := user.LookupId(fmt.Sprint(info.Sys().(*syscall.Stat_t).Uid))
		if err != nil {
			t.Fatal(err)
		}
		runAs = "user = " + owner.Username
	}
	dir := testenv.TempDir(t)
	config := filepath.Join(dir, "pgbouncer.ini")
	text := fmt.Sprintf("[databases]\n* = host=%s port=%s user=%s\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = %d\nunix_socket_dir =\nauth_type = any\npool_mode = %s\n%s\n",
		query.Get("host"), query.Get("port"), query.Get("user"), addr.Port, mode, runAs)
	if err := os.WriteFile(config, []byte(text), 0o644); err != nil { //nolint:gosec // The user that it runs as reads it.
		t.Fatal(err)
	}
	p := start(t, nil, program, config)
	testenv.Eventually(t, patience, func() error {
		select {
		case <-p.done:
			return errors.Join(errors.New("pgbouncer ended"), p.err)
		default:
		}
		conn, err := net.Dial("tcp", addr.String())
		if err != nil {
			return err
		}
		return conn.Close()
	})
	return fmt.Sprintf("postgres://%s@%s%s", query.Get("user"), addr, u.Path)
}
