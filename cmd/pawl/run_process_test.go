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

	"github.com/pawlhq/pawl/publish"
	"github.com/pawlhq/pawl/publish/publishtest"
)

// until is a shell loop that waits for a file.
const until = `while [ ! -e go ]; do sleep 0.02; done; `

// startRun starts pawl run with a shell script as the command.
func startRun(t *testing.T, r *rig, dir, script string, flags ...string) *process {
	t.Helper()
	args := append([]string{"run", "--key", "k", "--holder", "render-a"}, flags...)
	return startPawl(t, dir, []string{"PAWL_URL=" + r.url, "TMPDIR=" + dir}, append(args, "--", "sh", "-c", script)...)
}

// noneLeft checks that no process is left once pawl has ended.
func noneLeft(t *testing.T, pids []int) {
	t.Helper()
	for _, pid := range pids {
		if running(pid) {
			t.Errorf("process %d is left, in state %c", pid, state(pid))
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}

func (r *rig) rejections(t *testing.T, token publish.Token) []publish.Rejection {
	t.Helper()
	generation, err := r.client.Generation(t.Context(), "k", token)
	if err != nil {
		t.Fatal(err)
	}
	return generation.Rejections
}

// Case 1: a worker that is stopped past its lease comes back when another has published.
func TestCase01StoppedWorkerIsFenced(t *testing.T) {
	t.Parallel()
	r, dir := newRig(t), t.TempDir()
	a := startRun(t, r, dir, `echo $$ >a.pid; `+until+`echo a >"$PAWL_OUT/out.txt"`, "--ttl", "2s")
	child := pids(t, dir, 1)[0]
	a.signal(t, syscall.SIGSTOP)
	signalGroup(t, child, syscall.SIGSTOP)

	r.pointers.Advance(time.Minute)
	b := r.publish(t, r.acquire(t, "k", "render-b", time.Minute), "out.txt", "b")
	touch(t, filepath.Join(dir, "go"))
	signalGroup(t, child, syscall.SIGCONT)
	a.signal(t, syscall.SIGCONT)

	a.exit(t, exitFenced, "pawl: fenced: token 1 is stale: token 2 (holder render-b) was accepted; this output must not be retried")
	pointer, err := r.client.Pointer(t.Context(), "k")
	if err != nil || pointer.Version() != b.Version() {
		t.Errorf("current is %v, %v", pointer.Version(), err)
	}
	if rejections := r.rejections(t, 1); len(rejections) == 0 || rejections[0].Holder != "render-a" || rejections[0].AcceptedToken != 2 {
		t.Errorf("rejections %+v", rejections)
	}
	noneLeft(t, []int{child})
}

// Case 53: when the lease is lost, no descendant is left after the grace, whatever it does about it; and the fence is
// asked, so that the history knows (case 54: the exit code is 80 also when the command ends with 0).
func TestCase53LostLeaseEndsTheFamily(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		script  string
		members int
	}{
		"plain":                  {`echo $$ >a.pid; exec sleep 600`, 1},
		"shell that waits":       {`sh -c 'echo $$ >a.pid; exec sleep 600' & echo $$ >b.pid; wait`, 2},
		"deaf":                   {`trap "" TERM; sh -c 'echo $$ >a.pid; while :; do sleep 0.1; done' & echo $$ >b.pid; while :; do sleep 0.1; done`, 2},
		"ends with 0":            {`trap "exit 0" TERM; echo $$ >a.pid; while :; do sleep 0.1; done`, 1},
		"in another session":     {`setsid sh -c 'echo $$ >a.pid; exec sleep 600' & echo $$ >b.pid; wait`, 2},
		"orphaned, deaf and far": {`(setsid sh -c 'trap "" TERM; echo $$ >a.pid; while :; do sleep 0.1; done' &); echo $$ >b.pid; exec sleep 600`, 2},
		"stopped":                {`echo $$ >a.pid; kill -STOP $$; exec sleep 600`, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, dir := newRig(t), t.TempDir()
			a := startRun(t, r, dir, c.script, "--ttl", "600ms", "--kill-after", "500ms")
			family := pids(t, dir, c.members)
			b := r.overtake(t)
			// It ends as soon as a renewal tells, whether B has published or not; here B has not.
			a.exit(t, exitFenced, "the lease of token 1 is lost", "fenced", "token 2")
			noneLeft(t, family)
			r.publish(t, b, "out.txt", "b")
		})
	}
}

