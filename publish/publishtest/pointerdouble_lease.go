package publishtest

import (
	"context"
	"time"

	"github.com/pawlhq/pawl/publish"
)

// epochStep is the distance between the tokens of two epochs.
const epochStep = 1_000_000_000

// Acquire grants a key; see publish.LeaseStore.
func (p *Pointers) Acquire(ctx context.Context, req publish.AcquireRequest) (publish.Lease, error) {
	return transact(ctx, p, "Acquire", req.Key, func(now time.Time) (publish.Lease, error) {
		k := p.keys[req.Key]
		if k == nil {
			k = &keyRow{key: req.Key}
		}
		sha := req.LeaseID.SHA256()
		if len(k.generations) > 0 {
			newest := k.newest()
			if newest.lease == sha && newest.released == nil {
				newest.ttl, newest.expires = req.TTL, now.Add(req.TTL)
				lease := k.lease(now)
				lease.LeaseID, lease.Replayed = req.LeaseID, true
				return lease, nil
			}
			if k.granted(sha) != nil {
				return publish.Lease{}, k.leaseLost(0)
			}
			if newest.running(now) {
				return publish.Lease{}, k.leaseHeld(now)
			}
		}
		next, ok := p.nextToken(k)
		if !ok {
			return publish.Lease{}, &publish.Error{Code: publish.ErrTokenExhausted, Key: req.Key, GrantedToken: k.counter}
		}
		if len(k.generations) > 0 && k.newest().released == nil {
			k.newest().ended = new(at(k.newest().expires))
		}
		k.counter, k.epoch = next, p.epoch
		k.generations = append(k.generations, &generation{
			token: next, lease: sha, holder: req.Holder, labels: cloneText(req.Labels), ttl: req.TTL,
			granted: now, expires: now.Add(req.TTL), state: publish.StateOpen,
		})
		p.keys[req.Key] = k
		lease := k.lease(now)
		lease.LeaseID = req.LeaseID
		return lease, nil
	})
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
		k := p.keys[key]
		if k == nil {
			return publish.Lease{}, notFound(key)
		}
		g := k.granted(id.SHA256())
		if g == nil {
			return publish.Lease{}, k.leaseLost(0)
		}
		if g != k.newest() || g.released != nil {
			return publish.Lease{}, k.leaseLost(g.token)
		}
		if ttl != 0 {
			g.ttl = ttl
		}
		g.expires = now.Add(g.ttl)
		lease := k.lease(now)
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
		return k.lease(now), nil
	})
}

// lease describes the newest grant, without its secret.
func (k *keyRow) lease(now time.Time) publish.Lease {
	g := k.newest()
	lease := publish.Lease{
		Key: k.key, Token: g.token, Holder: g.holder, Held: g.running(now), TTLMillis: g.ttl.Milliseconds(),
		ServerTime: at(now), Current: k.version(), Labels: cloneText(g.labels),
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
	return &publish.Error{Code: publish.ErrLeaseLost, Key: k.key, Token: token, GrantedToken: k.counter}
}

func (k *keyRow) leaseHeld(now time.Time) error {
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
