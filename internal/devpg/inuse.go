//go:build unix

package devpg

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// InUseError tells that another process works with the folder.
type InUseError struct {
	Dir string
	PID int // 0 when it is not known
}

// Error names the folder and the process.
func (e *InUseError) Error() string {
	if e.PID == 0 {
		return fmt.Sprintf("%s is already in use by another process", e.Dir)
	}
	return fmt.Sprintf("%s is already in use by process %d", e.Dir, e.PID)
}

// lockFolder takes dir for this process until the file is closed. The kernel drops the lock when the process
// dies, however it dies. The file holds the process id, for the message.
func lockFolder(dir string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock postgres folder: %w", err)
	}
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return nil, errors.Join(&InUseError{Dir: dir, PID: readPID(f.Name())}, f.Close())
	}
	if err == nil {
		err = f.Truncate(0)
	}
	if err == nil {
		_, err = fmt.Fprintln(f, os.Getpid())
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("lock postgres folder: %w", err), f.Close())
	}
	return f, nil
}

// orphanGrace is how long the postmaster of a program that has just been killed may take to go.
const orphanGrace = 5 * time.Second

// clearStalePID makes way for a new postmaster in the data folder. PostgreSQL leaves postmaster.pid behind when
// it is killed, and refuses to start if any process of the same user has got its number since then, as is
// usual in containers; such a file is removed here. A postmaster that truly runs there is an InUseError.
func clearStalePID(ctx context.Context, data string) error {
	file := filepath.Join(data, "postmaster.pid")
	for deadline := time.Now().Add(orphanGrace); ; {
		pid := readPID(file)
		if pid == 0 {
			return nil // PostgreSQL judges an unreadable file better than we could.
		}
		if !alive(pid) {
			return nil // PostgreSQL sees that by itself.
		}
		if !isPostmaster(ctx, pid, data) {
			if err := os.Remove(file); err != nil && !errors.Is(err, os.ErrNotExist) {
				return fmt.Errorf("remove stale lock of postgres: %w", err)
			}
			return nil
		}
		select {
		case <-time.After(10 * pollInterval):
		case <-ctx.Done():
			return &InUseError{Dir: data, PID: pid}
		}
		if time.Now().After(deadline) {
			return &InUseError{Dir: data, PID: pid}
		}
	}
}

func alive(pid int) bool {
	err := syscall.Kill(pid, 0)
	return err == nil || errors.Is(err, syscall.EPERM)
}

// isPostmaster tells whether process pid is a PostgreSQL server of the data folder, as far as the system shows.
func isPostmaster(ctx context.Context, pid int, data string) bool {
	if runtime.GOOS == "linux" {
		comm, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
		if err != nil {
			return !errors.Is(err, os.ErrNotExist)
		}
		if name := strings.TrimSpace(string(comm)); name != "postgres" && name != "postmaster" {
			return false
		}
		// Every postmaster works in its data folder. Other accounts' processes don't show theirs.
		cwd, err := os.Stat(fmt.Sprintf("/proc/%d/cwd", pid))
		if err != nil {
			return !errors.Is(err, os.ErrNotExist)
		}
		info, err := os.Stat(data)
		return err != nil || os.SameFile(cwd, info)
	}
	out, err := exec.CommandContext(ctx, "ps", "-p", strconv.Itoa(pid), "-o", "comm=").Output()
	return err != nil || strings.Contains(string(out), "postgres") || strings.Contains(string(out), "postmaster")
}

// readPID returns the number on the first line of a file, or 0.
func readPID(file string) int {
	text, err := os.ReadFile(file)
	if err != nil {
		return 0
	}
	line, _, _ := strings.Cut(string(text), "\n")
	pid, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil || pid < 1 {
		return 0
	}
	return pid
}
