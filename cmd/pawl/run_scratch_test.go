//go:build linux

package main

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// age makes a folder look as if nothing had been written to it for an hour.
func age(t *testing.T, path string) {
	t.Helper()
	long := time.Now().Add(-time.Hour)
	if err := os.Chtimes(path, long, long); err != nil {
		t.Fatal(err)
	}
}

// scratchOf waits for the file in which a command has written its PAWL_OUT.
func scratchOf(t *testing.T, file string) string {
	t.Helper()
	var path string
	eventually(t, "the start of the command", func() bool {
		text, err := os.ReadFile(file)
		path = string(text)
		return err == nil && len(path) > 0
	})
	return path
}

// The next run removes the scratch folder of a killed one, and none of a run that lives, however old that is.
func TestScratchOfTheDeadIsSwept(t *testing.T) {
	t.Parallel()
	r, dir := newRig(t), t.TempDir()
	const script = `echo part >"$PAWL_OUT/part"; printf %s "$PAWL_OUT" >NAME.tmp; mv NAME.tmp NAME; ` + until
	begin := func(key, name string) (*process, string) {
		p := startPawl(t, dir, []string{"PAWL_URL=" + r.url, "TMPDIR=" + dir}, "run", "--key", key, "--", "sh", "-c", strings.ReplaceAll(script, "NAME", name))
		return p, scratchOf(t, filepath.Join(dir, name))
	}
	killed, left := begin("killed", "killed.txt")
	stopped, kept := begin("stopped", "stopped.txt")
	killed.signal(t, syscall.SIGKILL)
	<-killed.done
	stopped.signal(t, syscall.SIGSTOP)
	foreign := []string{filepath.Join(dir, "pawl-run-mine.d"), filepath.Join(dir, "pawl-run-1"), filepath.Join(dir, "pawl-run-2.d"), filepath.Join(dir, "fresh")}
	for _, path := range foreign {
		if filepath.Base(path) == "pawl-run-2.d" {
			if err := os.Symlink(dir, path); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if err := os.Mkdir(path, 0o700); err != nil {
			t.Fatal(err)
		}
		age(t, path)
	}

	sweep := func() {
		startPawl(t, dir, []string{"PAWL_URL=" + r.url, "TMPDIR=" + dir}, "run", "--key", "next", "--", "sh", "-c", `echo x >"$PAWL_OUT/x"`).exit(t, 0)
	}
	sweep() // What was just made may not be locked yet.
	if _, err := os.Stat(left); err != nil {
		t.Errorf("a folder that is seconds old was swept: %v", err)
	}
	age(t, left)
	age(t, kept)
	sweep()
	if _, err := os.Stat(left); !os.IsNotExist(err) {
		t.Errorf("the folder of the killed run is left: %v", err)
	}
	for _, path := range append(foreign, filepath.Join(kept, "part")) {
		if _, err := os.Lstat(path); err != nil {
			t.Errorf("it was swept: %v", err)
		}
	}
	stopped.signal(t, syscall.SIGCONT)
	touch(t, filepath.Join(dir, "go"))
	stopped.exit(t, 0, "published stopped version 1.1: 1 file")
	if _, err := os.Stat(kept); !os.IsNotExist(err) {
		t.Errorf("the folder of the run that ended is left: %v", err)
	}
}
