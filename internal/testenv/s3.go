//go:build unix

package testenv

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
	"golang.org/x/sys/unix"

	"github.com/pawlhq/pawl/internal/devpg/child"
)

// S3 says how to reach one bucket of an S3 server.
type S3 struct {
	Endpoint  string // a URL such as http://127.0.0.1:7070
	AccessKey string
	SecretKey string
	Bucket    string
	Region    string
}

var s3Server shared[S3]

// S3Bucket returns a bucket of its own for this test, on a real S3 server that is started once a test process, or on the one that
// PAWL_TEST_S3_ENDPOINT names: there PAWL_TEST_S3_ACCESS_KEY and PAWL_TEST_S3_SECRET_KEY must be allowed to make buckets.
func S3Bucket(t testing.TB) S3 {
	t.Helper()
	if endpoint := os.Getenv("PAWL_TEST_S3_ENDPOINT"); endpoint != "" {
		return S3{
			Endpoint: endpoint, AccessKey: os.Getenv("PAWL_TEST_S3_ACCESS_KEY"), SecretKey: os.Getenv("PAWL_TEST_S3_SECRET_KEY"),
			Region: cmp.Or(os.Getenv("PAWL_TEST_S3_REGION"), "us-east-1"),
		}.withBucket(t)
	}
	return s3Server.get(t, startVersityGW).withBucket(t)
}

func startVersityGW() (S3, error) {
	binary, err := findVersityGW()
	if err != nil {
		return S3{}, err
	}
	dir, remove, err := dirWithAttributes()
	if err != nil {
		return S3{}, err
	}
	// Another process can take the free port between the probe and the start: then try once more.
	for attempt := 0; ; attempt++ {
		server, stop, err := tryVersityGW(binary, dir)
		if err == nil {
			atEnd(func() error {
				stop()
				return remove()
			})
			return server, nil
		}
		if attempt == 4 {
			return S3{}, errors.Join(err, remove())
		}
	}
}

func tryVersityGW(binary, dir string) (_ S3, stop func(), err error) {
	probe, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return S3{}, nil, err
	}
	address := probe.Addr().String()
	if err := probe.Close(); err != nil {
		return S3{}, nil, err
	}
	s := S3{Endpoint: "http://" + address, AccessKey: "pawl-test", SecretKey: rand.Text(), Region: "us-east-1"}
	var output Buffer
	cmd := exec.Command(binary, "--port", address, "--region", s.Region, "--quiet", "posix", dir)
	cmd.Env = append(os.Environ(), "ROOT_ACCESS_KEY="+s.AccessKey, "ROOT_SECRET_KEY="+s.SecretKey)
	cmd.Stdout, cmd.Stderr = &output, &output
	server, err := child.Start(cmd, syscall.SIGKILL)
	if err != nil {
		return S3{}, nil, fmt.Errorf("start versitygw: %w", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), setupTimeout)
	defer cancel()
	if err := s.awaitAnswer(ctx, server.Done()); err != nil {
		server.Stop(ctx, time.Second)
		return S3{}, nil, fmt.Errorf("start versitygw: %w\n%s", err, output.String())
	}
	return s, func() { server.Stop(context.Background(), 2*time.Second, syscall.SIGTERM) }, nil
}

// awaitAnswer waits until the server lists its buckets to us. So a stranger on the same port doesn't pass for it.
func (s S3) awaitAnswer(ctx context.Context, ended <-chan struct{}) error {
	return s.withClient(func(client *minio.Client) error {
		for {
			attempt, cancel := context.WithTimeout(ctx, time.Second)
			_, err := client.ListBuckets(attempt)
			cancel()
			if err == nil {
				return nil
			}
			select {
			case <-ended:
				return errors.New("it ended at once")
			case <-ctx.Done():
				return fmt.Errorf("no answer: %w: %w", ctx.Err(), err)
			case <-time.After(10 * time.Millisecond):
			}
		}
	})
}

