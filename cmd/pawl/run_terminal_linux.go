package main

import (
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
)

// terminalState is how the terminal was when the command began.
type terminalState struct{ modes *unix.Termios }

// openTerminal opens the terminal of this process.
func openTerminal() (*os.File, error) {
	return os.OpenFile("/dev/tty", os.O_RDWR|syscall.O_NOCTTY|syscall.O_NONBLOCK, 0)
}

// terminalNow notes the state of the terminal; nil when it can't be told.
func terminalNow() *terminalState {
	terminal, err := openTerminal()
	if err != nil {
		return nil
	}
	defer terminal.Close() //nolint:errcheck // Nothing was written.
	modes, err := unix.IoctlGetTermios(int(terminal.Fd()), unix.TCGETS)
	if err != nil {
		return nil
	}
	return &terminalState{modes}
}

// restore gives the terminal back as it was, as a shell does after a command that was killed: an editor, for one, has had no time to leave the
// raw mode. A terminal whose foreground is somebody else's by now, because this run was sent to the background, is left alone.
func (s *terminalState) restore() {
	if s == nil {
		return
	}
	terminal, err := openTerminal()
	if err != nil {
		return
	}
	defer terminal.Close() //nolint:errcheck // Nothing was written.
	fd := int(terminal.Fd())
	group, err := unix.IoctlGetInt(fd, unix.TIOCGPGRP)
	if err != nil {
		return
	}
	if own := syscall.Getpgrp(); group != own {
		if syscall.Kill(-group, 0) == nil {
			return
		}
		// The command had put a group of its own there, which is dead. Who isn't in the foreground is stopped when he takes it, unless he ignores that.
		signal.Ignore(syscall.SIGTTOU)
		defer signal.Reset(syscall.SIGTTOU)
		if unix.IoctlSetPointerInt(fd, unix.TIOCSPGRP, own) != nil {
			return
		}
	}
	_ = unix.IoctlSetTermios(fd, unix.TCSETSW, s.modes) //nolint:errcheck // Then it stays as it is.
}
