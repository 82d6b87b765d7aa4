//go:build linux

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A file that is no lease isn't overwritten, and neither that nor a folder that can't be written is found out only under a lease.
func TestLeaseFileIsCheckedBeforeTheLease(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ text, says string }{
		"text":       {"notes of a month", "--lease-file lease.json: is there and holds no lease, so it isn't overwritten; name another, or remove it"},
		"other JSON": {`{"key":"k","token":1}`, "holds no lease"},
		"a lease":    {`{"key":"other","token":3,"lease_id":"00112233445566778899aabbccddeeff","expires_at":"2026-01-02T03:04:05Z"}`, ""},
		"empty":      {"", ""},
		"/proc":      {"", "--lease-file /proc/lease.json: can't be written"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, dir := newRig(t), t.TempDir()
			file, flag := filepath.Join(dir, "lease.json"), "lease.json"
			if name == "/proc" {
				flag = "/proc/lease.json"
			}
			if err := os.WriteFile(file, []byte(c.text), 0o600); err != nil {
				t.Fatal(err)
			}
			a := startRun(t, r, dir, `echo x >"$PAWL_OUT/x"`, "--lease-file", flag)
			if c.says == "" {
				a.exit(t, 0, "published")
				return
			}
			a.exit(t, exitUsage, c.says)
			if text, err := os.ReadFile(file); string(text) != c.text {
				t.Errorf("the file holds %q, %v", text, err)
			}
			if calls := r.pointers.Faults.Calls("Acquire"); calls != 0 {
				t.Errorf("%d leases", calls)
			}
		})
	}
}

// What others have put in the place of the lease file, or written into it, is neither overwritten by a renewal nor removed at the end.
func TestLeaseFileOfOthersStays(t *testing.T) {
	t.Parallel()
	for name, put := range map[string]string{"another file": `echo mine >new; mv new lease.json`, "the same file": `echo mine >lease.json`} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, dir := newRig(t), t.TempDir()
			// A rewrite that is under way may win: then the file is put there again.
			a := startRun(t, r, dir, `while [ ! -e go ]; do grep -q mine lease.json || { `+put+`; }; sleep 0.02; done; echo x >"$PAWL_OUT/x"`,
				"--ttl", "600ms", "--lease-file", "lease.json")
			eventually(t, "the notice", func() bool { return strings.Contains(a.stderr.String(), "somebody has put another one in its place") })
			touch(t, filepath.Join(dir, "go"))
			a.exit(t, 0, "published")
			if text, err := os.ReadFile(filepath.Join(dir, "lease.json")); string(text) != "mine\n" {
				t.Errorf("the file holds %q, %v", text, err)
			}
		})
	}
}
