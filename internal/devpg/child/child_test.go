//go:build unix

package child_test

import (
	"bufio"
	"context"
	"errors"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/pawlhq/pawl/internal/devpg/child"
)

// parentEnv makes this test binary play the program that is killed.
const parentEnv = "PAWL_CHILD_TEST_PARENT"

func TestMain(m *testing.M) {
	if os.Getenv(parentEnv) != "" {
		playParent()
		return
	}
	goleak.VerifyTestMain(m)
}

func playParent() {
	cmd := exec.Command("sleep", "600")
	p, err := child.Start(cmd, syscall.SIGQUIT)
	if err != nil {
		os.Exit(1)
	}
	_, _ = os.Stdout.WriteString(strconv.Itoa(p.PID()) + "\n")
	<-p.Done()
}

func TestChildDoesNotOutliveKilledParent(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		return // Only Linux promises that.
	}
	parent := exec.CommandContext(t.Context(), os.Args[0])
	parent.Env = append(os.Environ(), parentEnv+"=1")
	stdout, err := parent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = parent.Wait()
	deadline := time.Now().Add(time.Minute)
	for running(pid) {
		if time.Now().After(deadline) {
			t.Fatalf("process %d outlived its parent", pid)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// running is false for a process that has ended, also if nobody has waited for it yet.
func running(pid int) bool {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	return err == nil && !strings.Contains(string(stat), ") Z ")
}

func TestStopGetsRuder(t *testing.T) {
	t.Parallel()
	cmd := exec.Command("sh", "-c", "trap '' INT TERM; echo ready; while :; do sleep 1; done")
	ready := make(notify, 16)
	cmd.Stdout = ready
	p, err := child.Start(cmd, syscall.SIGKILL)
	if err != nil {
		t.Fatal(err)
	}
	<-ready
	p.Stop(t.Context(), 20*time.Millisecond, syscall.SIGINT, syscall.SIGTERM)
	exit, ok := errors.AsType[*exec.ExitError](p.Err())
	if !ok || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Errorf("ended with %v, want SIGKILL", p.Err())
	}
}

func TestRunEndsGrandchildren(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cmd := exec.CommandContext(ctx, "sh", "-c", "sleep 600 & echo ready; wait")
	ready := make(notify, 16)
	cmd.Stdout = ready // The pipe stays open until the grandchild has ended too.
	go func() {
		<-ready
		cancel()
	}()
	before := time.Now()
	if err := child.Run(cmd); err == nil {
		t.Error("no error")
	}
	if took := time.Since(before); took > time.Minute {
		t.Errorf("took %s: the grandchild was left running", took)
	}
}

// notify tells of each write.
type notify chan struct{}

func (n notify) Write(p []byte) (int, error) {
	n <- struct{}{}
	return len(p), nil
}
