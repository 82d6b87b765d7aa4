package e2e

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pawlhq/pawl/client"
	"github.com/pawlhq/pawl/internal/testenv"
	"github.com/pawlhq/pawl/publish"
)

// cutOff makes a client of a server whose renewals don't get through, as those of a worker that stalls.
func (s *server) cutOff() *client.Client {
	s.t.Helper()
	proxy := testenv.Proxy(s.t, "tcp", s.addr)
	proxy.CutRequests("PATCH /v1/keys/")
	c, err := client.New("http://"+proxy.Addr, client.Options{})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(c.Close)
	return c
}

// as changes who asks for a lease, and for how long.
func as(holder string, ttl time.Duration) func(*publish.AcquireRequest) {
	return func(req *publish.AcquireRequest) { req.Holder, req.TTL, req.Wait = holder, ttl, patience }
}

// write is the work of a worker that finishes, however late: its upload isn't ended by the end of the lease.
func write(ctx context.Context, lease *client.Lease, body string) (publish.Receipt, error) {
	if _, err := lease.Upload(context.WithoutCancel(ctx), "out.txt", strings.NewReader(body)); err != nil {
		return publish.Receipt{}, err
	}
	return lease.Publish(ctx)
}

// isOvertaken reports whether an error is the fence's word about a token, after another one was accepted.
func isOvertaken(err error, token, accepted publish.Token) bool {
	var stale *publish.Error
	return errors.Is(err, publish.ErrStaleToken) && errors.As(err, &stale) && stale.Token == token && stale.AcceptedToken == accepted
}

// Case 1 with the Go client: A stalls past its lease, B publishes, A goes on. It gets stale-token with both tokens, the current bytes stay B's, and
// history has A's rejection.
func TestCase01GoClient(t *testing.T) {
	t.Parallel()
	s := serve(t, testenv.Postgres(t), directory(t))
	const key = "goclient/stale"
	err := s.cutOff().Run(t.Context(), key, func(ctx context.Context, a *client.Lease) error {
		<-ctx.Done()
		if cause := context.Cause(ctx); !errors.Is(cause, client.ErrLeaseExpired) {
			t.Errorf("A's work ended with %v", cause)
		}
		if err := s.api.Run(t.Context(), key, func(ctx context.Context, b *client.Lease) error {
			_, err := write(ctx, b, "made by B")
			return err
		}, as("worker-b", time.Minute)); err != nil {
			t.Fatal(err)
		}
		if _, err := a.Upload(context.WithoutCancel(ctx), "out.txt", strings.NewReader("made by A, late")); !isOvertaken(err, 1, 2) {
			t.Errorf("A's upload: %v", err)
		}
		_, err := a.Publish(ctx)
		return err
	}, as("worker-a", time.Second))
	if !isOvertaken(err, 1, 2) {
		t.Errorf("A gets %v", err)
	}
	if body := s.read(key); body != "made by B" {
		t.Errorf("the current bytes are %q", body)
	}
	generation, err := s.api.Generation(t.Context(), key, 1)
	if err != nil || len(generation.Rejections) != 2 || generation.Rejections[0].Holder != "worker-a" || generation.Rejections[0].AcceptedToken != 2 {
		t.Errorf("history has %+v, %v", generation.Rejections, err)
	}
}

