package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"syscall"
	"time"

	"github.com/pawlhq/pawl/internal/devpg/child"
)

// command is the command of a run, from its start on.
type command struct {
	pid int
	// foreground says that it shares this process's group, which is the terminal's foreground group: what is typed reaches both. Otherwise it
	// leads a group of its own.
	foreground bool
	// ended is closed when the command has ended; err is how then: nil, or an error with the exit code of the run.
	ended chan struct{}
	err   error
	// guard is the command's parent; nil when this process itself is. It ends when nobody of the family is left.
	guard *child.Process
	// stopped tells that the command was stopped, as by Ctrl-Z.
	stopped chan struct{}
	// noted are the signals that the guard has got. It is in the foreground group, too.
	noted chan syscall.Signal
	notes map[syscall.Signal]time.Time // those that this process hasn't got yet
	close func()
}

// startCommand starts a command in the way that this system allows.
func startCommand(ctx context.Context, cmd *exec.Cmd, foreground bool) (*command, error) {
	if isOwnProcess(ctx) && canGuard() {
		return startGuarded(cmd, foreground)
	}
	process, err := child.Start(cmd, syscall.SIGKILL)
	if err != nil {
		return nil, cannotExecute(cmd.Path, err)
	}
	c := &command{pid: process.PID(), ended: make(chan struct{}), close: func() {}}
	go func() {
		defer close(c.ended)
		c.err = waitFailure(process.Err())
	}()
	return c, nil
}

// errGuardDied says that the outcome of the command isn't known.
var errGuardDied = ioError{errors.New("the process that guards the command was killed, so the command was ended; nothing is published")}

func cannotExecute(path string, err error) error {
	return childError{126, fmt.Sprintf("%s: can't be executed: %v", path, err)}
}

func waitFailure(err error) error {
	var exit *exec.ExitError
	if err == nil {
		return nil
	}
	if !errors.As(err, &exit) {
		return ioError{fmt.Errorf("waiting for the command: %w", err)}
	}
	return commandFailure(exit.Sys().(syscall.WaitStatus)) //nolint:errcheck,forcetypeassert // It is of that type on every Unix.
}

// commandFailure gives the exit code of a command that failed, as a shell does.
func commandFailure(status syscall.WaitStatus) error {
	switch {
	case status.Signaled():
		return childError{128 + int(status.Signal()), fmt.Sprintf("the command died of signal: %s", status.Signal())}
	case status.ExitStatus() != 0:
		return childError{status.ExitStatus(), ""}
	}
	return nil
}

// diedOfSignal reports whether a command was ended before it could tidy up: by a signal, or with its guard.
func diedOfSignal(err error) bool {
	var child childError
	return errors.As(err, &child) && child.why != "" || err == errGuardDied //nolint:errorlint // It is compared as it was set.
}

const (
	// pairing is how long the guard's note of a signal may take. A signal from the terminal reaches all at the same moment.
	pairing = 200 * time.Millisecond
	// noteAge is how long such a note waits for the same signal to this process.
	noteAge = time.Second
)

// has reports whether the command itself has got a signal that has reached this process, because the terminal sent it to the
// whole foreground group. The guard, which is in that group, got it, too, then. Many programs take a second INT for an order to end without tidying up.
func (c *command) has(sig syscall.Signal) bool {
	switch sig {
	case syscall.SIGINT, syscall.SIGQUIT, syscall.SIGHUP, syscall.SIGTSTP, syscall.SIGWINCH:
	default:
		return false // No terminal sends it.
	}
	if !c.foreground {
		return false
	}
	late := time.NewTimer(pairing)
	defer late.Stop()
	for {
		if at, noted := c.notes[sig]; noted {
			delete(c.notes, sig)
			if time.Since(at) < noteAge {
				return true
			}
		}
		select {
		case note := <-c.noted:
			c.notes[note] = time.Now()
		case <-late.C:
			return false
		}
	}
}
