package main

import (
	"context"
	"errors"
	"os/exec"
	"syscall"
	"time"
)

const (
	// sameRequest is how long a signal that comes again, once it has been acted on, is the same request to end: timeout(1) sends it to
	// the process and to its group. People are slower.
	sameRequest = 100 * time.Millisecond
	// stopGrace is how long the command may take to stop after TSTP.
	stopGrace = 300 * time.Millisecond
)

// run runs the command to its end, and returns nil when it succeeded under a lease that isn't known to be lost. None of
// what it started is left then.
func (w worker) run(ctx context.Context, cmd *exec.Cmd) error {
	foreground := isOwnProcess(ctx) && inForeground()
	closeStreams, err := w.streams(cmd, foreground)
	if err != nil {
		return err
	}
	var terminal *terminalState
	if foreground {
		terminal = terminalNow()
	}
	adopting := isOwnProcess(ctx) && adoptOrphans() == nil
	c, err := startCommand(ctx, cmd, foreground)
	if err != nil {
		closeStreams()
		return err
	}
	family := newFamily(c, adopting)
	interrupted := w.supervise(ctx, c, family)
	grace := w.killAfter
	if c.err == errGuardDied { //nolint:errorlint // It is compared as it was set.
		grace = 0 // Whoever killed the guard may be about to kill this process, and nobody would be left to end the others.
	}
	var unfinished error
	if c.err == nil && interrupted == 0 && !w.isLost() && !w.hold.isOver() {
		unfinished = w.stragglers(family)
	}
	family.end(grace)
	if interrupted != 0 || w.isLost() || w.hold.isOver() || diedOfSignal(c.err) {
		terminal.restore()
	}
	c.close()
	closeStreams()
	switch {
	case w.isLost():
		return w.fenced(ctx)
	case w.hold.isOver():
		return overheldError{w.flags.maxHold}
	case interrupted != 0 && (c.err == nil || c.err == errGuardDied): //nolint:errorlint // It is compared as it was set.
		// It ended well, but it was told to end: what it left may be half done.
		return interruptedError{interrupted}
	case c.err == nil:
		return unfinished
	}
	return c.err
}

// supervise waits for the end of the command, and hurries it when the lease is lost or a signal says so. It returns that
// signal, 0 when there was none.
func (w worker) supervise(ctx context.Context, c *command, family *family) (interrupted syscall.Signal) {
	var kill <-chan time.Time     // runs once the command was told to end
	var stopping <-chan time.Time // runs once it was told to stop
	var asked time.Time
	paused := false // by --when-away
	suspend := func() {
		stopping = nil
		w.signals.suspend(family)
		if paused { // Who resumes this process doesn't bring the server back.
			family.signal(syscall.SIGSTOP)
		}
	}
	lost, expired, canceled := w.keeper.Lost(), w.keeper.Context().Done(), ctx.Done()
	pass := func(sig syscall.Signal) {
		if c.has(sig) {
			family.signalBeyond(sig)
		} else {
			family.signal(sig)
		}
	}
	hurry := func(sig syscall.Signal) {
		if kill == nil {
			kill = time.After(w.killAfter)
		}
		pass(sig)
		family.signal(syscall.SIGCONT) // a stopped process acts on no signal
	}
	for {
		select {
		case <-c.ended:
			return interrupted
		case <-lost:
			lost, paused = nil, false
			w.tellLost()
			if rule := w.flags.onLost; rule.kill {
				hurry(syscall.SIGTERM)
			} else {
				family.signal(syscall.SIGCONT) // it may be paused, and would be for ever
				if rule.signal != 0 {
					_ = syscall.Kill(c.pid, rule.signal) //nolint:errcheck // The only failure is that it has just ended.
				}
			}
		case o := <-w.hold.orders:
			switch {
			case o == orderEnd:
				hurry(syscall.SIGTERM)
			case o == orderGoOn:
				paused = false
				family.signal(syscall.SIGCONT)
			case kill == nil && !w.isLost(): // else it has to act on what it was told
				paused = true
				family.signal(syscall.SIGSTOP)
			}
		case <-expired:
			expired = nil
			w.tellExpired()
		case <-canceled:
			canceled = nil
			if cause := (interruptedError{}); !errors.As(context.Cause(ctx), &cause) {
				interrupted = syscall.SIGTERM
				hurry(syscall.SIGTERM)
				asked = time.Now()
			} // else the signal itself comes, too
		case sig := <-w.signals.ending:
			switch {
			case interrupted == 0:
				interrupted = sig.(syscall.Signal) //nolint:errcheck,forcetypeassert // All signals of this system are of that type.
				hurry(interrupted)
				asked = time.Now()
			case time.Since(asked) > sameRequest:
				family.signal(syscall.SIGKILL)
			}
		case sig := <-w.signals.passed:
			switch sig {
			case syscall.SIGTSTP:
				stopping = time.After(stopGrace)
				pass(syscall.SIGTSTP)
			case syscall.SIGCONT:
				if !w.hold.paused.Load() {
					family.signal(syscall.SIGCONT)
				}
			default:
				pass(sig.(syscall.Signal)) //nolint:errcheck,forcetypeassert // See above.
			}
		case <-c.stopped:
			// The shell that has the terminal must see that nobody here uses it any more. Without one, nobody would wake this process again.
			if (c.foreground || stopping != nil) && !paused && family.anyStopped() {
				suspend()
			}
		case <-stopping:
			// A command that ignores TSTP isn't stopped by Ctrl-Z. It is when somebody has asked this process to stop.
			stopping = nil
			if !c.foreground || family.anyStopped() {
				suspend()
			}
		case <-kill:
			family.signal(syscall.SIGKILL)
			kill = time.After(time.Second) // again for what was just being started
		}
	}
}
