package e2e

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawlhq/pawl/client"
	"github.com/pawlhq/pawl/internal/testenv"
	"github.com/pawlhq/pawl/publish"
)

// nginx starts a proxy of its own before a server and returns its address. location is the inside of its one location, beside proxy_pass.
func nginx(t *testing.T, s *server, location string) (url string) {
	t.Helper()
	return nginxWith(t, s, "", location)
}

// nginxWith is nginx with settings beside the server's, such as those of a cache.
func nginxWith(t *testing.T, s *server, settings, location string) (url string) {
	t.Helper()
	return nginxOf(t, settings, fmt.Sprintf("location / { proxy_pass %s;\n%s\n}", s.url, location), "/livez")
}

// nginxOf starts a proxy with settings and the inside of its one server, and waits until it answers on a path.
func nginxOf(t *testing.T, settings, inside, ready string) (url string) {
	t.Helper()
	program, err := exec.LookPath("nginx")
	if err != nil {
		program = "/usr/sbin/nginx" // Debian keeps it out of the PATH of users.
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := listener.Addr().String()
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	dir := testenv.TempDir(t)
	var temp strings.Builder
	temp.WriteString(settings + "\n")
	for _, kind := range []string{"client_body", "proxy", "fastcgi", "uwsgi", "scgi"} {
		fmt.Fprintf(&temp, "%s_temp_path %s;\n", kind, filepath.Join(dir, kind))
	}
	config := filepath.Join(dir, "nginx.conf")
	text := fmt.Sprintf(`daemon off; master_process off; pid %s/pid; error_log stderr error;
events {}
http {
access_log off;
%s
server { listen %s;
%s
} }`, dir, temp.String(), addr, inside)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	p := start(t, nil, program, "-p", dir, "-c", config, "-e", "stderr")
	url = "http://" + addr
	testenv.Eventually(t, patience, func() error {
		select {
		case <-p.done:
			t.Fatalf("nginx ended: %v\n%s", p.err, p.errs.String())
		default:
		}
		_, err := get(url + ready)
		return err
	})
	return url
}

// documentedNginx is what the README says to put into the location.
func documentedNginx(t *testing.T) string {
	t.Helper()
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(readme), "```nginx\n")
	block, _, _ := strings.Cut(rest, "```")
	_, block, _ = strings.Cut(block, "proxy_pass http://127.0.0.1:8484;")
	block, _, ended := strings.Cut(block, "}")
	if !found || !ended {
		t.Fatal("the README has no nginx block with a proxy_pass to 127.0.0.1:8484")
	}
	return block
}

// Case 30: behind nginx as it comes, an upload above 1 MB is refused, and says by whom; with the README's settings large ones pass, as
// they come.
func TestCase30UploadsBehindNginx(t *testing.T) {
	t.Parallel()
	bucket := testenv.S3Bucket(t)
	s := serveS3(t, bucket)
	const size = 300 << 20
	file := filepath.Join(t.TempDir(), "big.bin")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(file, size); err != nil {
		t.Fatal(err)
	}

	plain := nginx(t, s, "")
	refused := start(t, []string{"PAWL_URL=" + plain, "PAWL_RETRY_FOR=0s"}, binary(t), "put", "big/file", file, "--direct", "never")
	if code := refused.exit(); code == 0 || !strings.Contains(refused.errs.String(), "413") {
		t.Errorf("a large upload behind nginx as it comes: exit code %d, %q; want the proxy's 413 in it", code, refused.errs.String())
	}

	documented := nginx(t, s, documentedNginx(t))
	started := time.Now()
	passed := start(t, []string{"PAWL_URL=" + documented}, binary(t), "put", "big/file", file, "--direct", "never", "--wait", "20s")
	select {
	case <-passed.done:
	case <-time.After(4 * patience):
	}
	if code := passed.exit(); code != 0 {
		t.Fatalf("exit code %d: %s", code, passed.errs.String())
	}
	t.Logf("%d MiB took %s", size>>20, time.Since(started).Round(time.Millisecond))
	resp, err := http.Get(documented + "/v1/keys/big/file/-/current")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	got, want := sha256.New(), sha256.New()
	n, err := io.Copy(got, resp.Body)
	_, _ = io.Copy(want, io.LimitReader(zeros{}, size))
	if err != nil || n != size || string(got.Sum(nil)) != string(want.Sum(nil)) {
		t.Errorf("%d bytes came back, %v", n, err)
	}
	streamedThrough(t, s, documented)
}

