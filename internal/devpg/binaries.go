//go:build unix

package devpg

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// MinVersion is the oldest major version of PostgreSQL that Pawl works with.
const MinVersion = 14

// ErrNotInstalled tells that no usable PostgreSQL was found. Its text says how to get one.
var ErrNotInstalled = errors.New(notInstalled(runtime.GOOS))

func notInstalled(goos string) string {
	install := "`apt-get install postgresql` (Debian, Ubuntu) or `dnf install postgresql-server` (Fedora)"
	if goos == "darwin" {
		install = "`brew install postgresql@16`"
	}
	return fmt.Sprintf("no PostgreSQL server (version %d or later) found on this machine: install it with %s, "+
		"or set PAWL_DATABASE_URL to a server that already runs", MinVersion, install)
}

// VersionError tells that a data folder belongs to another major version of PostgreSQL than any that is
// installed. The folder is left as it is.
type VersionError struct {
	Dir       string   // the data folder
	Data      string   // the version that initialised it, such as "16"
	Installed []string // the major versions found on this machine
}

// Error says what to do about it.
func (e *VersionError) Error() string {
	return fmt.Sprintf("%s was initialised by PostgreSQL %s, but this machine has PostgreSQL %s: "+
		"install PostgreSQL %s again, or dump and restore the data, or move the folder away to start with an empty one",
		e.Dir, e.Data, strings.Join(e.Installed, ", "), e.Data)
}

// binaries is one installed PostgreSQL.
type binaries struct {
	dir   string
	major int
}

// command prepares one of the PostgreSQL programs, to be run by account as.
func (b binaries) command(ctx context.Context, as account, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, filepath.Join(b.dir, name), args...)
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: as.credential()}
	cmd.Env = []string{"LC_ALL=C", "PATH=" + os.Getenv("PATH")}
	for _, name := range []string{"TZ", "TMPDIR", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH"} {
		if value, ok := os.LookupEnv(name); ok {
			cmd.Env = append(cmd.Env, name+"="+value)
		}
	}
	return cmd
}

// chooseBinaries returns the installed PostgreSQL that fits the data folder, or the first choice for a new one.
func chooseBinaries(ctx context.Context, data string) (binaries, error) {
	found := findBinaries(ctx)
	if len(found) == 0 {
		return binaries{}, ErrNotInstalled
	}
	version, err := os.ReadFile(filepath.Join(data, "PG_VERSION"))
	if errors.Is(err, os.ErrNotExist) {
		return found[0], nil
	}
	if err != nil {
		return binaries{}, fmt.Errorf("postgres data folder: %w", err)
	}
	want := strings.TrimSpace(string(version))
	var installed []string
	for _, b := range found {
		if strconv.Itoa(b.major) == want {
			return b, nil
		}
		installed = append(installed, strconv.Itoa(b.major))
	}
	return binaries{}, &VersionError{Dir: data, Data: want, Installed: slices.Compact(installed)}
}

// Program returns the path of a PostgreSQL program such as pg_dump, of the version that Start prefers.
func Program(ctx context.Context, name string) (string, error) {
	found := findBinaries(ctx)
	if len(found) == 0 {
		return "", ErrNotInstalled
	}
	path := filepath.Join(found[0].dir, name)
	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("find PostgreSQL program: %w", err)
	}
	return path, nil
}

// findBinaries lists what is installed: what pg_config names, then Debian's folders with the newest first, then
// what is in PATH.
func findBinaries(ctx context.Context) []binaries {
	var dirs []string
	if out, err := exec.CommandContext(ctx, "pg_config", "--bindir").Output(); err == nil {
		dirs = append(dirs, strings.TrimSpace(string(out)))
	}
	debian, _ := filepath.Glob("/usr/lib/postgresql/*/bin") //nolint:errcheck // The pattern is valid.
	slices.SortFunc(debian, func(a, b string) int { return cmp.Compare(debianMajor(b), debianMajor(a)) })
	dirs = append(dirs, debian...)
	if path, err := exec.LookPath("postgres"); err == nil {
		if target, err := filepath.EvalSymlinks(path); err == nil {
			dirs = append(dirs, filepath.Dir(target))
		}
	}

	var found []binaries
	for _, dir := range dirs {
		if slices.ContainsFunc(found, func(b binaries) bool { return b.dir == dir }) {
			continue
		}
		if major, ok := serverMajor(ctx, dir); ok && major >= MinVersion {
			found = append(found, binaries{dir: dir, major: major})
		}
	}
	return found
}

func debianMajor(bin string) int {
	major, _ := strconv.Atoi(filepath.Base(filepath.Dir(bin))) //nolint:errcheck // Old names such as 9.6 sort last.
	return major
}

// serverMajor asks the server in dir for its version. It is not ok if dir lacks the server or initdb: pg_config,
// for one, may belong to the client library alone.
func serverMajor(ctx context.Context, dir string) (major int, ok bool) {
	if _, err := os.Stat(filepath.Join(dir, "initdb")); err != nil {
		return 0, false
	}
	out, err := exec.CommandContext(ctx, filepath.Join(dir, "postgres"), "--version").Output()
	if err != nil {
		return 0, false
	}
	// For example: postgres (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1), or 17beta1.
	_, version, found := strings.Cut(string(out), "(PostgreSQL) ")
	if !found {
		return 0, false
	}
	end := strings.IndexFunc(version, func(r rune) bool { return r < '0' || r > '9' })
	major, err = strconv.Atoi(version[:max(end, 0)])
	return major, err == nil
}
