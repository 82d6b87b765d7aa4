//go:build linux

package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pawlhq/pawl/client"
	"github.com/pawlhq/pawl/publish"
	"github.com/pawlhq/pawl/publish/publishtest"
)

// take waits for the lease of a key as another worker does.
func (r *rig) take(t *testing.T, key publish.Key) client.Lease {
	t.Helper()
	lease, err := r.client.Acquire(t.Context(), publish.AcquireRequest{Key: key, Holder: "render-b", TTL: time.Minute, Wait: patience})
	if err != nil {
		t.Fatal(err)
	}
	return lease
}

// overtake gives the key to another worker, whatever the renewals of its holder do in between.
func (r *rig) overtake(t *testing.T) (b client.Lease) {
	t.Helper()
	eventually(t, "the other's grant", func() bool {
		r.pointers.Advance(time.Minute)
		var err error
		b, err = r.client.Acquire(t.Context(), publish.AcquireRequest{Key: "k", Holder: "render-b", TTL: time.Minute})
		return err == nil
	})
	return b
}

// A command that hangs under a healthy wrapper doesn't keep the key: its lease is renewed no more, and B gets it.
func TestSilentCommandLosesItsLease(t *testing.T) {
	t.Parallel()
	for name, file := range map[string]string{"never there": "beat", "in PAWL_OUT": "out.log", "elsewhere": "/elsewhere"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, dir := newRig(t), t.TempDir()
			if file == "/elsewhere" {
				file = filepath.Join(dir, "log")
			}
			script := `echo $$ >a.pid; `
			if name != "never there" {
				script += `echo started >"$PAWL_PROGRESS_FILE"; `
			}
			a := startRun(t, r, dir, script+`exec sleep 600`, "--ttl", "500ms", "--progress-file", file, "--max-silence", "300ms")
			child := pids(t, dir, 1)
			if b := r.take(t, "k"); b.Token != 2 {
				t.Errorf("B has token %d", b.Token)
			}
			a.exit(t, exitFenced, "hasn't changed for 300ms (--max-silence); the lease of token 1 is not renewed until it does", "the lease of token 1 is lost")
			noneLeft(t, child)
		})
	}
}

// A command that shows progress keeps its lease over many times of --max-silence, and so does one that shows it again before
// anybody took over.
func TestProgressKeepsTheLease(t *testing.T) {
	t.Parallel()
	t.Run("steady", func(t *testing.T) {
		t.Parallel()
		r, dir := newRig(t), t.TempDir()
		a := startRun(t, r, dir, `while [ ! -e go ]; do echo beat >>"$PAWL_PROGRESS_FILE"; sleep 0.05; done`,
			"--ttl", "900ms", "--progress-file", "log", "--max-silence", "3s")
		eventually(t, "renewals", func() bool { return r.pointers.Faults.Calls("Renew") > 15 })
		touch(t, filepath.Join(dir, "go"))
		a.exit(t, 0, "published k version 1.1")
		if strings.Contains(a.stderr.String(), "--max-silence") {
			t.Errorf("stderr %q", a.stderr.String())
		}
	})
	t.Run("again", func(t *testing.T) {
		t.Parallel()
		r, dir := newRig(t), t.TempDir()
		a := startRun(t, r, dir, until+`while [ ! -e end ]; do echo beat >>"$PAWL_PROGRESS_FILE"; sleep 0.02; done`,
			"--ttl", "500ms", "--progress-file", "log", "--max-silence", "300ms")
		eventually(t, "the expiry", func() bool {
			return strings.Contains(a.stderr.String(), "the lease of token 1 has run out, because it isn't renewed (--max-silence)")
		})
		eventually(t, "the server's expiry", func() bool {
			lease, err := r.client.Lease(t.Context(), "k")
			return err == nil && !lease.Held
		})
		touch(t, filepath.Join(dir, "go"))
		eventually(t, "the notice", func() bool {
			return strings.Contains(a.stderr.String(), "has changed again; renewing the lease of token 1")
		})
		eventually(t, "the renewal", func() bool {
			lease, err := r.client.Lease(t.Context(), "k")
			return err == nil && lease.Held
		})
		touch(t, filepath.Join(dir, "end"))
		a.exit(t, 0, "published k version 1.1")
		if strings.Contains(a.stderr.String(), "trying on") {
			t.Errorf("stderr %q", a.stderr.String())
		}
	})
}

