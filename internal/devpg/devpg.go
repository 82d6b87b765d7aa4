//go:build unix

// Package devpg runs a private PostgreSQL server as a child of this program, from the machine's own binaries.
//
// `pawl dev` and the tests use it. The server listens on a Unix socket alone, in a folder that nobody else can
// enter, and stops with the program. The data folder may be kept: the next Start continues with it, also after
// the program or the machine died, and never initialises it a second time.
package devpg

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawlhq/pawl/internal/devpg/child"
)

// Options says how to run a server.
type Options struct {
	// Dir is the server's folder. It is made when missing. Start owns all of it: the database cluster is in
	// Dir/data, the socket in Dir/socket.
	Dir string

	// Durable makes commits survive a crash of the machine (fsync). Without it they survive a crash of the
	// server process only, which is enough for tests and several times faster.
	Durable bool

	// Log receives what the server writes to its log. Nil discards it; errors from Start quote its end anyway.
	Log io.Writer

	// User is the database superuser that DSN names: "postgres" when empty. It is fixed when Dir is first used.
	User string

	// ExtraConfig holds server settings (postgresql.conf names) that override those of this package.
	ExtraConfig map[string]string
}

// Server is a running server. Its methods may be called from several goroutines, except that Kill, Restart and
// Stop must not overlap.
type Server struct {
	opts   Options
	data   string // Dir/data
	socket string // folder of the socket
	bin    binaries
	as     account
	lock   *os.File

	removeSocket bool // socket is a folder of our own outside of Dir

	mu      sync.Mutex
	process *child.Process
	log     *tail
	stopped bool
}

// port is part of the socket's name only; the server opens no TCP port.
const port = "5432"

// startTimeout bounds Start when its context has no deadline. Crash recovery of a development database takes
// a second or two.
const startTimeout = 60 * time.Second

// stopGrace is how long each of the ever ruder ways to stop a server may take.
const stopGrace = 10 * time.Second

// Start starts a server on opts.Dir, which it initialises when it is new, and returns when the server answers.
// The server outlives ctx; end it with Stop. Errors are ErrNotInstalled, InUseError, VersionError and
// FolderError, possibly wrapped, or describe what failed in PostgreSQL's own words.
func Start(ctx context.Context, opts Options) (_ *Server, err error) {
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, startTimeout)
		defer cancel()
	}
	if opts.User == "" {
		opts.User = "postgres"
	}
	if opts.Dir, err = filepath.Abs(opts.Dir); err != nil {
		return nil, fmt.Errorf("postgres folder: %w", err)
	}

	s := &Server{opts: opts, data: filepath.Join(opts.Dir, "data"), as: currentAccount()}
	if s.bin, err = chooseBinaries(ctx, s.data); err != nil {
		return nil, err
	}
	if err := makeFolder(opts.Dir, s.as); err != nil {
		return nil, err
	}
	if s.lock, err = lockFolder(opts.Dir); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.release())
		}
	}()
	if err := checkReachable(ctx, s.bin, opts.Dir, s.as); err != nil {
		return nil, err
	}
	if err := s.initialise(ctx); err != nil {
		return nil, err
	}
	if err := s.placeSocket(); err != nil {
		return nil, err
	}
	if err := s.launch(ctx); err != nil {
		return nil, err
	}
	return s, nil
}

// DSN returns the connection URL of a database of this server. It stays the same over Restart.
func (s *Server) DSN(database string) string {
	query := url.Values{"host": {s.socket}, "port": {port}, "user": {s.opts.User}}.Encode()
	// libpq and pgx take a plus sign literally; net/url writes it for a space.
	query = strings.ReplaceAll(query, "+", "%20")
	return (&url.URL{Scheme: "postgres", Path: "/" + database, RawQuery: query}).String()
}

// Socket returns the path of the server's Unix socket.
func (s *Server) Socket() string { return filepath.Join(s.socket, ".s.PGSQL."+port) }

// PID returns the process id of the postmaster.
func (s *Server) PID() int { return s.current().PID() }

