package e2e

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pawlhq/pawl/client"
	"github.com/pawlhq/pawl/internal/testenv"
	"github.com/pawlhq/pawl/publish"
)

// awaitExpiry waits until a lease has run out by the server's clock.
func (s *server) awaitExpiry(t *testing.T, key publish.Key) {
	t.Helper()
	testenv.Eventually(t, patience, func() error {
		if lease := s.awaitLease(t, key); lease.Held {
			return fmt.Errorf("%s is held until %s", key, lease.ExpiresAt)
		}
		return nil
	})
}

// Case 6 with the Go client: a lease that has expired and that nobody replaced is renewed with its token; a replaced one isn't. Of a renewal and an
// acquire at the same moment one is good, never both.
func TestCase06GoClient(t *testing.T) {
	t.Parallel()
	s := serve(t, testenv.Postgres(t), directory(t))
	acquire := func(key publish.Key, holder string, ttl time.Duration) (client.Lease, error) {
		return s.api.Acquire(t.Context(), publish.AcquireRequest{Key: key, Holder: holder, TTL: ttl})
	}
	a, err := acquire("goclient/expired", "A", publish.MinTTL)
	if err != nil {
		t.Fatal(err)
	}
	s.awaitExpiry(t, a.Key)
	renewed, err := s.api.Renew(t.Context(), a.Key, a.LeaseID, 0)
	if err != nil || renewed.Token != a.Token || !renewed.Held {
		t.Errorf("nobody took over, and the renewal gives %+v, %v", renewed, err)
	}
	s.awaitExpiry(t, a.Key)
	if _, err := acquire(a.Key, "B", time.Minute); err != nil {
		t.Fatal(err)
	}
	if _, err := s.api.Renew(t.Context(), a.Key, a.LeaseID, 0); !errors.Is(err, publish.ErrLeaseLost) {
		t.Errorf("B took over, and A's renewal gives %v", err)
	}

	var mu sync.Mutex
	var renewals, grants int
	var all sync.WaitGroup
	slots := make(chan struct{}, 8)
	for n := range 100 {
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			key := publish.Key(fmt.Sprintf("goclient/race-%03d", n))
			a, err := acquire(key, "A", publish.MinTTL)
			if err != nil {
				t.Error(err)
				return
			}
			s.awaitExpiry(t, key)
			var renewal, grant error
			var b client.Lease
			var both sync.WaitGroup
			both.Go(func() { _, renewal = s.api.Renew(t.Context(), key, a.LeaseID, time.Minute) })
			both.Go(func() { b, grant = acquire(key, "B", time.Minute) })
			both.Wait()
			mu.Lock()
			defer mu.Unlock()
			switch {
			case renewal == nil && errors.Is(grant, publish.ErrLeaseHeld):
				renewals++
			case grant == nil && errors.Is(renewal, publish.ErrLeaseLost) && b.Token == a.Token+1:
				grants++
			default:
				t.Errorf("%s: the renewal got %v, the acquire %+v, %v", key, renewal, b, grant)
			}
		})
	}
	all.Wait()
	if renewals == 0 || grants == 0 {
		t.Errorf("%d renewals and %d grants: nothing raced", renewals, grants)
	}
	t.Logf("%d renewals and %d grants", renewals, grants)
}

