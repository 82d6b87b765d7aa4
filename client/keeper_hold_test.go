package client

import (
	"errors"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawlhq/pawl/publish"
)

// untaken is a lease as the server shows it while nobody has taken or released it.
func untaken(ttl time.Duration) publish.Lease {
	now := lease(ttl)
	now.ExpiresAt = &publish.Time{}
	return now
}

// While it is held a Keeper sends no renewal, and goes on with one at once. Two who hold must both let it.
func TestKeeperHold(t *testing.T) {
	t.Parallel()
	const ttl = 300 * time.Millisecond
	requests := make(chan string, 1000)
	f := newFake(t, func(w http.ResponseWriter, r *http.Request) { requests <- r.Method; answer(200, untaken(ttl))(w, r) })
	k := keep(t, f, ttl)
	await(t, "a renewal", k.Renewed())
	one, two := k.Hold(), k.Hold()
	next := func(want string) {
		t.Helper()
		for deadline := time.After(time.Minute); ; {
			select {
			case got := <-requests:
				if got == want {
					return
				}
			case <-deadline:
				t.Fatalf("no %s", want)
			}
		}
	}
	looks := func(n int) { // A renewal may have been under way at the hold.
		t.Helper()
		next(http.MethodGet)
		for range n {
			select {
			case got := <-requests:
				if got != http.MethodGet {
					t.Fatalf("%s while the Keeper is held", got)
				}
			case <-time.After(time.Minute):
				t.Fatal("it doesn't look any more")
			}
		}
	}
	looks(3)
	await(t, "the expiry", k.Context().Done())
	one()
	one()
	looks(3)
	renewed := k.Renewed()
	two()
	next(http.MethodPatch)
	await(t, "the renewal", renewed)
	if k.Err() != nil || k.Lease().Remaining() <= 0 {
		t.Fatalf("%v, %s left", k.Err(), k.Lease().Remaining())
	}
}

// A Keeper that is held notices all the same that another holder has the key, or that the lease was released.
func TestKeeperHeldNoticesALostLease(t *testing.T) {
	t.Parallel()
	const ttl = 300 * time.Millisecond
	taken, released := untaken(ttl), lease(ttl)
	taken.Token, taken.Holder = 18, "render-b"
	for name, c := range map[string]struct {
		now      publish.Lease
		released bool
	}{"taken": {taken, false}, "released": {released, true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var lost atomic.Bool
			f := newFake(t, func(w http.ResponseWriter, r *http.Request) {
				if lost.Load() {
					answer(200, c.now)(w, r)
					return
				}
				answer(200, untaken(ttl))(w, r)
			})
			k := keep(t, f, ttl)
			k.Hold()
			lost.Store(true)
			await(t, "the loss", k.Lost())
			var refusal *publish.Error
			if !errors.As(k.Err(), &refusal) || refusal.Code != publish.ErrLeaseLost || refusal.Released() != c.released {
				t.Fatalf("got %v", k.Err())
			}
		})
	}
}
