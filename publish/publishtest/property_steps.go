package publishtest

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"pgregory.net/rapid"

	"github.com/pawlhq/pawl/publish"
)

func (p *property) acquire() {
	worker := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(p.T, "worker")
	id := publish.NewLeaseID()
	lease, err := p.replica().Acquire(p.Context(), publish.AcquireRequest{Key: p.model.key, Holder: worker, TTL: time.Hour, LeaseID: id})
	if p.model.held {
		p.want("acquire", err, publish.ErrLeaseHeld)
		return
	}
	p.want("acquire", err, "")
	p.equal("token", lease.Token, p.model.counter+1)
	p.model.grant(publish.Grant{Key: p.model.key, Token: lease.Token, LeaseID: id})
}

func (p *property) repeatAcquire() {
	g := p.anyGrant()
	lease, err := p.replica().Acquire(p.Context(), publish.AcquireRequest{Key: g.Key, Holder: "again", TTL: time.Hour, LeaseID: g.LeaseID})
	switch {
	case g.operator:
		p.want("acquire under an operator's id", err, publish.ErrInvalidRequest)
		return
	case !p.model.extend(g):
		p.want("repeated acquire", err, publish.ErrLeaseLost)
		return
	}
	p.want("repeated acquire", err, "")
	p.equal("token of a repeated acquire", lease.Token, g.Token)
	p.equal("replayed", lease.Replayed, true)
}

func (p *property) renew() {
	g := p.anyGrant()
	lease, err := p.replica().Renew(p.Context(), g.Key, g.LeaseID, 0)
	if !p.model.extend(g) {
		p.want("renew", err, publish.ErrLeaseLost)
		return
	}
	p.want("renew", err, "")
	p.equal("token of a renewal", lease.Token, g.Token)
}

func (p *property) release() {
	g := p.anyGrant()
	p.want("release", p.replica().Release(p.Context(), g.Key, g.LeaseID), "")
	p.model.release(g)
}

func (p *property) expireLease() {
	if !p.model.held {
		p.Skip("no lease runs")
	}
	p.expire(p.model.key)
	p.model.held = false
}

// startUpload starts an upload, which stalls as soon as its body is asked for.
func (p *property) startUpload() {
	g := p.anyGrant()
	p.beginUpload(g)
}

// upload starts an upload and lets it end at once.
func (p *property) upload() {
	g := p.anyGrant()
	if p.beginUpload(g) {
		p.finish(len(p.running)-1, nil)
	}
}

// beginUpload starts an upload and reports whether it has stalled.
func (p *property) beginUpload(g *grantModel) bool {
	upload := &stalledUpload{
		grant:   g,
		path:    rapid.SampledFrom([]publish.Path{"f", "g", "d/f"}).Draw(p.T, "path"),
		content: rapid.SampledFrom([]string{"one", "two", "three"}).Draw(p.T, "content"),
	}
	req := publish.UploadRequest{Grant: g.Grant, Path: upload.path, Size: -1}
	if rapid.Bool().Draw(p.T, "with length") {
		req.Size = int64(len(upload.content))
	}
	if rapid.Bool().Draw(p.T, "with digest") {
		req.Digest = fileOf(upload.path, upload.content).SHA256
	}
	refusal := p.model.refusal(g)
	identical := !req.Digest.IsZero() && g.path(upload.path).settledWith(upload.content)
	stalled := upload.start(p.Context(), p.replica(), req)
	switch {
	case refusal != "":
		p.equal("a refused upload's body was read", stalled, false)
		p.want("start of an upload", upload.err, refusal)
	case identical:
		p.equal("an identical upload's body was read", stalled, false)
		p.want("identical upload", upload.err, "")
		p.equal("identical", upload.result.Identical, true)
	default:
		if !stalled {
			p.Fatalf("an upload was over before its body was read: %+v, %v", upload.result, upload.err)
		}
		upload.number = g.path(upload.path).start()
		p.running = append(p.running, upload)
	}
	return stalled
}

// endUpload lets the body of a stalled upload go on, or break.
func (p *property) endUpload(broken error) {
	if len(p.running) == 0 {
		p.Skip("no upload runs")
	}
	p.finish(rapid.IntRange(0, len(p.running)-1).Draw(p.T, "upload"), broken)
}

func (p *property) finish(i int, broken error) {
	upload := p.running[i]
	p.running = slices.Delete(p.running, i, i+1)
	refusal := p.model.refusal(upload.grant)
	upload.body.resume <- broken
	<-upload.done
	path := upload.grant.path(upload.path)
	switch {
	case broken != nil: // It stays in the way of the final publish.
		p.want("broken upload", upload.err, publish.ErrLengthMismatch)
	case refusal != "":
		p.want("end of an upload", upload.err, refusal)
	default:
		p.want("end of an upload", upload.err, "")
		p.equal("overtaken", upload.result.Overtaken, !path.complete(upload.number, upload.content))
	}
}