// Case 12 with the Go client: the server is killed for three TTLs while 50 holders live. All of them notice by their own clocks. When it is back,
// each goes on under its token, by renewing or by publishing, unless it was replaced; no token comes twice.
func TestCase12GoClient(t *testing.T) {
	t.Parallel()
	s := serve(t, testenv.Postgres(t), directory(t))
	const ttl = time.Second
	keepers := make([]*client.Keeper, 50)
	for n := range keepers {
		lease, err := s.api.Acquire(t.Context(), publish.AcquireRequest{Key: publish.Key(fmt.Sprintf("goclient/farm-%02d", n)), Holder: "A", TTL: ttl})
		if err == nil {
			_, err = lease.Upload(t.Context(), "out.txt", strings.NewReader("made by A"))
		}
		if err != nil {
			t.Fatal(err)
		}
		keepers[n] = s.api.KeepLease(t.Context(), lease)
		t.Cleanup(keepers[n].Stop)
	}
	s.kill()
	for n, keeper := range keepers {
		testenv.Eventually(t, patience, func() error {
			if left := keeper.Lease().Remaining(); left > -2*ttl {
				return fmt.Errorf("holder %d has %s left", n, left)
			}
			return nil
		})
		if cause := context.Cause(keeper.Context()); !errors.Is(cause, client.ErrLeaseExpired) || keeper.Err() != nil {
			t.Errorf("holder %d ended with %v, %v", n, cause, keeper.Err())
		}
		if n%3 == 2 {
			keeper.Stop() // It has died: another one will take over.
		}
	}
	s.start()
	for n, keeper := range keepers {
		mine := keeper.Lease()
		switch n % 3 {
		case 0:
			testenv.Eventually(t, patience, func() error {
				if lease := keeper.Lease(); lease.Remaining() <= 0 || lease.Token != 1 || keeper.Err() != nil {
					return fmt.Errorf("holder %d doesn't go on: %s left under token %d, %w", n, lease.Remaining(), lease.Token, keeper.Err())
				}
				return nil
			})
		case 1:
			if receipt, err := mine.Publish(t.Context()); err != nil || receipt.Token != 1 {
				t.Errorf("holder %d publishes %+v, %v", n, receipt, err)
			}
		case 2:
			err := s.api.Run(t.Context(), mine.Key, func(ctx context.Context, b *client.Lease) error {
				if b.Token != 2 {
					t.Errorf("the token after 1 is %d", b.Token)
				}
				_, err := write(ctx, b, "made by B")
				return err
			}, as("B", time.Minute))
			if err != nil {
				t.Errorf("who takes over from %d: %v", n, err)
			}
			if _, err := mine.Publish(t.Context()); !isOvertaken(err, 1, 2) {
				t.Errorf("the replaced holder %d gets %v", n, err)
			}
		}
	}
}

// afterLoss is a transport that does something when the answer to a publish was lost, before the client can repeat it.
type afterLoss struct {
	http.RoundTripper
	once sync.Once
	do   func()
}

func (a *afterLoss) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := a.RoundTripper.RoundTrip(r)
	if err != nil && strings.HasSuffix(r.URL.Path, "/publish") {
		a.once.Do(a.do)
	}
	return resp, err
}

// Case 16 with the Go client: the answer to A's publish is lost, and B publishes before A repeats it. A learns that it has published and was
// superseded since, which is no error.
func TestCase16GoClient(t *testing.T) {
	t.Parallel()
	s := serve(t, testenv.Postgres(t), directory(t))
	const key = "goclient/superseded"
	proxy := testenv.Proxy(t, "tcp", s.addr)
	between := false
	transport := client.NewTransport()
	t.Cleanup(transport.CloseIdleConnections)
	c, err := client.New("http://"+proxy.Addr, client.Options{Transport: &afterLoss{RoundTripper: transport, do: func() {
		between = true
		if err := s.api.Run(t.Context(), key, func(ctx context.Context, b *client.Lease) error {
			_, err := write(ctx, b, "made by B")
			return err
		}, as("B", time.Minute)); err != nil {
			t.Error(err)
		}
	}}})
	if err != nil {
		t.Fatal(err)
	}
	err = c.Run(t.Context(), key, func(ctx context.Context, a *client.Lease) error {
		if _, err := a.Upload(ctx, "out.txt", strings.NewReader("made by A")); err != nil {
			return err
		}
		lost := proxy.LoseAnswer("/publish")
		receipt, err := a.Publish(ctx, func(req *publish.PublishRequest) { req.Release = true })
		select {
		case <-lost:
		default:
			t.Error("no answer was lost")
		}
		if !receipt.Replayed || receipt.Token != 1 || receipt.Current == nil || receipt.Current.Token != 2 || receipt.SupersededBy != 2 {
			t.Errorf("A's receipt is %+v", receipt)
		}
		return err
	}, as("A", time.Minute))
	if err != nil || !between {
		t.Errorf("A gets %v; B published between: %v", err, between)
	}
	if body := s.read(key); body != "made by B" {
		t.Errorf("the current bytes are %q", body)
	}
}
