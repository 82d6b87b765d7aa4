//go:build unix

// Command billing rebuilds a table of one's own under a Pawl lease, by two workers, of which one is stopped past its lease.
package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/pawlhq/pawl/fence"
)

// exitFenced is the exit code of `pawl` for a stale token, which tells a scheduler not to try again.
const exitFenced = 80

// patience bounds the whole story.
const patience = 2 * time.Minute

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	unfenced := flag.Bool("unfenced", false, "leave the fence out, to see what it is for")
	worker := flag.String("worker", "", "work once under this name, as the story lets its workers do")
	flag.Parse()

	var err error
	if *worker == "" {
		err = story(ctx, *unfenced)
	} else {
		err = work(ctx, *worker, os.Stdin, *unfenced)
	}
	switch {
	case errors.Is(err, fence.ErrStale):
		fmt.Printf("%s is refused: %v\n", *worker, err)
		os.Exit(exitFenced)
	case err != nil:
		fmt.Fprintln(os.Stderr, "billing:", err)
		os.Exit(1)
	}
}

// story lets worker-a stall between its reading and its writing, and worker-b take over.
func story(ctx context.Context, unfenced bool) (err error) {
	db, end, err := openDatabase(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, end()) }()
	if err := db.create(ctx); err != nil {
		return err
	}

	a, err := startWorker(ctx, "worker-a", db, unfenced)
	if err != nil {
		return err
	}
	defer a.kill()
	if err := a.stop(); err != nil {
		return err
	}
	fmt.Println("worker-a is stopped, and an invoice of 50.00 comes in")
	if err := db.bill(ctx, 5000); err != nil {
		return err
	}

	b, err := startWorker(ctx, "worker-b", db, unfenced)
	if err != nil {
		return err
	}
	defer b.kill()
	code, err := b.finish()
	if err != nil {
		return err
	}
	if code != 0 {
		return fmt.Errorf("worker-b exits with %d", code)
	}

	fmt.Println("worker-a goes on")
	if code, err = a.finish(); err != nil {
		return err
	}
	fmt.Println("worker-a exits with", code)
	summary, err := db.summary(ctx)
	if err != nil {
		return err
	}
	fmt.Println("the summary is", summary)
	return nil
}

// process is this program as a worker.
type process struct {
	name  string
	cmd   *exec.Cmd
	lines *bufio.Scanner
	gate  interface{ Close() error } // the worker waits before it writes until this is closed
}

func startWorker(ctx context.Context, name string, db database, unfenced bool) (*process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, self, "-worker", name, fmt.Sprintf("-unfenced=%t", unfenced))
	cmd.Env = append(os.Environ(), "DATABASE_URL="+db.url, "BILLING_SCHEMA="+db.schema)
	cmd.Stderr = os.Stderr
	gate, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	return &process{name: name, cmd: cmd, lines: bufio.NewScanner(out), gate: gate}, cmd.Start()
}

// stop stops the process as a host does that suspends it, at the gate between its reading and its writing.
func (p *process) stop() error {
	if !p.tell(computed) {
		return fmt.Errorf("%s has ended before it computed", p.name)
	}
	if err := p.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	var status syscall.WaitStatus
	for {
		_, err := syscall.Wait4(p.cmd.Process.Pid, &status, syscall.WUNTRACED, nil)
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		if err == nil && !status.Stopped() {
			err = fmt.Errorf("%s has ended before it was stopped", p.name)
		}
		return err
	}
}

// finish lets the process go on, and returns the exit code.
func (p *process) finish() (int, error) {
	if err := errors.Join(p.gate.Close(), p.cmd.Process.Signal(syscall.SIGCONT)); err != nil {
		return 0, err
	}
	p.tell("")
	err := p.cmd.Wait()
	if exit := new(exec.ExitError); errors.As(err, &exit) && exit.Exited() {
		err = nil
	}
	return p.cmd.ProcessState.ExitCode(), err
}

// tell passes on what the process prints, up to a line that has a text in it; "" is to its end.
func (p *process) tell(until string) bool {
	for p.lines.Scan() {
		fmt.Println(p.lines.Text())
		if until != "" && strings.Contains(p.lines.Text(), until) {
			return true
		}
	}
	return false
}

// kill ends a process that the story has left behind.
func (p *process) kill() {
	if p.cmd.ProcessState == nil {
		_ = p.cmd.Process.Kill() //nolint:errcheck // It may have ended by itself.
		_ = p.cmd.Wait()         //nolint:errcheck // The story tells its own error.
	}
}
