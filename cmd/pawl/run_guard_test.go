//go:build linux

package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// familyOf finds the processes that a run in a folder has started, and the run itself: they have the folder in their environment.
func familyOf(dir string) (pids []int) {
	entries, _ := filepath.Glob("/proc/[0-9]*")
	for _, entry := range entries {
		environment, _ := os.ReadFile(filepath.Join(entry, "environ"))
		pid, _ := strconv.Atoi(filepath.Base(entry))
		if slices.Contains(strings.Split(string(environment), "\x00"), "TMPDIR="+dir) && running(pid) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// noneOf waits until nobody is left of a run whose process has ended.
func noneOf(t *testing.T, dir string) {
	t.Helper()
	t.Cleanup(func() {
		for left := familyOf(dir); len(left) > 0; left = familyOf(dir) {
			for _, pid := range left {
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
		}
	})
	eventually(t, "the end of all processes", func() bool { return len(familyOf(dir)) == 0 })
}

func parent(t *testing.T, pid int) int {
	t.Helper()
	p, ok := readProcess(pid)
	if !ok {
		t.Fatalf("process %d has ended", pid)
	}
	return p.parent
}

// unpublished checks that a run has left nothing that readers see.
func (r *rig) unpublished(t *testing.T) {
	t.Helper()
	if pointer, err := r.client.Pointer(t.Context(), "k"); err == nil {
		t.Errorf("it was published: %+v", pointer)
	}
}

const deaf = `sh -c 'trap "" TERM INT HUP QUIT; echo $$ >NAME.pid; while :; do sleep 0.1; done'`

// families are commands and how many of their processes tell their ids.
var families = map[string]struct {
	script  string
	members int
}{
	"plain":      {`echo $$ >a.pid; exec sleep 600`, 1},
	"background": {`sh -c 'echo $$ >a.pid; exec sleep 600' & echo $$ >b.pid; wait`, 2},
	"session":    {`setsid sh -c 'echo $$ >a.pid; exec sleep 600' & echo $$ >b.pid; wait`, 2},
	"daemon":     {`(setsid sh -c '(setsid sh -c "echo \$\$ >a.pid; exec sleep 600" &)' &); echo $$ >b.pid; exec sleep 600`, 2},
	"deaf":       {`setsid ` + strings.ReplaceAll(deaf, "NAME", "a") + ` & ` + strings.ReplaceAll(deaf, "NAME", "b") + ` & echo $$ >c.pid; wait`, 3},
	"stopped":    {`sh -c 'echo $$ >a.pid; kill -STOP $$' & echo $$ >b.pid; kill -STOP $$`, 2},
	"many":       {`i=0; while [ $i -lt 60 ]; do sleep 600 & setsid sleep 600 & i=$((i+1)); done; echo $$ >a.pid; wait`, 1},
	"breeding":   {`echo $$ >a.pid; while :; do setsid sh -c 'sleep 0.05 & exec sleep 0.1' & sleep 0.02; done`, 1},
}

// Case 53: the wrapper's death by KILL, or by a fault of its own, leaves no descendant.
func TestCase53KilledWrapperLeavesNobody(t *testing.T) {
	t.Parallel()
	for name, c := range families {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, dir := newRig(t), t.TempDir()
			a := startRun(t, r, dir, c.script, "--kill-after", "1h")
			pids(t, dir, c.members)
			sig := syscall.SIGKILL
			if name == "background" {
				sig = syscall.SIGABRT // as a crash of Go's runtime
			}
			a.signal(t, sig)
			<-a.done
			noneOf(t, dir)
			r.unpublished(t)
		})
	}
}

// A guard that is stopped is woken by the wrapper's death.
func TestStoppedGuardKillsOrphans(t *testing.T) {
	t.Parallel()
	r, dir := newRig(t), t.TempDir()
	a := startRun(t, r, dir, families["background"].script)
	guard := parent(t, parentOfAll(t, pids(t, dir, 2)))
	if err := syscall.Kill(guard, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the stop", func() bool { return state(guard) == 'T' })
	a.signal(t, syscall.SIGKILL)
	<-a.done
	noneOf(t, dir)
}

// parentOfAll finds the command: the one whose parent isn't of the family.
func parentOfAll(t *testing.T, family []int) int {
	t.Helper()
	for _, pid := range family {
		if !slices.Contains(family, parent(t, pid)) {
			return pid
		}
	}
	t.Fatal("no command")
	return 0
}

// The guard's own death ends the family, too, and the run fails: nobody knows how the command ended.
func TestCase53KilledGuardEndsTheFamily(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"plain", "background", "session", "deaf", "many"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, dir := newRig(t), t.TempDir()
			a := startRun(t, r, dir, `echo x >"$PAWL_OUT/x"; `+families[name].script, "--kill-after", "1h") // KILL comes at once
			guard := parent(t, parentOfAll(t, pids(t, dir, families[name].members)))
			if guard == a.cmd.Process.Pid || parent(t, guard) != a.cmd.Process.Pid {
				t.Fatalf("the command's parent %d isn't a guard", guard)
			}
			if err := syscall.Kill(guard, syscall.SIGTERM); err != nil { // has no effect
				t.Fatal(err)
			}
			if err := syscall.Kill(guard, syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			a.exit(t, exitIO, "the process that guards the command was killed")
			if left := familyOf(dir); len(left) > 0 {
				t.Errorf("left: %v", left)
			}
			noneOf(t, dir)
			r.unpublished(t)
			if lease, err := r.client.Lease(t.Context(), "k"); err != nil || lease.Held {
				t.Errorf("lease %+v, %v", lease, err)
			}
		})
	}
}

