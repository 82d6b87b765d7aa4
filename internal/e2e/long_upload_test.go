package e2e

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/pawlhq/pawl/client"
	"github.com/pawlhq/pawl/internal/testenv"
	"github.com/pawlhq/pawl/publish"
)

// Case 4: one file takes longer to upload than the TTL. The lease is renewed in the background, and the upload ends under the same token.
func TestCase04UploadLongerThanItsTTL(t *testing.T) {
	t.Parallel()
	s := serve(t, testenv.Postgres(t), directory(t))
	const key = "long/renewed"
	body, sending := io.Pipe()
	put := startReading(t, body, []string{"PAWL_URL=" + s.url}, binary(t), "put", key, "-", "--path", "out", "--ttl", "2s", "--json")
	var began time.Time
	for {
		if _, err := io.WriteString(sending, "more\n"); err != nil {
			t.Fatal(err)
		}
		lease := s.awaitLease(t, key)
		if began.IsZero() {
			began = lease.ServerTime.Time
		}
		if !lease.Held || lease.Token != 1 {
			t.Fatalf("in the middle of the upload the lease is %+v", lease)
		}
		if lease.ServerTime.Sub(began) > 3*lease.TTL() {
			break
		}
		<-time.After(100 * time.Millisecond) // The upload is slow: this is what is tested.
	}
	_ = sending.Close()
	if code := put.exit(); code != 0 {
		t.Errorf("it exits %d", code)
	}
	for _, want := range []string{`"token":1,`, `"lease_expired":false`} {
		if !strings.Contains(put.out.String(), want) {
			t.Errorf("the receipt lacks %s: %s", want, put.out.String())
		}
	}
	if strings.Contains(put.errs.String(), "expired") {
		t.Errorf("it says %s", put.errs.String())
	}
}

// awaitLease returns who holds a key, once anybody was granted it.
func (s *server) awaitLease(t *testing.T, key publish.Key) (lease publish.Lease) {
	t.Helper()
	testenv.Eventually(t, patience, func() (err error) {
		lease, err = s.api.Lease(t.Context(), key)
		return err
	})
	return lease
}

// Case 4: only the renewals are cut, the upload goes on. The client notices by its own clock, no later than the server's lease ends;
// nobody has taken over, so the upload ends under the same token all the same, marked late.
func TestCase04RenewalsAreCut(t *testing.T) {
	t.Parallel()
	s := serve(t, testenv.Postgres(t), directory(t))
	proxy := testenv.Proxy(t, "tcp", s.addr)
	proxy.CutRequests("PATCH /v1/keys/")
	t.Run("command", func(t *testing.T) {
		t.Parallel()
		body, sending := io.Pipe()
		put := startReading(t, body, []string{"PAWL_URL=http://" + proxy.Addr}, binary(t), "put", "long/cut", "-", "--path", "out", "--ttl", "1s", "--json")
		testenv.Eventually(t, patience, func() error {
			if !strings.Contains(put.errs.String(), "the lease of token 1 expired by the own clock") {
				return errors.New("it hasn't noticed")
			}
			return nil
		})
		if _, err := io.WriteString(sending, "late\n"); err != nil {
			t.Fatal(err)
		}
		testenv.Eventually(t, patience, func() error {
			if lease := s.awaitLease(t, "long/cut"); lease.Held {
				return fmt.Errorf("the server's lease hasn't ended: %+v", lease)
			}
			return nil
		})
		_ = sending.Close()
		if code := put.exit(); code != 0 || !strings.Contains(put.out.String(), `"lease_expired":true`) || !strings.Contains(put.out.String(), `"token":1,`) {
			t.Errorf("it exits %d with %s", code, put.out.String())
		}
	})
	t.Run("clock", func(t *testing.T) {
		t.Parallel()
		c, err := client.New("http://"+proxy.Addr, client.Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Close)
		lease, err := c.Acquire(t.Context(), publish.AcquireRequest{Key: "long/clock", Holder: "A", TTL: time.Second})
		if err != nil {
			t.Fatal(err)
		}
		keeper := c.KeepLease(t.Context(), lease)
		t.Cleanup(keeper.Stop)
		select {
		case <-keeper.Context().Done():
		case <-time.After(patience):
			t.Fatal("the keeper doesn't notice")
		}
		own := lease.Sent.Add(lease.TTL())
		if now := time.Now(); now.Before(own) {
			t.Errorf("it gave up %v early", own.Sub(now))
		}
		// Both clocks are this machine's. Postgres's time is in milliseconds.
		if late := own.Sub(lease.ExpiresAt.Time); late > time.Millisecond {
			t.Errorf("by the own clock the lease lasts %v longer than by the server's", late)
		}
		held := s.awaitLease(t, "long/clock")
		if held.Token != 1 || !held.ExpiresAt.Equal(lease.ExpiresAt.Time) {
			t.Errorf("a renewal got through: %+v after %+v", held, lease)
		}
	})
}
