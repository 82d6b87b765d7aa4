package client

import (
	"sync"
	"time"
)

// clock tells how much time has passed since some fixed moment. It goes on while the machine is suspended, which Go's own monotonic
// clock does not: a lease that was slept through must not look as if it had all its time left.
type clock func() time.Duration

// moment is a point in time by a clock.
type moment struct {
	clock clock // nil for no moment at all
	at    time.Duration
}

func (c clock) now() moment { return moment{clock: c, at: c()} }

// age is how long ago the moment was.
func (m moment) age() time.Duration { return m.clock() - m.at }

// newClock returns the system's clock in which suspension counts, or the nearest thing to it.
func newClock() clock {
	if boot := bootClock(); boot != nil {
		return boot
	}
	start := time.Now()
	return greaterProgress(
		func() time.Duration { return time.Since(start) },
		func() time.Duration { return time.Now().Round(0).Sub(start.Round(0)) }, // Round takes the monotonic reading away.
	)
}

// greaterProgress is a clock for systems without a boot-time clock, of two clocks that tell the time since one moment. Between two looks it goes
// on by what either of them went on, whichever is more. A suspension shows in the wall clock alone; so does somebody's setting it forward,
// which makes a lease look older than it is: that costs a renewal, and no more. A wall clock that is set back changes nothing.
func greaterProgress(monotonic, wall func() time.Duration) clock {
	var mu sync.Mutex
	var total, lastMonotonic, lastWall time.Duration
	return func() time.Duration {
		mu.Lock()
		defer mu.Unlock()
		m, w := monotonic(), wall()
		total += max(m-lastMonotonic, w-lastWall)
		lastMonotonic, lastWall = m, w
		return total
	}
}
