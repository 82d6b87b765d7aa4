package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"

	"github.com/pawlhq/pawl/internal/devpg/child"
)

// run runs the command to its end, and returns nil when it succeeded under a lease that isn't known to be lost. None of
// what it started is left then.
func (w worker) run(ctx context.Context, cmd *exec.Cmd) error {
	closeStreams, err := w.streams(cmd)
	if err != nil {
		return err
	}
	family := newFamily(ctx)
	// From before the start on: the default effect of TSTP would stop this process and leave the command running.
	signal.Notify(w.signals, syscall.SIGTSTP, syscall.SIGCONT)
	process, err := child.Start(cmd, syscall.SIGKILL)
	if err != nil {
		closeStreams()
		return childError{126, fmt.Sprintf("%s: can't be executed: %v", cmd.Path, err)}
	}
	family.lead(process.PID())

	interrupted := w.supervise(ctx, process, family)
	// The command has ended: job control has its default effect on this process again.
	signal.Reset(syscall.SIGTSTP, syscall.SIGCONT)
	family.end(w.killAfter)
	closeStreams()
	switch err := process.Err(); {
	case w.isLost():
		return w.fenced(ctx)
	case err != nil:
		return childFailure(err)
	case interrupted != 0:
		// It ended well, but it was told to end: what it left may be half done.
		return interruptedError{interrupted}
	}
	return nil
}

// supervise waits for the end of the command, and hurries it when the lease is lost or a signal says so. It returns that
// signal, 0 when there was none.
func (w worker) supervise(ctx context.Context, process *child.Process, family *family) (interrupted syscall.Signal) {
	var kill <-chan time.Time // runs once the command was told to end
	lost, expired, canceled := w.keeper.Lost(), w.keeper.Context().Done(), ctx.Done()
	hurry := func(sig syscall.Signal) {
		family.signal(sig)
		family.signal(syscall.SIGCONT) // a stopped process acts on no signal
		if kill == nil {
			kill = time.After(w.killAfter)
		}
	}
	reap := time.NewTicker(5 * time.Second)
	defer reap.Stop()
	for {
		select {
		case <-process.Done():
			return interrupted
		case <-lost:
			lost = nil
			w.app.notice("the lease of token %d is lost; ending the command", w.lease.Token)
			hurry(syscall.SIGTERM)
		case <-expired:
			expired = nil
			if !w.isLost() {
				w.app.notice("%s", expiryNotice(w.lease.Token))
			}
		case <-canceled:
			canceled = nil
			if cause := (interruptedError{}); !errors.As(context.Cause(ctx), &cause) {
				interrupted = syscall.SIGTERM
				hurry(syscall.SIGTERM)
			} // else the signal itself comes, too
		case sig := <-w.signals:
			switch sig {
			case syscall.SIGTSTP:
				family.signal(syscall.SIGSTOP)
				_ = syscall.Kill(os.Getpid(), syscall.SIGSTOP) //nolint:errcheck // A process may always signal itself.
			case syscall.SIGCONT:
				family.signal(syscall.SIGCONT)
			default:
				if interrupted != 0 {
					family.signal(syscall.SIGKILL) // asked twice
					continue
				}
				interrupted = sig.(syscall.Signal) //nolint:errcheck,forcetypeassert // All signals of this system are of that type.
				hurry(interrupted)
			}
		case <-kill:
			family.signal(syscall.SIGKILL)
			kill = time.After(time.Second) // again for what was just being started
		case <-reap.C:
			family.reap()
		}
	}
}

// childFailure gives the exit code of a command that failed, as a shell does.
func childFailure(err error) error {
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		return ioError{fmt.Errorf("waiting for the command: %w", err)}
	}
	if status, ok := exit.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return childError{128 + int(status.Signal()), fmt.Sprintf("the command died of signal: %s", status.Signal())}
	}
	return childError{exit.ExitCode(), ""}
}

// streams ties the command to this program's streams. It gets files alone, so that the end of the command can be told
// from that of others who hold its output open.
func (w worker) streams(cmd *exec.Cmd) (closeAll func(), err error) {
	stdout := w.app.stdout.to
	if w.app.json {
		stdout = w.app.stderr
	}
	// A command in a group of its own would be stopped when it reads a terminal, and hold its lease for ever.
	if file, ok := w.app.stdin.(*os.File); ok {
		if info, err := file.Stat(); err == nil && info.Mode()&os.ModeCharDevice == 0 {
			cmd.Stdin = file
		}
	}
	var closers []func()
	closeAll = func() {
		for _, c := range closers {
			c()
		}
	}
	for _, stream := range []struct {
		from *io.Writer
		to   io.Writer
	}{{&cmd.Stdout, stdout}, {&cmd.Stderr, w.app.stderr}} {
		if file, ok := stream.to.(*os.File); ok {
			*stream.from = file
			continue
		}
		read, write, err := os.Pipe()
		if err != nil {
			closeAll()
			return nil, ioError{err}
		}
		*stream.from = write
		copied := make(chan struct{})
		go func() {
			defer close(copied)
			_, _ = io.Copy(stream.to, read) //nolint:errcheck // The command's output is its own matter.
		}()
		closers = append(closers, func() {
			_ = write.Close()                                     //nolint:errcheck // See above.
			_ = read.SetReadDeadline(time.Now().Add(time.Second)) //nolint:errcheck // See above.
			<-copied
			_ = read.Close() //nolint:errcheck // See above.
		})
	}
	return closeAll, nil
}
