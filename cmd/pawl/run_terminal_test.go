//go:build linux

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

var terminals atomic.Int64

// tmuxShell is an interactive shell in a real terminal.
type tmuxShell struct {
	t      *testing.T
	dir    string // of the shell
	socket string
}

func newTerminal(t *testing.T, r *rig) *tmuxShell {
	t.Helper()
	m := &tmuxShell{t: t, dir: t.TempDir(), socket: fmt.Sprintf("pawl-test-%d-%d", os.Getpid(), terminals.Add(1))}
	for name, value := range map[string]string{"PAWL_URL": r.url, "TMPDIR": m.dir, "PATH": os.Getenv("PATH"), "PS1": "$ ", "GORACE": "atexit_sleep_ms=0"} {
		text := "export " + name + "='" + value + "'\n"
		file, err := os.OpenFile(filepath.Join(m.dir, "bashrc"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := file.WriteString(text); err != nil {
			t.Fatal(err)
		}
		if err := file.Close(); err != nil {
			t.Fatal(err)
		}
	}
	m.tmux("new-session", "-d", "-x", "200", "-y", "50", "-c", m.dir, "bash --noprofile --rcfile bashrc -i", ";", "set-option", "-g", "remain-on-exit", "on")
	socket := m.tmux("display-message", "-p", "#{socket_path}")
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the terminal shows\n%s", strings.TrimSpace(m.tmux("capture-pane", "-p")))
		}
		m.tmux("kill-server")
		_ = os.Remove(strings.TrimSpace(socket))
	})
	return m
}

func (m *tmuxShell) tmux(args ...string) string {
	m.t.Helper()
	cmd := exec.Command("tmux", append([]string{"-L", m.socket, "-f", "/dev/null"}, args...)...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		m.t.Fatalf("%s: %v: %s", cmd, err, out)
	}
	return string(out)
}

// enter types a line.
func (m *tmuxShell) enter(line string) {
	m.t.Helper()
	m.tmux("send-keys", "-l", line)
	m.tmux("send-keys", "Enter")
}

func (m *tmuxShell) press(key string) {
	m.t.Helper()
	m.tmux("send-keys", key)
}

// record writes the exit code of a command that was typed, and then tells that it has ended. The shell does both itself: a program would be one more process
// that is left for a moment.
const record = "; echo $? >code; : >ended"

// run starts a run of a script in the terminal's foreground, and returns its wrapper and its command.
func (m *tmuxShell) run(script string, flags ...string) (wrapper, command int) {
	m.t.Helper()
	if err := os.WriteFile(filepath.Join(m.dir, "script"), []byte(script), 0o600); err != nil {
		m.t.Fatal(err)
	}
	m.enter("pawl run --key k --holder render-a " + strings.Join(flags, " ") + " -- sh script" + record)
	command = pids(m.t, m.dir, 1)[0]
	return parent(m.t, parent(m.t, command)), command
}

// resume takes a suspended run into the foreground again.
func (m *tmuxShell) resume() {
	m.t.Helper()
	if err := os.Remove(filepath.Join(m.dir, "ended")); err != nil { // of the suspension
		m.t.Fatal(err)
	}
	m.enter("fg" + record)
}

// exit waits for the exit code of a run, and that nothing is left of it but the shell.
func (m *tmuxShell) exit(want int) {
	m.t.Helper()
	awaitFile(m.t, m.dir, "ended")
	code, err := os.ReadFile(filepath.Join(m.dir, "code"))
	if err != nil || strings.TrimSpace(string(code)) != strconv.Itoa(want) {
		m.t.Errorf("exit code %q, %v; want %d", code, err, want)
	}
	if left := familyOf(m.dir); len(left) > 0 {
		m.t.Errorf("left: %v", left)
	}
}

// whileItWaits is a script that waits for a program in the foreground when its pid is told: the program tells it. A shell that is interrupted just before
// it starts a program waits for all of it first.
const whileItWaits = `sh -c 'echo $PPID >a.pid; exec sleep 600'; exit 3`