// Who kills processes by what their command lines say, of pawl run or of its command, doesn't kill the guard with them.
func TestGuardHasNothingOfTheirCommandLines(t *testing.T) {
	t.Parallel()
	r, dir := newRig(t), t.TempDir()
	a := startRun(t, r, dir, families["daemon"].script)
	command := 0
	for _, pid := range pids(t, dir, families["daemon"].members) {
		if parent(t, parent(t, pid)) == a.cmd.Process.Pid {
			command = pid
		}
	}
	guard := parent(t, command)
	for _, file := range []string{"cmdline", "comm"} {
		text, err := os.ReadFile("/proc/" + strconv.Itoa(guard) + "/" + file)
		if err != nil || !bytes.HasPrefix(text, []byte("run-guard")) || bytes.Contains(text, []byte("pawl")) || bytes.Contains(text, []byte("sh")) {
			t.Errorf("%s is %q, %v", file, text, err)
		}
	}
	if err := syscall.Kill(command, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	a.signal(t, syscall.SIGKILL)
	<-a.done
	noneOf(t, dir)
}

// A command line comes through the guard as it is, however long and whatever it holds.
func TestArgumentsComeThrough(t *testing.T) {
	t.Parallel()
	r, dir := newRig(t), t.TempDir()
	args := []string{"run", "--key", "k", "--", "sh", "-c", `for a; do printf "%s" "$a" | wc -c; done >"$PAWL_OUT/out"`, "name", "", "a b\n", "--"}
	want := "0\n4\n2\n"
	for range 10 {
		args, want = append(args, strings.Repeat("x", 100_000)), want+"100000\n"
	}
	startPawl(t, dir, []string{"PAWL_URL=" + r.url, "TMPDIR=" + dir}, append(args, "")...).exit(t, 0, "published")
	if got := r.read(t); got != want+"0\n" {
		t.Errorf("got %q", got)
	}
}

// Signals come to the command as what they are. Those that don't tell anybody to end end nothing.
func TestSignalsAreForwarded(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		signal syscall.Signal
		code   int
	}{
		"INT": {syscall.SIGINT, 130}, "TERM": {syscall.SIGTERM, 143}, "HUP": {syscall.SIGHUP, 129}, "QUIT": {syscall.SIGQUIT, 131},
		"USR1": {syscall.SIGUSR1, 0}, "USR2": {syscall.SIGUSR2, 0}, "WINCH": {syscall.SIGWINCH, 0}, "CONT": {syscall.SIGCONT, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, dir := newRig(t), t.TempDir()
			// The other one has left the group.
			other := `trap "echo >far" ` + name + `; echo $$ >b.pid; ` + until
			a := startRun(t, r, dir, `setsid -f sh -c '`+other+`'; trap "echo >near" `+name+`; echo $$ >a.pid; `+until+
				`while [ ! -e far ]; do sleep 0.02; done; echo x >"$PAWL_OUT/x"`)
			pids(t, dir, 2)
			a.signal(t, c.signal)
			awaitFile(t, dir, "near")
			awaitFile(t, dir, "far")
			touch(t, filepath.Join(dir, "go"))
			a.exit(t, c.code)
			noneOf(t, dir)
			if c.code != 0 {
				r.unpublished(t)
			} else if _, err := r.client.Pointer(t.Context(), "k"); err != nil {
				t.Error(err)
			}
		})
	}
}

