package publishtest

import (
	"context"
	"fmt"
	"time"

	"github.com/pawlhq/pawl/publish"
)

// epochStep is the distance between the tokens of two epochs.
const epochStep = 1_000_000_000

// Acquire grants a key; see publish.LeaseStore.
func (p *Pointers) Acquire(ctx context.Context, req publish.AcquireRequest) (publish.Lease, error) {
	return transact(ctx, p, "Acquire", req.Key, func(now time.Time) (publish.Lease, error) {
		if err := p.checkTTL(req.Key, req.TTL); err != nil {
			return publish.Lease{}, err
		}
		k := p.keys[req.Key]
		if k == nil {
			k = &keyRow{key: req.Key, id: int64(len(p.keys)) + 1}
		}
		sha := req.LeaseID.SHA256()
		if len(k.generations) > 0 {
			newest := k.newest()
			if g := k.granted(sha); g != nil && g.kind != "" {
				return publish.Lease{}, &publish.Error{Code: publish.ErrInvalidRequest, Key: k.key, Fields: []publish.Field{
					{Pointer: "/lease_id", Detail: fmt.Sprintf("is that of the request that made token %d, which has no lease; draw a new one", g.token)},
				}}
			}
			if newest.lease == sha && newest.givenUp() {
				return publish.Lease{}, k.collected(newest, now, publish.OperationAcquire)
			}
			if newest.lease == sha && newest.released == nil {
				newest.ttl, newest.expires = req.TTL, now.Add(req.TTL)
				lease := p.lease(k, now)
				lease.LeaseID, lease.Replayed = req.LeaseID, true
				return lease, nil
			}
			if g := k.granted(sha); g != nil {
				return publish.Lease{}, k.leaseLost(g.token)
			}
			if newest.running(now) && !p.revoked(newest.caller) {
				return publish.Lease{}, k.leaseHeld(now)
			}
		}
		if p.caller.Known() && req.MaxLeases != 0 && p.openLeases(p.caller.Credential, now) >= req.MaxLeases {
			return publish.Lease{}, &publish.Error{
				Code: publish.ErrQuotaExceeded, Key: req.Key, Operation: publish.OperationAcquire, Limit: req.MaxLeases, Unit: publish.UnitLeases,
			}
		}
		next, ok := p.nextToken(k)
		if !ok {
			return publish.Lease{}, &publish.Error{Code: publish.ErrTokenExhausted, Key: req.Key, GrantedToken: k.counter}
		}
		if len(k.generations) > 0 && k.newest().released == nil {
			if k.newest().running(now) { // It is one of a revoked credential.
				k.newest().expires = now
			}
			k.newest().ended = new(at(k.newest().expires))
		}
		k.counter, k.epoch = next, p.epoch
		g := &generation{
			token: next, lease: sha, holder: req.Holder, caller: p.caller.Credential, actor: p.actor(), labels: cloneText(req.Labels), ttl: req.TTL,
			granted: now, expires: now.Add(req.TTL), state: publish.StateOpen,
		}
		p.tellTakenOver(k, g)
		k.generations = append(k.generations, g)
		p.keys[req.Key] = k
		lease := p.lease(k, now)
		lease.LeaseID = req.LeaseID
		return lease, nil
	})
}

// openLeases counts the leases of a caller that run.
func (p *Pointers) openLeases(caller publish.CredentialID, now time.Time) (n int64) {
	for _, k := range p.keys {
		if len(k.generations) > 0 && k.newest().caller == caller && k.newest().running(now) {
			n++
		}
	}
	return n
}

// nextToken is one more than the counter, but after the epoch was raised it is above all that may be lost. It
// reports false at the end of the numbers.
func (p *Pointers) nextToken(k *keyRow) (publish.Token, bool) {
	next := k.counter + 1
	if k.epoch < p.epoch {
		next = p.lostUpTo(k) + 1
	}
	return next, next <= publish.MaxToken
}

// lostUpTo is the greatest token that a history lost before the last restore can have granted. It is the counter
// when nothing can be lost.
func (p *Pointers) lostUpTo(k *keyRow) publish.Token {
	if k.epoch == p.epoch {
		return k.counter
	}
	return max(publish.Token(p.epoch*epochStep), k.counter+epochStep)
}

