//go:build unix

package devpg

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawlhq/pawl/internal/devpg/child"
)

// pollInterval is how often a starting server is asked whether it answers.
const pollInterval = 5 * time.Millisecond

// launch starts the postmaster and waits until it answers.
func (s *Server) launch(ctx context.Context) error {
	for {
		if err := clearStalePID(ctx, s.data); err != nil {
			return err
		}
		err := s.tryLaunch(ctx)
		// The sessions of a killed postmaster need a moment to notice; until then they hold the old shared
		// memory, and PostgreSQL rightly refuses to start beside them.
		if err == nil || !strings.Contains(err.Error(), "is still in use") {
			return err
		}
		select {
		case <-time.After(10 * pollInterval):
		case <-ctx.Done():
			return err
		}
	}
}

func (s *Server) tryLaunch(ctx context.Context) error {
	log := &tail{next: s.opts.Log}
	// The server must outlive ctx, so the command has no context.
	cmd := s.bin.command(context.Background(), s.as, "postgres", s.args()...)
	cmd.Dir = s.data
	cmd.Stdout, cmd.Stderr = log, log
	process, err := child.Start(cmd, syscall.SIGQUIT)
	if err != nil {
		return fmt.Errorf("start postgres: %w", err)
	}
	s.mu.Lock()
	s.process, s.log = process, log
	s.mu.Unlock()

	if err := s.awaitAnswer(ctx, process); err != nil {
		process.Stop(ctx, stopGrace, syscall.SIGQUIT)
		return fmt.Errorf("start postgres in %s: %w\n%s", s.opts.Dir, err, log)
	}
	return nil
}

func (s *Server) awaitAnswer(ctx context.Context, process *child.Process) error {
	for {
		conn, err := pgx.Connect(ctx, s.DSN("postgres"))
		if err == nil {
			return conn.Close(ctx)
		}
		select {
		case <-process.Done():
			return errors.New("it ended at once")
		case <-ctx.Done():
			return fmt.Errorf("no answer: %w: %w", ctx.Err(), err)
		case <-time.After(pollInterval):
		}
	}
}

func (s *Server) args() []string {
	config := map[string]string{
		"listen_addresses": "",
		// The value is a list; quotes keep commas and spaces of the path together.
		"unix_socket_directories": `"` + strings.ReplaceAll(s.socket, `"`, `""`) + `"`,
		"unix_socket_permissions": "0700",
		"port":                    port,
		"max_connections":         "200",
		"log_min_messages":        "warning",
		"logging_collector":       "off",
		"jit":                     "off", // Pawl's statements are short; compiling them costs more than it saves.
	}
	if !s.opts.Durable {
		config["fsync"] = "off"
		config["full_page_writes"] = "off"
		// synchronous_commit stays on: without it a killed server loses commits it has acknowledged.
	}
	maps.Copy(config, s.opts.ExtraConfig)
	args := []string{"-D", s.data}
	for _, name := range slices.Sorted(maps.Keys(config)) {
		args = append(args, "-c", name+"="+config[name])
	}
	return args
}

// maxSocketPath is the longest path that a Unix socket can have, in bytes.
func maxSocketPath() int {
	if runtime.GOOS == "linux" {
		return 107
	}
	return 103
}

// placeSocket chooses the folder for the socket: in Dir, or in the folder for temporary files if the path would
// be longer than the system allows, or has a comma, at which clients cut a list of hosts.
func (s *Server) placeSocket() error {
	s.socket = filepath.Join(s.opts.Dir, "socket")
	if len(s.Socket()) <= maxSocketPath() && !strings.Contains(s.socket, ",") {
		return makeFolder(s.socket, s.as)
	}
	dir, err := TempDir("pawl-pg-")
	if err != nil {
		return fmt.Errorf("postgres socket: %w", err)
	}
	s.socket, s.removeSocket = dir, true
	if len(s.Socket()) > maxSocketPath() {
		return fmt.Errorf("postgres socket: the path %s is longer than %d bytes: set TMPDIR to a shorter one",
			s.Socket(), maxSocketPath())
	}
	return nil
}

// TempDir makes a new folder under os.TempDir that the server's account can use as Options.Dir. It differs from
// os.MkdirTemp for root, for whom servers run under another account.
func TempDir(pattern string) (string, error) {
	dir, err := os.MkdirTemp("", pattern)
	if err != nil {
		return "", err
	}
	return dir, currentAccount().own(dir)
}
