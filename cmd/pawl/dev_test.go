//go:build linux

package main

import (
	"context"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pawlhq/pawl/internal/devpg"
	"github.com/pawlhq/pawl/internal/testenv"
)

// freeAddress is a loopback address that nobody listens on just now.
func freeAddress(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}

// startDev starts pawl dev and waits for its greeting.
func startDev(t *testing.T, data string) (*process, string) {
	t.Helper()
	address := freeAddress(t)
	p := startPawl(t, data, nil, "dev", "--data", data, "--listen", address)
	eventually(t, "the greeting", func() bool {
		select {
		case <-p.done:
			t.Fatalf("it ended: %s", p.stderr.String())
		default:
		}
		return strings.Contains(p.stdout.String(), "/-/current\n")
	})
	return p, "http://" + address
}

var commandLine = regexp.MustCompile(`(?m)^  (.*)$`)

// The first minute: dev starts with nothing set up, its commands work as printed, Ctrl-C ends it soon, and what was
// published is there after the next start.
func TestDevFromNothing(t *testing.T) {
	t.Parallel()
	testenv.PostgresProgram(t, "postgres")
	data := testenv.TempDir(t)
	dev, url := startDev(t, data)
	if resp, err := http.Get(url + "/"); err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("the page: %v, %v", resp, err)
	} else {
		_ = resp.Body.Close()
	}
	greeting := dev.stdout.String()
	lines := commandLine.FindAllStringSubmatch(greeting, -1)
	if len(lines) != 3 {
		t.Fatalf("greeting %q", greeting)
	}
	if secret := regexp.MustCompile(`[0-9a-f]{32}`).FindString(greeting); secret != "" {
		t.Errorf("the greeting has the lease_id %s, by which whoever reads the log can publish", secret)
	}
	var script strings.Builder
	for _, line := range lines {
		script.WriteString(strings.Replace(line[1], "curl ", "curl --fail ", 1) + "\n")
	}
	if out, err := exec.Command("sh", "-ec", script.String()).Output(); err != nil || !strings.HasSuffix(string(out), "Hello from Pawl") {
		t.Fatalf("%s: %v\n%s", script.String(), err, out)
	}

	// A second one on the same folder is told so.
	startPawl(t, data, nil, "dev", "--data", data, "--listen", freeAddress(t)).exit(t, exitConfig, "another pawl dev", data)

	call(t, []string{"PAWL_URL=" + url}, "put", "kept", os.Args[0], "--path", "big.bin").expect(t, 0)
	// A reader that waits doesn't hold the end up.
	waiting := make(chan struct{})
	go func(url string) {
		defer close(waiting)
		if resp, err := http.Get(url); err == nil {
			_ = resp.Body.Close()
		}
	}(url + "/v1/keys/nothing-yet?wait=50s")
	start := time.Now()
	dev.signal(t, syscall.SIGINT)
	dev.exit(t, 0)
	if took := time.Since(start); took > 10*time.Second {
		t.Errorf("it took %s to end", took)
	}
	<-waiting

	dev, url = startDev(t, data)
	call(t, []string{"PAWL_URL=" + url}, "get", "kept", "-o", filepath.Join(t.TempDir(), "big.bin")).expect(t, 0)
	// Killed is no worse than stopped: Postgres ends with it and the folder is free again.
	postgres := postmaster(t, data)
	dev.signal(t, syscall.SIGKILL)
	eventually(t, "the end of Postgres", func() bool { return !running(postgres) })
	dev, url = startDev(t, data)
	call(t, []string{"PAWL_URL=" + url}, "stat", "kept").expect(t, 0)

	// When its Postgres dies, dev says so and ends.
	if err := syscall.Kill(postmaster(t, data), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	dev.exit(t, exitUnreachable, "the private Postgres has ended by itself: signal: killed")
	http.DefaultClient.CloseIdleConnections()
}

