package main

import (
	"bytes"
	"errors"
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

// process is a running pawl in a process of its own.
type process struct {
	cmd            *exec.Cmd
	stdout, stderr testenv.Buffer
	done           chan struct{}
}

// startPawl starts the program in a folder, with env added to this process's.
func startPawl(t *testing.T, dir string, env []string, args ...string) *process {
	t.Helper()
	p := &process{cmd: exec.Command("pawl", args...)}
	p.start(t, dir, env)
	return p
}

func (p *process) start(t *testing.T, dir string, env []string) {
	t.Helper()
	p.done = make(chan struct{})
	p.cmd.Dir, p.cmd.Stdout, p.cmd.Stderr = dir, &p.stdout, &p.stderr
	p.cmd.Env = append(os.Environ(), append(env, "GORACE=atexit_sleep_ms=0")...)
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = p.cmd.Wait()
		close(p.done)
	}()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		<-p.done
		if t.Failed() {
			t.Logf("%s printed %q and %q", strings.Join(p.cmd.Args, " "), p.stdout.String(), p.stderr.String())
		}
	})
}

func (p *process) signal(t *testing.T, sig syscall.Signal) {
	t.Helper()
	if err := p.cmd.Process.Signal(sig); err != nil {
		t.Fatalf("%s: %v", sig, err)
	}
}

// exit waits for the end and compares the exit code and what stderr says.
func (p *process) exit(t *testing.T, want int, stderr ...string) {
	t.Helper()
	select {
	case <-p.done:
	case <-time.After(patience):
		t.Fatalf("it didn't end; stderr %q", p.stderr.String())
	}
	if got := p.cmd.ProcessState.ExitCode(); got != want {
		t.Errorf("exit code %d, want %d; stderr %q", got, want, p.stderr.String())
	}
	for _, text := range stderr {
		if !strings.Contains(p.stderr.String(), text) {
			t.Errorf("stderr %q doesn't say %q", p.stderr.String(), text)
		}
	}
}

// eventually waits for a condition.
func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !condition(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s didn't come true", what)
		}
	}
}

// pids waits until n processes have written their ids into files <name>.pid of a folder.
func pids(t *testing.T, dir string, n int) []int {
	t.Helper()
	var all []int
	eventually(t, "the start of the workers", func() bool {
		all = nil
		files, _ := filepath.Glob(filepath.Join(dir, "*.pid"))
		for _, file := range files {
			text, _ := os.ReadFile(file)
			if pid, err := strconv.Atoi(strings.TrimSpace(string(text))); err == nil {
				all = append(all, pid)
			}
		}
		return len(all) == n
	})
	return all
}

// state is the letter of a process in the process table, 0 when there is no such process.
func state(pid int) byte {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	end := bytes.LastIndexByte(stat, ')')
	if err != nil || end < 0 || len(stat) < end+3 {
		return 0
	}
	return stat[end+2]
}

func running(pid int) bool { s := state(pid); return s != 0 && s != 'Z' && s != 'X' }

func signalGroup(t *testing.T, pid int, sig syscall.Signal) {
	t.Helper()
	if err := syscall.Kill(-pid, sig); err != nil && !errors.Is(err, syscall.ESRCH) {
		t.Fatal(err)
	}
}

func touch(t *testing.T, path string) {
	t.Helper()
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
}

// awaitFile waits until there is a file of that name in a folder.
func awaitFile(t *testing.T, dir, name string) {
	t.Helper()
	eventually(t, name, func() bool { _, err := os.Stat(filepath.Join(dir, name)); return err == nil })
}