// --max-hold ends the command, however it takes that, and gives the key to the next one; what it made isn't published.
func TestMaxHold(t *testing.T) {
	t.Parallel()
	for name, script := range map[string]string{
		"plain":       `echo $$ >a.pid; echo x >"$PAWL_OUT/x"; exec sleep 600`,
		"deaf":        `trap "" TERM; echo $$ >a.pid; echo x >"$PAWL_OUT/x"; while :; do sleep 0.1; done`,
		"ends with 0": `trap "exit 0" TERM; echo $$ >a.pid; echo x >"$PAWL_OUT/x"; while :; do sleep 0.1; done`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, dir := newRig(t), t.TempDir()
			a := startRun(t, r, dir, script, "--ttl", "30s", "--max-hold", "1s", "--kill-after", "300ms")
			child := pids(t, dir, 1)
			b := r.take(t, "k") // long before the TTL is over
			a.exit(t, exitOverheld, "the lease of token 1 was held for 1s (--max-hold); ending the work", "nothing is published")
			noneLeft(t, child)
			if pointer, err := r.client.Pointer(t.Context(), "k"); err == nil {
				t.Errorf("%s is published", pointer.Version())
			}
			r.publish(t, b, "x", "b")
		})
	}
}

// --max-hold counts for the uploads as well.
func TestMaxHoldEndsUploads(t *testing.T) {
	t.Parallel()
	r, dir := newRig(t), t.TempDir()
	ended := make(chan struct{})
	t.Cleanup(func() { close(ended) })
	r.blobs.Faults.Add(publishtest.Fault{Operation: "Put", Times: -1, Before: func(context.Context) { <-ended }})
	a := startRun(t, r, dir, `echo x >"$PAWL_OUT/x"`, "--max-hold", "500ms")
	a.exit(t, exitOverheld, "--max-hold")
	if lease, err := r.client.Lease(t.Context(), "k"); err != nil || lease.Held {
		t.Errorf("lease %+v, %v", lease, err)
	}
}

