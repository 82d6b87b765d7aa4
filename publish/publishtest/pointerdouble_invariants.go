package publishtest

import (
	"fmt"

	"github.com/pawlhq/pawl/publish"
)

// watermarks is what the double has seen of a key before, kept apart from its rows, to notice when something that must
// never go back or change does.
type watermarks struct {
	counter, fence publish.Token
	receipts       int
	sealed         map[publish.Token]publish.Digest
	manifests      map[publish.Version]publish.Digest
	effects        map[publish.EffectName]publish.Effect
}

// assertInvariants panics when the key's rows break what DESIGN.md says always holds: a fault of the double itself.
func (k *keyRow) assertInvariants() {
	must := func(ok bool, format string, args ...any) {
		if !ok {
			panic(fmt.Sprintf("publishtest: key %q: ", k.key) + fmt.Sprintf(format, args...))
		}
	}
	if k.seen.sealed == nil {
		k.seen.sealed, k.seen.manifests = map[publish.Token]publish.Digest{}, map[publish.Version]publish.Digest{}
		k.seen.effects = map[publish.EffectName]publish.Effect{}
	}
	must(k.counter >= k.seen.counter, "the counter went back from %d to %d", k.seen.counter, k.counter)
	must(k.fence >= k.seen.fence, "the fence went back from %d to %d", k.seen.fence, k.fence)
	must(k.fence <= k.counter, "the fence %d is above the counter %d", k.fence, k.counter)

	receipts, last := 0, publish.Token(0)
	for _, g := range k.generations {
		must(g.token > last, "token %d was granted after %d", g.token, last)
		last = g.token
		must(int(g.revision) == len(g.receipts), "generation %d has revision %d and %d receipts", g.token, g.revision, len(g.receipts))
		receipts += len(g.receipts)
		k.assertUploads(g, must)
		if digest, ok := k.seen.sealed[g.token]; ok || g.sealed != nil {
			now := publish.ManifestDigest(filesOf(g.counting()))
			must(!ok || now == digest, "the set of the sealed generation %d changed", g.token)
			k.seen.sealed[g.token] = now
		}
		for _, r := range g.receipts {
			digest, ok := k.seen.manifests[r.Version()]
			must(!ok || digest == r.ManifestDigest, "the receipt of %s changed", r.Version())
			k.seen.manifests[r.Version()] = r.ManifestDigest
		}
		if g.revision > 0 {
			must(publish.ManifestDigest(filesOf(g.last())) == g.receipts[g.revision-1].ManifestDigest,
				"generation %d holds other files than its last receipt says", g.token)
		}
	}
	must(last <= k.counter, "token %d was granted above the counter %d", last, k.counter)
	must(receipts >= k.seen.receipts, "a receipt vanished")
	k.assertEffects(must)
	if k.current != nil {
		must(k.current.Token == k.fence, "the pointer names %s but the fence is %d", k.current, k.fence)
		g := k.find(k.current.Token)
		must(g != nil && g.revision == k.current.Revision, "the pointer names %s, which isn't the latest revision", k.current)
	}
	k.seen.counter, k.seen.fence, k.seen.receipts = k.counter, k.fence, receipts
}

// assertUploads checks that each path has at most one upload that counts, and that uploads stand in order of their start.
func (k *keyRow) assertUploads(g *generation, must func(bool, string, ...any)) {
	counting, number := map[publish.Path]bool{}, int64(0)
	for _, row := range g.uploads {
		must(row.Number > number, "uploads of generation %d are out of order", g.token)
		number = row.Number
		if row.counts() {
			must(!counting[row.Path], "two uploads of %q count in generation %d", row.Path, g.token)
			counting[row.Path] = true
		}
		must(row.state != uploadComplete || !row.sweep.found, "upload %d was due for the sweep and is stored now", row.Number)
		must(row.state != uploadComplete || row.from > 0 && row.from <= g.revision+1, "upload %d counts from revision %d", row.Number, row.from)
	}
}