// streamedThrough checks that a body reaches the server before it has ended.
func streamedThrough(t *testing.T, s *server, url string) {
	t.Helper()
	ctx := context.Background()
	lease, err := s.api.Acquire(ctx, publish.AcquireRequest{Key: "big/stream", Holder: "W", TTL: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	api, err := client.New(url, client.Options{RetryFor: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer api.Close()
	end, done := make(chan struct{}), make(chan error, 1)
	go func() {
		body := io.MultiReader(io.LimitReader(zeros{}, 100_000), &until{done: end})
		_, err := api.Upload(ctx, publish.UploadRequest{Grant: lease.Grant(), Path: "out", Size: -1, Body: body})
		done <- err
	}()
	testenv.Eventually(t, patience, func() error {
		g, err := s.api.Generation(ctx, "big/stream", lease.Token)
		if err == nil && g.Uploads.Pending != 1 {
			err = errors.New("the upload has no row although a part of it was sent")
		}
		return err
	})
	close(end)
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// Case 30: nginx answers a publish with 504 because Pawl takes longer than it waits. The publish goes through, and repeating it is
// answered with its receipt.
func TestCase30GatewayTimeoutOnPublish(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	dsn, blobs := testenv.Postgres(t), directory(t)
	s, proxy := serveUnanswered(t, dsn, blobs)
	other := serve(t, dsn, blobs)
	impatient := nginx(t, s, "proxy_read_timeout 1s;")
	once, err := client.New(impatient, client.Options{RetryFor: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer once.Close()
	if err := ship(ctx, s.api, "nginx/ready"); err != nil {
		t.Fatal(err)
	}
	lease := uploaded(t, s, "nginx/late")
	proxy.DropAnswers(true)
	_, err = once.Publish(ctx, publish.PublishRequest{Grant: lease.Grant(), Final: true})
	if !errors.Is(err, publish.ErrOutcomeUnknown) || !strings.Contains(err.Error(), "504") {
		t.Errorf("the publish that took too long: %v, want an unknown outcome because of a 504", err)
	}
	testenv.Eventually(t, patience, func() error {
		_, err := other.api.Pointer(ctx, "nginx/late")
		return err
	})
	proxy.DropAnswers(false)
	proxy.Cut()
	again, err := client.New(impatient, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	receipt, err := again.Publish(ctx, publish.PublishRequest{Grant: lease.Grant(), Final: true})
	if err != nil || !receipt.Replayed || receipt.Revision != 1 {
		t.Errorf("the retry: %+v, %v; want the receipt replayed", receipt, err)
	}

	// The key is locked for longer than nginx waits. The command repeats by itself and ends well.
	lease = uploaded(t, s, "nginx/locked")
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(ctx) }()
	tx, err := conn.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(ctx, `SELECT FROM pawl.keys WHERE name = 'nginx/locked' FOR UPDATE`); err != nil {
		t.Fatal(err)
	}
	if _, err := once.Publish(ctx, publish.PublishRequest{Grant: lease.Grant(), Final: true}); err == nil || !strings.Contains(err.Error(), "504") {
		t.Errorf("the publish of a locked key: %v, want a 504", err)
	}
	watcher, err := pgx.Connect(ctx, dsn) // Inside a transaction the view of activities doesn't change.
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = watcher.Close(ctx) }()
	cli := start(t, []string{"PAWL_URL=" + impatient, fmt.Sprintf("PAWL_TOKEN=%d", lease.Token), "PAWL_LEASE_ID=" + lease.LeaseID.Hex()},
		binary(t), "publish", "nginx/locked")
	testenv.Eventually(t, patience, func() error {
		var waiting int
		err := watcher.QueryRow(ctx, `SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()`).Scan(&waiting)
		if err == nil && waiting == 0 {
			err = errors.New("the command's publish waits for no lock yet")
		}
		return err
	})
	if err := tx.Commit(ctx); err != nil {
		t.Fatal(err)
	}
	if code := cli.exit(); code != 0 {
		t.Errorf("exit code %d: %s", code, cli.errs.String())
	}
	g, err := other.api.Generation(ctx, "nginx/locked", lease.Token)
	if err != nil || len(g.Receipts) != 1 {
		t.Errorf("history has %d publishes, %v; want one", len(g.Receipts), err)
	}
}

// uploaded acquires a key and uploads a file.
func uploaded(t *testing.T, s *server, key publish.Key) client.Lease {
	t.Helper()
	lease, err := s.api.Acquire(context.Background(), publish.AcquireRequest{Key: key, Holder: "W", TTL: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	_, err = s.api.Upload(context.Background(), publish.UploadRequest{Grant: lease.Grant(), Path: "out", Size: 3, Body: strings.NewReader("abc")})
	if err != nil {
		t.Fatal(err)
	}
	return lease
}