// Renew extends a lease; see publish.LeaseStore.
func (p *Pointers) Renew(ctx context.Context, key publish.Key, id publish.LeaseID, ttl time.Duration) (publish.Lease, error) {
	return transact(ctx, p, "Renew", key, func(now time.Time) (publish.Lease, error) {
		if err := p.checkTTL(key, ttl); err != nil {
			return publish.Lease{}, err
		}
		k := p.keys[key]
		if k == nil {
			return publish.Lease{}, notFound(key)
		}
		g := k.granted(id.SHA256())
		if g == nil {
			return publish.Lease{}, k.leaseLost(0)
		}
		if g == k.newest() && g.givenUp() {
			return publish.Lease{}, k.collected(g, now, publish.OperationRenew)
		}
		if g != k.newest() || g.released != nil {
			return publish.Lease{}, k.leaseLost(g.token)
		}
		if ttl != 0 {
			g.ttl = ttl
		}
		g.expires = now.Add(g.ttl)
		lease := p.lease(k, now)
		lease.LeaseID = id
		return lease, nil
	})
}

// Release ends a lease; see publish.LeaseStore.
func (p *Pointers) Release(ctx context.Context, key publish.Key, id publish.LeaseID) error {
	_, err := transact(ctx, p, "Release", key, func(now time.Time) (struct{}, error) {
		k := p.keys[key]
		if k == nil {
			return struct{}{}, notFound(key)
		}
		g := k.granted(id.SHA256())
		if g == nil {
			return struct{}{}, k.leaseLost(0)
		}
		k.release(g, now)
		return struct{}{}, nil
	})
	return err
}

// release ends the grant's lease if it still has one.
func (k *keyRow) release(g *generation, now time.Time) {
	if g == k.newest() && g.released == nil {
		g.released = new(at(now))
	}
}

// Lease tells the newest grant of a key; see publish.LeaseStore.
func (p *Pointers) Lease(ctx context.Context, key publish.Key) (publish.Lease, error) {
	return transact(ctx, p, "Lease", key, func(now time.Time) (publish.Lease, error) {
		k := p.keys[key]
		if k == nil {
			return publish.Lease{}, notFound(key)
		}
		return p.lease(k, now), nil
	})
}

// lease describes the newest grant, without its secret.
func (p *Pointers) lease(k *keyRow, now time.Time) publish.Lease {
	g := k.newest()
	lease := publish.Lease{
		Key: k.key, Token: g.token, Holder: g.holder, Held: g.running(now), TTLMillis: g.ttl.Milliseconds(),
		ServerTime: at(now), Current: k.version(), Labels: cloneText(g.labels),
		EffectPrefix: p.effectPrefix(k.key),
	}
	if g.released == nil {
		lease.ExpiresAt = new(at(g.expires))
	}
	return lease
}

// granted finds the generation that was granted under a lease id.
func (k *keyRow) granted(sha publish.Digest) *generation {
	for _, g := range k.generations {
		if g.lease == sha {
			return g
		}
	}
	return nil
}

func (k *keyRow) leaseLost(token publish.Token) error {
	refused := &publish.Error{Code: publish.ErrLeaseLost, Key: k.key, Token: token, GrantedToken: k.counter}
	if g := k.find(token); g != nil {
		refused.Broken = clone(g.broken)
	}
	return refused
}

// givenUp reports whether a worker was granted the generation, and it is condemned or collected.
func (g *generation) givenUp() bool { return g.kind == "" && g.condemned() }

// collected refuses the grant of a generation that was given up, and ends its lease.
func (k *keyRow) collected(g *generation, now time.Time, operation string) error {
	k.release(g, now)
	return &publish.Error{Code: publish.ErrGenerationCollected, Key: k.key, Operation: operation, Token: g.token}
}

func (k *keyRow) leaseHeld(now time.Time) *publish.Error {
	g := k.newest()
	return &publish.Error{
		Code: publish.ErrLeaseHeld, Key: k.key, Token: k.counter,
		GrantedToken: k.counter, Holder: g.holder, ExpiresAt: new(at(g.expires)),
		RetryAfterMillis: max(1, g.expires.Sub(now).Milliseconds()),
	}
}

func notFound(key publish.Key) error {
	return &publish.Error{Code: publish.ErrNotFound, Key: key}
}

// Opens tells what a lease id is good for by itself; see publish.LeaseStore.
func (p *Pointers) Opens(ctx context.Context, grant publish.Grant) (publish.Opening, error) {
	return transact(ctx, p, "Opens", grant.Key, func(time.Time) (publish.Opening, error) {
		k := p.keys[grant.Key]
		if k == nil {
			return publish.Opening{}, nil
		}
		g := k.find(grant.Token)
		if g == nil || g.lease != grant.LeaseID.SHA256() || p.revoked(g.caller) {
			return publish.Opening{}, nil
		}
		fenced := g.token < k.fence ||
			p.policy(k.key).FenceMode == publish.FenceGranted && (g.token < k.counter || k.epoch < p.epoch)
		return publish.Opening{Granted: true, Open: g.state == publish.StateOpen && !fenced, Caller: g.caller}, nil
	})
}