func (p *property) deleteFile() {
	g := p.anyGrant()
	name := rapid.SampledFrom([]publish.Path{"f", "g"}).Draw(p.T, "path")
	err := p.replica().DeleteFile(p.Context(), g.Grant, name)
	if refusal := p.model.refusal(g); refusal != "" {
		p.want("delete", err, refusal)
		return
	}
	if !g.path(name).touched && !p.model.publishedBefore(g, name) {
		p.want("delete", err, publish.ErrNotFound)
		return
	}
	p.want("delete", err, "")
	g.path(name).remove()
}

func (p *property) publish(final bool) {
	g := p.anyGrant()
	req := publish.PublishRequest{Grant: g.Grant, Final: final, Release: rapid.IntRange(0, 3).Draw(p.T, "release") == 3}
	if g.Token > 1 && rapid.Bool().Draw(p.T, "reuse") {
		req.ReuseFrom = publish.Token(rapid.IntRange(1, int(g.Token)-1).Draw(p.T, "reuse from"))
		req.ReuseStale = rapid.Bool().Draw(p.T, "stale")
	}
	carried, refusedReuse := p.model.reuse(g, req)
	counting := g.counting()
	maps.Copy(counting, carried)
	req.ManifestDigest = rapid.SampledFrom([]*publish.Digest{nil, new(manifestOf(counting)), {}}).Draw(p.T, "digest")
	receipt, err := p.replica().Publish(p.Context(), req)
	if last := g.repeats(req); last != nil {
		p.want("repeated publish", err, "")
		p.equal("replayed", receipt.Replayed, true)
		p.sameReceipt(receipt, *last)
		p.equal("current", fmt.Sprint(receipt.Current), fmt.Sprint(p.model.current))
		p.model.releaseIf(req.Release, g)
		return
	}
	refusal := p.model.refusal(g)
	if refusal == "" && p.model.pinned {
		refusal = publish.ErrPinned
	}
	if refusal == "" {
		refusal = refusedReuse
	}
	if refusal == "" && (req.Final && g.blocked() || len(counting) == 0) {
		refusal = publish.ErrGenerationIncomplete
	}
	if refusal == "" && req.ManifestDigest != nil && *req.ManifestDigest != manifestOf(counting) {
		refusal = publish.ErrDigestMismatch
	}
	p.want("publish", err, refusal)
	if refusal != "" {
		return
	}
	p.equal("replayed", receipt.Replayed, false)
	p.equal("version", receipt.Version(), publish.Version{Token: g.Token, Revision: int64(len(g.receipts) + 1)})
	p.equal("manifest", receipt.ManifestDigest, manifestOf(counting))
	p.equal("previous", fmt.Sprint(receipt.Previous), fmt.Sprint(p.model.current))
	p.equal("lease expired", receipt.LeaseExpired, !p.model.held || g != p.model.newest())
	p.equal("superseded", receipt.SupersededBy != 0, g != p.model.newest())
	p.equal("reuse from", receipt.ReuseFrom, req.ReuseFrom)
	p.model.flip(g, receipt, carried)
	p.model.releaseIf(req.Release, g)
}

// effect asks for an effect, or says that it is done. A sealed generation may do so too.
func (p *property) effect() {
	g := p.anyGrant()
	req := publish.EffectRequest{Grant: g.Grant, Name: rapid.SampledFrom([]publish.EffectName{"a", "b"}).Draw(p.T, "effect"), State: publish.EffectPending}
	if rapid.Bool().Draw(p.T, "done") {
		req.State, req.Result = publish.EffectDone, fmt.Sprint(g.Token)
	}
	effect, err := p.replica().Effect(p.Context(), req)
	if refusal := p.model.refusal(g); refusal != "" && refusal != publish.ErrGenerationSealed {
		p.want("effect", err, refusal)
		return
	}
	p.want("effect", err, "")
	p.equal("effect", effect.IdempotencyKey+" done by "+effect.Result, p.model.effect(req, effect.IdempotencyKey))
	p.equal("state", effect.State == publish.EffectDone, effect.Result != "")
}

// publishForged tries what no grant allows: a token that was never granted, and another one's.
func (p *property) publishForged() {
	g := p.anyGrant()
	forged := g.Grant
	want := publish.ErrLeaseLost
	if rapid.Bool().Draw(p.T, "token") {
		forged.Token, want = p.model.counter+publish.Token(rapid.IntRange(1, 1<<40).Draw(p.T, "above")), publish.ErrUnknownToken
	} else {
		forged.LeaseID = publish.NewLeaseID()
	}
	_, err := p.replica().Publish(p.Context(), publish.PublishRequest{Grant: forged, Final: true})
	p.want("forged publish", err, want)
}
