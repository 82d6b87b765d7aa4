package publishtest

import (
	"context"
	"fmt"
	"time"

	"github.com/pawlhq/pawl/publish"
)

// Rollback publishes an earlier version's files again; see publish.OperatorStore.
func (p *Pointers) Rollback(ctx context.Context, req publish.RollbackRequest) (publish.Receipt, error) {
	return transact(ctx, p, "Rollback", req.Key, func(now time.Time) (publish.Receipt, error) {
		k := p.keys[req.Key]
		if k == nil {
			return publish.Receipt{}, notFound(req.Key)
		}
		sha := req.RequestID.SHA256()
		if g := k.granted(sha); g != nil {
			if g.kind != publish.KindRollback || g.reason != req.Reason || g.pinned != req.Pin || g.target.Token != req.To.Token ||
				req.To.Revision != 0 && req.To != *g.target {
				return publish.Receipt{}, k.requestReused(g)
			}
			receipt := k.receipt(g.receipts[0])
			receipt.Replayed = true
			return receipt, nil
		}
		if err := k.moved(req.Current, publish.KindRollback); err != nil {
			return publish.Receipt{}, err
		}
		if err := k.repinned(req.PinnedAt, publish.KindRollback, req.Reason, req.By); err != nil {
			return publish.Receipt{}, err
		}
		target, rows, err := k.rollbackTarget(req.To)
		if err != nil {
			return publish.Receipt{}, err
		}
		if k.pin != nil && !req.Pin {
			return publish.Receipt{}, k.pinned(publish.KindRollback, 0)
		}
		g, err := p.takeOver(k, now, sha, req.By, req.BreakLease && (req.Lease == 0 || req.Lease == k.counter), publish.KindRollback, req.Reason)
		if err != nil {
			return publish.Receipt{}, err
		}
		g.target, g.pinned = &target, req.Pin
		source := k.find(target.Token).receipts[target.Revision-1]
		p.carry(g, rows)
		again := publish.PublishRequest{Final: true, Primary: source.asked, SourceRevision: source.SourceRevision, Metadata: source.Metadata}
		var primary *publish.File
		files := filesOf(rows)
		for i := range files {
			if files[i].Path == source.Primary {
				primary = &files[i]
			}
		}
		receipt := p.flip(k, now, g, again, files, primary)
		p.note(now, req.By, publish.KindRollback, string(k.key), receipt.Previous, receipt.Version()).Token = receipt.Token
		if req.Pin {
			p.setPin(k, now, req.Reason, req.By)
		}
		return receipt, nil
	})
}

// requestReused refuses a request under the id of the one that has made g.
func (k *keyRow) requestReused(g *generation) error {
	return &publish.Error{Code: publish.ErrInvalidRequest, Key: k.key, Fields: []publish.Field{
		{Pointer: "Idempotency-Key", Detail: fmt.Sprintf("is that of token %d, which was another request; send a new one", g.token)},
	}}
}

// rollbackTarget finds the version that a rollback names, with its files.
func (k *keyRow) rollbackTarget(to publish.Version) (publish.Version, []*uploadRow, error) {
	refused := func(code publish.Code) error {
		return &publish.Error{Code: code, Key: k.key, Operation: publish.KindRollback, Token: to.Token, Revision: to.Revision}
	}
	g := k.find(to.Token)
	switch {
	case g == nil:
		return to, nil, refused(publish.ErrNotFound)
	case g.state == publish.StateCondemned || g.state == publish.StateCollected:
		return to, nil, refused(publish.ErrGenerationCollected)
	case g.revision == 0 || to.Revision > g.revision:
		return to, nil, refused(publish.ErrNotFound)
	case to.Revision == 0:
		to.Revision = g.revision
	}
	return to, g.choose(func(row *uploadRow) bool { return row.inRevision(to.Revision) }), nil
}

