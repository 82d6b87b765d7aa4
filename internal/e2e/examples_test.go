package e2e

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pawlhq/pawl/internal/testenv"
)

// exampleLimit is how long an example may take, also one that is compiled first, on a machine that runs many other tests.
const exampleLimit = 5 * time.Minute

// The commands of each example's README run as they are printed, in order and in one shell, in a copy of the checkout next to a server of
// their own, and print what the README says. They leave no process, and no file outside the copy.
func TestExamples(t *testing.T) {
	t.Parallel()
	for _, name := range exampleNames(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			readme, err := os.ReadFile(filepath.Join("../../examples", name, "README.md"))
			if err != nil {
				t.Fatal(err)
			}
			steps, err := readExample(string(readme))
			if err != nil {
				t.Fatal(err)
			}
			if name == "frames" {
				// Again, over what the first time has left: its commands work on keys that have versions, whose numbers are others then.
				for _, step := range steps {
					steps = append(steps, exampleStep{commands: step.commands})
				}
			}
			before := listing(t, "../../examples/"+name)
			runExample(t, checkout(t), steps)
			if after := listing(t, "../../examples/"+name); after != before {
				t.Errorf("the example has changed itself in the checkout, not in the copy:\n%s\nwas\n%s", after, before)
			}
		})
	}
}

// runExample runs the steps in dir and checks what they print and leave.
func runExample(t *testing.T, dir string, steps []exampleStep) {
	t.Helper()
	_, url := dev(t, devData(t))
	// What belongs to this run is told by a secret: it stands in the environment of its processes, and between the output of its steps.
	mark := "PAWL_EXAMPLE=" + rand.Text()
	script := "exec 2>&1\n"
	for _, step := range steps {
		script += step.commands + "\necho; echo " + mark + "\n"
	}
	ctx, cancel := context.WithTimeout(t.Context(), exampleLimit)
	defer cancel()
	scratch := testenv.TempDir(t) // A private Postgres of an example can enter it, also for root.
	cmd := exec.CommandContext(ctx, "bash", "-euo", "pipefail", "-c", script)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "PAWL_URL="+url, "TMPDIR="+scratch, mark)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 5 * time.Second
	t.Cleanup(func() { endMarked(t, mark) })
	out, err := cmd.CombinedOutput()
	printed := strings.Split(string(out), "\n"+mark+"\n")
	if err != nil {
		if ctx.Err() != nil {
			err = fmt.Errorf("not within %v: %w", exampleLimit, err)
		}
		t.Fatalf("step %d of %d: %v\n%s", len(printed), len(steps), err, out)
	}
	for i, step := range steps {
		if err := step.check(printed[i]); err != nil {
			t.Errorf("step %d: %v:\n%s", i+1, err, printed[i])
		}
	}
	if left := marked(mark); len(left) > 0 {
		t.Errorf("it has left processes: %v", left)
	}
	if left := listing(t, scratch); left != "" {
		t.Errorf("it has left temporary files:\n%s", left)
	}
}

// checkout copies the checkout, as it is now and without what is built, and puts the program into its bin as `make run` does.
func checkout(t *testing.T) string {
	t.Helper()
	from, to := os.DirFS("../.."), t.TempDir()
	built := map[string]bool{".git": true, "bin": true, ".tools": true, ".cache": true}
	err := fs.WalkDir(from, ".", func(path string, entry fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist): // Other tests write and remove files.
			return nil
		case err != nil:
			return err
		case built[path] && entry.IsDir():
			return fs.SkipDir
		case entry.IsDir():
			return os.MkdirAll(filepath.Join(to, path), 0o700)
		case !entry.Type().IsRegular():
			return nil
		}
		text, err := fs.ReadFile(from, path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		info, infoErr := entry.Info()
		if err := errors.Join(err, infoErr); err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(to, path), text, info.Mode().Perm())
	})
	if err == nil {
		err = os.Mkdir(filepath.Join(to, "bin"), 0o700)
	}
	if err == nil {
		err = os.Symlink(binary(t), filepath.Join(to, "bin", "pawl"))
	}
	if err != nil {
		t.Fatal(err)
	}
	return to
}

// listing is what lies in a folder, with sizes and times.
func listing(t *testing.T, dir string) string {
	t.Helper()
	var list strings.Builder
	err := fs.WalkDir(os.DirFS(dir), ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || path == "." {
			return err
		}
		info, err := entry.Info()
		if err == nil {
			fmt.Fprintf(&list, "%s %d %s\n", path, info.Size(), info.ModTime())
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return list.String()
}

// marked are the processes that have mark in their environment, also those that have left their group and session.
func marked(mark string) map[int]string {
	found := map[int]string{}
	environments, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, file := range environments {
		environment, err := os.ReadFile(file)
		if err != nil || !bytes.Contains(environment, []byte(mark)) {
			continue // It has ended, or is another user's.
		}
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		command, _ := os.ReadFile(filepath.Join(filepath.Dir(file), "cmdline"))
		found[pid] = string(bytes.ReplaceAll(command, []byte{0}, []byte{' '}))
	}
	return found
}

// endMarked ends what is left of an example that failed.
func endMarked(t *testing.T, mark string) {
	t.Helper()
	testenv.Eventually(t, patience, func() error {
		left := marked(mark)
		for pid := range left {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		if len(left) > 0 {
			return fmt.Errorf("still there: %v", left)
		}
		return nil
	})
}

// An example's process is found, and ended, also in a session of its own.
func TestExampleLeftovers(t *testing.T) {
	t.Parallel()
	mark := "PAWL_EXAMPLE=" + rand.Text()
	start(t, []string{mark}, "setsid", "sleep", "600")
	testenv.Eventually(t, patience, func() error {
		found := marked(mark)
		for _, command := range found {
			if len(found) == 1 && command == "sleep 600 " {
				return nil
			}
		}
		return fmt.Errorf("marked are %v", found)
	})
	endMarked(t, mark)
}
