package publishtest

import (
	"context"
	"crypto/rand"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/pawlhq/pawl/publish"
)

// Pointers is a publish.PointerStore in memory: a double for tests that don't need a database. One mutex stands for
// all of Postgres's locks, so every call is one transaction. After each call it checks its own invariants and
// panics when one is broken. Its refusals carry facts alone: the Service makes the sentence. TestPointerStore holds it to
// the same rules as the real store.
type Pointers struct {
	// Faults make calls fail, before or after they were carried out. Operations are named as the methods.
	Faults Faults
	// Clock tells the time; nil means time.Now. Set it before the first call.
	Clock func() time.Time

	mu       sync.Mutex
	limits   publish.GenerationLimits
	ahead    time.Duration             // what Advance added to the clock
	policies map[string]publish.Policy // by prefix
	audit    []publish.AuditEntry
	client   netip.Addr // for whom the running call works, and where that one is
	caller   publish.Caller
	// credentials stand in the order in which they were made.
	credentials []*credentialRow
	sessions    map[publish.Digest]*sessionRow
	duties      map[string]duty
	events      eventRows
	epoch       int64
	keys        map[publish.Key]*keyRow
	uploads     int64 // the number of the last upload
	// installation is what tells the idempotency keys of this store's effects from those of others.
	installation string
}

var _ publish.PointerStore = (*Pointers)(nil)

// NewPointers makes an empty store.
func NewPointers() *Pointers {
	return &Pointers{
		policies: map[string]publish.Policy{}, duties: map[string]duty{}, sessions: map[publish.Digest]*sessionRow{}, keys: map[publish.Key]*keyRow{},
		installation: rand.Text(),
	}
}

// keyRow is what the store knows of one key.
type keyRow struct {
	key         publish.Key
	id          int64         // numbers the keys
	counter     publish.Token // the greatest token ever granted
	fence       publish.Token // the greatest token that the pointer has accepted
	epoch       int64         // the epoch that the counter has been raised to
	current     *publish.Version
	generations []*generation // in grant order; the last one has the lease
	lost        []*publish.Rejection
	// lostOverflows tells that older records of lost tokens make room for newer ones.
	lostOverflows bool
	refusals      int64 // counts stale requests, repeats included
	effects       map[publish.EffectName]*effectRow
	pin           *publish.Pin
	seen          watermarks
}

// generation is one grant and what was written under it.
type generation struct {
	token      publish.Token
	lease      publish.Digest
	holder     string
	caller     publish.CredentialID
	actor      publish.Actor
	labels     map[string]string
	ttl        time.Duration
	granted    time.Time
	expires    time.Time
	released   *publish.Time
	ended      *publish.Time // when the lease ran out, once another grant followed
	state      publish.State
	sealed     *publish.Time
	revision   int64
	uploads    []*uploadRow // by number
	receipts   []receiptRow // by revision
	rejections []*publish.Rejection
	// kind is "" for a worker's grant; reason and target go with it.
	kind, reason string
	pinned       bool // a rollback that pins
	target       *publish.Version
	broken       *publish.Break
	collect      collectRow
}

// receiptRow is a receipt with what its request had asked for.
type receiptRow struct {
	publish.Receipt
	asked publish.Path // the primary file that the request named
}

// Advance moves the store's clock forward.
func (p *Pointers) Advance(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ahead += d
}

// Expire lets the running lease of a key end a moment ago, as if its time had passed.
func (p *Pointers) Expire(key publish.Key) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if k := p.keys[key]; k != nil && k.newest().running(p.now()) {
		k.newest().expires = p.now().Add(-time.Millisecond)
	}
}

// RaiseEpoch acts as a restore from a backup: an unknown number of grants may be lost, so each key's next
// token is far above its counter.
func (p *Pointers) RaiseEpoch() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.epoch++
}

// SetCounter moves a key's counter forward, to see what happens near the greatest token.
func (p *Pointers) SetCounter(key publish.Key, counter publish.Token) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.keys[key].counter = counter
}

// GiveUp condemns a generation, as the retention policy does.
func (p *Pointers) GiveUp(key publish.Key, token publish.Token) {
	p.mu.Lock()
	defer p.mu.Unlock()
	k := p.keys[key]
	if k.current != nil && k.current.Token == token {
		panic("publishtest: the current generation of " + string(key) + " can't be condemned")
	}
	k.find(token).state = publish.StateCondemned
}

// Check reports that the store can serve requests, unless a fault says otherwise.
func (p *Pointers) Check(ctx context.Context) error {
	_, err := transact(ctx, p, "Check", "", func(time.Time) (struct{}, error) { return struct{}{}, nil })
	return err
}

// transact carries out one call as one transaction, with its faults, and checks the key's invariants after it. do may
// return an error and still have recorded a rejection, as a real transaction commits one.
func transact[T any](ctx context.Context, p *Pointers, operation string, key publish.Key, do func(now time.Time) (T, error)) (T, error) {
	var result T
	err := p.Faults.Do(ctx, operation, func() error {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.client, p.caller = publish.ClientOf(ctx), publish.CallerOf(ctx)
		var err error
		result, err = do(p.now())
		if k := p.keys[key]; k != nil {
			k.noteEnds(p.now())
			k.assertInvariants()
		}
		return err
	})
	if err != nil {
		var none T
		return none, err
	}
	return result, nil
}

// now is the store's time, in the resolution of Postgres.
func (p *Pointers) now() time.Time {
	clock := p.Clock
	if clock == nil {
		clock = time.Now
	}
	return clock().Add(p.ahead).UTC().Truncate(time.Microsecond)
}

// newest is the generation of the newest grant. A key has a row from its first grant on.
func (k *keyRow) newest() *generation { return k.generations[len(k.generations)-1] }

func (k *keyRow) find(token publish.Token) *generation {
	for _, g := range k.generations {
		if g.token == token {
			return g
		}
	}
	return nil
}

// supersededBy is the newest token if that is greater than token, else 0.
func (k *keyRow) supersededBy(token publish.Token) publish.Token {
	if k.counter > token {
		return k.counter
	}
	return 0
}

// version is the current version, in a copy of the caller's own.
func (k *keyRow) version() *publish.Version { return clone(k.current) }

// running reports whether the grant's lease is neither released nor expired.
func (g *generation) running(now time.Time) bool { return g.released == nil && now.Before(g.expires) }

func at(t time.Time) publish.Time { return publish.Time{Time: t} }

// clone copies what a pointer points at, so that callers can't change the store's rows.
func clone[T any](v *T) *T {
	if v == nil {
		return nil
	}
	c := *v
	return &c
}

func cloneText(m map[string]string) map[string]string {
	if len(m) == 0 {
		return nil
	}
	return maps.Clone(m)
}

// page cuts a list to a limit and reports whether more follows.
func page[T any](all []T, limit int) ([]T, bool) {
	if len(all) <= limit {
		return all, false
	}
	return slices.Clip(all[:limit]), true
}
