package e2e

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/pawlhq/pawl/internal/testenv"
	"github.com/pawlhq/pawl/publish"
)

// sweepEnv makes a server sweep soon: 4 s after the last sign of an upload.
func sweepEnv(bucket testenv.S3) []string {
	return append(s3Env(bucket), "PAWL_SWEEP_GRACE=4s", "PAWL_SWEEP_INTERVAL=1s")
}

// paced gives n bytes, at a rate in bytes a second.
type paced struct {
	n, given, rate int64
	start          time.Time
}

func (p *paced) Read(b []byte) (int, error) {
	if p.start.IsZero() {
		p.start = time.Now()
	}
	n := min(int64(len(b)), p.n-p.given, max(1, p.rate/50))
	if n == 0 {
		return 0, io.EOF
	}
	p.given += n
	time.Sleep(time.Until(p.start.Add(time.Duration(p.given) * time.Second / time.Duration(p.rate)))) // The pace is what is tested.
	for i := range b[:n] {
		b[i] = 'x'
	}
	return int(n), nil
}

// Case 19: client or server is killed at 20 points of an upload. After the grace no unfinished upload and no object is left but those that
// files name; an upload that is alive all the while, at a server that isn't killed, is never touched. PAWL_TEST_LARGE=1 uploads 1 GiB each time.
func TestCase19KilledAtRandomPoints(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	size, took := int64(72<<20), time.Second // parts have 16 MiB
	if os.Getenv("PAWL_TEST_LARGE") == "1" {
		size, took = 1<<30, 10*time.Second
	}
	dsn, bucket := testenv.Postgres(t), testenv.S3Bucket(t)
	steady := serve(t, dsn, s3Address(bucket), sweepEnv(bucket)...)
	victim := serve(t, dsn, s3Address(bucket), sweepEnv(bucket)...)
	if err := roundTrip(steady, "kept/before", []byte("stored before"), 13); err != nil {
		t.Fatal(err)
	}

	slow, err := steady.api.Acquire(ctx, publish.AcquireRequest{Key: "kept/slow", Holder: "slow", TTL: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	// More than one part, of which the first is in the bucket soon, then a trickle until the rest is swept.
	swept, slowDone := make(chan struct{}), make(chan error, 1)
	const lead, tail = 20 << 20, 1000
	body := io.MultiReader(io.LimitReader(zeros{}, lead), &until{done: swept}, io.LimitReader(zeros{}, tail))
	go func() {
		_, err := steady.api.UploadAndPublish(ctx, publish.UploadRequest{Grant: slow.Grant(), Path: "slow.bin", Size: -1, Body: body})
		slowDone <- err
	}()

	random := rand.New(rand.NewPCG(19, 19))
	for i := range 20 {
		key := publish.Key(fmt.Sprintf("killed/%d", i))
		lease, err := victim.api.Acquire(ctx, publish.AcquireRequest{Key: key, Holder: "W", TTL: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		env := []string{"PAWL_URL=" + victim.url, "PAWL_RETRY_FOR=0s", fmt.Sprintf("PAWL_TOKEN=%d", lease.Token), "PAWL_LEASE_ID=" + lease.LeaseID.Hex()}
		input := &paced{n: size, rate: size * int64(time.Second) / int64(took)}
		put := startReading(t, input, env, binary(t), "put", string(key), "-", "--path", "f", "--publish")
		// The point is what is random.
		time.Sleep(time.Duration(random.Int64N(int64(took) * 6 / 5)))
		if i%2 == 0 {
			put.kill()
		} else {
			victim.kill()
			<-put.done
			victim.start()
		}
	}
	// A file may have been stored before the kill. Whatever was, is intact; the rest goes.
	testenv.Eventually(t, 3*patience, func() error { return onlyCounting(steady, bucket) })
	close(swept)
	if err := <-slowDone; err != nil {
		t.Fatalf("the upload that was alive all the while: %v", err)
	}
	got := steady.read("kept/slow")
	if !strings.HasPrefix(got, strings.Repeat("\x00", lead)) || len(got) < lead+tail {
		t.Errorf("the slow upload has %d bytes that aren't those sent", len(got))
	}
	if got := steady.read("kept/before"); got != "stored before" {
		t.Errorf("a file from before is %q", got)
	}
	stored := 0
	for i := range 20 {
		body, err := get(fmt.Sprintf("%s/v1/keys/killed/%d/-/generations/1/files/f", steady.url, i))
		if err != nil && strings.Contains(err.Error(), "404") {
			continue // It was killed before its publish.
		}
		stored++
		if err != nil || sha256.Sum256(body) != sha256.Sum256(bytes.Repeat([]byte("x"), int(size))) {
			t.Errorf("killed/%d has %d bytes that aren't those sent, %v", i, len(body), err)
		}
	}
	t.Logf("%d of 20 were published before the kill", stored)
	testenv.Eventually(t, patience, func() error {
		if !strings.Contains(steady.errs.String(), "msg=swept") && !strings.Contains(victim.errs.String(), "msg=swept") {
			return errors.New("no server says that it has swept")
		}
		return nil
	})
}

// until gives a byte now and then until it is told to end.
type until struct{ done chan struct{} }

func (u *until) Read(b []byte) (int, error) {
	select {
	case <-u.done:
		return 0, io.EOF
	case <-time.After(100 * time.Millisecond): // the pace of a slow client
		b[0] = 0
		return 1, nil
	}
}

// onlyCounting checks that the bucket has objects of stored files alone, and no unfinished upload but that of kept/slow.
func onlyCounting(s *server, bucket testenv.S3) error {
	unfinished, err := bucket.Unfinished()
	if err != nil {
		return err
	}
	if len(unfinished) != 1 || !strings.Contains(unfinished[0], "kept/slow/") {
		return fmt.Errorf("unfinished uploads: %q, want that of kept/slow alone", unfinished)
	}
	objects, err := bucket.Objects()
	if err != nil {
		return err
	}
	for _, object := range objects {
		_, name, _ := strings.Cut(object, "/") // the prefix of the address
		key, _, found := strings.Cut(name, "/-/")
		if !found {
			continue // the store's own, no upload's
		}
		g, err := s.api.Generation(context.Background(), publish.Key(key), 1)
		if err != nil {
			return err
		}
		if g.Uploads.Unpublished+int64(len(g.Receipts)) == 0 {
			return fmt.Errorf("%s is left", object)
		}
	}
	return nil
}

// Case 19: an abort that fails again and again is tried again after a restart, until nothing is left.
func TestCase19AbortFailsUntilARestart(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	dsn, bucket := testenv.Postgres(t), testenv.S3Bucket(t)
	proxy := proxyS3(t, bucket)
	s := serve(t, dsn, s3Address(proxy.bucket), sweepEnv(bucket)...)
	lease, err := s.api.Acquire(ctx, publish.AcquireRequest{Key: "k", Holder: "W", TTL: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	// A client that is cut off in the second part; the server's own abort fails, as do those of its sweeps.
	proxy.set(func(r *http.Request) int {
		if isAbort(r) {
			return http.StatusInternalServerError
		}
		return 0
	})
	_, err = s.api.Upload(ctx, publish.UploadRequest{
		Grant: lease.Grant(), Path: "f", Size: 40 << 20, Body: io.MultiReader(io.LimitReader(zeros{}, 20<<20), broken{}),
	})
	if err == nil {
		t.Fatal("an upload whose body broke succeeded")
	}
	testenv.Eventually(t, 2*patience, func() error {
		// Each of them has tried a few times.
		if n := strings.Count(s.errs.String(), "msg=sweep_failed"); n < 2 || proxy.refused() < 5 {
			return fmt.Errorf("%d sweeps and %d aborts have failed, want 2 and 5", n, proxy.refused())
		}
		return nil
	})
	if left, err := bucket.Unfinished(); err != nil || len(left) != 1 {
		t.Errorf("unfinished uploads: %q, %v; want one", left, err)
	}
	if line := s.metric("pawl_sweep_errors_total"); line == "pawl_sweep_errors_total 0" {
		t.Error(line)
	}
	s.kill()
	if n := proxy.set(nil); n < 5 {
		t.Errorf("%d aborts have failed, want at least 5", n)
	}
	s.start()
	testenv.Eventually(t, patience, func() error {
		left, err := bucket.Unfinished()
		if err == nil && len(left) > 0 {
			err = fmt.Errorf("unfinished uploads: %q", left)
		}
		return err
	})
}

// broken is a body that ends in an error.
type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, errors.New("broken by the test") }
