package oidc

import (
	"crypto/sha256"
	"sync"
	"time"

	"github.com/pawlhq/pawl/publish"
)

const (
	// rememberFor is how long a verified token needs no look at its signature.
	rememberFor = 5 * time.Minute
	// rememberTokens is how many are remembered, at most twice as many for a while.
	rememberTokens = 5000
)

// cache remembers verified tokens by their hash. It has two halves: when the young one is full it becomes the old one, which is forgotten. So it is bounded, and
// nothing is ever searched. Its methods may be called from many goroutines at once.
type cache struct {
	mu         sync.Mutex
	young, old map[tokenHash]remembered
}

type tokenHash [sha256.Size]byte

type remembered struct {
	caller publish.Caller
	until  time.Time
}

func (c *cache) get(hash tokenHash, now time.Time) (publish.Caller, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	found, ok := c.young[hash]
	if !ok {
		found, ok = c.old[hash]
	}
	if !ok || !now.Before(found.until) {
		return publish.Caller{}, false
	}
	return found.caller, true
}

func (c *cache) put(hash tokenHash, caller publish.Caller, until time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.young == nil || len(c.young) >= rememberTokens {
		c.young, c.old = make(map[tokenHash]remembered), c.young
	}
	c.young[hash] = remembered{caller, until}
}
