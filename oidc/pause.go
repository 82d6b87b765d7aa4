package oidc

import (
	"sync"
	"time"
)

// A token endpoint that fails isn't asked for a second, and for twice as long each time that it goes on failing, up to half a minute.
const (
	shortestPause = time.Second
	longestPause  = 30 * time.Second
)

// pause keeps requests from a token endpoint that is ill. Anybody can make this server send one, with its client's secret: by an attempt to sign in that he has made up.
// Its methods may be called from many goroutines at once.
type pause struct {
	now func() time.Time

	mu       sync.Mutex
	failures int           // how often it was found to be ill
	length   time.Duration // of the pause, 0 while it is well
	until    time.Time     // no request is sent before
}

// begin reports how long no request may be sent. If that is 0, the request begins, and seen is for failed. While the endpoint is ill there is one in each pause.
func (p *pause) begin() (seen int, wait time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.now()
	if wait = p.until.Sub(now); p.length > 0 && wait > 0 {
		return 0, wait
	}
	p.until = now.Add(p.length)
	return p.failures, 0
}

// failed begins a pause. Requests that were under way together find the same illness, and count once.
func (p *pause) failed(seen int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if seen != p.failures {
		return
	}
	p.failures++
	p.length = min(max(2*p.length, shortestPause), longestPause)
	p.until = p.now().Add(p.length)
}

// answered ends it: the endpoint is well.
func (p *pause) answered() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.length = 0
}
