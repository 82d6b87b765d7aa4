package e2e

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawlhq/pawl/blobstore"
	"github.com/pawlhq/pawl/client"
	"github.com/pawlhq/pawl/internal/testenv"
	"github.com/pawlhq/pawl/pointer"
	"github.com/pawlhq/pawl/publish"
	"github.com/pawlhq/pawl/web"
)

// serveHere is a server in this process, on real stores, for settings that the program doesn't have.
func serveHere(t *testing.T, opts web.Options) (*client.Client, net.Addr, testenv.S3) {
	t.Helper()
	ctx := context.Background()
	bucket := testenv.S3Bucket(t)
	pointers, err := pointer.Open(ctx, testenv.Postgres(t), pointer.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pointers.Close)
	blobs, err := blobstore.Open(ctx, s3Address(bucket), blobstore.Options{AccessKey: bucket.AccessKey, SecretKey: bucket.SecretKey})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = blobs.Close() })
	opts.Log = slog.New(slog.DiscardHandler)
	service := &publish.Service{Pointers: pointers, Blobs: blobs, Log: opts.Log}
	handler, err := web.New(service, opts)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(handler)
	server.Config = web.NewServer(handler, opts.Log)
	server.Start()
	t.Cleanup(server.Close)
	t.Cleanup(service.Close)
	api, err := client.New(server.URL, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(api.Close)
	return api, server.Listener.Addr(), bucket
}

// Case 29: 500 uploads that give a byte and then stand still are dropped. They don't block others, neither small ones nor large ones, and
// nothing of them is left. What is slow but steady works, although it takes longer than a body may stand still.
func TestCase29SlowUploads(t *testing.T) {
	t.Parallel()
	const (
		crowd = 500
		idle  = 8 * time.Second
	)
	api, addr, bucket := serveHere(t, web.Options{BodyIdleTimeout: idle})
	ctx := context.Background()
	lease, err := api.Acquire(ctx, publish.AcquireRequest{Key: "slow/crowd", Holder: "W", TTL: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	steady, err := api.Acquire(ctx, publish.AcquireRequest{Key: "slow/steady", Holder: "W", TTL: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	steadyDone := make(chan error, 1)
	go func() { // 100 MiB at 200 KiB/s, cut to 3 MiB: 15 s
		const size = 3 << 20
		_, err := api.UploadAndPublish(ctx, publish.UploadRequest{
			Grant: steady.Grant(), Path: "f", Size: -1, Body: &paced{n: size, rate: 200 << 10},
		})
		steadyDone <- err
	}()

	began := time.Now()
	var dropped sync.WaitGroup
	var gone atomic.Int64
	for i := range crowd {
		conn, err := net.Dial("tcp", addr.String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		length := "Content-Length: 41943040\r\n\r\nx" // more than a part
		if i%2 == 0 {
			length = "Transfer-Encoding: chunked\r\n\r\n1\r\nx\r\n"
		}
		head := fmt.Sprintf("PUT /v1/keys/slow/crowd/-/generations/%d/files/f%d HTTP/1.1\r\nHost: localhost\r\nPawl-Lease: %s\r\n%s", lease.Token, i, lease.LeaseID.Hex(), length)
		if _, err := io.WriteString(conn, head); err != nil {
			t.Fatal(err)
		}
		dropped.Go(func() {
			_ = conn.SetReadDeadline(time.Now().Add(4 * patience))
			answer, err := io.ReadAll(conn) // until the server closes it
			gone.Add(1)
			if err != nil || !strings.HasPrefix(string(answer), "HTTP/1.1 400 ") {
				t.Errorf("a connection that stands still: %.50q, %v; want a refusal and its end", answer, err)
			}
		})
	}
	for i := range 2 {
		for _, size := range []int{3, 20 << 20} {
			if err := shipSize(ctx, api, publish.Key(fmt.Sprintf("slow/other-%d-%d", i, size)), size); err != nil {
				t.Errorf("another upload of %d bytes meanwhile: %v", size, err)
			}
			if gone.Load() == crowd {
				t.Errorf("another upload of %d bytes was done only when the whole crowd was gone", size)
			}
		}
	}
	t.Logf("four other uploads were published %s after the crowd came", time.Since(began).Round(time.Millisecond))
	dropped.Wait()
	t.Logf("all of the crowd was dropped after %s", time.Since(began).Round(time.Millisecond))
	if err := <-steadyDone; err != nil {
		t.Errorf("the slow but steady upload: %v", err)
	}
	testenv.Eventually(t, patience, func() error {
		g, err := api.Generation(ctx, "slow/crowd", lease.Token)
		if err == nil && (g.Uploads.Failed != crowd || g.Uploads.Pending != 0) {
			err = fmt.Errorf("uploads are %+v, want %d failed", g.Uploads, crowd)
		}
		objects, errObjects := bucket.Objects()
		for _, object := range objects {
			if strings.Contains(object, "crowd") {
				err = errors.Join(err, fmt.Errorf("left: %s", object))
			}
		}
		return errors.Join(err, errObjects)
	})
}

// shipSize acquires a key, uploads a file of zeros and publishes it.
func shipSize(ctx context.Context, api *client.Client, key publish.Key, size int) error {
	lease, err := api.Acquire(ctx, publish.AcquireRequest{Key: key, Holder: "W", TTL: time.Minute})
	if err != nil {
		return err
	}
	_, err = api.UploadAndPublish(ctx, publish.UploadRequest{
		Grant: lease.Grant(), Path: "out", Size: int64(size), Body: io.LimitReader(zeros{}, int64(size)),
	})
	return err
}
