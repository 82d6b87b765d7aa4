package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// guard is the guard's program. asked is false when the command line isn't a guard's.
func guard(args []string) (code int, asked bool) {
	if filepath.Base(args[0]) != guardName {
		return 0, false
	}
	var fds [2]int
	var err error
	if len(args) != 4 {
		err = errors.ErrUnsupported
	}
	for i := 0; i < len(fds) && err == nil; i++ {
		fds[i], err = strconv.Atoi(args[i+1])
	}
	socket := fds[0]
	if err == nil {
		_, err = unix.GetsockoptInt(socket, unix.SOL_SOCKET, unix.SO_TYPE)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "pawl: "+guardName+" is started by pawl run alone; use pawl run")
		return exitUsage, true
	}
	unix.CloseOnExec(socket)
	ordered := os.NewFile(uintptr(fds[1]), "order") //nolint:gosec // A file descriptor is small.
	program, arguments, err := readOrder(ordered)
	if err = errors.Join(err, ordered.Close()); err != nil {
		return exitIO, true // The wrapper is gone, or sees this end.
	}
	guardCommand(socket, args[3] == "true", program, arguments)
	return exitOK, true
}

// guardCommand starts the command, and returns when it and all of its descendants have ended.
func guardCommand(socket int, foreground bool, program string, args []string) {
	// The kernel takes the death of the thread that started the command for the death of its parent.
	runtime.LockOSThread()
	rename()
	if err := adoptOrphans(); err != nil {
		report{reportFailed, uint32(err.(syscall.Errno))}.send(socket, 0) //nolint:errcheck,errorlint,forcetypeassert // prctl returns nothing else.
		return
	}
	// A signal to the guard has no effect; pawl run decides what it means.
	caught := make(chan os.Signal, 16)
	catch(caught, endingSignals)
	catch(caught, passedSignals)

	for len(caught) > 0 {
		<-caught // The command will not have got it.
	}
	pid, err := syscall.ForkExec(program, args, &syscall.ProcAttr{
		Env: syscall.Environ(), Files: []uintptr{0, 1, 2},
		Sys: &syscall.SysProcAttr{Setpgid: !foreground, Pdeathsig: syscall.SIGKILL},
	})
	if err != nil {
		errno, ok := err.(syscall.Errno) //nolint:errorlint // ForkExec doesn't wrap.
		if !ok {
			errno = syscall.EINVAL // a NUL in an argument, which can't have come to here
		}
		report{reportFailed, uint32(errno)}.send(socket, 0)
		return
	}
	report{reportStarted, uint32(pid)}.send(socket, 0) //nolint:gosec // A process id is positive.
	letGoOfStreams()
	go func() {
		for sig := range caught {
			report{reportNoted, uint32(sig.(syscall.Signal))}.send(socket, unix.MSG_DONTWAIT) //nolint:errcheck,forcetypeassert,gosec // All signals of this system are of that type.
		}
	}()
	go killOrphans(socket, &family{root: os.Getpid(), leader: pid, ownGroup: !foreground})
	waitForAll(socket, pid)
}

// waitForAll reaps children until there are none, and reports what the command does.
func waitForAll(socket, pid int) {
	for {
		var status syscall.WaitStatus
		got, err := syscall.Wait4(-1, &status, syscall.WUNTRACED, nil)
		switch {
		case err == syscall.EINTR:
		case err != nil:
			return // ECHILD: nobody is left
		case got == pid && status.Stopped():
			report{about: reportStopped}.send(socket, unix.MSG_DONTWAIT)
		case got == pid:
			if reapDead() {
				report{reportAlone, uint32(status)}.send(socket, 0)
				return
			}
			report{reportEnded, uint32(status)}.send(socket, 0)
			pid = 0 // The number is free for others.
		}
	}
}

// reapDead reaps the children that have ended, and reports whether that was all.
func reapDead() bool {
	for {
		switch got, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil); {
		case err == syscall.EINTR:
		case err != nil:
			return true
		case got == 0:
			return false
		}
	}
}

// killOrphans waits for the death of pawl run, and kills its family then. The process ends when all children have been reaped.
func killOrphans(socket int, orphans *family) {
	var nothing [1]byte
	for {
		n, err := unix.Read(socket, nothing[:])
		if err == unix.EINTR || err == nil && n > 0 {
			continue
		}
		break
	}
	for pause := time.Millisecond; ; pause = min(2*pause, time.Second) {
		orphans.signal(syscall.SIGKILL)
		time.Sleep(pause)
	}
}

// rename gives the process a name in the process table that isn't this program's: whoever signals all pawls means pawl run.
func rename() {
	_ = os.WriteFile("/proc/self/comm", []byte(guardName), 0) //nolint:errcheck // It is for people.
}

// letGoOfStreams leaves the standard streams to the command: who reads from a pipe sees its end when those who write have ended.
func letGoOfStreams() {
	null, err := unix.Open(os.DevNull, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return
	}
	for stream := range 3 {
		_ = unix.Dup3(null, stream, 0) //nolint:errcheck // It would only be held a little longer.
	}
	_ = unix.Close(null) //nolint:errcheck // Nothing was written.
}