// The lease file follows the lease, and others can work with it in the middle of a run.
func TestLeaseFileFollowsTheLease(t *testing.T) {
	t.Parallel()
	r, dir := newRig(t), t.TempDir()
	file := filepath.Join(dir, "lease.json")
	a := startRun(t, r, dir, `echo $$ >a.pid; `+until, "--ttl", "600ms", "--lease-file", "lease.json", "--expect", "note.txt")
	pids(t, dir, 1)
	read := func() string {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	first := read()
	eventually(t, "a rewrite", func() bool { return read() != first })
	if info, err := os.Stat(file); err != nil || info.Mode() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	if err := os.WriteFile(filepath.Join(dir, "note.txt"), []byte("by another process"), 0o600); err != nil {
		t.Fatal(err)
	}
	put := startPawl(t, dir, []string{"PAWL_URL=" + r.url}, "put", "k", "note.txt", "--lease-file", "lease.json")
	put.exit(t, 0)
	touch(t, filepath.Join(dir, "go"))
	a.exit(t, 0, "published k version 1.1")
	if leftovers, _ := filepath.Glob(filepath.Join(dir, "*lease*")); leftovers != nil {
		t.Errorf("left: %q", leftovers)
	}
}

// A lease file that can't be rewritten ends nothing.
func TestLeaseFileThatCannotBeRewritten(t *testing.T) {
	t.Parallel()
	r, dir := newRig(t), t.TempDir()
	folder := filepath.Join(dir, "leases")
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(folder, "lease.json")
	a := startRun(t, r, dir, `echo $$ >a.pid; `+until+`echo x >"$PAWL_OUT/x"`, "--ttl", "600ms", "--lease-file", file)
	pids(t, dir, 1)
	// A write that is under way may make this fail once.
	eventually(t, "the removal", func() bool { return os.RemoveAll(folder) == nil })
	eventually(t, "the notice", func() bool { return strings.Contains(a.stderr.String(), "the lease file wasn't rewritten") })
	if strings.Count(a.stderr.String(), "wasn't rewritten") != 1 {
		t.Errorf("stderr %q", a.stderr.String())
	}
	touch(t, filepath.Join(dir, "go"))
	a.exit(t, 0, "published k version 1.1")
}

// While the server is away the command can be paused; it goes on when a renewal is answered, as often as that happens.
func TestPausedWhileAway(t *testing.T) {
	t.Parallel()
	r, dir := newRig(t), t.TempDir()
	a := startRun(t, r, dir, `echo $$ >a.pid; exec sleep 600`, "--ttl", "500ms", "--when-away", "pause", "--kill-after", "300ms")
	child := pids(t, dir, 1)
	for n := range 2 {
		r.pointers.Faults.Add(publishtest.Fault{Operation: "Renew", Times: -1})
		eventually(t, "the pause", func() bool { return state(child[0]) == 'T' })
		r.pointers.Faults.Clear()
		eventually(t, "the resumption", func() bool { return state(child[0]) == 'S' })
		if told := strings.Count(a.stderr.String(), "the command is paused until a renewal is answered"); told != n+1 {
			t.Errorf("told %d times: %s", told, a.stderr.String())
		}
	}
	// And it is ended, although it is paused, when somebody has taken over meanwhile.
	r.pointers.Faults.Add(publishtest.Fault{Operation: "Renew", Times: -1})
	eventually(t, "the pause", func() bool { return state(child[0]) == 'T' })
	r.take(t, "k")
	r.pointers.Faults.Clear()
	a.exit(t, exitFenced, "the lease of token 1 is lost; ending the command")
	noneLeft(t, child)
}

// By default it runs on.
func TestRunsOnWhileAway(t *testing.T) {
	t.Parallel()
	r, dir := newRig(t), t.TempDir()
	a := startRun(t, r, dir, `echo $$ >a.pid; read x <&2; exec sleep 600`, "--ttl", "300ms")
	child := pids(t, dir, 1)[0]
	r.pointers.Faults.Add(publishtest.Fault{Operation: "Renew", Times: -1})
	eventually(t, "the notice", func() bool { return strings.Contains(a.stderr.String(), "expired by the own clock") })
	eventually(t, "more questions", func() bool { return r.pointers.Faults.Calls("Renew") > 10 })
	if s := state(child); s == 'T' || s == 0 {
		t.Errorf("its state is %c", s)
	}
	if strings.Contains(a.stderr.String(), "paused") {
		t.Errorf("stderr %q", a.stderr.String())
	}
}

// What is paused can be ended, and can be told of a lost lease.
func TestPausedIsStillTold(t *testing.T) {
	t.Parallel()
	r, dir := newRig(t), t.TempDir()
	a := startRun(t, r, dir, `trap "echo told >told; exit 0" USR1; echo $$ >a.pid; while :; do sleep 0.05; done`,
		"--ttl", "500ms", "--when-away", "pause", "--on-lost", "signal=USR1")
	child := pids(t, dir, 1)
	r.pointers.Faults.Add(publishtest.Fault{Operation: "Renew", Times: -1})
	eventually(t, "the pause", func() bool { return strings.Contains(a.stderr.String(), "paused") && state(child[0]) == 'T' })
	r.take(t, "k")
	r.pointers.Faults.Clear()
	a.exit(t, exitFenced, "telling the command by signal 10")
	if _, err := os.Stat(filepath.Join(dir, "told")); err != nil {
		t.Error(err)
	}
}