// Done is closed when the postmaster has ended: unexpectedly, if nobody called Stop or Kill. After a Restart
// it must be asked for anew.
func (s *Server) Done() <-chan struct{} { return s.current().Done() }

// Err waits for the end of the postmaster and returns how it ended, with the end of its log.
func (s *Server) Err() error {
	s.mu.Lock()
	process, log := s.process, s.log
	s.mu.Unlock()
	if err := process.Err(); err != nil {
		return fmt.Errorf("postgres ended: %w\n%s", err, log)
	}
	return errors.New("postgres ended")
}

// BaseBackup copies the running server into dir, a new folder that can then be the Options.Dir of a standby that
// streams from this server.
func (s *Server) BaseBackup(ctx context.Context, dir string) error {
	if err := makeFolder(dir, s.as); err != nil {
		return err
	}
	cmd := s.bin.command(ctx, s.as, "pg_basebackup", "--pgdata", filepath.Join(dir, "data"), "--write-recovery-conf",
		"--wal-method=stream", "--checkpoint=fast", "--no-sync", "--host", s.socket, "--port", port,
		"--username", s.opts.User, "--no-password")
	var output tail
	cmd.Stdout, cmd.Stderr = &output, &output
	if err := child.Run(cmd); err != nil {
		return fmt.Errorf("pg_basebackup: %w\n%s", err, &output)
	}
	return nil
}

// CreateDatabase makes an empty database. One that is there already is left as it is.
func (s *Server) CreateDatabase(ctx context.Context, name string) error {
	conn, err := pgx.Connect(ctx, s.DSN("postgres"))
	if err != nil {
		return fmt.Errorf("create database %s: %w", name, err)
	}
	defer conn.Close(context.WithoutCancel(ctx)) //nolint:errcheck // Each statement was answered.
	var exists bool
	const find = `SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)`
	if err := conn.QueryRow(ctx, find, name).Scan(&exists); err != nil {
		return fmt.Errorf("create database %s: %w", name, err)
	}
	if exists {
		return nil
	}
	if _, err := conn.Exec(ctx, `CREATE DATABASE `+pgx.Identifier{name}.Sanitize()); err != nil {
		return fmt.Errorf("create database %s: %w", name, err)
	}
	return nil
}

// Stop ends the server: connections are closed, the data is written out. If that takes longer than ten seconds,
// or ctx ends, the server is ended as by a crash; durable data is safe then as well. Stop returns when no
// process is left. Further calls do nothing.
func (s *Server) Stop(ctx context.Context) error {
	s.mu.Lock()
	process, again := s.process, s.stopped
	s.stopped = true
	s.mu.Unlock()
	if again {
		return nil
	}
	process.Stop(ctx, stopGrace, syscall.SIGINT, syscall.SIGQUIT)
	return s.release()
}

// Kill ends the postmaster with SIGKILL, as a crash would, and returns when it is gone. Tests use it.
func (s *Server) Kill() {
	process := s.current()
	process.Signal(syscall.SIGKILL)
	<-process.Done()
}

// Restart starts the server again on the same data and the same socket, after Kill or an unexpected end. A
// server that still runs is first shut down.
func (s *Server) Restart(ctx context.Context) error {
	s.current().Stop(ctx, stopGrace, syscall.SIGINT, syscall.SIGQUIT)
	return s.launch(ctx)
}

func (s *Server) current() *child.Process {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.process
}

// release gives back what Start took, apart from the process.
func (s *Server) release() error {
	if s.removeSocket {
		if err := os.RemoveAll(s.socket); err != nil {
			return fmt.Errorf("remove socket folder: %w", err)
		}
	}
	return s.lock.Close()
}

// tail keeps the end of a log, and passes all of it on.
type tail struct {
	mu   sync.Mutex
	last []byte
	next io.Writer
}

const tailBytes = 4 << 10

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.last = append(t.last, p...)
	if over := len(t.last) - tailBytes; over > 0 {
		t.last = append(t.last[:0], t.last[over:]...)
	}
	if t.next != nil {
		_, _ = t.next.Write(p) //nolint:errcheck // A log that can't be written must not stop the database.
	}
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.TrimSpace(string(t.last))
}
