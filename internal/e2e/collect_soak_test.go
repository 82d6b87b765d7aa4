package e2e

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/pawlhq/pawl/client"
	"github.com/pawlhq/pawl/internal/testenv"
	"github.com/pawlhq/pawl/publish"
)

// soakGrace is how long a replaced generation stays in the soak: a reader has that long for a version that it has resolved.
const soakGrace = 4 * time.Second

// soakTime is how long case 18 runs: a minute, or PAWL_TEST_SOAK.
func soakTime(t *testing.T) time.Duration {
	t.Helper()
	text := os.Getenv("PAWL_TEST_SOAK")
	if text == "" {
		return time.Minute
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		t.Fatalf("PAWL_TEST_SOAK is %q; set it to a duration such as 30m", text)
	}
	return d
}

// soak is a run of publishers, collectors and checkers on a few keys.
type soak struct {
	t        *testing.T
	replicas []*server
	keys     []publish.Key

	published, abandoned, read, late atomic.Int64

	mu    sync.Mutex
	known map[publish.Key]map[publish.Token]int64 // receipts: revisions by token
}

// Case 18: 8 publishers, two replicas that collect every second with a short grace, and a checker that walks every pointer and reads every byte: no
// publish is lost, no pointer is broken, and in the end nothing is left but what is kept.
func TestCase18Soak(t *testing.T) {
	t.Parallel()
	dsn, bucket := testenv.Postgres(t), testenv.S3Bucket(t)
	env := append(s3Env(bucket), "PAWL_COLLECT_INTERVAL=1s", fmt.Sprintf("PAWL_COLLECT_GRACE=%s", soakGrace), "PAWL_SWEEP_GRACE=20s", "PAWL_SWEEP_INTERVAL=2s")
	s := &soak{t: t, known: map[publish.Key]map[publish.Token]int64{}}
	for range 2 {
		s.replicas = append(s.replicas, serve(t, dsn, s3Address(bucket), env...))
	}
	setPolicy(t, s.replicas[0], publish.Policy{FenceMode: publish.FenceAccepted, KeepGenerations: 1, KeepFor: seconds(1), KeepUnpublishedFor: seconds(30)})
	for n := range 5 {
		s.keys = append(s.keys, publish.Key(fmt.Sprint("soak/", n)))
		s.known[s.keys[n]] = map[publish.Token]int64{}
	}
	ctx, stop := context.WithTimeout(t.Context(), soakTime(t))
	defer stop()
	var running sync.WaitGroup
	for n := range 8 {
		running.Go(func() {
			for ctx.Err() == nil {
				s.publish(fmt.Sprint("publisher-", n))
			}
		})
	}
	for range 2 {
		running.Go(func() {
			for ctx.Err() == nil {
				for _, key := range s.keys {
					s.check(key)
				}
			}
		})
	}
	running.Wait()
	for _, key := range s.keys {
		s.check(key)
		s.compare(key)
	}
	t.Logf("%d publishes, %d generations abandoned, %d files read, %d reads were later than the grace", s.published.Load(), s.abandoned.Load(), s.read.Load(), s.late.Load())
	collected := s.replicas[0].metric("pawl_collect_objects_total") + " " + s.replicas[1].metric("pawl_collect_objects_total")
	t.Logf("%s", collected)
	if s.published.Load() < 20 || s.read.Load() < 100 {
		t.Error("too little has happened")
	}
	for _, r := range s.replicas {
		r.signal(syscall.SIGINT)
		<-r.done
	}
	// What is young goes when it is older; the sweep, which takes what was dropped within a generation, isn't what this is about.
	conn := connect(t, dsn)
	testenv.Eventually(t, 3*patience, func() error {
		collect(t, s.replicas[0], "--grace", "0s")
		var left int
		err := conn.QueryRow(t.Context(), `SELECT count(*) FROM pawl.generations g JOIN pawl.keys k ON k.id = g.key_id
			WHERE g.state IN ('open', 'sealed') AND g.token <> k.current_token`).Scan(&left)
		if err == nil && left > len(s.keys) {
			err = fmt.Errorf("%d generations are kept beside the current ones, want %d", left, len(s.keys))
		}
		return err
	})
	checkStore(t, dsn, bucket)
}

func (s *soak) api() *client.Client { return s.replicas[rand.IntN(len(s.replicas))].api }

// content is what a file of a generation holds.
func content(key publish.Key, token publish.Token, path publish.Path) []byte {
	return bytes.Repeat(fmt.Appendf(nil, "%s/%d/%s\n", key, token, path), 200)
}

