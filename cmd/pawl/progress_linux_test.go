package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pawlhq/pawl/internal/testenv"
	"github.com/pawlhq/pawl/publish/publishtest"
)

// terminal opens a terminal. What is written to it gathers in screen.
func terminal(t *testing.T) (tty *os.File, screen *testenv.Buffer) {
	t.Helper()
	control, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	number, err := unix.IoctlGetInt(int(control.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(control.Fd()), unix.TIOCSPTLCK, 0)
	}
	if err == nil {
		err = unix.IoctlSetWinsize(int(control.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: 100})
	}
	if err != nil {
		t.Fatal(err)
	}
	tty, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	screen = &testenv.Buffer{}
	done := make(chan struct{})
	go func() {
		defer close(done)
		chunk := make([]byte, 4096)
		for {
			n, err := control.Read(chunk)
			_, _ = screen.Write(chunk[:n])
			if err != nil { // EIO, when nobody has the terminal open any more
				return
			}
		}
	}()
	t.Cleanup(func() {
		_ = tty.Close()
		<-done
		_ = control.Close()
	})
	return tty, screen
}

// Progress shows on a terminal only, wherever bytes go, and nobody who asked for silence or for JSON is bothered with it.
func TestProgress(t *testing.T) {
	t.Parallel()
	big := strings.Repeat("0123456789abcdef", 1<<16)
	for name, test := range map[string]struct {
		term  string
		args  []string
		plain bool // stderr is no terminal
		want  []string
	}{
		"get":               {term: "xterm", args: []string{"get", "k", "-o", "FILE"}, want: []string{"MiB", "/s"}},
		"get a folder":      {term: "xterm", args: []string{"get", "k", "--dir", "FOLDER"}, want: []string{"MiB", "/s"}},
		"put":               {term: "xterm", args: []string{"put", "other", "FILE"}, want: []string{"MiB", "/s"}},
		"on no terminal":    {term: "xterm", args: []string{"get", "k", "--dir", "FOLDER"}, plain: true},
		"for programs":      {term: "xterm", args: []string{"get", "k", "--dir", "FOLDER", "--json"}},
		"quietly":           {term: "xterm", args: []string{"get", "k", "--dir", "FOLDER", "--quiet"}},
		"on a dumb one":     {term: "dumb", args: []string{"get", "k", "--dir", "FOLDER"}},
		"on an unknown one": {args: []string{"put", "other", "FILE", "-q"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.publish(t, r.acquire(t, "k", "me", time.Minute), "big", big)
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, "f"), []byte(big), 0o600); err != nil {
				t.Fatal(err)
			}
			args := []string{}
			for _, arg := range test.args {
				args = append(args, strings.NewReplacer("FILE", filepath.Join(dir, "f"), "FOLDER", filepath.Join(dir, "d")).Replace(arg))
			}
			tty, screen := terminal(t)
			stderr := tty
			if test.plain {
				file, err := os.Create(filepath.Join(dir, "stderr"))
				if err != nil {
					t.Fatal(err)
				}
				defer file.Close()
				stderr = file
			}
			// The transfer stands until something shows, or for longer than that would take.
			stand := publishtest.Fault{Before: func(ctx context.Context) {
				within := 5 * meterDelay
				if len(test.want) > 0 {
					within = patience
				}
				for until := time.Now().Add(within); time.Now().Before(until); time.Sleep(10 * time.Millisecond) {
					if ctx.Err() != nil || strings.Contains(screen.String(), "MiB") {
						return
					}
				}
			}}
			// The first bytes of a download come, since the answer waits for them.
			r.blobs.Faults.Add(publishtest.Fault{Operation: "Read", Before: func(context.Context) {}})
			for _, operation := range []string{"Read", "Put"} {
				stand.Operation = operation
				r.blobs.Faults.Add(stand)
			}
			var stdout strings.Builder
			env := lookup([]string{"PAWL_URL=" + r.url, "TERM=" + test.term})
			if code := run(context.WithoutCancel(t.Context()), args, strings.NewReader(""), &stdout, stderr, env); code != 0 {
				t.Fatalf("exit code %d: %s", code, screen.String())
			}
			shown := screen.String()
			for _, want := range test.want {
				if !strings.Contains(shown, want) {
					t.Errorf("the terminal shows %q, not %q", shown, want)
				}
			}
			if test.plain {
				text, err := os.ReadFile(filepath.Join(dir, "stderr"))
				if err != nil {
					t.Fatal(err)
				}
				shown += string(text)
			}
			if test.want == nil && shown != "" {
				t.Errorf("stderr shows %q", shown)
			}
		})
	}
}

// A terminal without escape codes gets plain lines.
func TestProgressOnADumbTerminal(t *testing.T) {
	t.Parallel()
	tty, screen := terminal(t)
	m := &tally{start: time.Now().Add(-time.Second), stop: make(chan struct{}), ended: make(chan struct{})}
	go m.showLines(&app{stderr: tty}, time.Millisecond)
	m.Expect(4, 4<<20)
	m.Add(2 << 20)
	m.Add(-1 << 20)
	m.FileDone()
	testenv.Eventually(t, patience, func() error {
		if text := screen.String(); !strings.Contains(text, "pawl: 1/4 files, 1.0MiB / 4.0MiB, ") || !strings.Contains(text, "/s, 3s left") {
			return fmt.Errorf("the terminal shows %q", text)
		}
		return nil
	})
	m.Stop()
	m.Stop()
	if text := screen.String(); strings.Contains(text, "\x1b") {
		t.Errorf("escape codes in %q", text)
	}
}

func TestToldSeeker(t *testing.T) {
	t.Parallel()
	var told int64
	r := tellOf(strings.NewReader("12345"), func(n int64) { told += n })
	for range 2 {
		if text := readAll(r); text != "12345" || told != 5 {
			t.Errorf("%q, told of %d", text, told)
		}
		if _, err := r.(*toldSeeker).Seek(0, 0); err != nil || told != 0 {
			t.Errorf("told of %d after a rewind, %v", told, err)
		}
	}
}
