//go:build unix

package devpg

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/pawlhq/pawl/internal/devpg/child"
)

// initialise makes the database cluster when there is none. It works in a temporary folder beside the final
// one and renames it at the end, so a crash half-way leaves only rubbish, which the next call removes, and
// never a data folder that looks complete.
func (s *Server) initialise(ctx context.Context) error {
	const unfinished = "data.init-"
	leftovers, err := filepath.Glob(filepath.Join(globEscape(s.opts.Dir), unfinished+"*"))
	if err != nil {
		return fmt.Errorf("initialise postgres: %w", err)
	}
	for _, dir := range leftovers {
		if err := os.RemoveAll(dir); err != nil {
			return fmt.Errorf("initialise postgres: %w", err)
		}
	}
	switch _, err := os.Stat(filepath.Join(s.data, "PG_VERSION")); {
	case err == nil:
		return nil
	case !errors.Is(err, os.ErrNotExist):
		return fmt.Errorf("initialise postgres: %w", err)
	}

	dir, err := os.MkdirTemp(s.opts.Dir, unfinished)
	if err != nil {
		return fmt.Errorf("initialise postgres: %w", err)
	}
	if err := s.as.own(dir); err != nil {
		return fmt.Errorf("initialise postgres: %w", err)
	}
	if err := s.initdb(ctx, dir, "C.UTF-8"); err != nil {
		// Older systems lack that locale. "C" sorts the same and differs in upper and lower case only.
		if ctx.Err() != nil || s.initdb(ctx, dir, "C") != nil {
			return err
		}
	}
	// initdb has synchronised the contents, so after this rename a crash leaves all or nothing. A folder with
	// something else in it makes the rename fail; it is not ours to remove.
	if err := os.Rename(dir, s.data); err != nil {
		return fmt.Errorf("initialise postgres: %w", err)
	}
	if s.opts.Durable {
		return syncFolder(s.opts.Dir)
	}
	return nil
}

func (s *Server) initdb(ctx context.Context, dir, locale string) error {
	args := []string{"-D", dir, "-U", s.opts.User, "-A", "trust", "-E", "UTF8", "--locale=" + locale}
	if s.opts.Durable {
		args = append(args, "--data-checksums")
	} else {
		args = append(args, "--no-sync")
	}
	var output bytes.Buffer
	cmd := s.bin.command(ctx, s.as, "initdb", args...)
	cmd.Stdout, cmd.Stderr = &output, &output
	if err := child.Run(cmd); err != nil {
		return fmt.Errorf("initialise postgres: initdb: %w\n%s", err, bytes.TrimSpace(output.Bytes()))
	}
	return nil
}

func syncFolder(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// globEscape makes path match itself alone in filepath.Glob.
func globEscape(path string) string {
	var b []byte
	for i := range len(path) {
		switch path[i] {
		case '*', '?', '[', '\\':
			b = append(b, '\\')
		}
		b = append(b, path[i])
	}
	return string(b)
}