// publish is one turn of a publisher: a whole set, one on top of the current one, one in two revisions, or none at all.
func (s *soak) publish(holder string) {
	ctx := context.Background()
	key := s.keys[rand.IntN(len(s.keys))]
	lease, err := s.api().Acquire(ctx, publish.AcquireRequest{Key: key, Holder: holder, TTL: 10 * time.Second, Wait: 5 * time.Second})
	if errors.Is(err, publish.ErrLeaseHeld) {
		return
	}
	if err != nil {
		s.t.Errorf("acquire %s: %v", key, err)
		return
	}
	grant := lease.Grant()
	put := func(path publish.Path) bool {
		body := content(key, grant.Token, path)
		_, err := s.api().Upload(ctx, publish.UploadRequest{Grant: grant, Path: path, Size: int64(len(body)), Body: bytes.NewReader(body)})
		if err != nil {
			s.t.Errorf("upload to %s under %d: %v", key, grant.Token, err)
		}
		return err == nil
	}
	flip := func(req publish.PublishRequest) {
		req.Grant, req.Primary = grant, "a"
		receipt, err := s.api().Publish(ctx, req)
		if err != nil {
			s.t.Errorf("publish of %s under %d: %v", key, grant.Token, err)
			return
		}
		s.published.Add(1)
		s.mu.Lock()
		defer s.mu.Unlock()
		s.known[key][receipt.Token] = receipt.Revision
	}
	switch rand.IntN(8) {
	case 0: // It dies with what it has uploaded.
		put("a")
		s.abandoned.Add(1)
	case 1, 2:
		if put("a") {
			flip(publish.PublishRequest{})
		}
		if put("b") {
			flip(publish.PublishRequest{Final: true})
		}
	case 3, 4, 5:
		if lease.Current != nil && put("a") && put("c") {
			flip(publish.PublishRequest{Final: true, ReuseFrom: lease.Current.Token})
		}
	default:
		if put("a") && put("b") {
			flip(publish.PublishRequest{Final: true})
		}
	}
	if err := s.api().Release(ctx, key, grant.LeaseID); err != nil {
		s.t.Errorf("release of %s: %v", key, err)
	}
}

// check reads the current version of a key, file by file, by the permanent addresses. Whatever is published meanwhile, it has the grace for that.
func (s *soak) check(key publish.Key) {
	ctx := context.Background()
	began := time.Now()
	pointer, err := s.api().Pointer(ctx, key)
	if errors.Is(err, publish.ErrNotFound) {
		return
	}
	if err != nil {
		s.t.Errorf("the pointer of %s: %v", key, err)
		return
	}
	fail := func(what string, err error) {
		if time.Since(began) > soakGrace && errors.Is(err, publish.ErrGenerationCollected) {
			s.late.Add(1)
			return
		}
		s.t.Errorf("%s of %s at %d.%d, %s after it was current: %v", what, key, pointer.Token, pointer.Revision, time.Since(began), err)
	}
	page, err := s.api().FilesAt(ctx, key, publish.Version{Token: pointer.Token, Revision: pointer.Revision}, "", 0)
	if err != nil {
		fail("files", err)
		return
	}
	if int64(len(page.Files)) != pointer.Files {
		s.t.Errorf("%s at %d has %d files, the pointer says %d", key, pointer.Token, len(page.Files), pointer.Files)
	}
	for _, file := range page.Files {
		body, err := s.api().Open(ctx, key, pointer.Token, file.Path, publish.LeaseID{})
		if err != nil {
			fail(string(file.Path), err)
			return
		}
		hash := sha256.New()
		n, err := io.Copy(hash, body)
		_ = body.Close()
		if err != nil || n == 0 {
			fail(string(file.Path), err)
			return
		}
		// A progressive publish may have replaced nothing here: paths are uploaded once in each generation.
		if publish.Digest(hash.Sum(nil)) != file.SHA256 {
			s.t.Errorf("%s of %s at %d has other bytes than its manifest says", file.Path, key, pointer.Token)
		}
		s.read.Add(1)
	}
}

// compare checks that no publish that was answered is lost.
func (s *soak) compare(key publish.Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	found := map[publish.Token]int64{}
	newest := publish.Token(0)
	for before := publish.Token(0); ; {
		page, err := s.api().History(context.Background(), key, before, 100)
		if err != nil {
			s.t.Fatal(err)
		}
		for _, g := range page.Generations {
			if g.Revision > 0 {
				found[g.Token] = g.Revision
				newest = max(newest, g.Token)
			}
		}
		if page.Next == 0 {
			break
		}
		before = page.Next
	}
	for token, revision := range s.known[key] {
		if found[token] != revision {
			s.t.Errorf("version %d.%d of %s was published and is lost: history says %d", token, revision, key, found[token])
		}
	}
	if pointer, err := s.api().Pointer(context.Background(), key); err != nil || pointer.Token != newest {
		s.t.Errorf("%s is at %d, %v; want %d", key, pointer.Token, err, newest)
	}
}
