// Package e2e tests Pawl as its users run it: real server processes, real workers that are stopped and killed, real
// Postgres, real pictures. It has no code of its own beside the tests.
package e2e

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/pawlhq/pawl/client"
	"github.com/pawlhq/pawl/internal/testenv"
)

// patience bounds every wait for something that should happen soon.
const patience = 90 * time.Second

func TestMain(m *testing.M) { testenv.Main(m) }

// pawl is the path of the binary, built once for all tests as users build it.
var pawl = sync.OnceValues(func() (string, error) {
	dir, err := testenv.ProcessDir()
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "pawl")
	build := exec.Command("go", "build", "-o", path, "github.com/pawlhq/pawl/cmd/pawl")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building pawl: %w\n%s", err, out)
	}
	return path, nil
})

func binary(t testing.TB) string {
	t.Helper()
	path, err := pawl()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// process is a started program with what it has printed so far.
type process struct {
	t    testing.TB
	cmd  *exec.Cmd
	out  testenv.Buffer
	errs testenv.Buffer
	done chan struct{}
	err  error // set before done is closed
}

// start starts a program that is killed at the latest when the test ends.
func start(t testing.TB, env []string, name string, args ...string) *process {
	t.Helper()
	return startReading(t, nil, env, name, args...)
}

// startReading starts a program with something to read; nil is nothing.
func startReading(t testing.TB, input io.Reader, env []string, name string, args ...string) *process {
	t.Helper()
	p := &process{t: t, cmd: exec.Command(name, args...), done: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), env...)
	p.cmd.Stdin = input
	p.cmd.Stdout, p.cmd.Stderr = &p.out, &p.errs
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	p.cmd.WaitDelay = 5 * time.Second
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		p.err = p.cmd.Wait()
		close(p.done)
	}()
	t.Cleanup(func() {
		p.signal(syscall.SIGKILL)
		<-p.done
		if t.Failed() {
			t.Logf("%s %s printed:\n%s%s", filepath.Base(name), strings.Join(args, " "), p.out.String(), p.errs.String())
		}
	})
	return p
}

func (p *process) signal(sig syscall.Signal) {
	select {
	case <-p.done:
	default:
		_ = p.cmd.Process.Signal(sig)
	}
}

// exit waits for the end and returns the exit code.
func (p *process) exit() int {
	p.t.Helper()
	select {
	case <-p.done:
		return p.cmd.ProcessState.ExitCode()
	case <-time.After(patience):
		p.t.Fatalf("%s did not end", p.cmd)
		return -1
	}
}

// awaitWord waits until a process has said something on stderr. What it says comes over a pipe, a moment later than what it does.
func awaitWord(t testing.TB, p *process, word string) {
	t.Helper()
	testenv.Eventually(t, patience, func() error {
		if text := p.errs.String(); !strings.Contains(text, word) {
			return fmt.Errorf("it doesn't say %q: %s", word, text)
		}
		return nil
	})
}

// server is one `pawl serve` process.
type server struct {
	*process
	t    testing.TB
	env  []string
	addr string
	url  string
	api  *client.Client
}

// serve starts a server on a database and a store, on a free port of this machine, and waits until it is ready.
func serve(t testing.TB, dsn, blobs string, env ...string) *server {
	t.Helper()
	s := launch(t, dsn, blobs, env...)
	s.awaitReady()
	return s
}

// launch is serve without the waiting.
func launch(t testing.TB, dsn, blobs string, env ...string) *server {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &server{t: t, addr: listener.Addr().String()}
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	s.url = "http://" + s.addr
	s.env = append([]string{"PAWL_DATABASE_URL=" + dsn, "PAWL_BLOBS=" + blobs, "PAWL_LISTEN=" + s.addr}, env...)
	s.api, err = client.New(s.url, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.api.Close)
	s.launch()
	return s
}

func (s *server) launch() {
	s.t.Helper()
	s.process = start(s.t, s.env, binary(s.t), "serve", "--migrate", "--drain", "0s")
}

// start starts the server's process (again, on the same address) and waits until it is ready.
func (s *server) start() {
	s.t.Helper()
	s.launch()
	s.awaitReady()
}

func (s *server) awaitReady() {
	s.t.Helper()
	testenv.Eventually(s.t, patience, func() error {
		select {
		case <-s.done:
			s.t.Fatalf("the server ended: %v\n%s", s.err, s.errs.String())
		default:
		}
		_, err := get(s.url + "/readyz")
		return err
	})
}

// kill ends a process as a power cut would.
func (p *process) kill() {
	p.signal(syscall.SIGKILL)
	<-p.done
}

// pawl starts the command line as a client of the server.
func (s *server) pawl(args ...string) *process {
	s.t.Helper()
	return start(s.t, []string{"PAWL_URL=" + s.url}, binary(s.t), args...)
}

// read returns what is current under a key, by the way of readers: the redirect to the permanent address.
func (s *server) read(key string) string {
	s.t.Helper()
	body, err := get(s.url + "/v1/keys/" + key + "/-/current")
	if err != nil {
		s.t.Fatal(err)
	}
	return string(body)
}

func get(url string) ([]byte, error) {
	req, err := http.NewRequestWithContext(context.Background(), http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close() //nolint:errcheck // It is only read.
	body, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("GET %s: %s: %s", url, resp.Status, body)
	}
	return body, err
}

// metric returns the line of a metric, or "".
func (s *server) metric(name string) string {
	s.t.Helper()
	body, err := get(s.url + "/metrics")
	if err != nil {
		s.t.Fatal(err)
	}
	for line := range strings.Lines(string(body)) {
		if strings.HasPrefix(line, name) {
			return strings.TrimSpace(line)
		}
	}
	return ""
}

// directory makes an address of a directory store.
func directory(t *testing.T) string {
	t.Helper()
	return "file://" + filepath.Join(t.TempDir(), "blobs")
}

// awaitFile waits until a program has written a whole line into a file, and returns it.
func awaitFile(t testing.TB, path string) (line string) {
	t.Helper()
	testenv.Eventually(t, patience, func() error {
		text, err := os.ReadFile(path)
		if err == nil && !strings.HasSuffix(string(text), "\n") {
			err = fmt.Errorf("%s has no whole line yet", path)
		}
		line = strings.TrimSpace(string(text))
		return err
	})
	return line
}