// TSTP is the command's to act on before it is stopped with all others, and the wrapper with them.
func TestSuspendIsForwarded(t *testing.T) {
	t.Parallel()
	r, dir := newRig(t), t.TempDir()
	// A shell acts on a trap while it waits, or between two commands: it may not wait yet, nor for somebody who is stopped. It may be in a vfork when it is stopped, so that it
	// doesn't show as stopped.
	a := startRun(t, r, dir, `trap "echo >told" TSTP; setsid -f sh -c 'echo $$ >a.pid; exec sleep 600'; `+
		`while [ ! -e told ]; do (trap "" TSTP; exec sleep 0.02) & wait; done; `+until+`echo x >"$PAWL_OUT/x"`)
	far := pids(t, dir, 1)[0]
	a.signal(t, syscall.SIGTSTP)
	awaitFile(t, dir, "told")
	eventually(t, "the stop", func() bool { return state(far) == 'T' })
	eventually(t, "the wrapper's stop", func() bool { return state(a.cmd.Process.Pid) == 'T' })
	touch(t, filepath.Join(dir, "go"))
	a.signal(t, syscall.SIGCONT)
	a.exit(t, 0, "published")
	noneOf(t, dir)
}

// KILL comes --kill-after later than the first signal, and not before.
func TestKillAfter(t *testing.T) {
	t.Parallel()
	r, dir := newRig(t), t.TempDir()
	const grace = 700 * time.Millisecond
	a := startRun(t, r, dir, `trap "" TERM; `+families["deaf"].script, "--kill-after", grace.String())
	pids(t, dir, 3)
	start := time.Now()
	a.signal(t, syscall.SIGTERM)
	a.exit(t, 128+9, "the command died of signal: killed")
	if took := time.Since(start); took < grace {
		t.Errorf("it was killed after %s", took)
	}
	noneOf(t, dir)
}

// What is signalled twice at once, to the process and to its group, was asked once: the command has its grace.
func TestTheSameRequestTwice(t *testing.T) {
	t.Parallel()
	r, dir := newRig(t), t.TempDir()
	a := startRun(t, r, dir, `trap "sleep 0.3; exit 3" TERM; echo $$ >a.pid; while :; do sleep 0.1; done`)
	pids(t, dir, 1)
	a.signal(t, syscall.SIGTERM)
	eventually(t, "the delivery", func() bool { // Else the two would be one.
		status, _ := os.ReadFile("/proc/" + strconv.Itoa(a.cmd.Process.Pid) + "/status")
		return bytes.Contains(status, []byte("ShdPnd:\t0000000000000000"))
	})
	a.signal(t, syscall.SIGTERM)
	a.exit(t, 3)
}

// Under nohup a run outlives its terminal.
func TestIgnoredHangUp(t *testing.T) {
	t.Parallel()
	r, dir := newRig(t), t.TempDir()
	p := &process{cmd: exec.Command("sh", "-c", `trap "" HUP; exec pawl run --key k -- sh -c 'echo $$ >a.pid; `+until+`echo x >"$PAWL_OUT/x"'`)}
	p.start(t, dir, []string{"PAWL_URL=" + r.url, "TMPDIR=" + dir})
	child := pids(t, dir, 1)[0]
	p.signal(t, syscall.SIGHUP)
	_ = syscall.Kill(child, syscall.SIGHUP)
	touch(t, filepath.Join(dir, "go"))
	p.exit(t, 0, "published")
}

// The command finds what it would find without the wrapper and its guard: open files, environment, signal dispositions, folder. Only
// variables PAWL_… are added.
func TestCommandFindsWhatItWouldFind(t *testing.T) {
	t.Parallel()
	r, dir := newRig(t), t.TempDir()
	const look = `ls /proc/self/fd; cat <&3; grep ^Sig /proc/self/status | grep -v SigQ; ulimit -n; pwd; ps -o sid= -p $$; cut -d= -f1 /proc/self/environ -z | tr '\0' '\n' | sort`
	shell := func(line string) string {
		t.Helper()
		extra, err := os.CreateTemp(dir, "extra")
		if err != nil {
			t.Fatal(err)
		}
		defer extra.Close()
		if _, err := extra.WriteString("inherited\n"); err != nil {
			t.Fatal(err)
		}
		if _, err := extra.Seek(0, 0); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command("sh", "-c", line)
		var out, stderr bytes.Buffer
		cmd.Dir, cmd.Stdout, cmd.Stderr, cmd.ExtraFiles = dir, &out, &stderr, []*os.File{extra}
		cmd.Env = append(os.Environ(), "PAWL_URL="+r.url, "TMPDIR="+dir, "LOOK="+look)
		if err := cmd.Run(); err != nil {
			t.Fatalf("%s: %v: %s", line, err, stderr.String())
		}
		return out.String()
	}
	want := shell(`sh -c "$LOOK"`)
	got := shell(`exec pawl run --key k --allow-empty -- sh -c "$LOOK; echo x >\$PAWL_OUT/x"`)
	var rest []string
	for line := range strings.Lines(got) {
		if !strings.HasPrefix(line, "PAWL_") || strings.Contains(want, "\n"+line) {
			rest = append(rest, line)
		}
	}
	if joined := strings.Join(rest, ""); joined != want || !strings.Contains(want, "inherited") {
		t.Errorf("with the wrapper\n%swithout it\n%s", joined, want)
	}
}