// Retire takes a key's pointer away; see publish.OperatorStore.
func (p *Pointers) Retire(ctx context.Context, req publish.RetireRequest) (publish.Retirement, error) {
	return transact(ctx, p, "Retire", req.Key, func(now time.Time) (publish.Retirement, error) {
		k := p.keys[req.Key]
		if k == nil {
			return publish.Retirement{}, notFound(req.Key)
		}
		sha := req.RequestID.SHA256()
		g := k.granted(sha)
		if g != nil && (g.kind != publish.KindRetire || g.reason != req.Reason) {
			return publish.Retirement{}, k.requestReused(g)
		}
		if err := k.moved(req.Current, publish.KindRetire); g == nil && err != nil {
			return publish.Retirement{}, err
		}
		if g == nil && k.current == nil && k.counter == k.fence {
			g = k.find(k.fence)
		}
		if g != nil {
			retired := k.retirement(g)
			retired.Replayed = true
			return retired, nil
		}
		if k.pin != nil {
			return publish.Retirement{}, k.pinned(publish.KindRetire, 0)
		}
		previous := k.version()
		g, err := p.takeOver(k, now, sha, req.By, req.BreakLease && (req.Lease == 0 || req.Lease == k.counter), publish.KindRetire, req.Reason)
		if err != nil {
			return publish.Retirement{}, err
		}
		g.target, g.state = previous, publish.StateCollected
		k.fence, k.current = g.token, nil
		p.note(now, req.By, publish.KindRetire, string(k.key), previous, g.token).Token = g.token
		p.tell(publish.Event{
			Kind: publish.EventRetired, Key: k.key, Token: g.token, At: at(now), By: g.holder, Reason: g.reason, Previous: clone(previous),
		})
		return k.retirement(g), nil
	})
}

// moved refuses who takes another version for the current one.
func (k *keyRow) moved(current *publish.Version, operation string) error {
	if current == nil || k.current != nil && *current == *k.current || k.current == nil && *current == (publish.Version{}) {
		return nil
	}
	return &publish.Error{Code: publish.ErrPreconditionFailed, Key: k.key, Operation: operation, Current: k.version()}
}

// repinned refuses who has not seen the pin that is there, unless it is the one that is asked for.
func (k *keyRow) repinned(seen *publish.Time, operation, reason string, by publish.Operator) error {
	if seen == nil || k.pin == nil || k.pin.At.Text() == seen.Text() || operation != "unpin" && k.pin.Reason == reason && k.pin.By == by {
		return nil
	}
	return &publish.Error{Code: publish.ErrPreconditionFailed, Key: k.key, Operation: operation, Current: k.version(), Pinned: clone(k.pin)}
}

// retirement describes the generation of one.
func (k *keyRow) retirement(g *generation) publish.Retirement {
	return publish.Retirement{
		Key: k.key, Token: g.token, Reason: g.reason, By: publish.Operator(g.holder), At: at(g.granted), Previous: clone(g.target),
	}
}

// retired is the retirement that is in force, nil if the key has a pointer or never had one.
func (k *keyRow) retired() *publish.Retirement {
	if k.current != nil || k.fence == 0 {
		return nil
	}
	return new(k.retirement(k.find(k.fence)))
}

// noPointer refuses to read a key that has no current version.
func (p *Pointers) noPointer(key publish.Key) error {
	if k := p.keys[key]; k != nil && k.retired() != nil {
		return &publish.Error{Code: publish.ErrRetired, Key: key, Retired: k.retired()}
	}
	return notFound(key)
}

// takeOver grants the key to an operator, whose grant has no lease, and ends that of whoever works on it.
func (p *Pointers) takeOver(k *keyRow, now time.Time, sha publish.Digest, by publish.Operator, breakLease bool, kind, reason string) (*generation, error) {
	if worker := k.newest(); worker.running(now) && !breakLease && !p.revoked(worker.caller) {
		held := k.leaseHeld(now)
		held.Operation = kind
		return nil, held
	}
	next, ok := p.nextToken(k)
	if !ok {
		return nil, &publish.Error{Code: publish.ErrTokenExhausted, Key: k.key, GrantedToken: k.counter}
	}
	if worker := k.newest(); worker.released == nil {
		if now.Before(worker.expires) {
			worker.expires = now
		}
		worker.ended = new(at(worker.expires))
	}
	k.counter, k.epoch = next, p.epoch
	g := &generation{
		token: next, lease: sha, holder: string(by), ttl: k.newest().ttl, granted: now, released: new(at(now)),
		state: publish.StateOpen, kind: kind, reason: reason, caller: p.caller.Credential, actor: p.actor(),
	}
	p.tellTakenOver(k, g)
	k.generations = append(k.generations, g)
	return g, nil
}

