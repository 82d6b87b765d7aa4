package publishtest

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/pawlhq/pawl/publish"
)

// Publish flips the pointer of a key; see publish.PublishStore.
func (p *Pointers) Publish(ctx context.Context, req publish.PublishRequest) (publish.Receipt, error) {
	if _, err := publish.ExpandExpect(req.Expect); err != nil {
		return publish.Receipt{}, err
	}
	return transact(ctx, p, "Publish", req.Grant.Key, func(now time.Time) (publish.Receipt, error) {
		r := request{grant: req.Grant, operation: publish.OperationPublish}
		k, g, err := p.checkGrant(now, r)
		if err != nil {
			return publish.Receipt{}, err
		}
		if g.repeats(req) {
			if req.Release {
				k.release(g, now)
			}
			receipt := k.receipt(g.receipts[len(g.receipts)-1])
			receipt.Replayed = true
			return receipt, nil
		}
		if err := p.checkFence(now, r, k, g); err != nil {
			return publish.Receipt{}, err
		}
		if err := k.checkOrder(req); err != nil {
			return publish.Receipt{}, err
		}
		carried, err := k.carried(g, req)
		if err != nil {
			return publish.Receipt{}, err
		}
		set := g.withCarried(carried)
		files, primary, err := g.manifest(k.key, req, set)
		if err != nil {
			return publish.Receipt{}, err
		}
		_, own := g.own("")
		if err := p.checkLimits(r, int64(len(files)), own); err != nil {
			return publish.Receipt{}, err
		}
		p.carry(g, carried)
		return p.flip(k, now, g, req, files, primary), nil
	})
}

// repeats reports whether a request repeats the generation's latest publish: the same in body and manifest.
func (g *generation) repeats(req publish.PublishRequest) bool {
	if len(g.receipts) == 0 {
		return false
	}
	last := g.receipts[len(g.receipts)-1]
	if last.Final != req.Final || last.asked != req.Primary || !equal(last.SourceRevision, req.SourceRevision) ||
		!maps.Equal(last.Metadata, req.Metadata) || last.ReuseFrom != req.ReuseFrom {
		return false
	}
	if req.ManifestDigest != nil && *req.ManifestDigest != last.ManifestDigest {
		return false
	}
	if g.state == publish.StateSealed {
		missing, empty := unmet(req, filesOf(g.counting()))
		return missing == nil && empty == nil
	}
	return g.sealed != nil || publish.ManifestDigest(filesOf(g.counting())) == last.ManifestDigest
}

// checkOrder holds the request against the current version: the preconditions, then the order of sources.
func (k *keyRow) checkOrder(req publish.PublishRequest) error {
	if req.IfMatch != nil && !equal(k.current, req.IfMatch) || req.IfNoneMatch && k.current != nil {
		return &publish.Error{
			Code: publish.ErrPreconditionFailed,
			Key:  k.key, Token: req.Grant.Token, Current: k.version(),
		}
	}
	if k.current != nil && req.SourceRevision != nil {
		if there := k.currentReceipt().SourceRevision; there != nil && *there > *req.SourceRevision {
			return &publish.Error{
				Code: publish.ErrOlderSource,
				Key:  k.key, Token: req.Grant.Token, Current: k.version(),
			}
		}
	}
	return nil
}

// manifest is what the request would publish of a set, with its primary file, or why it can't.
func (g *generation) manifest(key publish.Key, req publish.PublishRequest, files []publish.File) ([]publish.File, *publish.File, error) {
	incomplete := &publish.Error{Code: publish.ErrGenerationIncomplete, Key: key, Token: g.token}
	if req.Final {
		incomplete.Failed, incomplete.Pending = g.incomplete()
		incomplete.Missing, incomplete.Empty = unmet(req, files)
		if len(incomplete.Failed)+len(incomplete.Pending)+len(incomplete.Missing)+len(incomplete.Empty) > 0 {
			return nil, nil, incomplete
		}
	}
	if len(files) == 0 {
		return nil, nil, incomplete
	}
	var primary *publish.File
	for i := range files {
		if files[i].Path == req.Primary || req.Primary == "" && len(files) == 1 {
			primary = &files[i]
		}
	}
	if req.Primary != "" && primary == nil {
		incomplete.Missing = []publish.Path{req.Primary}
		return nil, nil, incomplete
	}
	if digest := publish.ManifestDigest(files); req.ManifestDigest != nil && digest != *req.ManifestDigest {
		return nil, nil, &publish.Error{
			Code: publish.ErrDigestMismatch, Key: key, Token: g.token,
			Promised: req.ManifestDigest.String(), Came: digest.String(),
		}
	}
	return files, primary, nil
}

