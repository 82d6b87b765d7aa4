package e2e

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/pawlhq/pawl/client"
	"github.com/pawlhq/pawl/internal/testenv"
	"github.com/pawlhq/pawl/publish"
)

// Case 1: A and B both live, 200 random interleavings of their steps over three replicas. Whatever the order, B's bytes are current at
// the end, and A's publish was accepted before B's or refused as stale after it.
func TestCase01RandomInterleavings(t *testing.T) {
	t.Parallel()
	dsn, blobs := testenv.Postgres(t), directory(t)
	replicas := []*server{serve(t, dsn, blobs), serve(t, dsn, blobs), serve(t, dsn, blobs)}
	var stale, accepted int
	var mu sync.Mutex
	var all sync.WaitGroup
	slots := make(chan struct{}, 10)
	for n := range 200 {
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			wasStale := interleave(t, replicas, publish.Key(fmt.Sprintf("case-01/%03d", n)))
			mu.Lock()
			defer mu.Unlock()
			if wasStale {
				stale++
			} else {
				accepted++
			}
		})
	}
	all.Wait()
	if stale == 0 || accepted == 0 {
		t.Errorf("A was stale %d times and accepted %d times: the interleavings are not random", stale, accepted)
	}
	t.Logf("A was stale %d times and accepted %d times", stale, accepted)
}

// interleave runs one random order of A's and B's steps, and reports whether A was refused as stale.
func interleave(t *testing.T, replicas []*server, key publish.Key) (wasStale bool) {
	ctx := context.Background()
	api := func() *client.Client { return replicas[rand.IntN(len(replicas))].api }
	acquire := func(holder string, ttl time.Duration) client.Lease {
		lease, err := api().Acquire(ctx, publish.AcquireRequest{Key: key, Holder: holder, TTL: ttl, Wait: 10 * time.Second})
		if err != nil {
			t.Errorf("%s: acquire by %s: %v", key, holder, err)
		}
		return lease
	}
	upload := func(lease client.Lease) error {
		_, err := api().Upload(ctx, publish.UploadRequest{
			Grant: lease.Grant(), Path: "out.txt", Size: int64(len(lease.Holder)),
			Body: strings.NewReader(lease.Holder),
		})
		return err
	}
	publishNow := func(lease client.Lease) error {
		_, err := api().Publish(ctx, publish.PublishRequest{Grant: lease.Grant(), Final: true})
		return err
	}

	a := acquire("A", publish.MinTTL)
	b := acquire("B", time.Minute)
	var errA error
	bPublished := false
	stepsA := []func(){
		func() { errA = upload(a) },
		func() {
			if errA == nil {
				errA = publishNow(a)
			}
		},
	}
	stepsB := []func(){
		func() {
			if err := upload(b); err != nil {
				t.Errorf("%s: upload by B: %v", key, err)
			}
		},
		func() {
			if err := publishNow(b); err != nil {
				t.Errorf("%s: publish by B: %v", key, err)
			}
			bPublished = true
		},
	}
	late := false // A's last step came after B had published
	for len(stepsA)+len(stepsB) > 0 {
		if len(stepsB) == 0 || len(stepsA) > 0 && rand.IntN(2) == 0 {
			late = bPublished
			stepsA[0]()
			stepsA = stepsA[1:]
		} else {
			stepsB[0]()
			stepsB = stepsB[1:]
		}
	}

	wasStale = errors.Is(errA, publish.ErrStaleToken)
	if errA != nil && !wasStale || wasStale != late {
		t.Errorf("%s: A came late: %v, and got %v", key, late, errA)
	}
	if body := replicas[0].read(string(key)); body != "B" {
		t.Errorf("%s: the current bytes are %q, want B's", key, body)
	}
	g, err := api().Generation(ctx, key, a.Token)
	if err != nil || (len(g.Rejections) > 0) != wasStale {
		t.Errorf("%s: A was stale: %v, and has the rejections %+v, %v", key, wasStale, g.Rejections, err)
	}
	return wasStale
}

// Case 3: B waits 120 s for the lease that A renews meanwhile. B's TTL counts from its grant, and a waiter that died while it waited is
// skipped.
func TestCase03Waiters(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	s := serve(t, testenv.Postgres(t), directory(t))
	const key = "farm/waiters"
	a, err := s.api.Acquire(ctx, publish.AcquireRequest{Key: key, Holder: "A", TTL: 5 * time.Second}) // long enough for a busy machine to renew in time
	if err != nil {
		t.Fatal(err)
	}
	dead := s.pawl("acquire", key, "--holder", "dead", "--ttl", "1h", "--wait", "3m")
	type result struct {
		lease client.Lease
		err   error
	}
	granted := make(chan result, 1)
	keeper := s.api.KeepLease(ctx, a)
	testenv.Eventually(t, patience, func() error { // the request for this very metric is in flight as well
		if line := s.metric("pawl_http_requests_in_flight"); !strings.HasSuffix(line, " 2") {
			return fmt.Errorf("nobody waits yet: %s", line)
		}
		return nil
	})
	dead.signal(syscall.SIGKILL)
	go func() {
		lease, err := s.api.Acquire(ctx, publish.AcquireRequest{Key: key, Holder: "B", TTL: 5 * time.Second, Wait: 3 * time.Minute})
		granted <- result{lease, err}
	}()
	deadline := time.Now().Add(2 * time.Minute)
	testenv.Eventually(t, 2*time.Minute+patience, func() error {
		select {
		case r := <-granted:
			t.Fatalf("B was granted while A renews: %+v, %v", r.lease, r.err)
		default:
		}
		if time.Now().Before(deadline) {
			return errors.New("A holds it a little longer")
		}
		return nil
	})
	keeper.Stop() // A renews no more, and doesn't release

	select {
	case r := <-granted:
		if left := r.lease.ExpiresAt.Sub(r.lease.ServerTime.Time); r.err != nil || left != 5*time.Second || r.lease.Token != a.Token+1 {
			t.Errorf("B got %+v, %v; want token %d for 5 s from the grant, before any dead waiter", r.lease, r.err, a.Token+1)
		}
	case <-time.After(patience):
		t.Fatal("B was not granted after A's lease had run out")
	}
}
