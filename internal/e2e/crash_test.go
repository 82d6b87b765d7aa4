package e2e

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawlhq/pawl/client"
	"github.com/pawlhq/pawl/internal/testenv"
	"github.com/pawlhq/pawl/publish"
)

// Case 15: the server is killed after the store has the bytes and before the database knows. The retry under the same token succeeds, and
// history has one publish.
func TestCase15KilledBeforeTheCommit(t *testing.T) {
	t.Parallel()
	t.Run("directory", func(t *testing.T) {
		t.Parallel()
		root := filepath.Join(t.TempDir(), "blobs")
		killedBeforeTheCommit(t, "file://"+root, nil, func(size int64) error { return hasObject(root, size) })
	})
	t.Run("s3", func(t *testing.T) {
		t.Parallel()
		bucket := testenv.S3Bucket(t)
		killedBeforeTheCommit(t, s3Address(bucket), s3Env(bucket), func(int64) error {
			objects, err := bucket.Objects()
			if err == nil && !slices.ContainsFunc(objects, func(name string) bool { return strings.HasSuffix(name, "/out.bin") }) {
				err = errors.New("the object isn't there yet")
			}
			return err
		})
	})
}

// killedBeforeTheCommit kills a server on a store; stored tells when that has the whole object.
func killedBeforeTheCommit(t *testing.T, blobs string, env []string, stored func(size int64) error) {
	t.Helper()
	ctx := context.Background()
	dsn := testenv.Postgres(t)
	proxy, through := testenv.PostgresProxy(t, dsn)
	s := serve(t, through, blobs, env...)
	lease, err := s.api.Acquire(ctx, publish.AcquireRequest{Key: "crash/upload", Holder: "W", TTL: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	body := bytes.Repeat([]byte("frame"), 100_000)

	// The body stands still once its upload has a row; then Postgres falls silent, and the body ends.
	reader, writer := io.Pipe()
	once, err := client.New(s.url, client.Options{RetryFor: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer once.Close()
	done := make(chan error, 1)
	go func() {
		_, err := once.Upload(ctx, publish.UploadRequest{Grant: lease.Grant(), Path: "out.bin", Size: int64(len(body)), Body: reader})
		done <- err
	}()
	if _, err := writer.Write(body[:1000]); err != nil {
		t.Fatal(err)
	}
	testenv.Eventually(t, patience, func() error {
		g, err := s.api.Generation(ctx, "crash/upload", lease.Token)
		if err == nil && g.Uploads.Pending != 1 {
			err = errors.New("the upload has no row yet")
		}
		return err
	})
	proxy.Pause()
	if _, err := writer.Write(body[1000:]); err != nil {
		t.Fatal(err)
	}
	_ = writer.Close()
	testenv.Eventually(t, patience, func() error { return stored(int64(len(body))) })
	s.kill()
	proxy.Cut()
	proxy.Resume()
	if err := <-done; err == nil {
		t.Error("the upload succeeded although the server was killed before it had an answer")
	}

	s.start()
	_, err = s.api.Publish(ctx, publish.PublishRequest{Grant: lease.Grant(), Final: true})
	if !errors.Is(err, publish.ErrGenerationIncomplete) {
		t.Errorf("publish with an upload that nobody knows the end of: %v, want generation-incomplete", err)
	}
	receipt, err := s.api.UploadAndPublish(ctx, publish.UploadRequest{Grant: lease.Grant(), Path: "out.bin", Size: int64(len(body)), Body: bytes.NewReader(body)})
	if err != nil || receipt.Revision != 1 {
		t.Fatalf("the retry: %+v, %v", receipt, err)
	}
	g, err := s.api.Generation(ctx, "crash/upload", lease.Token)
	if err != nil || len(g.Receipts) != 1 {
		t.Errorf("history has %d publishes, %v; want one", len(g.Receipts), err)
	}
	if got := s.read("crash/upload"); sha256.Sum256([]byte(got)) != sha256.Sum256(body) {
		t.Errorf("the current file has %d bytes that are not those sent", len(got))
	}
}

// hasObject looks for a whole object of that size in a directory store.
func hasObject(root string, size int64) error {
	err := errors.New("the store doesn't have the bytes yet")
	_ = filepath.WalkDir(root, func(path string, entry fs.DirEntry, _ error) error {
		if info, infoErr := os.Stat(path); infoErr == nil && entry != nil && !entry.IsDir() &&
			info.Size() == size && !strings.HasPrefix(path, filepath.Join(root, "-")) {
			err = nil
		}
		return nil
	})
	return err
}

// Case 15: the server is killed between the commit of a publish and its answer. The retry is answered with the receipt.
func TestCase15KilledAfterTheCommit(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	dsn := testenv.Postgres(t)
	blobs := directory(t)
	s, proxy := serveUnanswered(t, dsn, blobs)
	other := serve(t, dsn, blobs)
	if err := ship(ctx, s.api, "crash/ready"); err != nil {
		t.Fatal(err)
	}
	lease, err := s.api.Acquire(ctx, publish.AcquireRequest{Key: "crash/publish", Holder: "W", TTL: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.api.Upload(ctx, publish.UploadRequest{Grant: lease.Grant(), Path: "out", Size: 3, Body: strings.NewReader("abc")}); err != nil {
		t.Fatal(err)
	}
	once, err := client.New(s.url, client.Options{RetryFor: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer once.Close()
	proxy.DropAnswers(true)
	done := make(chan error, 1)
	go func() {
		_, err := once.Publish(ctx, publish.PublishRequest{Grant: lease.Grant(), Final: true})
		done <- err
	}()
	testenv.Eventually(t, patience, func() error {
		_, err := other.api.Pointer(ctx, "crash/publish")
		return err
	})
	s.kill()
	proxy.DropAnswers(false)
	if err := <-done; !errors.Is(err, publish.ErrOutcomeUnknown) && !errors.Is(err, client.ErrUnreachable) {
		t.Errorf("the publish whose answer was lost: %v, want an unknown outcome", err)
	}
	receipt, err := other.api.Publish(ctx, publish.PublishRequest{Grant: lease.Grant(), Final: true})
	if err != nil || !receipt.Replayed || receipt.Revision != 1 {
		t.Errorf("the retry: %+v, %v; want the receipt replayed", receipt, err)
	}
}

// serveUnanswered starts a server whose answers from Postgres a test can drop: its statements aren't prepared, so that they need no answer before their own,
// and nothing of its own waits for one. A first publish, before the answers are dropped, opens connections, which needs answers as well.
func serveUnanswered(t *testing.T, dsn, blobs string) (*server, *testenv.FaultProxy) {
	t.Helper()
	proxy, through := testenv.PostgresProxy(t, dsn)
	return serve(t, through+"&default_query_exec_mode=exec", blobs, "PAWL_EVENTS_POLL=1h"), proxy
}

// ship acquires a key, uploads a file and publishes it.
func ship(ctx context.Context, api *client.Client, key publish.Key) error {
	lease, err := api.Acquire(ctx, publish.AcquireRequest{Key: key, Holder: "W", TTL: time.Minute})
	if err != nil {
		return err
	}
	if _, err := api.Upload(ctx, publish.UploadRequest{Grant: lease.Grant(), Path: "out", Size: 3, Body: strings.NewReader("abc")}); err != nil {
		return err
	}
	_, err = api.Publish(ctx, publish.PublishRequest{Grant: lease.Grant(), Final: true, Release: true})
	return err
}

// Uploading 2 GiB raises the server's resident memory by less than 64 MiB, of known and of unknown length.
func TestLargeUploadKeepsMemoryFlat(t *testing.T) {
	for _, known := range []bool{true, false} {
		t.Run(fmt.Sprint("length known ", known), func(t *testing.T) {
			const size = 2 << 30
			s := serve(t, testenv.Postgres(t), directory(t))
			ctx := context.Background()
			lease, err := s.api.Acquire(ctx, publish.AcquireRequest{Key: "big/file", Holder: "W", TTL: time.Hour})
			if err != nil {
				t.Fatal(err)
			}
			before := s.peakMemory(t)
			length := int64(-1)
			if known {
				length = size
			}
			url := fmt.Sprintf("%s/v1/keys/big/file/-/generations/%d/files/big.bin", s.url, lease.Token)
			req, err := http.NewRequestWithContext(ctx, http.MethodPut, url, io.NopCloser(io.LimitReader(zeros{}, size)))
			if err != nil {
				t.Fatal(err)
			}
			req.ContentLength = length
			req.Header.Set("Pawl-Lease", lease.LeaseID.Hex())
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			answer, _ := io.ReadAll(resp.Body)
			_ = resp.Body.Close()
			if resp.StatusCode != http.StatusCreated || !bytes.Contains(answer, []byte(`"size":2147483648`)) {
				t.Fatalf("%s: %s", resp.Status, answer)
			}
			grown := s.peakMemory(t) - before
			t.Logf("peak resident memory grew by %d KiB from %d KiB", grown, before)
			if grown >= 64<<10 {
				t.Errorf("peak resident memory grew by %d KiB, want less than 64 MiB", grown)
			}
		})
	}
}

// zeros reads as zeros without end.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// peakMemory is the process's greatest resident memory so far, in KiB.
func (p *process) peakMemory(t *testing.T) (kib int64) {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(status), "VmHWM:")
	if _, err := fmt.Sscan(rest, &kib); err != nil {
		t.Fatal(err)
	}
	return kib
}
