package e2e

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pawlhq/pawl/internal/testenv"
	"github.com/pawlhq/pawl/publish"
)

// truncations are the ways in which a body can end too early. Each writes a request on a connection of its own.
func truncations(promised, sent int) map[string]func(t *testing.T, addr, head string) {
	dial := func(t *testing.T, addr string) *net.TCPConn {
		t.Helper()
		conn, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		return conn.(*net.TCPConn) //nolint:forcetypeassert // It was dialed as TCP.
	}
	write := func(t *testing.T, conn net.Conn, text string) {
		t.Helper()
		if _, err := conn.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	return map[string]func(*testing.T, string, string){
		"fin": func(t *testing.T, addr, head string) {
			conn := dial(t, addr)
			write(t, conn, head+fmt.Sprintf("Content-Length: %d\r\n\r\n", promised)+strings.Repeat("x", sent))
			_ = conn.Close()
		},
		"reset": func(t *testing.T, addr, head string) {
			conn := dial(t, addr)
			write(t, conn, head+fmt.Sprintf("Content-Length: %d\r\n\r\n", promised)+strings.Repeat("x", sent))
			_ = conn.SetLinger(0)
			_ = conn.Close()
		},
		"without last chunk": func(t *testing.T, addr, head string) {
			conn := dial(t, addr)
			write(t, conn, head+"Transfer-Encoding: chunked\r\n\r\n"+fmt.Sprintf("%x\r\n", sent)+strings.Repeat("x", sent)+"\r\n")
			_ = conn.Close()
		},
		"broken chunk": func(t *testing.T, addr, head string) {
			conn := dial(t, addr)
			write(t, conn, head+"Transfer-Encoding: chunked\r\n\r\n"+fmt.Sprintf("%x\r\n", sent)+strings.Repeat("x", 1000))
			_ = conn.Close()
		},
	}
}

// Case 26: bodies that end too early leave no file and nothing current, on the directory store as users run it.
func TestCase26TruncatedUploads(t *testing.T) {
	t.Parallel()
	root := filepath.Join(t.TempDir(), "blobs")
	s := serve(t, testenv.Postgres(t), "file://"+root)
	cutOff(t, s, "small", 1_000_000, 763_831)
	left := 0
	_ = filepath.WalkDir(root, func(_ string, entry fs.DirEntry, err error) error {
		if err == nil && entry.Name() == "-witness" { // of the database's history
			return fs.SkipDir
		}
		if err == nil && !entry.IsDir() && !strings.HasPrefix(entry.Name(), ".") && entry.Name() != "store" { // the store's own mark
			left++
			t.Logf("left: %s", entry.Name())
		}
		return nil
	})
	if left > 0 {
		t.Errorf("%d files are left in the store", left)
	}
}

// Case 26 on S3: neither in one request nor in parts does anything stay in the bucket.
func TestCase26TruncatedUploadsOnS3(t *testing.T) {
	t.Parallel()
	bucket := testenv.S3Bucket(t)
	s := serveS3(t, bucket)
	cutOff(t, s, "one request", 1_000_000, 763_831)
	cutOff(t, s, "parts", 40<<20, 20<<20) // parts have 16 MiB
	// A client that is gone doesn't wait for the clean-up.
	testenv.Eventually(t, patience, func() error {
		left, err := bucket.Unfinished()
		objects, errObjects := bucket.Objects()
		for _, object := range objects {
			if strings.Contains(object, "/-/") && !strings.Contains(object, "e2e/-/") { // there are the store's own
				left = append(left, object)
			}
		}
		if err := errors.Join(err, errObjects); err != nil || len(left) == 0 {
			return err
		}
		return fmt.Errorf("left in the bucket: %q", left)
	})
}

// cutOff breaks uploads off in every way, and checks that each is failed, current nowhere, and stops the publish.
func cutOff(t *testing.T, s *server, prefix string, promised, sent int) {
	t.Helper()
	ctx := context.Background()
	for name, cut := range truncations(promised, sent) {
		name = prefix + " " + name
		t.Run(name, func(t *testing.T) {
			key := publish.Key("cut/" + strings.ReplaceAll(name, " ", "-"))
			lease, err := s.api.Acquire(ctx, publish.AcquireRequest{Key: key, Holder: "W", TTL: time.Minute})
			if err != nil {
				t.Fatal(err)
			}
			cut(t, s.addr, fmt.Sprintf("PUT /v1/keys/%s/-/generations/%d/files/out.bin?publish=true HTTP/1.1\r\nHost: localhost\r\nPawl-Lease: %s\r\n",
				key, lease.Token, lease.LeaseID.Hex()))
			testenv.Eventually(t, patience, func() error {
				g, err := s.api.Generation(ctx, key, lease.Token)
				if err == nil && g.Uploads.Failed != 1 {
					err = fmt.Errorf("uploads are %+v, want one failed", g.Uploads)
				}
				return err
			})
			if _, err := s.api.Pointer(ctx, key); !errors.Is(err, publish.ErrNotFound) {
				t.Errorf("the pointer: %v, want not-found", err)
			}
			_, err = s.api.Publish(ctx, publish.PublishRequest{Grant: lease.Grant(), Final: true})
			var refusal *publish.Error
			if !errors.As(err, &refusal) || refusal.Code != publish.ErrGenerationIncomplete || len(refusal.Failed) != 1 {
				t.Errorf("publish: %v, want generation-incomplete with the failed path", err)
			}
		})
	}
}