// Ctrl-C once ends the command, whatever it makes of it, and the wrapper; nothing is left or published.
func TestTerminalCtrlC(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		script string
		key    string
		code   int
	}{
		"dies of it":         {whileItWaits, "C-c", 130},
		"with a family":      {`setsid sleep 600 & sleep 600 & (setsid sleep 600 &) ; ` + whileItWaits, "C-c", 130},
		"ends with 0":        {`trap 'exit 0' INT; echo x >"$PAWL_OUT/x"; echo $$ >a.pid; while :; do sleep 0.1; done`, "C-c", 130},
		"has its own code":   {`trap 'exit 7' INT; echo $$ >a.pid; while :; do sleep 0.1; done`, "C-c", 7},
		"Ctrl-\\":            {`ulimit -c 0; echo $$ >a.pid; exec sleep 600`, `C-\`, 131},
		"deaf, --kill-after": {`trap '' INT; echo $$ >a.pid; while :; do sleep 0.1; done`, "C-c", 137},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			m := newTerminal(t, r)
			patient := "1h"
			if c.code == 137 {
				patient = "1s"
			}
			m.run(c.script, "--kill-after", patient)
			m.press(c.key)
			m.exit(c.code)
			r.unpublished(t)
			if lease, err := r.client.Lease(t.Context(), "k"); err != nil || lease.Held {
				t.Errorf("lease %+v, %v", lease, err)
			}
		})
	}
}

// Ctrl-C twice ends a command at once that cares for neither.
func TestTerminalCtrlCTwice(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	m := newTerminal(t, r)
	_, command := m.run(`trap '' INT; setsid sleep 600 & echo $$ >a.pid; while :; do sleep 0.1; done`, "--kill-after", "1h")
	eventually(t, "the end", func() bool {
		m.press("C-c")
		time.Sleep(3 * sameRequest) // as people type
		return !running(command)
	})
	m.exit(137)
	r.unpublished(t)
}

// Ctrl-C comes to the command once: from the terminal, and not from the wrapper as well. An INT to the wrapper alone is passed on.
func TestTerminalInterruptComesOnce(t *testing.T) {
	t.Parallel()
	for _, from := range []string{"the terminal", "elsewhere"} {
		t.Run(from, func(t *testing.T) {
			t.Parallel()
			m := newTerminal(t, newRig(t))
			wrapper, command := m.run(`exec count-interrupts`, "--kill-after", "1h")
			if from == "the terminal" {
				m.press("C-c")
			} else if err := syscall.Kill(wrapper, syscall.SIGINT); err != nil {
				t.Fatal(err)
			}
			awaitFile(t, m.dir, "interrupt-1")
			time.Sleep(3 * pairing) // A second one would have come by now.
			if _, err := os.Stat(filepath.Join(m.dir, "interrupt-2")); err == nil {
				t.Error("it was interrupted twice")
			}
			if !running(command) {
				t.Error("it has ended")
			}
			if err := syscall.Kill(command, syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			m.exit(137)
		})
	}
}

// The command reads what is typed, and asks the terminal for its size.
func TestTerminalIsTheCommands(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	m := newTerminal(t, r)
	m.run(`echo $$ >a.pid; read line; echo "$line $(stty size)" >"$PAWL_OUT/line.txt"`)
	m.enter("typed by hand")
	m.exit(0)
	if got := r.read(t); got != "typed by hand 49 200\n" && got != "typed by hand 50 200\n" {
		t.Errorf("it read %q", got)
	}
}

// The wrapper's death by KILL leaves nobody, and gives the terminal back to the shell.
func TestTerminalKilledWrapper(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	m := newTerminal(t, r)
	wrapper, _ := m.run(`trap '' INT TERM; setsid sleep 600 & sleep 600 & echo $$ >a.pid; while :; do sleep 0.1; done`)
	if err := syscall.Kill(wrapper, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	awaitFile(t, m.dir, "ended")
	noneOf(t, m.dir)
	m.enter(": >back")
	awaitFile(t, m.dir, "back")
}

// Ctrl-Z stops all of it, and fg goes on with all of it. Whoever slept past his lease publishes when nobody took over; and doesn't when
// somebody holds the key or has published.
func TestTerminalCtrlZ(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		ttl         time.Duration
		holds, puts bool
		code        int
		current     string
	}{
		"in time":           {ttl: time.Minute, current: "a\n"},
		"nobody took over":  {ttl: time.Second, current: "a\n"},
		"another holds it":  {ttl: time.Second, holds: true, code: exitFenced},
		"another published": {ttl: time.Second, holds: true, puts: true, code: exitFenced, current: "b"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			m := newTerminal(t, r)
			wrapper, command := m.run(`setsid sleep 600 & echo $$ >a.pid; read line; echo a >"$PAWL_OUT/out.txt"`, "--ttl", c.ttl.String())
			m.press("C-z")
			for _, pid := range []int{command, wrapper} {
				eventually(t, "the stop", func() bool { return state(pid) == 'T' })
			}
			stopped := time.Now()
			awaitFile(t, m.dir, "ended")
			eventually(t, "the end of the lease", func() bool { return c.ttl == time.Minute || time.Since(stopped) > c.ttl })
			if c.ttl != time.Minute {
				r.pointers.Expire("k")
			}
			if c.holds {
				b := r.acquire(t, "k", "render-b", time.Minute)
				if c.puts {
					r.publish(t, b, "out.txt", "b")
				}
			}
			m.resume()
			if c.code == 0 {
				// What is typed while the shell still edits its line has no end of line for the command.
				eventually(t, "the resumption", func() bool { return state(command) != 'T' })
				m.enter("go on")
			}
			m.exit(c.code)
			if c.current == "" {
				r.unpublished(t)
			} else if got := r.read(t); got != c.current {
				t.Errorf("current is %q", got)
			}
		})
	}
}