// The fence is asked by a publish that can't succeed: also when files of the lost generation are complete.
func TestLostLeaseNeverPublishes(t *testing.T) {
	t.Parallel()
	r, dir := newRig(t), t.TempDir()
	a := startRun(t, r, dir, `echo $$ >a.pid; pawl put k a.pid; echo >uploaded; exec sleep 600`, "--ttl", "600ms")
	awaitFile(t, dir, "uploaded")
	r.pointers.Advance(time.Minute)
	r.acquire(t, "k", "render-b", time.Minute)
	a.exit(t, exitFenced)
	if pointer, err := r.client.Pointer(t.Context(), "k"); err == nil {
		t.Fatalf("it was published: %+v", pointer)
	}
}

// The rejection stands in the history although the command was ended long before it could publish.
func TestLostLeaseIsRecorded(t *testing.T) {
	t.Parallel()
	r, dir := newRig(t), t.TempDir()
	a := startRun(t, r, dir, `echo $$ >a.pid; exec sleep 600`, "--ttl", "2s")
	child := pids(t, dir, 1)[0]
	a.signal(t, syscall.SIGSTOP) // so that it doesn't notice before B has published
	r.pointers.Advance(time.Minute)
	r.publish(t, r.acquire(t, "k", "render-b", time.Minute), "out.txt", "b")
	a.signal(t, syscall.SIGCONT)
	a.exit(t, exitFenced, "fenced: token 1 is stale: token 2 (holder render-b) was accepted")
	if rejections := r.rejections(t, 1); len(rejections) != 1 || rejections[0].Operation != publish.OperationPublish {
		t.Errorf("rejections %+v", rejections)
	}
	noneLeft(t, []int{child})
}

// Case 53: signals reach the whole family; nothing is published, and the lease is given back.
func TestCase53Signals(t *testing.T) {
	t.Parallel()
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT} {
		for name, script := range map[string]string{
			// A shell's background commands ignore INT and QUIT, so here it is KILL that ends the worker.
			"waits":       `sh -c 'echo $$ >a.pid; exec sleep 600' & echo $$ >b.pid; wait`,
			"ends with 0": `sh -c 'echo $$ >a.pid; exec sleep 600' & trap "echo x >$PAWL_OUT/x; exit 0" TERM INT HUP QUIT; echo $$ >b.pid; wait`,
		} {
			t.Run(sig.String()+" "+name, func(t *testing.T) {
				t.Parallel()
				r, dir := newRig(t), t.TempDir()
				a := startRun(t, r, dir, script, "--kill-after", "3s")
				family := pids(t, dir, 2)
				a.signal(t, sig)
				a.exit(t, 128+int(sig))
				noneLeft(t, family)
				lease, err := r.client.Lease(t.Context(), "k")
				if err != nil || lease.Held || lease.Current != nil {
					t.Errorf("lease %+v, %v", lease, err)
				}
			})
		}
	}
}

func TestAskedTwiceIsAtOnce(t *testing.T) {
	t.Parallel()
	r, dir := newRig(t), t.TempDir()
	a := startRun(t, r, dir, `trap "echo >told" TERM; echo $$ >a.pid; while :; do sleep 0.1; done`, "--kill-after", "1h")
	child := pids(t, dir, 1)
	a.signal(t, syscall.SIGTERM)
	awaitFile(t, dir, "told")
	eventually(t, "the end", func() bool {
		time.Sleep(2 * sameRequest) // What comes sooner isn't a second request.
		_ = a.cmd.Process.Signal(syscall.SIGTERM)
		return !running(child[0])
	})
	a.exit(t, 128+9)
	noneLeft(t, child)
}

// Who outlives a command that succeeded is ended, too: its output would come too late.
func TestNobodyOutlivesASuccess(t *testing.T) {
	t.Parallel()
	r, dir := newRig(t), t.TempDir()
	a := startRun(t, r, dir, `setsid sh -c 'echo $$ >a.pid; exec sleep 600' & sh -c 'echo $$ >b.pid; exec sleep 600' & `+
		`while [ ! -e a.pid ] || [ ! -e b.pid ]; do sleep 0.02; done; echo x >"$PAWL_OUT/x"`)
	family := pids(t, dir, 2)
	a.exit(t, 0, "published k version 1.1")
	noneLeft(t, family)
}

