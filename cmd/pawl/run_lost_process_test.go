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

// With --on-lost warn or signal=… a lost lease doesn't end the command; but what it makes isn't published, and the run is fenced also
// when its command succeeds. The signal comes once, and to the command alone: its children may not know it.
func TestOnLost(t *testing.T) {
	t.Parallel()
	const script = `trap "echo told >>told" USR1; sh -c 'echo $$ >b.pid; exec sleep 600' & echo $$ >a.pid; ` + until + `echo a >"$PAWL_OUT/out.txt"`
	for name, c := range map[string]struct {
		rule, notice, told string
	}{
		"warn":   {"warn", "the lease of token 1 is lost; the command goes on, but nothing will be published", ""},
		"signal": {"signal=USR1", "telling the command by signal 10 (user defined signal 1)", "told\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, dir := newRig(t), t.TempDir()
			a := startRun(t, r, dir, script, "--ttl", "500ms", "--on-lost", c.rule)
			family := pids(t, dir, 2)
			r.pointers.Advance(time.Minute)
			b := r.acquire(t, "k", "render-b", time.Minute)
			eventually(t, "the notice", func() bool { return strings.Contains(a.stderr.String(), c.notice) })
			if c.told != "" {
				eventually(t, "the signal", func() bool { _, err := os.Stat(filepath.Join(dir, "told")); return err == nil })
			}
			for _, pid := range family {
				if !running(pid) {
					t.Errorf("process %d was ended", pid)
				}
			}
			touch(t, filepath.Join(dir, "go"))
			a.exit(t, exitFenced, "fenced: the lease of token 1 is lost: token 2 was granted")
			if told, _ := os.ReadFile(filepath.Join(dir, "told")); string(told) != c.told {
				t.Errorf("the command was told %q, want %q", told, c.told)
			}
			noneLeft(t, family)
			if pointer, err := r.client.Pointer(t.Context(), "k"); err == nil {
				t.Errorf("%s is published", pointer.Version())
			}
			r.publish(t, b, "out.txt", "b")
		})
	}
}

// Case 54: also a lost lease has the code that was chosen for it, and 0 is a notice. The command's own failure doesn't matter then.
func TestCase54ChosenCodesOfALostLease(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		script, code string
		want         int
		stderr       string
	}{
		"chosen": {`exit 0`, "98", 98, "pawl: fenced: "},
		"zero":   {`exit 3`, "0", 0, "(that is no failure here: the exit code 0 was chosen for it)"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, dir := newRig(t), t.TempDir()
			a := startRun(t, r, dir, `trap "`+c.script+`" TERM; echo $$ >a.pid; while :; do sleep 0.1; done`,
				"--ttl", "500ms", "--json", "--fenced-exit-code", c.code, "--held-exit-code", "99")
			pids(t, dir, 1)
			r.pointers.Advance(time.Minute)
			r.publish(t, r.acquire(t, "k", "render-b", time.Minute), "out.txt", "b")
			a.exit(t, c.want, c.stderr, "token 2 (holder render-b) was accepted")
			if want := `"outcome":"fenced","exit_code":` + c.code + `,"error":{"type":"/problems/stale-token"`; !strings.Contains(a.stdout.String(), want) {
				t.Errorf("stdout %q lacks %q", a.stdout.String(), want)
			}
		})
	}
}

// A lease is lost with its generation, too: the command is ended at the next renewal, and the key is free for whoever works on it anew.
func TestRunOfACollectedGeneration(t *testing.T) {
	t.Parallel()
	r, dir := newRig(t), t.TempDir()
	a := startRun(t, r, dir, `echo $$ >a.pid; exec sleep 600`, "--ttl", "500ms", "--json")
	family := pids(t, dir, 1)
	r.pointers.GiveUp("k", 1)
	a.exit(t, exitFenced, "the lease of token 1 is lost, since the retention policy has given up its generation; ending the command",
		"fenced: the generation of token 1 was given up by the retention policy: nothing comes of it any more; acquire the key again to work on it anew")
	if want := `"outcome":"fenced","exit_code":80,"error":{"type":"/problems/generation-collected"`; !strings.Contains(a.stdout.String(), want) {
		t.Errorf("stdout %q lacks %q", a.stdout.String(), want)
	}
	noneLeft(t, family)
	if lease := r.acquire(t, "k", "render-b", time.Minute); lease.Token != 2 {
		t.Errorf("the next token is %d", lease.Token)
	}
}

// An end by a signal is told in the result, too.
func TestInterruptedResult(t *testing.T) {
	t.Parallel()
	r, dir := newRig(t), t.TempDir()
	a := startRun(t, r, dir, `trap "exit 0" TERM; echo $$ >a.pid; while :; do sleep 0.1; done`, "--json")
	pids(t, dir, 1)
	a.signal(t, syscall.SIGTERM)
	a.exit(t, 128+15)
	if want := `"outcome":"interrupted","exit_code":143,`; !strings.Contains(a.stdout.String(), want) {
		t.Errorf("stdout %q lacks %q", a.stdout.String(), want)
	}
}
