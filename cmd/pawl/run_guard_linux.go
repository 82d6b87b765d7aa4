package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pawlhq/pawl/internal/devpg/child"
)

// The guard is a process between pawl run and its command: this program once more. It is the command's parent, and inherits whoever of the
// family loses his. It holds one end of a socket whose other end only pawl run has. So when pawl run dies, in whatever way, the guard
// sees the end of the socket and kills all of its descendants until none is left. When the guard dies, pawl run inherits them.

// guardName is the guard's name: as argv[0] it says that this program is to be one, and ps shows it. Nothing on its command line is that of
// pawl run or of the command, so that a pkill -f that means one of those doesn't kill the guard with it.
// The rest of the command line is SOCKET ORDER FOREGROUND.
const guardName = "run-guard"

const self = "/proc/self/exe"

// canGuard reports whether this system shows its processes.
func canGuard() bool {
	_, err := os.Stat(self)
	return err == nil
}

// inForeground reports whether this process is in the foreground group of its terminal.
func inForeground() bool {
	if !canGuard() {
		return false
	}
	terminal, err := os.OpenFile("/dev/tty", os.O_RDONLY|syscall.O_NOCTTY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return false
	}
	defer terminal.Close() //nolint:errcheck // Nothing was written.
	group, err := unix.IoctlGetInt(int(terminal.Fd()), unix.TIOCGPGRP)
	return err == nil && group == syscall.Getpgrp()
}

// report is one message of the guard: what it is about, and a number.
type report struct {
	about byte
	value uint32
}

const (
	reportStarted = 's' // the command's process id
	reportFailed  = 'f' // the errno of a command that can't be executed
	reportStopped = 't' // the command was stopped
	reportNoted   = 'n' // a signal that the guard has got
	reportEnded   = 'e' // the command's wait status; descendants of it are left
	reportAlone   = 'a' // the command's wait status; nobody is left
	reportSize    = 5
)

func (r report) send(socket, flags int) {
	message := binary.LittleEndian.AppendUint32([]byte{r.about}, r.value)
	// Who doesn't read any more has died, and that is noticed elsewhere.
	_ = unix.Sendto(socket, message, flags|unix.MSG_NOSIGNAL, nil) //nolint:errcheck // See above.
}

func receive(from io.Reader) (report, error) {
	var message [reportSize]byte
	if _, err := io.ReadFull(from, message[:]); err != nil {
		return report{}, err
	}
	return report{message[0], binary.LittleEndian.Uint32(message[1:])}, nil
}

// writeOrder tells the guard which program to start, and with which arguments: how many texts that are, and the texts. Each ends with a NUL, which none can hold.
func writeOrder(to io.WriteCloser, order []string) error {
	order = append([]string{strconv.Itoa(len(order))}, order...)
	_, err := io.WriteString(to, strings.Join(order, "\x00")+"\x00")
	return errors.Join(err, to.Close())
}

// readOrder reads what writeOrder has written. An order is carried out whole or not at all.
func readOrder(from io.Reader) (program string, args []string, err error) {
	text, err := io.ReadAll(from)
	order := strings.Split(string(text), "\x00")
	if err != nil || len(order) < 4 || order[0] != strconv.Itoa(len(order)-2) {
		return "", nil, errors.Join(errors.New("the order is cut off"), err)
	}
	return order[1], order[2 : len(order)-1], nil
}

// startGuarded starts a command under a guard.
func startGuarded(cmd *exec.Cmd, foreground bool) (*command, error) {
	ends, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, ioError{fmt.Errorf("starting the command: %w", err)}
	}
	theirs := []int{ends[1]}
	// The guard has its ends, or nobody needs them. While this process holds one, it can't see that the guard has died.
	leave := func() {
		for _, fd := range theirs {
			_ = unix.Close(fd) //nolint:errcheck // See above.
		}
	}
	socket := os.NewFile(uintptr(ends[0]), "guard") //nolint:gosec // A file descriptor is small.
	var order [2]int
	if err := unix.Pipe2(order[:], unix.O_CLOEXEC); err != nil {
		leave()
		return nil, ioError{errors.Join(fmt.Errorf("starting the command: %w", err), socket.Close())}
	}
	theirs = append(theirs, order[0])
	ordering := os.NewFile(uintptr(order[1]), "ordering") //nolint:gosec // A file descriptor is small.
	defer ordering.Close()                                //nolint:errcheck // What isn't written to the end starts nothing.
	// The guard gets its ends under the numbers that they have here. So they take no number that the command is to inherit.
	for _, fd := range theirs {
		if _, err := unix.FcntlInt(uintptr(fd), unix.F_SETFD, 0); err != nil { //nolint:gosec // A file descriptor is small.
			leave()
			return nil, ioError{errors.Join(fmt.Errorf("starting the command: %w", err), socket.Close())}
		}
	}
	start := child.Start
	if foreground {
		start = child.StartBeside
	}
	// CONT at this process's death wakes a guard that was stopped.
	guard, err := start(&exec.Cmd{
		Path: self, Args: []string{guardName, strconv.Itoa(ends[1]), strconv.Itoa(order[0]), strconv.FormatBool(foreground)}, Env: cmd.Env,
		Stdin: cmd.Stdin, Stdout: cmd.Stdout, Stderr: cmd.Stderr,
	}, syscall.SIGCONT)
	leave()
	if err != nil {
		_ = socket.Close() //nolint:errcheck // Nothing was written.
		return nil, cannotExecute(cmd.Path, err)
	}
	// A guard that dies before it has read all starts nothing, and that is noticed below.
	_ = writeOrder(ordering, append([]string{cmd.Path}, cmd.Args...)) //nolint:errcheck // See above.
	c := &command{
		foreground: foreground, ended: make(chan struct{}), guard: guard, stopped: make(chan struct{}, 1),
		noted: make(chan syscall.Signal, 16), notes: map[syscall.Signal]time.Time{},
		close: func() { _ = socket.Close() }, //nolint:errcheck // Nothing was written.
	}
	first, err := receive(socket)
	switch {
	case err == nil && first.about == reportStarted:
		c.pid = int(first.value)
	case err == nil && first.about == reportFailed:
		<-guard.Done()
		c.close()
		return nil, cannotExecute(cmd.Path, syscall.Errno(first.value))
	default: // It died at once. What it may have started is ended as at any other death of a guard.
		<-guard.Done()
		c.err = errGuardDied
		close(c.ended)
		return c, nil
	}
	go c.follow(socket)
	return c, nil
}

// follow takes the guard's reports until the command has ended.
func (c *command) follow(socket io.Reader) {
	defer close(c.ended)
	for {
		r, err := receive(socket)
		if err != nil {
			<-c.guard.Done()
			c.err = errGuardDied
			return
		}
		switch r.about {
		case reportStopped:
			select {
			case c.stopped <- struct{}{}:
			default: // That is known.
			}
		case reportNoted:
			select {
			case c.noted <- syscall.Signal(r.value):
			default: // as os/signal does
			}
		case reportAlone:
			<-c.guard.Done()
			fallthrough
		case reportEnded:
			c.err = commandFailure(syscall.WaitStatus(r.value))
			return
		}
	}
}
