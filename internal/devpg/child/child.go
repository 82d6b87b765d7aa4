//go:build unix

// Package child runs server processes as children of a Go program, such that none outlives the program.
//
// A child of Start or Run is in a process group of its own, so Ctrl-C on the terminal reaches the program alone, which then
// stops its children in the order it wants. On Linux the kernel signals the child when the program dies in
// any other way, SIGKILL included. Other systems have no such thing; there a child can be left behind.
package child

import (
	"context"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"
)

// Process is a running child.
type Process struct {
	cmd  *exec.Cmd
	done chan struct{}
	err  error // set before done is closed
}

// Start starts cmd. When this program dies without stopping it, the child gets the signal orphaned (on Linux).
func Start(cmd *exec.Cmd, orphaned syscall.Signal) (*Process, error) {
	prepare(cmd, orphaned, true)
	return start(cmd)
}

// StartBeside is Start with the child in this program's own process group, so that Ctrl-C on the terminal reaches both.
func StartBeside(cmd *exec.Cmd, orphaned syscall.Signal) (*Process, error) {
	prepare(cmd, orphaned, false)
	return start(cmd)
}

func start(cmd *exec.Cmd) (*Process, error) {
	p := &Process{cmd: cmd, done: make(chan struct{})}
	started := make(chan error)
	go func() {
		// The kernel takes the death of the thread that started the child for the death of the parent. So
		// this goroutine keeps its thread until the child has ended, and gives it back only then.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err != nil {
			return
		}
		p.err = cmd.Wait()
		close(p.done)
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return p, nil
}

// Run runs cmd to its end and returns as exec.Cmd.Run does. A cmd made by exec.CommandContext is ended, when
// its context is, together with all of its own children.
func Run(cmd *exec.Cmd) error {
	prepare(cmd, syscall.SIGKILL, true)
	if cmd.Cancel != nil {
		cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	}
	runtime.LockOSThread() // See Start.
	defer runtime.UnlockOSThread()
	return cmd.Run()
}

func prepare(cmd *exec.Cmd, orphaned syscall.Signal, ownGroup bool) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setpgid = ownGroup
	setOrphanSignal(cmd.SysProcAttr, orphaned)
	if cmd.WaitDelay == 0 {
		// Grandchildren may hold the output pipe open longer than the child lives.
		cmd.WaitDelay = 5 * time.Second
	}
}

// PID is the child's process id. It stays the same after the child has ended.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Done is closed when the child has ended and has been waited for.
func (p *Process) Done() <-chan struct{} { return p.done }

// Err waits for the child's end and tells how it ended, as exec.Cmd.Wait does.
func (p *Process) Err() error {
	<-p.done
	return p.err
}

// Signal sends sig to the child. A child that has ended is no error.
func (p *Process) Signal(sig os.Signal) {
	// Wait and Signal of os.Process are synchronised, so this can't hit a stranger with a reused id.
	_ = p.cmd.Process.Signal(sig) //nolint:errcheck // The only failure is that the child has ended, which Done tells.
}

// Stop sends the signals one after another, each when the one before has not ended the child within grace,
// and SIGKILL at last. It returns when the child has ended. A canceled ctx shortens each grace to 100 ms.
func (p *Process) Stop(ctx context.Context, grace time.Duration, signals ...syscall.Signal) {
	for _, sig := range signals {
		p.Signal(sig)
		if p.ended(ctx, grace) {
			return
		}
	}
	p.Signal(syscall.SIGKILL)
	<-p.done
}

func (p *Process) ended(ctx context.Context, grace time.Duration) bool {
	select {
	case <-p.done:
		return true
	case <-time.After(grace):
		return false
	case <-ctx.Done():
	}
	select {
	case <-p.done:
		return true
	case <-time.After(min(grace, 100*time.Millisecond)):
		return false
	}
}
