//go:build linux

package main

import (
	"encoding/json"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pawlhq/pawl/publish"
)

// Who gives up waiting for a lease hears of the signal alone.
func TestSignalWhileWaitingForTheLease(t *testing.T) {
	t.Parallel()
	for name, args := range map[string][]string{
		"run":     {"run", "--json", "--key", "k", "--wait", "1h", "--", "true"},
		"acquire": {"acquire", "k", "--wait", "1h"},
		"put":     {"put", "k", "/etc/hostname", "--wait", "1h"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, dir := newRig(t), t.TempDir()
			r.acquire(t, "k", "render-b", time.Minute)
			before := r.pointers.Faults.Calls("Acquire")
			a := startPawl(t, dir, []string{"PAWL_URL=" + r.url, "TMPDIR=" + dir}, args...)
			eventually(t, "the waiting", func() bool { return r.pointers.Faults.Calls("Acquire") > before })
			a.signal(t, syscall.SIGTERM)
			a.exit(t, 128+15)
			if got := a.stderr.String(); got != "pawl: ended by signal: terminated\n" {
				t.Errorf("stderr %q", got)
			}
			if strings.Contains(a.stdout.String(), "outcome-unknown") {
				t.Errorf("stdout %q", a.stdout.String())
			}
		})
	}
}

// The result of a lease that was lost to a holder who hasn't published yet has what the server said of it.
func TestLostLeaseTellsItsMembers(t *testing.T) {
	t.Parallel()
	r, dir := newRig(t), t.TempDir()
	a := startRun(t, r, dir, `echo $$ >a.pid; exec sleep 600`, "--json", "--ttl", "600ms")
	pids(t, dir, 1)
	r.overtake(t)
	a.exit(t, exitFenced, "pawl: fenced: the lease of token 1 is lost: token 2")
	var result struct {
		Outcome string
		Error   struct {
			Type         string
			Code         publish.Code
			Token        publish.Token
			GrantedToken publish.Token `json:"granted_token"`
		}
	}
	if err := json.Unmarshal([]byte(a.stdout.String()), &result); err != nil {
		t.Fatal(err)
	}
	if e := result.Error; result.Outcome != "fenced" || e.Type != "/problems/lease-lost" || e.Code != publish.ErrLeaseLost || e.Token != 1 || e.GrantedToken != 2 {
		t.Errorf("%s", a.stdout.String())
	}
}

// What can't work is told before a lease is taken.
func TestRunIsCheckedBeforeTheLease(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		env  string
		args []string
		code int
		says string
	}{
		"run --wait":     {"", []string{"run", "--key", "k", "--wait", "-5s", "--", "true"}, exitUsage, "--wait is -5s; it must not be negative"},
		"acquire --wait": {"", []string{"acquire", "k", "--wait", "-5s"}, exitUsage, "--wait is -5s; it must not be negative"},
		"TMPDIR":         {"TMPDIR=/proc", []string{"run", "--key", "k", "--", "true"}, exitIO, "let TMPDIR name a folder that can be written"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, dir := newRig(t), t.TempDir()
			startPawl(t, dir, []string{"PAWL_URL=" + r.url, c.env}, c.args...).exit(t, c.code, c.says)
			if calls := r.pointers.Faults.Calls("Acquire"); calls != 0 {
				t.Errorf("%d leases", calls)
			}
		})
	}
}