// incomplete lists the paths whose last upload has failed or is pending.
func (g *generation) incomplete() (failed, pending []publish.Path) {
	paths := map[publish.Path]bool{}
	for _, row := range g.uploads {
		paths[row.Path] = true
	}
	for _, path := range slices.Sorted(maps.Keys(paths)) {
		switch top := g.top(path); {
		case top == nil:
		case top.state == uploadFailed:
			failed = append(failed, path)
		case top.state == uploadPending:
			pending = append(pending, path)
		}
	}
	return failed, pending
}

// unmet lists the expected paths that have no complete file, and those whose file is empty, each once and sorted.
func unmet(req publish.PublishRequest, files []publish.File) (missing, empty []publish.Path) {
	sizes := map[publish.Path]int64{}
	for _, file := range files {
		sizes[file.Path] = file.Size
	}
	paths, _ := publish.ExpandExpect(req.Expect) // Publish has refused what is malformed.
	slices.Sort(paths)
	for _, path := range slices.Compact(paths) {
		switch size, there := sizes[path]; {
		case !there:
			missing = append(missing, path)
		case size == 0 && !req.AllowEmpty:
			empty = append(empty, path)
		}
	}
	return missing, empty
}

// flip makes the files the key's current version and writes the receipt.
func (p *Pointers) flip(k *keyRow, now time.Time, g *generation, req publish.PublishRequest, files []publish.File, primary *publish.File) publish.Receipt {
	receipt := publish.Receipt{
		Key: k.key, Token: g.token, Revision: g.revision + 1, ManifestDigest: publish.ManifestDigest(files),
		Final: req.Final, Files: int64(len(files)), PublishedAt: at(now), Publisher: g.holder, Actor: p.actor(),
		SourceRevision: clone(req.SourceRevision), Metadata: cloneText(req.Metadata), Previous: k.version(),
		LeaseExpired: g != k.newest() || !g.running(now), ReuseFrom: req.ReuseFrom,
	}
	if g.kind == publish.KindRollback {
		receipt.RollbackTo, receipt.Reason, receipt.LeaseExpired = clone(g.target), g.reason, false
	}
	for _, row := range g.counting() {
		if row.carried() {
			receipt.ReusedFiles++
			receipt.ReusedBytes += row.result.Size
		}
	}
	for _, file := range files {
		receipt.Bytes += file.Size
	}
	if primary != nil {
		receipt.Primary = primary.Path
	}
	g.revision++
	g.receipts = append(g.receipts, receiptRow{receipt, req.Primary})
	p.tellPublished(receipt, primary)
	k.fence = g.token
	k.current = &publish.Version{Token: g.token, Revision: g.revision}
	if req.Final {
		g.state, g.sealed = publish.StateSealed, new(at(now))
	}
	if req.Release {
		k.release(g, now)
	}
	return k.receipt(g.receipts[len(g.receipts)-1])
}

// receipt is a receipt as it is answered now.
func (k *keyRow) receipt(row receiptRow) publish.Receipt {
	receipt := row.Receipt
	receipt.SourceRevision, receipt.Metadata = clone(receipt.SourceRevision), cloneText(receipt.Metadata)
	receipt.Previous, receipt.Current = clone(receipt.Previous), k.version()
	receipt.RollbackTo = clone(receipt.RollbackTo)
	receipt.SupersededBy = k.supersededBy(receipt.Token)
	return receipt
}

// currentReceipt is the receipt of the current version.
func (k *keyRow) currentReceipt() receiptRow {
	return k.find(k.current.Token).receipts[k.current.Revision-1]
}

// equal compares what two pointers point at; nil equals nil alone.
func equal[T comparable](a, b *T) bool {
	return a == b || a != nil && b != nil && *a == *b
}