// Pin keeps a key's pointer where it is; see publish.OperatorStore.
func (p *Pointers) Pin(ctx context.Context, req publish.PinRequest) (publish.PinnedKey, error) {
	return transact(ctx, p, "Pin", req.Key, func(now time.Time) (publish.PinnedKey, error) {
		k := p.keys[req.Key]
		if k == nil || k.current == nil {
			return publish.PinnedKey{}, p.noPointer(req.Key)
		}
		if req.Current != nil && *req.Current != *k.current {
			return publish.PinnedKey{}, &publish.Error{Code: publish.ErrPreconditionFailed, Key: k.key, Operation: publish.OperationPin, Current: k.version()}
		}
		if err := k.repinned(req.PinnedAt, publish.OperationPin, req.Reason, req.By); err != nil {
			return publish.PinnedKey{}, err
		}
		p.setPin(k, now, req.Reason, req.By)
		return publish.PinnedKey{Pin: *k.pin, Key: k.key, Current: *k.current}, nil
	})
}

func (p *Pointers) setPin(k *keyRow, now time.Time, reason string, by publish.Operator) {
	if k.pin == nil || k.pin.Reason != reason {
		k.pin = &publish.Pin{Reason: reason, By: by, At: at(now)}
		p.note(now, by, publish.OperationPin, string(k.key), nil, k.pin).Token = k.current.Token
		p.tellPin(k, publish.EventPinned, now, by, reason)
	}
}

func (k *keyRow) pinned(operation string, token publish.Token) error {
	return &publish.Error{
		Code: publish.ErrPinned, Key: k.key, Operation: operation, Token: token, Current: k.version(), Pinned: clone(k.pin),
	}
}

// Unpin takes a key's pin away; see publish.OperatorStore.
func (p *Pointers) Unpin(ctx context.Context, req publish.UnpinRequest) error {
	_, err := transact(ctx, p, "Unpin", req.Key, func(now time.Time) (struct{}, error) {
		k := p.keys[req.Key]
		if k == nil {
			return struct{}{}, notFound(req.Key)
		}
		if err := k.repinned(req.PinnedAt, "unpin", "", req.By); err != nil {
			return struct{}{}, err
		}
		if k.pin != nil {
			p.note(now, req.By, "unpin", string(req.Key), k.pin, nil)
			p.tellPin(k, publish.EventUnpinned, now, req.By, "")
		}
		k.pin = nil
		return struct{}{}, nil
	})
	return err
}

// BreakLease ends the lease of one grant; see publish.OperatorStore.
func (p *Pointers) BreakLease(ctx context.Context, req publish.BreakLeaseRequest) (publish.BrokenLease, error) {
	return transact(ctx, p, "BreakLease", req.Key, func(now time.Time) (publish.BrokenLease, error) {
		k := p.keys[req.Key]
		if k == nil {
			return publish.BrokenLease{}, notFound(req.Key)
		}
		refused := publish.Error{Code: publish.ErrNotFound, Key: k.key, Operation: publish.OperationBreak, Token: req.Token, GrantedToken: k.counter}
		g, newest := k.find(req.Token), k.newest()
		switch {
		case g == nil && req.Token > k.counter:
			refused.Code = publish.ErrUnknownToken
			return publish.BrokenLease{}, &refused
		case g == nil:
			return publish.BrokenLease{}, &refused
		case g.broken == nil && g != newest && newest.running(now):
			refused.Code, refused.Holder, refused.ExpiresAt = publish.ErrPreconditionFailed, newest.holder, new(at(newest.expires))
			return publish.BrokenLease{}, &refused
		}
		replayed := g != newest || g.released != nil
		if !replayed {
			k.release(g, now)
			g.broken = &publish.Break{Reason: req.Reason, By: req.By, At: at(now)}
			p.note(now, req.By, publish.OperationBreak, string(k.key), g.token, g.broken).Token = g.token
			p.tell(publish.Event{
				Kind: publish.EventLeaseBroken, Key: k.key, Token: g.token, At: at(now), By: string(req.By), Reason: req.Reason,
				From: &publish.EndedLease{Token: g.token, Holder: g.holder, EndedAt: new(at(earlier(g.expires, now)))},
			})
		}
		return publish.BrokenLease{Key: k.key, Token: g.token, Holder: g.holder, Broken: clone(g.broken), Replayed: replayed}, nil
	})
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}
