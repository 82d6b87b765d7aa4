//go:build linux

package main

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// endless makes a file without blocks that takes longer to hash than any test waits.
const endless = `truncate -s 200G `

// reads reports whether a process has a file open.
func reads(pid int, path string) bool {
	links, _ := filepath.Glob("/proc/" + strconv.Itoa(pid) + "/fd/*")
	for _, link := range links {
		if to, _ := os.Readlink(link); strings.HasSuffix(to, path) {
			return true
		}
	}
	return false
}

// Hashing takes minutes with the files of this trade: a signal ends a put, of a file and of a folder, in the middle of it.
func TestSignalEndsPutWhileItHashes(t *testing.T) {
	t.Parallel()
	for _, what := range []string{"big/file", "big"} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			r, dir := newRig(t), t.TempDir()
			if err := os.Mkdir(filepath.Join(dir, "big"), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, "big", "file"), nil, 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Truncate(filepath.Join(dir, "big", "file"), 200<<30); err != nil {
				t.Fatal(err)
			}
			a := startPawl(t, dir, []string{"PAWL_URL=" + r.url}, "put", "k", what)
			eventually(t, "the reading", func() bool { return reads(a.cmd.Process.Pid, "big/file") })
			a.signal(t, syscall.SIGTERM)
			a.exit(t, 128+15, "ended by signal: terminated")
			r.unpublished(t)
		})
	}
}

// A signal, --max-hold and a lost lease end a run while its output is hashed.
func TestRunEndsWhileItHashes(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		ttl   time.Duration
		flags []string
		end   func(*rig, *process)
		code  int
		says  string
	}{
		"signal":     {time.Minute, nil, func(_ *rig, a *process) { a.signal(t, syscall.SIGTERM) }, 128 + 15, "ended by signal: terminated"},
		"--max-hold": {time.Minute, []string{"--max-hold", "1s"}, func(*rig, *process) {}, exitOverheld, "nothing is published"},
		"lost lease": {600 * time.Millisecond, nil, func(r *rig, _ *process) {
			r.overtake(t)
		}, exitFenced, "the lease of token 1 is lost"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, dir := newRig(t), t.TempDir()
			a := startRun(t, r, dir, endless+`"$PAWL_OUT/big"`, append(c.flags, "--ttl", c.ttl.String())...)
			eventually(t, "the reading", func() bool { return reads(a.cmd.Process.Pid, "/big") })
			c.end(r, a)
			a.exit(t, c.code, c.says)
			r.unpublished(t)
		})
	}
}