// When the private database is lost, what is left in its folder of bytes is nobody else's: dev goes on with it. A folder of bytes that
// is gone, or another one, it refuses.
func TestDevAdoptsItsOwnFolder(t *testing.T) {
	t.Parallel()
	testenv.PostgresProgram(t, "postgres")
	data := testenv.TempDir(t)
	end := func(dev *process) {
		t.Helper()
		dev.signal(t, syscall.SIGINT)
		dev.exit(t, 0)
	}
	dev, _ := startDev(t, data)
	end(dev)
	if err := os.RemoveAll(filepath.Join(data, "postgres")); err != nil {
		t.Fatal(err)
	}
	dev, _ = startDev(t, data)
	end(dev)
	if !strings.Contains(dev.stderr.String(), "store_adopted") {
		t.Errorf("it says %q", dev.stderr.String())
	}
	dev, _ = startDev(t, data)
	end(dev)
	if err := os.RemoveAll(filepath.Join(data, "blobs")); err != nil {
		t.Fatal(err)
	}
	startPawl(t, data, nil, "dev", "--data", data, "--listen", freeAddress(t)).exit(t, exitConfig, "bears no mark")
}

// postmaster is the process id of the private Postgres.
func postmaster(t *testing.T, data string) int {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(data, "postgres", "data", "postmaster.pid"))
	if err != nil {
		t.Fatal(err)
	}
	first, _, _ := strings.Cut(string(text), "\n")
	pid, err := strconv.Atoi(first)
	if err != nil {
		t.Fatal(err)
	}
	return pid
}

// emptyDatabase is a database without the schema, for this test alone.
func emptyDatabase(t *testing.T) string {
	t.Helper()
	postgres, err := devpg.Start(t.Context(), devpg.Options{Dir: testenv.TempDir(t)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = postgres.Stop(context.WithoutCancel(t.Context())) })
	if err := postgres.CreateDatabase(t.Context(), "empty"); err != nil {
		t.Fatal(err)
	}
	return postgres.DSN("empty")
}

// serve refuses a schema that is older than itself, migrates when told to, and stops readiness first.
func TestServe(t *testing.T) {
	t.Parallel()
	address := freeAddress(t)
	dir := t.TempDir()
	env := []string{
		"PAWL_DATABASE_URL=" + emptyDatabase(t), "PAWL_BLOBS=file://" + filepath.Join(dir, "blobs"),
		"PAWL_LISTEN=" + address, "PAWL_HOSTS=pawl.example", "PAWL_BASE_PATH=/pawl", "PAWL_LOG_FORMAT=json", "PAWL_SESSION_IDLE=30m",
	}
	if err := os.Mkdir(filepath.Join(dir, "blobs"), 0o700); err != nil {
		t.Fatal(err)
	}
	startPawl(t, dir, env, "serve").exit(t, exitConfig, "older than this program", "pawl migrate")
	startPawl(t, dir, env, "migrate").exit(t, 0)
	serve := startPawl(t, dir, env, "serve", "--drain", "1s")
	eventually(t, "the start", func() bool { return strings.Contains(serve.stderr.String(), "server_started") })
	if !strings.Contains(serve.stderr.String(), `"msg":"setting_needs_auth","setting":"PAWL_SESSION_IDLE"`) {
		t.Errorf("nothing is said of a setting in vain:\n%s", serve.stderr.String())
	}
	call(t, []string{"PAWL_URL=http://" + address + "/pawl"}, "put", "k", os.Args[0], "--path", "a").expect(t, 0)
	// On loopback a page whose name was bound anew to it is kept out, by the setting that names who isn't.
	for host, want := range map[string]int{"evil.example": http.StatusForbidden, "pawl.example:443": http.StatusOK, "localhost:1": http.StatusOK} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+address+"/", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Host = host
		if resp, err := http.DefaultClient.Do(req); err != nil || resp.StatusCode != want {
			t.Errorf("Host %s: %v, %v; want %d", host, resp, err, want)
		} else {
			_ = resp.Body.Close()
		}
	}
	// The same address again.
	startPawl(t, dir, env, "serve").exit(t, exitConfig, "PAWL_LISTEN")

	ready := func() int {
		resp, err := http.Get("http://" + address + "/readyz")
		if err != nil {
			return 0
		}
		defer resp.Body.Close()
		return resp.StatusCode
	}
	if got := ready(); got != http.StatusOK {
		t.Fatalf("readyz %d", got)
	}
	serve.signal(t, syscall.SIGTERM)
	eventually(t, "the end of readiness", func() bool { return ready() == http.StatusServiceUnavailable })
	// Requests are served all the same until the drain is over.
	call(t, []string{"PAWL_URL=http://" + address + "/pawl"}, "stat", "k").expect(t, 0)
	serve.exit(t, 0, "server_stopping")
	http.DefaultClient.CloseIdleConnections()
}
