//go:build linux

package main

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pawlhq/pawl/publish"
)

// A command that uploads by itself may be gone before its uploads are stored, as ffmpeg is: the publish waits for them. One that fails
// is missed at once.
func TestRunWaitsForUploads(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		fail   error
		code   int
		stderr string
	}{
		"stored": {nil, 0, "published k version 1.1: 2 file(s)"},
		"failed": {errors.New("cut"), exitMissing, `failed: "late"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, dir := newRig(t), t.TempDir()
			a := startRun(t, r, dir, `echo early >early; pawl put k early; echo $PAWL_LEASE_ID >id.part; mv id.part id; `+until, "--expect", "early", "--expect", "late")
			var id []byte
			eventually(t, "the lease", func() (found bool) {
				var err error
				id, err = os.ReadFile(filepath.Join(dir, "id"))
				return err == nil
			})
			lease, err := publish.ParseLeaseID(strings.TrimSpace(string(id)))
			if err != nil {
				t.Fatal(err)
			}
			body, sending := io.Pipe()
			sent := make(chan error, 1)
			go func() {
				_, err := r.client.Upload(t.Context(), publish.UploadRequest{Grant: publish.Grant{Key: "k", Token: 1, LeaseID: lease}, Path: "late", Size: -1, Body: body})
				sent <- err
			}()
			if _, err := sending.Write([]byte("la")); err != nil {
				t.Fatal(err)
			}
			touch(t, filepath.Join(dir, "go"))
			eventually(t, "the notice", func() bool { return strings.Contains(a.stderr.String(), "waiting for 1 of them") })
			if c.fail == nil {
				_, _ = sending.Write([]byte("te"))
			}
			_ = sending.CloseWithError(c.fail)
			if err := <-sent; (err != nil) != (c.fail != nil) {
				t.Errorf("the upload: %v", err)
			}
			a.exit(t, c.code, c.stderr)
		})
	}
}

// What nobody sends is not waited for: not at all when the command left its output in PAWL_OUT, and not for long when it uploads by itself.
func TestRunDoesNotWaitForMissing(t *testing.T) {
	t.Parallel()
	for name, script := range map[string]string{"left": `echo x >"$PAWL_OUT/x"`, "uploaded": `echo x >x; pawl put k x`} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, dir := newRig(t), t.TempDir()
			start := time.Now()
			startRun(t, r, dir, script, "--expect", "x", "--expect", "y").exit(t, exitMissing, `missing: "y"`)
			if took := time.Since(start); took > settleIdle/2 {
				t.Errorf("it took %s", took)
			}
			if calls := r.pointers.Faults.Calls("Publish"); name == "left" && calls != 1 {
				t.Errorf("it asked %d times", calls)
			}
		})
	}
}
