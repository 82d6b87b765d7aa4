package publishtest

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/pawlhq/pawl/publish"
)

// collectRow is what a generation's row has for collection.
type collectRow struct {
	collected time.Time // zero before
	due       time.Time // zero when there is nothing more to be done
}

// duty is who has a duty, and until when.
type duty struct {
	holder  string
	expires time.Time
}

func (g *generation) condemned() bool {
	return g.state == publish.StateCondemned || g.state == publish.StateCollected
}

// superseded is when a published generation stopped being current, zero if it didn't.
func (k *keyRow) superseded(g *generation) time.Time {
	for _, next := range k.generations {
		if next.token > g.token && len(next.receipts) > 0 {
			return next.receipts[0].PublishedAt.Time
		}
	}
	if last := k.find(k.fence); last != nil && last.kind == "retire" {
		return last.granted
	}
	return time.Time{}
}

// dispensable reports whether a generation may be condemned.
func (p *Pointers) dispensable(k *keyRow, g *generation, grace time.Duration, now time.Time) bool {
	policy := p.policy(k.key)
	if g.condemned() || k.current != nil && k.current.Token == g.token {
		return false
	}
	if g.revision == 0 {
		keep := max(grace, cmp.Or(policy.KeepUnpublishedFor.Duration, publish.DefaultKeepUnpublished))
		last := g.granted
		for _, row := range g.uploads {
			if row.sweep.lastSign.After(last) {
				last = row.sweep.lastSign
			}
		}
		return now.Sub(last) > keep
	}
	newer := int64(0)
	for _, other := range k.generations {
		if other.token > g.token && other.revision > 0 && !other.condemned() && (k.current == nil || k.current.Token != other.token) {
			newer++
		}
	}
	superseded := k.superseded(g)
	limited := policy.KeepGenerations > 0 || policy.KeepFor.Duration > 0
	return limited && newer >= policy.KeepGenerations && !superseded.IsZero() && now.Sub(superseded) > max(grace, policy.KeepFor.Duration)
}

// Collectable returns generations that may be condemned; see publish.CollectStore.
func (p *Pointers) Collectable(ctx context.Context, prefix string, grace time.Duration, after *publish.GenerationName, limit int) (found []publish.GenerationName, next *publish.GenerationName, err error) {
	_, err = transact(ctx, p, "Collectable", "", func(now time.Time) (struct{}, error) {
		looked := 0
		var last publish.GenerationName
		for _, k := range p.sortedKeys() {
			if prefix != "" && k.key != publish.Key(prefix) && !strings.HasPrefix(string(k.key), prefix+"/") {
				continue
			}
			for _, g := range k.generations {
				name := publish.GenerationName{Key: k.key, Token: g.token}
				if after != nil && compareNames(name, *after) <= 0 {
					continue
				}
				if looked == limit {
					next = &last
					return struct{}{}, nil
				}
				looked++
				last = name
				if p.dispensable(k, g, grace, now) {
					found = append(found, name)
				}
			}
		}
		return struct{}{}, nil
	})
	return found, next, err
}

func (p *Pointers) sortedKeys() []*keyRow {
	var keys []*keyRow
	for _, k := range p.keys {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, func(a, b *keyRow) int { return cmp.Compare(a.key, b.key) })
	return keys
}

func compareNames(a, b publish.GenerationName) int {
	return cmp.Or(cmp.Compare(a.Key, b.Key), cmp.Compare(a.Token, b.Token))
}

// named finds a generation, nil if there is none.
func (p *Pointers) named(name publish.GenerationName) (*keyRow, *generation) {
	k := p.keys[name.Key]
	if k == nil {
		return nil, nil
	}
	return k, k.find(name.Token)
}

// Condemn gives a generation up; see publish.CollectStore.
func (p *Pointers) Condemn(ctx context.Context, name publish.GenerationName, grace time.Duration) (bool, error) {
	return transact(ctx, p, "Condemn", name.Key, func(now time.Time) (bool, error) {
		k, g := p.named(name)
		if g == nil || !p.dispensable(k, g, grace, now) {
			return false, nil
		}
		g.state, g.collect.due = publish.StateCondemned, now
		return true, nil
	})
}