// Expired isn't lost: when nobody took over, the publish goes through, and says so.
func TestExpiredLeaseMayPublish(t *testing.T) {
	t.Parallel()
	r, dir := newRig(t), t.TempDir()
	r.pointers.Faults.Add(publishtest.Fault{Operation: "Renew", Times: -1})
	a := startRun(t, r, dir, `echo $$ >a.pid; `+until+`echo a >"$PAWL_OUT/out.txt"`, "--ttl", "300ms", "--json")
	eventually(t, "the notice", func() bool { return strings.Contains(a.stderr.String(), "expired by the own clock") })
	r.pointers.Expire("k") // The holder's clock runs out first, since it counts from an earlier moment.
	touch(t, filepath.Join(dir, "go"))
	a.exit(t, 0)
	if !strings.Contains(a.stdout.String(), `"lease_expired":true`) {
		t.Errorf("receipt %s", a.stdout.String())
	}
}

// Ctrl-Z stops the command with the wrapper, and fg goes on with both.
func TestSuspendAndResume(t *testing.T) {
	t.Parallel()
	r, dir := newRig(t), t.TempDir()
	gate := filepath.Join(dir, "gate")
	if err := syscall.Mkfifo(gate, 0o600); err != nil {
		t.Fatal(err)
	}
	// It waits without starting others: a shell that is stopped in the middle of a vfork shows as waiting, not as stopped.
	a := startRun(t, r, dir, `echo $$ >a.pid; read x <gate; echo a >"$PAWL_OUT/out.txt"`)
	child := pids(t, dir, 1)[0]
	a.signal(t, syscall.SIGTSTP)
	for _, pid := range []int{child, a.cmd.Process.Pid} {
		eventually(t, "the stop", func() bool { return state(pid) == 'T' })
	}
	a.signal(t, syscall.SIGCONT)
	eventually(t, "the resumption", func() bool { return state(child) == 'S' })
	opened, err := os.OpenFile(gate, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer opened.Close()
	if _, err := opened.WriteString("go\n"); err != nil {
		t.Fatal(err)
	}
	a.exit(t, 0, "published")
}

// Whoever is told to end while he waits for a lease leaves none behind.
func TestInterruptedWhileWaiting(t *testing.T) {
	t.Parallel()
	r, dir := newRig(t), t.TempDir()
	other := r.acquire(t, "k", "render-b", time.Minute)
	a := startRun(t, r, dir, `echo >ran`, "--wait", "1m")
	eventually(t, "the request", func() bool { return r.pointers.Faults.Calls("Acquire") > 1 })
	a.signal(t, syscall.SIGHUP)
	a.exit(t, 128+1)
	if err := r.client.Release(t.Context(), "k", other.LeaseID); err != nil {
		t.Fatal(err)
	}
	if next := r.acquire(t, "k", "next", time.Minute); next.Token != 2 {
		t.Errorf("token %d: the waiter was granted", next.Token)
	}
	if _, err := os.Stat(filepath.Join(dir, "ran")); err == nil {
		t.Error("the command ran")
	}
}

// Case 50: the lease_id stands on no command line.
func TestCase50SecretStaysOffCommandLines(t *testing.T) {
	t.Parallel()
	r, dir := newRig(t), t.TempDir()
	a := startRun(t, r, dir, `echo $PAWL_LEASE_ID >id; echo $$ >a.pid; `+until)
	child := pids(t, dir, 1)[0]
	id, err := os.ReadFile(filepath.Join(dir, "id"))
	if err != nil || len(strings.TrimSpace(string(id))) != 32 {
		t.Fatalf("%q, %v", id, err)
	}
	for _, pid := range []int{child, a.cmd.Process.Pid} {
		line, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "cmdline"))
		if err != nil || strings.Contains(string(line), strings.TrimSpace(string(id))) {
			t.Errorf("command line %q, %v", line, err)
		}
	}
	touch(t, filepath.Join(dir, "go"))
	a.exit(t, exitMissing)
}

// Case 4: what takes longer than the TTL ends under the same token.
func TestCase04LongerThanItsTTL(t *testing.T) {
	t.Parallel()
	r, dir := newRig(t), t.TempDir()
	a := startRun(t, r, dir, `echo $$ >a.pid; `+until+`echo x >"$PAWL_OUT/x"`, "--ttl", "600ms", "--json")
	pids(t, dir, 1)
	eventually(t, "renewals over several TTLs", func() bool { return r.pointers.Faults.Calls("Renew") > 9 })
	touch(t, filepath.Join(dir, "go"))
	a.exit(t, 0)
	if !strings.Contains(a.stdout.String(), `"token":1,`) || !strings.Contains(a.stdout.String(), `"lease_expired":false`) {
		t.Errorf("receipt %s", a.stdout.String())
	}
}
