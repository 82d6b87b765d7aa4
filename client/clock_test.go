package client

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawlhq/pawl/publish"
)

func TestGreaterProgress(t *testing.T) {
	t.Parallel()
	var monotonic, wall time.Duration
	c := greaterProgress(func() time.Duration { return monotonic }, func() time.Duration { return wall })
	for _, step := range []struct {
		what                  string
		monotonic, wall, want time.Duration
	}{
		{"both go on", time.Second, time.Second, time.Second},
		{"a suspension", time.Second, time.Hour, time.Hour},
		{"the wall clock is set back", time.Second, -2 * time.Hour, time.Second},
		{"a suspension after that", time.Second, time.Minute, time.Minute},
		{"nothing", 0, 0, 0},
	} {
		before := c()
		monotonic, wall = monotonic+step.monotonic, wall+step.wall
		if got := c() - before; got != step.want {
			t.Errorf("%s: went on by %s, want %s", step.what, got, step.want)
		}
	}
}

// Whatever the clock of this system is, it goes on as the monotonic one while nothing is suspended.
func TestClockGoesOn(t *testing.T) {
	t.Parallel()
	c := newClock()
	before, start := time.Now(), c.now()
	<-time.After(20 * time.Millisecond)
	inner := start.age()
	if outer := time.Since(before); inner < 20*time.Millisecond || inner > outer+time.Millisecond {
		t.Errorf("it went on by %s in %s", inner, outer)
	}
}

// jumping is a clock that a test can set forward, as a suspension does.
type jumping struct {
	clock
	by atomic.Int64
}

func newJumping() *jumping {
	j := &jumping{}
	own := newClock()
	j.clock = func() time.Duration { return own() + time.Duration(j.by.Load()) }
	return j
}

func (j *jumping) suspend(d time.Duration) { j.by.Add(int64(d)) }

// A machine is suspended for an hour: what is left of a lease says so at once, and its keeper's context ends as soon as the machine wakes,
// although no timer has run out. What becomes of the lease is the server's to say.
func TestKeeperAfterASuspension(t *testing.T) {
	t.Parallel()
	const ttl = time.Minute // The next renewal is 20 s away, by timers.
	for name, test := range map[string]struct {
		answer http.HandlerFunc
		lost   bool
	}{
		"nobody took over": {answer: answer(200, lease(ttl))},
		"replaced":         {answer: refuse(&publish.Error{Code: publish.ErrLeaseLost, Token: 17, GrantedToken: 18}), lost: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			renewed := make(chan struct{}, 10)
			f := newFake(t, answer(201, lease(ttl)), func(w http.ResponseWriter, r *http.Request) { renewed <- struct{}{}; test.answer(w, r) })
			c := f.client(t, Options{})
			machine := newJumping()
			c.clock = machine.clock
			held, err := c.Acquire(testContext(t), publish.AcquireRequest{Key: grant.Key, Holder: "me", TTL: ttl})
			if err != nil {
				t.Fatal(err)
			}
			k := c.KeepLease(testContext(t), held)
			t.Cleanup(k.Stop)
			if left := held.Remaining(); left <= 0 || k.Context().Err() != nil {
				t.Fatalf("%s remain before the suspension, %v", left, k.Context().Err())
			}
			machine.suspend(time.Hour)
			woken := time.Now()
			if left := held.Remaining(); left > ttl-time.Hour {
				t.Errorf("%s remain after it", left)
			}
			await(t, "the expiry", k.ctx.Done())
			if took := time.Since(woken); took > time.Minute/2 {
				t.Errorf("it took %s to notice", took)
			}
			if cause := context.Cause(k.ctx); !errors.Is(cause, ErrLeaseExpired) {
				t.Errorf("it ended with %v", cause)
			}
			await(t, "a renewal", renewed)
			if test.lost {
				await(t, "the loss", k.Lost())
				if !errors.Is(k.Err(), publish.ErrLeaseLost) {
					t.Errorf("lost by %v", k.Err())
				}
				return
			}
			for k.Lease().Remaining() <= 0 {
				time.Sleep(time.Millisecond)
			}
			if k.Err() != nil {
				t.Errorf("the lease doesn't go on: %v", k.Err())
			}
		})
	}
}

// Asking for the context looks at the clock, however long ago the last look was.
func TestContextIsLookedAt(t *testing.T) {
	t.Parallel()
	f := newFake(t, answer(200, lease(time.Hour)))
	c := f.client(t, Options{})
	machine := newJumping()
	c.clock = machine.clock
	k := c.KeepLease(testContext(t), Lease{Lease: lease(time.Hour), Sent: time.Now()})
	t.Cleanup(k.Stop)
	machine.suspend(2 * time.Hour)
	if cause := context.Cause(k.Context()); !errors.Is(cause, ErrLeaseExpired) {
		t.Errorf("the context is still good: %v", cause)
	}
}

// A renewal that was under way when the machine was suspended waits on a dead connection: it is given up, and a new one sent.
func TestRenewalUnderWayAtASuspension(t *testing.T) {
	t.Parallel()
	const ttl = time.Minute
	asked := make(chan struct{}, 10)
	f := newFake(t,
		func(_ http.ResponseWriter, r *http.Request) {
			_, _ = io.ReadAll(r.Body)
			asked <- struct{}{}
			<-r.Context().Done()
		},
		func(w http.ResponseWriter, r *http.Request) { answer(200, lease(ttl))(w, r); asked <- struct{}{} })
	c := f.client(t, Options{})
	machine := newJumping()
	c.clock = machine.clock
	k := c.KeepLease(testContext(t), Lease{Lease: lease(ttl), Sent: time.Now()})
	t.Cleanup(k.Stop)
	machine.suspend(ttl / 3)
	await(t, "the first renewal", asked)
	machine.suspend(ttl / 2)
	await(t, "another renewal", asked)
	if err := k.Context().Err(); err != nil {
		t.Errorf("the lease had time left: %v", context.Cause(k.Context()))
	}
}