// withBucket makes a bucket for t, which goes with it.
func (s S3) withBucket(t testing.TB) S3 {
	t.Helper()
	s.Bucket = "t-" + strings.ToLower(rand.Text()[:20])
	err := s.withClient(func(client *minio.Client) error {
		return client.MakeBucket(t.Context(), s.Bucket, minio.MakeBucketOptions{Region: s.Region})
	})
	if err != nil {
		t.Fatalf("make bucket: %v", err)
	}
	t.Cleanup(func() {
		// What the test itself has started is over by now: its clean-ups come before this one.
		left, err := s.Unfinished()
		if err != nil {
			t.Errorf("look for unfinished uploads: %v", err)
		}
		for _, upload := range left {
			t.Errorf("an unfinished upload is left in the bucket: %s", upload)
		}
		if os.Getenv("PAWL_TEST_S3_ENDPOINT") != "" { // Ours goes with its folder.
			if err := s.remove(); err != nil {
				t.Errorf("remove the bucket %s: %v", s.Bucket, err)
			}
		}
	})
	return s
}

// remove deletes the bucket with all that is in it.
func (s S3) remove() error {
	ctx, cancel := context.WithTimeout(context.Background(), setupTimeout)
	defer cancel()
	return s.withClient(func(client *minio.Client) error {
		for object := range client.ListObjects(ctx, s.Bucket, minio.ListObjectsOptions{Recursive: true}) {
			if object.Err != nil {
				return object.Err
			}
			if err := client.RemoveObject(ctx, s.Bucket, object.Key, minio.RemoveObjectOptions{}); err != nil {
				return err
			}
		}
		return client.RemoveBucket(ctx, s.Bucket)
	})
}

// Unfinished lists the keys of multipart uploads that are neither completed nor aborted, one for each.
func (s S3) Unfinished() (keys []string, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), setupTimeout)
	defer cancel()
	err = s.withClient(func(client *minio.Client) error {
		core := minio.Core{Client: client}
		key := ""
		for {
			page, err := core.ListMultipartUploads(ctx, s.Bucket, "", key, "", "", 1000)
			if err != nil {
				return err
			}
			for _, upload := range page.Uploads {
				keys = append(keys, upload.Key)
			}
			if !page.IsTruncated {
				return nil
			}
			key = page.NextKeyMarker
		}
	})
	return keys, err
}

// Objects lists the keys of all objects.
func (s S3) Objects() (keys []string, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), setupTimeout)
	defer cancel()
	err = s.withClient(func(client *minio.Client) error {
		for object := range client.ListObjects(ctx, s.Bucket, minio.ListObjectsOptions{Recursive: true}) {
			if object.Err != nil {
				return object.Err
			}
			keys = append(keys, object.Key)
		}
		return nil
	})
	return keys, err
}

func (s S3) withClient(do func(*minio.Client) error) error {
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	host, secure := strings.CutPrefix(s.Endpoint, "https://")
	client, err := minio.New(strings.TrimPrefix(host, "http://"), &minio.Options{
		Secure:     secure,
		Creds:      credentials.NewStaticV4(s.AccessKey, s.SecretKey, ""),
		Region:     s.Region,
		Transport:  transport,
		MaxRetries: 1,
	})
	if err != nil {
		return err
	}
	return do(client)
}

// findVersityGW looks for the server where the environment says and where `make tools` puts it.
func findVersityGW() (string, error) {
	if path := os.Getenv("PAWL_TEST_VERSITYGW"); path != "" {
		return path, nil
	}
	root, err := moduleRoot()
	if err != nil {
		return "", err
	}
	path := filepath.Join(root, ".tools", "bin", "versitygw")
	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("no S3 server for tests: run `make tools`, or set PAWL_TEST_VERSITYGW: %w", err)
	}
	return path, nil
}

func moduleRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for ; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", errors.New("no go.mod above the working folder")
		}
	}
}

// dirWithAttributes makes a folder where files can have extended attributes, in which versitygw keeps metadata. A
// folder for temporary files that lies in memory may lack them.
func dirWithAttributes() (dir string, remove func() error, err error) {
	parents := []string{os.TempDir(), "/var/tmp"}
	if cache, err := os.UserCacheDir(); err == nil {
		parents = append(parents, cache)
	}
	for _, parent := range parents {
		dir, err := os.MkdirTemp(parent, tempPrefix+"s3-")
		if err != nil {
			continue
		}
		if unix.Setxattr(dir, "user.pawl", []byte("1"), 0) == nil {
			remove, err := holdTemp(dir)
			return dir, remove, err
		}
		if err := os.Remove(dir); err != nil {
			return "", nil, err
		}
	}
	return "", nil, fmt.Errorf("none of %s has extended attributes: set TMPDIR to a folder that has them",
		strings.Join(parents, ", "))
}
