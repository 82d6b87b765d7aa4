//go:build unix

// Package testenv gives tests the real things: Postgres, an S3 server, Docker images of both, and a proxy that
// injects faults between them and the code under test.
//
// A test package calls Main from its TestMain. Servers start when the first test asks for them, serve all tests
// of the process, and stop at its end.
package testenv

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/pawlhq/pawl/internal/devpg"
)

// process holds what the tests of this process share.
var process struct {
	mu    sync.Mutex
	stops []func() error // run by Main in reverse order
}

// Main runs the tests, stops what they started, and fails the run if a goroutine is left. It doesn't return.
func Main(m *testing.M, opts ...goleak.Option) {
	code := m.Run()
	if err := stopAll(); err != nil {
		fmt.Fprintln(os.Stderr, "testenv:", err)
		code = max(code, 1)
	}
	if code == 0 {
		if err := goleak.Find(opts...); err != nil {
			fmt.Fprintln(os.Stderr, "testenv: goroutines are left after the tests:", err)
			code = 1
		}
	}
	os.Exit(code)
}

// atEnd registers what Main shall do after the tests.
func atEnd(stop func() error) {
	process.mu.Lock()
	defer process.mu.Unlock()
	process.stops = append(process.stops, stop)
}

func stopAll() (first error) {
	process.mu.Lock()
	stops := process.stops
	process.stops = nil
	process.mu.Unlock()
	for i := len(stops) - 1; i >= 0; i-- {
		if err := stops[i](); err != nil && first == nil {
			first = err
		}
	}
	http.DefaultClient.CloseIdleConnections()
	return first
}

// shared starts something once for all tests of the process. A failed start fails each test that asks.
type shared[T any] struct {
	once  sync.Once
	value T
	err   error
}

func (s *shared[T]) get(t testing.TB, start func() (T, error)) T {
	t.Helper()
	s.once.Do(func() { s.value, s.err = start() })
	if s.err != nil {
		t.Fatal(s.err)
	}
	return s.value
}

const tempPrefix = "pawl-test-"

// tempDir makes a folder that servers under another account than root can use, and says how to remove it. The
// names are short, since Unix sockets lie in it.
func tempDir() (dir string, remove func() error, err error) {
	sweepOnce.Do(sweep)
	if dir, err = devpg.TempDir(tempPrefix); err != nil {
		return "", nil, err
	}
	remove, err = holdTemp(dir)
	return dir, remove, err
}

// ProcessDir makes a folder that all tests of this process may share. Main removes it.
func ProcessDir() (string, error) {
	dir, remove, err := tempDir()
	if err == nil {
		atEnd(remove)
	}
	return dir, err
}

// holdTemp keeps other processes from sweeping dir away until remove is called or this process ends.
func holdTemp(dir string) (remove func() error, err error) {
	lock, err := os.Open(dir)
	if err == nil {
		err = syscall.Flock(int(lock.Fd()), syscall.LOCK_SH|syscall.LOCK_NB)
	}
	if err != nil {
		return nil, fmt.Errorf("lock %s: %w", dir, err)
	}
	return func() error { return errors.Join(os.RemoveAll(dir), lock.Close()) }, nil
}

var sweepOnce sync.Once

// sweep removes the folders of test processes that were killed. The living hold a lock on theirs; one that has
// only just been made may not be locked yet.
func sweep() {
	found, _ := filepath.Glob(filepath.Join(os.TempDir(), tempPrefix+"*")) //nolint:errcheck // A valid pattern.
	for _, dir := range found {
		info, err := os.Lstat(dir)
		if err != nil || !info.IsDir() || time.Since(info.ModTime()) < time.Minute {
			continue
		}
		lock, err := os.Open(dir)
		if err != nil {
			continue
		}
		if syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil {
			_ = os.RemoveAll(dir) //nolint:errcheck // What can't be removed belongs to another user.
		}
		_ = lock.Close() //nolint:errcheck // Nothing was written.
	}
}

// TempDir is a folder for one test. Unlike testing.TB.TempDir it has a short name, and servers that are started
// by root under another account can use it.
func TempDir(t testing.TB) string {
	t.Helper()
	dir, remove, err := tempDir()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := remove(); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// Eventually waits until cond returns nil, asking every 5 ms, and fails the test with cond's last error when that
// takes longer than timeout.
func Eventually(t testing.TB, timeout time.Duration, cond func() error) {
	t.Helper()
	deadline := time.Now().Add(timeout)
	for {
		err := cond()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("not within %s: %v", timeout, err)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// skipOrFatal skips a test whose environment is missing. In CI nothing may hide: there it fails.
func skipOrFatal(t testing.TB, format string, args ...any) {
	t.Helper()
	text := strings.TrimSpace(fmt.Sprintf(format, args...))
	if os.Getenv("PAWL_TEST_NO_SKIP") == "1" {
		t.Fatal(text)
	}
	t.Skip(text)
}
