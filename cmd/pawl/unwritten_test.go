package main

import (
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pawlhq/pawl/publish"
)

// unwritable runs the program in a process of its own with a standard output that nobody reads, or on a full device.
func unwritable(t *testing.T, r *rig, full bool, args ...string) (code int, stderr string) {
	t.Helper()
	read, stdout, err := os.Pipe()
	if full {
		stdout, err = os.OpenFile("/dev/full", os.O_WRONLY, 0)
	} else {
		_ = read.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = stdout.Close() }()
	var errs bytes.Buffer
	cmd := exec.Command("pawl", args...)
	cmd.Env = append(os.Environ(), "PAWL_URL="+r.url, "GORACE=atexit_sleep_ms=0")
	cmd.Stdout, cmd.Stderr = stdout, &errs
	var exit *exec.ExitError
	if err := cmd.Run(); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), errs.String()
}

// A lease whose id couldn't be told is given back, unless the caller knows the id. A publish whose receipt couldn't be told
// is said to be one.
func TestUnwritableOutput(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "a.txt")
	if err := os.WriteFile(file, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	const own = "00112233445566778899aabbccddeeff"
	for name, test := range map[string]struct {
		args      []string
		held      bool
		published bool
		stderr    string
	}{
		"acquire":          {args: []string{"acquire", "k", "--ttl", "1h"}, stderr: "the lease of token 1 was given back"},
		"acquire as JSON":  {args: []string{"acquire", "k", "--ttl", "1h", "--json"}, stderr: "the lease of token 1 was given back"},
		"acquire by an id": {args: []string{"acquire", "k", "--ttl", "1h", "--lease-id", own}, held: true, stderr: "writing the output"},
		"run as JSON":      {args: []string{"run", "--key", "k", "--json", "--", "sh", "-c", `echo x >"$PAWL_OUT/x"`}, published: true, stderr: "k version 1.1 is published all the same (token 1)"},
		"put":              {args: []string{"put", "k", file}, published: true, stderr: "k version 1.1 is published all the same (token 1)"},
		"put as JSON":      {args: []string{"put", "k", file, "--json"}, published: true, stderr: "k version 1.1 is published all the same (token 1)"},
	} {
		for kind, full := range map[string]bool{"full": true, "closed": false} {
			t.Run(name+" "+kind, func(t *testing.T) {
				t.Parallel()
				r := newRig(t)
				code, stderr := unwritable(t, r, full, test.args...)
				if code != exitIO || !strings.Contains(stderr, test.stderr) {
					t.Errorf("exit code %d, stderr %q; want %d and %q", code, stderr, exitIO, test.stderr)
				}
				if strings.Contains(stderr, own) {
					t.Errorf("stderr tells the lease_id: %s", stderr)
				}
				if lease, err := r.client.Lease(t.Context(), "k"); err != nil || lease.Held != test.held {
					t.Errorf("the lease is %+v, %v", lease, err)
				}
				if _, err := r.client.Pointer(t.Context(), "k"); (err == nil) != test.published {
					t.Errorf("the pointer: %v", err)
				}
			})
		}
	}
}

// A credential whose text couldn't be told is revoked, unless another would be without a successor then.
func TestUnwritableCredential(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	list := func() (states []string) {
		t.Helper()
		page, err := r.pointers.Credentials(t.Context(), "", 10)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range page.Credentials {
			states = append(states, c.Name+" "+string(c.State))
		}
		return states
	}
	fails := func(says string, args ...string) {
		t.Helper()
		var stderr bytes.Buffer
		read, write := io.Pipe()
		_ = read.Close()
		env := lookup([]string{"PAWL_URL=" + r.asking, "PAWL_CREDENTIAL=" + r.admin, "PAWL_RETRY_FOR=0s"})
		if code := run(t.Context(), args, strings.NewReader(""), write, &stderr, env); code != exitIO || !strings.Contains(stderr.String(), says) {
			t.Errorf("exit code %d, stderr %q", code, stderr.String())
		}
	}
	root, err := r.pointers.Credentials(t.Context(), "", 1)
	if err != nil {
		t.Fatal(err)
	}
	fails("was revoked again", "credential", "create", "--name", "ci", "--scope", "read")
	if got := strings.Join(list(), ", "); got != "ci revoked, root active" {
		t.Errorf("the credentials are %s", got)
	}
	fails("rotate that one, too", "credential", "rotate", string(root.Credentials[0].ID))
	if got := strings.Join(list(), ", "); got != "ci revoked, root active, root active" {
		t.Errorf("the credentials are %s", got)
	}
	r.pointers.Faults.Add(faultOf("RevokeCredential", publish.ErrUnavailable))
	fails("could not be revoked", "credential", "create", "--name", "cd", "--scope", "read", "--json")
}

// A lease that can't be given back either is said to be one.
func TestUnwritableOutputAndNoRelease(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.pointers.Faults.Add(faultOf("Release", publish.ErrUnavailable))
	var stderr bytes.Buffer
	read, write := io.Pipe()
	_ = read.Close()
	env := lookup([]string{"PAWL_URL=" + r.url, "PAWL_RETRY_FOR=0s"})
	code := run(t.Context(), []string{"acquire", "k"}, strings.NewReader(""), write, &stderr, env)
	if code != exitIO || !strings.Contains(stderr.String(), "could not be given back either, and expires at ") {
		t.Errorf("exit code %d, stderr %q", code, stderr.String())
	}
}