// DueGenerations returns condemned generations; see publish.CollectStore.
func (p *Pointers) DueGenerations(ctx context.Context, after *publish.DueGeneration, limit int) ([]publish.DueGeneration, error) {
	return transact(ctx, p, "DueGenerations", "", func(now time.Time) ([]publish.DueGeneration, error) {
		var due []publish.DueGeneration
		order := func(a, b publish.DueGeneration) int {
			return cmp.Or(a.Since.Compare(b.Since), compareNames(a.GenerationName, b.GenerationName))
		}
		for _, k := range p.keys {
			for _, g := range k.generations {
				d := publish.DueGeneration{GenerationName: publish.GenerationName{Key: k.key, Token: g.token}, Since: g.collect.due}
				if !g.collect.due.IsZero() && !g.collect.due.After(now) && (after == nil || order(d, *after) > 0) {
					due = append(due, d)
				}
			}
		}
		slices.SortFunc(due, order)
		due, _ = page(due, limit)
		return due, nil
	})
}

// Referenced tells which objects kept generations name; see publish.CollectStore. It panics when it is asked about a kept one.
func (p *Pointers) Referenced(ctx context.Context, name publish.GenerationName, objects []publish.StoredUpload) ([]bool, error) {
	return transact(ctx, p, "Referenced", "", func(time.Time) ([]bool, error) {
		referenced := make([]bool, len(objects))
		for i, object := range objects {
			upload := publish.Upload{Grant: publish.Grant{Key: name.Key, Token: name.Token}, ID: object.ID, Path: object.Path}
			referenced[i] = p.keeps(upload.Object(), name)
		}
		return referenced, nil
	})
}

// keeps reports whether a kept generation, other than except, names an object.
func (p *Pointers) keeps(object publish.ObjectName, except publish.GenerationName) bool {
	keeps := false
	p.each(func(k *keyRow, g *generation, row *uploadRow) {
		own := k.key == except.Key && g.token == except.Token
		keeps = keeps || !own && !g.condemned() && row.state == uploadComplete && row.Object() == object
	})
	return keeps
}

// Keeps reports whether a kept generation names an object, which must not be deleted.
func (p *Pointers) Keeps(object publish.ObjectName) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.keeps(object, publish.GenerationName{})
}

// Emptied notes that a generation has no object left; see publish.CollectStore.
func (p *Pointers) Emptied(ctx context.Context, due publish.DueGeneration, late time.Duration) (bool, error) {
	return transact(ctx, p, "Emptied", due.Key, func(now time.Time) (bool, error) {
		k, g := p.named(due.GenerationName)
		if g == nil || !g.condemned() || !g.collect.due.Equal(due.Since) {
			return false, nil
		}
		first := g.collect.collected.IsZero()
		if first {
			g.collect.collected = now
		}
		g.state, g.collect.due = publish.StateCollected, time.Time{}
		if again := g.collect.collected.Add(late); again.After(now) {
			g.collect.due = again
		}
		for _, row := range g.uploads {
			if other := k.find(row.Grant.Token); first && row.carried() && other != nil && other.condemned() {
				other.collect.due = now
			}
		}
		return true, nil
	})
}

// TakeDuty gives a duty to a holder; see publish.CollectStore.
func (p *Pointers) TakeDuty(ctx context.Context, name, holder string, ttl time.Duration) (bool, error) {
	return transact(ctx, p, "TakeDuty", "", func(now time.Time) (bool, error) {
		if d, taken := p.duties[name]; taken && d.holder != holder && d.expires.After(now) {
			return false, nil
		}
		p.duties[name] = duty{holder, now.Add(ttl)}
		return true, nil
	})
}

// LeaveDuty gives a duty back; see publish.CollectStore.
func (p *Pointers) LeaveDuty(ctx context.Context, name, holder string) error {
	_, err := transact(ctx, p, "LeaveDuty", "", func(time.Time) (struct{}, error) {
		if p.duties[name].holder == holder {
			delete(p.duties, name)
		}
		return struct{}{}, nil
	})
	return err
}

// Antedate lets time pass for the generations of a key and all that was done under them, but for no lease.
func (p *Pointers) Antedate(key publish.Key, by time.Duration) {
	p.Age(key, by)
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, g := range p.keys[key].generations {
		g.granted = g.granted.Add(-by)
		for i := range g.receipts {
			g.receipts[i].PublishedAt.Time = g.receipts[i].PublishedAt.Add(-by)
		}
		for _, t := range []*time.Time{&g.collect.collected, &g.collect.due} {
			if !t.IsZero() {
				*t = t.Add(-by)
			}
		}
	}
}
