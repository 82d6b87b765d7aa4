package publishtest

import (
	"slices"
	"time"

	"github.com/pawlhq/pawl/publish"
)

// request is what a call on a generation is judged by.
type request struct {
	grant     publish.Grant
	operation string
	path      publish.Path // empty for publish
}

// checkGrant finds the generation of a grant, or refuses: not-found, unknown-token, stale-token for a grant that was
// lost with a part of the history, and lease-lost.
func (p *Pointers) checkGrant(now time.Time, r request) (*keyRow, *generation, error) {
	k := p.keys[r.grant.Key]
	if k == nil {
		return nil, nil, notFound(r.grant.Key)
	}
	if r.grant.Token > p.lostUpTo(k) {
		return nil, nil, &publish.Error{
			Code: publish.ErrUnknownToken, Key: k.key, Token: r.grant.Token,
			GrantedToken: k.counter, Operation: r.operation,
		}
	}
	g := k.find(r.grant.Token)
	if g == nil {
		return nil, nil, p.stale(k, now, r, nil)
	}
	if g.lease != r.grant.LeaseID.SHA256() {
		return nil, nil, k.leaseLost(r.grant.Token)
	}
	return k, g, nil
}

// checkFence refuses what a newer grant has fenced, and what a collected or sealed generation can't take any more.
func (p *Pointers) checkFence(now time.Time, r request, k *keyRow, g *generation) error {
	if g.token < k.fence || p.policy(k.key).FenceMode == publish.FenceGranted && g.token < k.counter {
		return p.stale(k, now, r, g)
	}
	switch g.state {
	case publish.StateCondemned, publish.StateCollected:
		return &publish.Error{Code: publish.ErrGenerationCollected, Key: k.key, Operation: r.operation, Token: g.token}
	case publish.StateSealed:
		return &publish.Error{Code: publish.ErrGenerationSealed, Key: k.key, Token: g.token}
	}
	switch {
	case r.operation != publish.OperationPublish:
		return nil
	case k.pin != nil:
		return k.pinned(r.operation, g.token)
	}
	return p.checkSet(k, g)
}

// stale records a stale request and makes its refusal. g is nil when nothing is known of the token.
func (p *Pointers) stale(k *keyRow, now time.Time, r request, g *generation) error {
	by, since := k.supersession(r.grant.Token)
	record := k.rejection(r, g)
	record.AcceptedToken, record.GrantedToken = k.fence, k.counter
	record.SupersededBy, record.SupersededAt = by, since
	record.LastAt = at(now)
	k.refusals++
	if record.Repeat++; record.Repeat == 1 {
		record.FirstAt, record.Actor = at(now), p.actor()
	}
	if g != nil {
		record.Holder = g.holder
		record.OverrunMillis = max(0, now.Sub(g.leaseEnd()).Milliseconds())
	}
	p.tellRejected(k, g, record)
	return &publish.Error{
		Code: publish.ErrStaleToken,
		Key:  k.key, Path: r.path, Operation: r.operation, Token: r.grant.Token,
		AcceptedToken: k.fence, GrantedToken: k.counter, Holder: by, SupersededAt: clone(since),
		Repeat: record.Repeat, OverrunMillis: record.OverrunMillis, Worker: record.Holder, Next: "acquire",
	}
}

// rejection finds the record of the same stale request, or starts one.
func (k *keyRow) rejection(r request, g *generation) *publish.Rejection {
	records := &k.lost
	if g != nil {
		records = &g.rejections
	}
	for _, record := range *records {
		if record.Token == r.grant.Token && record.Operation == r.operation && record.Path == r.path {
			return record
		}
	}
	record := &publish.Rejection{Token: r.grant.Token, Operation: r.operation, Code: publish.ErrStaleToken, Path: r.path}
	if g == nil && len(k.lost) == maxShown {
		k.lostOverflows = true
		// Anybody can make such tokens up, so only what is shown is kept.
		oldest := slices.MinFunc(k.lost, func(a, b *publish.Rejection) int { return a.LastAt.Compare(b.LastAt.Time) })
		k.lost = slices.DeleteFunc(k.lost, func(r *publish.Rejection) bool { return r == oldest })
	}
	*records = append(*records, record)
	return record
}

// supersession tells whose grant fences a token, and since when: the publisher that moved the fence past it, or else
// the newest holder.
func (k *keyRow) supersession(token publish.Token) (by string, since *publish.Time) {
	if k.fence > token {
		g := k.find(k.fence)
		if g.kind == publish.KindRetire {
			return g.holder, new(at(g.granted))
		}
		return g.holder, clone(&g.receipts[0].PublishedAt)
	}
	if g := k.newest(); g.token > token {
		return g.holder, new(at(g.granted))
	}
	return "", nil
}

// leaseEnd is when the grant's lease ended, or is to end.
func (g *generation) leaseEnd() time.Time {
	switch {
	case g.released != nil:
		return g.released.Time
	case g.ended != nil:
		return g.ended.Time
	}
	return g.expires
}
