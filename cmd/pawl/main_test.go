package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"go.uber.org/goleak"

	"github.com/pawlhq/pawl/client"
	"github.com/pawlhq/pawl/publish"
	"github.com/pawlhq/pawl/publish/publishtest"
	"github.com/pawlhq/pawl/web"
)

// TestMain lets this test binary be the pawl program as well, so that tests have real processes of it.
func TestMain(m *testing.M) {
	testscript.Main(leakChecked{m}, map[string]func(){
		"pawl":             func() { os.Exit(program()) },
		"run-guard":        func() { os.Exit(program()) },
		"count-interrupts": countInterrupts,
	})
}

// countInterrupts is a command that isn't ended by INT, and tells each one.
func countInterrupts() {
	interrupts := make(chan os.Signal, 8)
	signal.Notify(interrupts, os.Interrupt)
	_ = os.WriteFile("a.pid", []byte(strconv.Itoa(os.Getpid())), 0o600)
	for n := 1; ; n++ {
		<-interrupts
		_ = os.WriteFile(fmt.Sprintf("interrupt-%d", n), nil, 0o600)
	}
}

// leakChecked runs the tests and then looks for goroutines that they left behind.
type leakChecked struct{ m *testing.M }

func (l leakChecked) Run() int {
	code := l.m.Run()
	if code == 0 {
		if err := goleak.Find(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	return code
}

// patience bounds every wait for something that should happen soon.
const patience = 90 * time.Second

// rig is a server on doubles.
type rig struct {
	url string
	// asking is the address of a server on the same stores that asks for a credential, admin one with the scope admin.
	asking, admin string

	pointers *publishtest.Pointers
	blobs    *publishtest.Blobs
	client   *client.Client
}

func startRig() (*rig, func(), error) {
	r := &rig{pointers: publishtest.NewPointers(), blobs: publishtest.NewBlobs()}
	log := slog.New(slog.DiscardHandler)
	service := &publish.Service{Pointers: r.pointers, Blobs: r.blobs, Log: log}
	handler, err := web.New(service, web.Options{Log: log})
	if err != nil {
		return nil, nil, err
	}
	asks, err := web.New(service, web.Options{Log: log, Authenticate: service.Authenticate})
	if err != nil {
		return nil, nil, err
	}
	root, err := service.CreateCredential(context.Background(), publish.CreateCredentialRequest{
		Name: "root", Scopes: publish.Scopes{{Verb: publish.VerbAdmin}}, By: "ops", Admin: publish.Everything,
	})
	if err != nil {
		return nil, nil, err
	}
	server, asking := httptest.NewServer(handler), httptest.NewServer(asks)
	r.url, r.asking, r.admin = server.URL, asking.URL, root.Secret.Reveal()
	if r.client, err = client.New(server.URL, client.Options{}); err != nil {
		return nil, nil, err
	}
	return r, func() {
		r.client.Close()
		for _, server := range []*httptest.Server{server, asking} {
			server.CloseClientConnections()
			server.Close()
		}
		service.Close()
	}, nil
}

func newRig(t *testing.T) *rig {
	t.Helper()
	r, stop, err := startRig()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	return r
}

// acquire takes a lease for another worker.
func (r *rig) acquire(t *testing.T, key publish.Key, holder string, ttl time.Duration) client.Lease {
	t.Helper()
	lease, err := r.client.Acquire(t.Context(), publish.AcquireRequest{Key: key, Holder: holder, TTL: ttl})
	if err != nil {
		t.Fatal(err)
	}
	return lease
}

// publish publishes one file under a lease.
func (r *rig) publish(t *testing.T, lease client.Lease, path publish.Path, body string) publish.Receipt {
	t.Helper()
	receipt, err := r.client.UploadAndPublish(t.Context(), publish.UploadRequest{
		Grant: lease.Grant(), Path: path,
		Size: int64(len(body)), Body: strings.NewReader(body),
	})
	if err != nil {
		t.Fatal(err)
	}
	return receipt
}

// read returns what is current under the key k.
func (r *rig) read(t *testing.T) string {
	t.Helper()
	resp, err := http.Get(r.url + "/v1/keys/k/-/current")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%s, %v: %s", resp.Status, err, body)
	}
	return string(body)
}

// result is what a command line that ran in this process did.
type result struct {
	code           int
	stdout, stderr string
}

// call runs a command line in this process. env holds pairs NAME=value.
func call(t *testing.T, env []string, args ...string) result {
	t.Helper()
	var stdout, stderr bytes.Buffer
	code := run(context.WithoutCancel(t.Context()), args, strings.NewReader(""), &stdout, &stderr, lookup(env))
	return result{code, stdout.String(), stderr.String()}
}

func lookup(env []string) func(string) string {
	return func(name string) string {
		for _, entry := range env {
			if value, found := strings.CutPrefix(entry, name+"="); found {
				return value
			}
		}
		return ""
	}
}

func (r result) expect(t *testing.T, code int, stderr ...string) {
	t.Helper()
	if r.code != code {
		t.Errorf("exit code %d, want %d; stdout %q, stderr %q", r.code, code, r.stdout, r.stderr)
	}
	for _, want := range stderr {
		if !strings.Contains(r.stderr, want) {
			t.Errorf("stderr %q doesn't say %q", r.stderr, want)
		}
	}
	if r.code != 0 && r.stderr == "" {
		t.Error("an exit code without a word")
	}
}

// A result that doesn't get out is no success.
func TestOutputThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	var stderr bytes.Buffer
	read, write := io.Pipe()
	_ = read.Close()
	for _, args := range [][]string{{"version"}, {"version", "--json"}, {"--help"}} {
		if code := run(t.Context(), args, strings.NewReader(""), write, &stderr, lookup(nil)); code != exitIO {
			t.Errorf("%q: exit code %d", args, code)
		}
	}
}
