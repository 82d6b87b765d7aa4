//go:build linux

package main

import (
	"path/filepath"
	"strings"
	"testing"
)

// Who still writes an output when the command has ended would be cut off by his end: nothing is published, with a word about it.
func TestUnfinishedOutputIsNotPublished(t *testing.T) {
	t.Parallel()
	const lines = `for i in 1 2 3; do echo line $i; sleep 600; done >`
	for name, c := range map[string]struct {
		script string
		names  string
	}{
		"in PAWL_OUT":       {`(` + lines + `"$PAWL_OUT/f") & `, "/f,"},
		"another session":   {`setsid sh -c '` + lines + `"$PAWL_OUT/f"' & `, "/f,"},
		"opened for both":   {`sleep 600 3<>"$PAWL_OUT/f" & `, "/f,"},
		"a declared file":   {`(` + lines + `declared) & `, "/declared,"},
		"a declared folder": {`mkdir folder; (` + lines + `folder/f) & `, "/folder/f,"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, dir := newRig(t), t.TempDir()
			var flags []string
			if file := strings.Trim(c.names, "/,"); strings.HasPrefix(name, "a declared") {
				flags = []string{"--out", filepath.Join(dir, strings.Split(file, "/")[0])}
			}
			a := startRun(t, r, dir, c.script+`while [ ! -e "$PAWL_OUT/f" ] && [ ! -e declared ] && [ ! -e folder/f ]; do sleep 0.02; done`, flags...)
			a.exit(t, exitMissing, "still wrote ", c.names, "by wait")
			noneOf(t, dir)
			r.unpublished(t)
			if lease, err := r.client.Lease(t.Context(), "k"); err != nil || lease.Held {
				t.Errorf("lease %+v, %v", lease, err)
			}
		})
	}
}

// Others who are left are ended, with a word, and the outputs are published; also when they close them a little after the command's end.
func TestStragglersAreTold(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ script, says string }{
		"reads an output":    {`echo whole >"$PAWL_OUT/f"; sleep 600 <"$PAWL_OUT/f" & `, "1 process(es) of the command were still running when it ended, and were ended"},
		"writes elsewhere":   {`echo whole >"$PAWL_OUT/f"; sleep 600 >log & sleep 600 & `, "2 process(es) of the command were still running"},
		"closes a bit later": {`(sleep 0.3; echo whole) >"$PAWL_OUT/f" & `, "published"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, dir := newRig(t), t.TempDir()
			a := startRun(t, r, dir, c.script+`sleep 0.1`)
			a.exit(t, 0, c.says)
			if got := r.read(t); got != "whole\n" {
				t.Errorf("published %q", got)
			}
			if closes := name == "closes a bit later"; closes && strings.Contains(a.stderr.String(), "still") {
				t.Errorf("stderr %q", a.stderr.String())
			}
		})
	}
}
