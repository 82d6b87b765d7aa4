package web

import (
	"sync"

	"github.com/pawlhq/pawl/publish"
)

// maxGrants bounds what is remembered of lease ids, at about 100 bytes each.
const maxGrants = 10_000

// grants remembers lease ids that were found to be those of their grants. That stays so for ever, so the next file that is written with one needs no
// question to the store; whether its generation takes it the store decides then as ever. The zero value is ready.
type grants struct {
	mu   sync.Mutex
	seen map[provenGrant]struct{}
}

type provenGrant struct {
	key   publish.Key
	token publish.Token
	lease publish.Digest // of the lease id
}

func proven(g publish.Grant) provenGrant { return provenGrant{g.Key, g.Token, g.LeaseID.SHA256()} }

func (g *grants) has(grant publish.Grant) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	_, found := g.seen[proven(grant)]
	return found
}

func (g *grants) add(grant publish.Grant) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.seen == nil {
		g.seen = map[provenGrant]struct{}{}
	}
	for other := range g.seen {
		if len(g.seen) < maxGrants {
			break
		}
		delete(g.seen, other) // Whichever comes first: it costs one more question.
	}
	g.seen[proven(grant)] = struct{}{}
}
