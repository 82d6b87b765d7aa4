//go:build linux

package main

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// A command that was killed has left the terminal in raw mode, perhaps with a foreground group of its own; the run puts it right. What a command
// leaves that ended by itself is as it wanted it.
func TestTerminalAfterAKilledCommand(t *testing.T) {
	t.Parallel()
	const raw = `stty raw -echo; echo $$ >a.pid; `
	for name, c := range map[string]struct {
		script string
		flags  string
		kill   bool
		keeps  bool
	}{
		"--max-hold":       {script: raw + `exec sleep 600`, flags: "--max-hold 1s"},
		"deaf, --max-hold": {script: raw + `trap "" TERM; while :; do sleep 0.1; done`, flags: "--max-hold 1s --kill-after 100ms"},
		"killed":           {script: raw + `exec sleep 600`, kill: true},
		"own job control":  {script: raw + `exec bash -c "set -m; sleep 600"`, flags: "--max-hold 1s"},
		"ends by itself":   {script: `echo x >"$PAWL_OUT/x"; ` + raw, keeps: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newTerminal(t, newRig(t))
			if err := os.WriteFile(filepath.Join(m.dir, "script"), []byte(c.script), 0o600); err != nil {
				t.Fatal(err)
			}
			m.enter("stty -g >before; pawl run --key k " + c.flags + " -- sh script; stty -g >part; mv part after; stty sane")
			if c.kill {
				if err := syscall.Kill(pids(t, m.dir, 1)[0], syscall.SIGKILL); err != nil {
					t.Fatal(err)
				}
			}
			awaitFile(t, m.dir, "after")
			before, err := os.ReadFile(filepath.Join(m.dir, "before"))
			if err != nil {
				t.Fatal(err)
			}
			after, err := os.ReadFile(filepath.Join(m.dir, "after"))
			if err != nil || len(before) == 0 || (string(before) != string(after)) != c.keeps {
				t.Errorf("before %q, after %q, %v", before, after, err)
			}
		})
	}
}