// Case 2 with the Go client: a job is redelivered every TTL while all earlier runs live on. The newest publishes; the other five are overtaken.
func TestCase02GoClient(t *testing.T) {
	t.Parallel()
	s := serve(t, testenv.Postgres(t), directory(t))
	const key = "goclient/redelivered"
	const runs = 6
	stalled := s.cutOff()
	goOn := make(chan struct{})
	var all sync.WaitGroup
	for n := 1; n < runs; n++ {
		begun := make(chan struct{})
		all.Go(func() {
			err := stalled.Run(t.Context(), key, func(ctx context.Context, lease *client.Lease) error {
				close(begun)
				<-goOn
				_, err := write(ctx, lease, fmt.Sprint("delivery ", n))
				return err
			}, as(fmt.Sprint("delivery-", n), 500*time.Millisecond))
			if !isOvertaken(err, publish.Token(n), runs) {
				t.Errorf("delivery %d gets %v", n, err)
			}
		})
		select {
		case <-begun:
		case <-time.After(patience):
			t.Fatalf("delivery %d wasn't granted", n)
		}
	}
	err := s.api.Run(t.Context(), key, func(ctx context.Context, lease *client.Lease) error {
		receipt, err := write(ctx, lease, "the newest")
		if receipt.Token != runs {
			t.Errorf("the newest run has published %+v", receipt)
		}
		return err
	}, as("delivery-6", time.Minute))
	close(goOn)
	all.Wait()
	if err != nil {
		t.Fatalf("the newest run: %v", err)
	}
	if body := s.read(key); body != "the newest" {
		t.Errorf("the current bytes are %q", body)
	}
}

// Case 4 with the Go client: an upload that takes three times the TTL ends under its token, by renewals in the background.
func TestCase04GoClientUploadsForLongerThanItsTTL(t *testing.T) {
	t.Parallel()
	s := serve(t, testenv.Postgres(t), directory(t))
	const ttl = 2 * time.Second // long enough for a busy machine to renew in time
	err := s.api.Run(t.Context(), "goclient/long", func(ctx context.Context, lease *client.Lease) error {
		body, sending := io.Pipe()
		ticker := time.NewTicker(100 * time.Millisecond) // The upload is slow: this is what is tested.
		defer ticker.Stop()
		var writer sync.WaitGroup
		defer writer.Wait()
		defer body.Close() //nolint:errcheck // It ends the writer when the upload has failed.
		writer.Go(func() {
			for range 3 * ttl / (100 * time.Millisecond) {
				<-ticker.C
				if _, err := io.WriteString(sending, "more\n"); err != nil {
					return
				}
			}
			_ = sending.Close()
		})
		if _, err := lease.Upload(ctx, "out.txt", body); err != nil {
			return err
		}
		receipt, err := lease.Publish(ctx)
		if receipt.Token != 1 || receipt.LeaseExpired || receipt.Bytes != 5*int64(3*ttl/(100*time.Millisecond)) {
			t.Errorf("the receipt is %+v", receipt)
		}
		return err
	}, as("A", ttl))
	if err != nil {
		t.Error(err)
	}
}

// Case 4 with the Go client: only the renewals are cut. Work is told no later than the server's lease ends. Nobody takes over, so what it publishes
// all the same is accepted, marked late.
func TestCase04GoClientRenewalsAreCut(t *testing.T) {
	t.Parallel()
	s := serve(t, testenv.Postgres(t), directory(t))
	const key = "goclient/cut"
	err := s.cutOff().Run(t.Context(), key, func(ctx context.Context, lease *client.Lease) error {
		<-ctx.Done()
		// Both clocks are this machine's. Postgres's time is in milliseconds.
		if own := lease.Sent.Add(lease.TTL()); own.Sub(lease.ExpiresAt.Time) > time.Millisecond {
			t.Errorf("by the own clock the lease lasts until %v, by the server's until %v", own, lease.ExpiresAt)
		}
		testenv.Eventually(t, patience, func() error {
			if held := s.awaitLease(t, key); held.Held {
				return fmt.Errorf("the server's lease hasn't ended: %+v", held)
			}
			return nil
		})
		receipt, err := write(ctx, lease, "late")
		if receipt.Token != 1 || !receipt.LeaseExpired {
			t.Errorf("the receipt is %+v", receipt)
		}
		return err
	}, as("A", time.Second))
	if err != nil {
		t.Error(err)
	}
	if body := s.read(key); body != "late" {
		t.Errorf("the current bytes are %q", body)
	}
}
