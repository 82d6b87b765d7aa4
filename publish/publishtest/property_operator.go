package publishtest

import (
	"fmt"
	"maps"

	"pgregory.net/rapid"

	"github.com/pawlhq/pawl/publish"
)

// operatorGrant is a grant that no worker had. Whoever knows its id can't do more with it than with any old lease.
func (k *keyModel) operatorGrant(token publish.Token, id publish.LeaseID) *grantModel {
	k.grant(publish.Grant{Key: k.key, Token: token, LeaseID: id})
	k.fence, k.held = token, false
	g := k.newest()
	g.released, g.operator = true, true
	return g
}

func (p *property) rollback() {
	target := p.anyGrant()
	req := publish.RollbackRequest{
		Key: p.model.key, To: publish.Version{Token: target.Token}, Reason: "r", By: "ops", RequestID: publish.NewLeaseID(),
		BreakLease: rapid.Bool().Draw(p.T, "break"), Pin: rapid.IntRange(0, 3).Draw(p.T, "pin") == 3,
	}
	receipt, err := p.replica().Rollback(p.Context(), req)
	var refusal publish.Code
	switch {
	case target.retirement:
		refusal = publish.ErrGenerationCollected
	case len(target.receipts) == 0:
		refusal = publish.ErrNotFound
	case p.model.pinned && !req.Pin:
		refusal = publish.ErrPinned
	case p.model.held && !req.BreakLease:
		refusal = publish.ErrLeaseHeld
	}
	p.want("rollback", err, refusal)
	if refusal != "" {
		return
	}
	p.equal("token of a rollback", receipt.Token, p.model.counter+1)
	p.equal("manifest", receipt.ManifestDigest, manifestOf(target.published))
	p.equal("previous", fmt.Sprint(receipt.Previous), fmt.Sprint(p.model.current))
	g := p.model.operatorGrant(receipt.Token, req.RequestID)
	for path, content := range target.published {
		carried := g.path(path)
		carried.there, carried.content, carried.touched = true, content, true
	}
	g.sealed, g.published, g.receipts = true, maps.Clone(target.published), []publish.Receipt{receipt}
	p.model.current = new(receipt.Version())
	p.model.pinned = p.model.pinned || req.Pin

	again, err := p.replica().Rollback(p.Context(), req)
	p.want("repeated rollback", err, "")
	p.equal("replayed", again.Replayed, true)
	p.sameReceipt(again, receipt)
}

func (p *property) retire() {
	if len(p.model.grants) == 0 {
		p.Skip("nothing is granted yet")
	}
	req := publish.RetireRequest{
		Key: p.model.key, By: "ops", RequestID: publish.NewLeaseID(), BreakLease: rapid.Bool().Draw(p.T, "break"),
	}
	retired, err := p.replica().Retire(p.Context(), req)
	switch {
	case p.model.newest().retirement:
		p.want("retire again", err, "")
		p.equal("replayed", retired.Replayed, true)
		p.equal("token of the retirement", retired.Token, p.model.counter)
		return
	case p.model.pinned:
		p.want("retire", err, publish.ErrPinned)
		return
	case p.model.held && !req.BreakLease:
		p.want("retire", err, publish.ErrLeaseHeld)
		return
	}
	p.want("retire", err, "")
	p.equal("token of a retirement", retired.Token, p.model.counter+1)
	p.equal("previous", fmt.Sprint(retired.Previous), fmt.Sprint(p.model.current))
	p.model.operatorGrant(retired.Token, req.RequestID).retirement = true
	p.model.current = nil
}

func (p *property) pin() {
	_, err := p.replica().Pin(p.Context(), publish.PinRequest{Key: p.model.key, Reason: "r", By: "ops"})
	if p.model.current == nil {
		p.want("pin", err, p.model.withoutPointer())
		return
	}
	p.want("pin", err, "")
	p.model.pinned = true
}

func (p *property) unpin() {
	if len(p.model.grants) == 0 {
		p.Skip("nothing is granted yet")
	}
	p.want("unpin", p.replica().Unpin(p.Context(), publish.UnpinRequest{Key: p.model.key, By: "ops"}), "")
	p.model.pinned = false
}

// withoutPointer is why the key has no current version.
func (k *keyModel) withoutPointer() publish.Code {
	if k.fence > 0 {
		return publish.ErrRetired
	}
	return publish.ErrNotFound
}

// breakLease ends the lease of any grant, as its holder's release would.
func (p *property) breakLease() {
	g := p.anyGrant()
	broken, err := p.replica().BreakLease(p.Context(), publish.BreakLeaseRequest{Key: p.model.key, Token: g.Token, Reason: "r", By: "ops"})
	if g != p.model.newest() && !g.broken && p.model.held {
		p.want("break the lease of another grant", err, publish.ErrPreconditionFailed)
		return
	}
	p.want("break a lease", err, "")
	had := g == p.model.newest() && !g.released
	p.equal("replayed", broken.Replayed, !had)
	g.broken = g.broken || had
	p.equal("broken", broken.Broken != nil, g.broken)
	p.model.release(g)
}
