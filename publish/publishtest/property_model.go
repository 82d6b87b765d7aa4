package publishtest

import (
	"cmp"
	"maps"
	"slices"

	"github.com/pawlhq/pawl/publish"
)

// keyModel is what the rules say about one key, in the default fence mode. It knows nothing of clocks, stores and
// replicas.
type keyModel struct {
	key     publish.Key
	counter publish.Token
	fence   publish.Token
	current *publish.Version
	held    bool // the newest grant's lease runs
	pinned  bool
	grants  []*grantModel // in their order
	effects map[publish.EffectName]*effectModel
}

// effectModel is one effect: the idempotency key that was seen first, and the result that was.
type effectModel struct{ key, result string }

// grantModel is one grant with its generation.
type grantModel struct {
	publish.Grant
	released bool
	sealed   bool
	broken   bool // an operator has ended its lease
	// operator is a grant by a rollback or a retirement, which has no lease; retirement is one that took the pointer away.
	operator   bool
	retirement bool
	paths      map[publish.Path]*pathModel
	published  map[publish.Path]string // contents as of the last publish
	receipts   []publish.Receipt
}

// pathModel is one path of a generation. Uploads have numbers by their start.
type pathModel struct {
	started int // uploads so far
	// floor is the greatest number that is settled: what started up to it is complete, overtaken or deleted.
	floor int
	// open is the greatest number that is not complete, whether it still runs or has failed.
	open    int
	there   bool
	content string
	// touched paths are not carried over from another generation.
	touched bool
}

func newKeyModel(key publish.Key) *keyModel {
	return &keyModel{key: key, effects: map[publish.EffectName]*effectModel{}}
}

func (k *keyModel) newest() *grantModel { return k.grants[len(k.grants)-1] }

func (k *keyModel) find(token publish.Token) *grantModel { return k.grants[token-1] }

func (k *keyModel) grant(grant publish.Grant) {
	k.counter, k.held = grant.Token, true
	k.grants = append(k.grants, &grantModel{Grant: grant, paths: map[publish.Path]*pathModel{}})
}

// extend lets the lease of a grant run again, if it is the newest one and wasn't released.
func (k *keyModel) extend(g *grantModel) bool {
	if g != k.newest() || g.released {
		return false
	}
	k.held = true
	return true
}

func (k *keyModel) release(g *grantModel) {
	if g == k.newest() {
		g.released, k.held = true, false
	}
}

func (k *keyModel) releaseIf(asked bool, g *grantModel) {
	if asked {
		k.release(g)
	}
}

// refusal is what a change of the generation is refused with, "" if it isn't.
func (k *keyModel) refusal(g *grantModel) publish.Code {
	switch {
	case g.Token < k.fence:
		return publish.ErrStaleToken
	case g.retirement:
		return publish.ErrGenerationCollected
	case g.sealed:
		return publish.ErrGenerationSealed
	}
	return ""
}

// effect gives what an effect's answer must say, which came with an idempotency key.
func (k *keyModel) effect(req publish.EffectRequest, key string) string {
	e := k.effects[req.Name]
	if e == nil {
		e = &effectModel{key: key}
		k.effects[req.Name] = e
	}
	e.result = cmp.Or(e.result, req.Result)
	return e.key + " done by " + e.result
}

// reuse gives what a publish carries over, or what it is refused with.
func (k *keyModel) reuse(g *grantModel, req publish.PublishRequest) (map[publish.Path]string, publish.Code) {
	if req.ReuseFrom == 0 || slices.ContainsFunc(g.receipts, func(r publish.Receipt) bool { return r.ReuseFrom == req.ReuseFrom }) {
		return nil, ""
	}
	base := k.current
	if base != nil && base.Token == g.Token {
		base = g.receipts[0].Previous
	}
	from := k.find(req.ReuseFrom)
	switch {
	case len(from.receipts) == 0:
		return nil, publish.ErrNotFound
	case !req.ReuseStale && (base == nil || base.Token != req.ReuseFrom):
		return nil, publish.ErrPreconditionFailed
	}
	carried := map[publish.Path]string{}
	for path, content := range from.published {
		if !g.path(path).touched {
			carried[path] = content
		}
	}
	return carried, ""
}

// publishedBefore reports whether an earlier generation has a file at a path.
func (k *keyModel) publishedBefore(g *grantModel, path publish.Path) bool {
	return slices.ContainsFunc(k.grants[:g.Token-1], func(earlier *grantModel) bool {
		_, there := earlier.published[path]
		return there
	})
}

// flip takes an accepted publish over.
func (k *keyModel) flip(g *grantModel, receipt publish.Receipt, carried map[publish.Path]string) {
	for path, content := range carried {
		carriedPath := g.path(path)
		carriedPath.there, carriedPath.content, carriedPath.touched = true, content, true
	}
	k.fence, k.current = g.Token, new(receipt.Version())
	g.published, g.sealed = g.counting(), receipt.Final
	g.receipts = append(g.receipts, receipt)
}

// repeats finds the receipt that a publish would be a replay of.
func (g *grantModel) repeats(req publish.PublishRequest) *publish.Receipt {
	if len(g.receipts) == 0 || !maps.Equal(g.counting(), g.published) {
		return nil
	}
	last := &g.receipts[len(g.receipts)-1]
	if last.ReuseFrom != req.ReuseFrom || last.Final != req.Final || req.ManifestDigest != nil && *req.ManifestDigest != last.ManifestDigest {
		return nil
	}
	return last
}

func (g *grantModel) path(name publish.Path) *pathModel {
	if g.paths[name] == nil {
		g.paths[name] = &pathModel{}
	}
	return g.paths[name]
}

// counting is the set that the next publish makes current.
func (g *grantModel) counting() map[publish.Path]string {
	set := map[publish.Path]string{}
	for name, path := range g.paths {
		if path.there {
			set[name] = path.content
		}
	}
	return set
}

// blocked reports whether a path keeps the generation from its final publish.
func (g *grantModel) blocked() bool {
	for _, path := range g.paths {
		if path.open > path.floor {
			return true
		}
	}
	return false
}

func (p *pathModel) start() int {
	p.started++
	p.open, p.touched = p.started, true
	return p.started
}

// complete settles all that started up to the upload. It reports false when something that started later is settled already.
func (p *pathModel) complete(number int, content string) bool {
	if number <= p.floor {
		return false
	}
	p.floor, p.there, p.content = number, true, content
	return true
}

// remove settles all that has started.
func (p *pathModel) remove() { p.floor, p.there, p.touched = p.started, false, true }

// settledWith reports whether the path has this content and nothing newer is on its way.
func (p *pathModel) settledWith(content string) bool {
	return p.there && p.content == content && p.open <= p.floor
}

func manifestOf(set map[publish.Path]string) publish.Digest {
	var files []publish.File
	for path, content := range set {
		file := fileOf(path, content)
		file.ContentType = publish.ContentType(path, "")
		files = append(files, file)
	}
	return publish.ManifestDigest(files)
}
