package publishtest

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/pawlhq/pawl/publish"
)

// List returns one page of pointers and sub-prefixes; see publish.BrowseStore.
func (p *Pointers) List(ctx context.Context, req publish.ListRequest) (publish.ListPage, error) {
	return transact(ctx, p, "List", "", func(time.Time) (publish.ListPage, error) {
		var names []string
		for key, k := range p.keys {
			if name := string(key); k.current != nil && req.Reach.Has(key) && strings.HasPrefix(name, req.Prefix) && behind(name, req) {
				names = append(names, name)
			}
		}
		slices.Sort(names)
		if req.Delimiter != "" {
			for i, name := range names {
				names[i] = fold(name, req.Prefix, req.Delimiter)
			}
			names = slices.Compact(names)
		}
		names, more := page(names, limitOr(req.Limit))
		result := publish.ListPage{Keys: []publish.Pointer{}, Prefixes: []string{}}
		for _, name := range names {
			if k := p.keys[publish.Key(name)]; k != nil {
				result.Keys = append(result.Keys, k.pointer())
			} else {
				result.Prefixes = append(result.Prefixes, name)
			}
		}
		if more {
			result.Next = names[len(names)-1]
		}
		return result, nil
	})
}

// behind reports whether a key comes after the end of the page before. That may have ended with a sub-prefix,
// which stands for all keys that start with it.
func behind(name string, req publish.ListRequest) bool {
	if req.Delimiter != "" && strings.HasSuffix(req.After, req.Delimiter) && strings.HasPrefix(name, req.After) {
		return false
	}
	return name > req.After
}

// fold cuts a key to its sub-prefix when it goes on after the next delimiter behind the prefix.
func fold(name, prefix, delimiter string) string {
	if head, _, found := strings.Cut(name[len(prefix):], delimiter); found {
		return prefix + head + delimiter
	}
	return name
}

// limitOr gives a page its default size.
func limitOr(limit int) int {
	if limit == 0 {
		return publish.DefaultPageSize
	}
	return limit
}

// History returns one page of a key's generations; see publish.BrowseStore.
func (p *Pointers) History(ctx context.Context, key publish.Key, before publish.Token, limit int) (publish.HistoryPage, error) {
	return transact(ctx, p, "History", key, func(time.Time) (publish.HistoryPage, error) {
		k := p.keys[key]
		if k == nil {
			return publish.HistoryPage{}, notFound(key)
		}
		result := publish.HistoryPage{Key: key, Generations: []publish.Generation{}, Pinned: clone(k.pin), Retired: k.retired()}
		if before == 0 {
			result.Lost = rejections(k.lost, maxShown)
		}
		var rows []*generation
		for _, g := range slices.Backward(k.generations) {
			if before == 0 || g.token < before {
				rows = append(rows, g)
			}
		}
		rows, more := page(rows, limitOr(limit))
		for _, g := range rows {
			result.Generations = append(result.Generations, k.describe(g))
		}
		if more {
			result.Next = rows[len(rows)-1].token
		}
		return result, nil
	})
}

// Generation describes one generation; see publish.BrowseStore.
func (p *Pointers) Generation(ctx context.Context, key publish.Key, token publish.Token) (publish.Generation, error) {
	return transact(ctx, p, "Generation", key, func(time.Time) (publish.Generation, error) {
		k, g, err := p.generation(key, token)
		if err != nil {
			return publish.Generation{}, err
		}
		return k.describe(g), nil
	})
}

// Files returns one page of a generation's published files; see publish.BrowseStore.
func (p *Pointers) Files(ctx context.Context, key publish.Key, token publish.Token, after publish.Path, limit int) (publish.FilePage, error) {
	return transact(ctx, p, "Files", key, func(time.Time) (publish.FilePage, error) {
		_, g, err := p.generation(key, token)
		if err != nil {
			return publish.FilePage{}, err
		}
		return pageOf(filesOf(g.last()), after, limit), nil
	})
}

func (k *keyRow) describe(g *generation) publish.Generation {
	result := publish.Generation{
		Key: k.key, Token: g.token, State: g.state, Holder: g.holder, Actor: g.actor, Labels: cloneText(g.labels), GrantedAt: at(g.granted),
		ReleasedAt: clone(g.released), LeaseEndedAt: clone(g.ended), SealedAt: clone(g.sealed), Revision: g.revision,
		Current: k.current != nil && k.current.Token == g.token,
		Kind:    g.kind, Reason: g.reason, Target: clone(g.target), Broken: clone(g.broken),
		Receipts: []publish.Receipt{}, Rejections: rejections(g.rejections, maxShown),
	}
	for _, row := range g.uploads {
		switch {
		case row.state == uploadPending:
			result.Uploads.Pending++
		case row.state == uploadFailed:
			result.Uploads.Failed++
		case row.counts() && row.from > g.revision:
			result.Uploads.Unpublished++
		}
	}
	for _, receipt := range slices.Backward(g.receipts) {
		result.Receipts = append(result.Receipts, k.receipt(receipt))
	}
	result.Receipts, _ = page(result.Receipts, maxShown)
	if len(g.rejections) > maxShown {
		result.Refused = summed(rejections(g.rejections, publish.MaxRefusedCounted))
	}
	return result
}

// summed sums up rejections, newest first.
func summed(newest []publish.Rejection) []publish.RefusedSum {
	var sums []publish.RefusedSum
	for _, r := range newest {
		i := slices.IndexFunc(sums, func(s publish.RefusedSum) bool {
			return s.Operation == r.Operation && s.AcceptedToken == r.AcceptedToken && s.GrantedToken == r.GrantedToken
		})
		if i < 0 {
			sums = append(sums, publish.RefusedSum{Rejection: r, Count: 1})
			continue
		}
		sums[i].Count++
		sums[i].Repeat += r.Repeat
		if r.FirstAt.Before(sums[i].FirstAt.Time) {
			sums[i].FirstAt = r.FirstAt
		}
	}
	return sums
}

// maxShown bounds the receipts and the rejections that one generation shows.
const maxShown = 100

// rejections shows the newest records first, at most as many as limit.
func rejections(records []*publish.Rejection, limit int) []publish.Rejection {
	sorted := slices.Clone(records)
	slices.Reverse(sorted) // Of equal times the one that was recorded last is the newer.
	slices.SortStableFunc(sorted, func(a, b *publish.Rejection) int { return b.LastAt.Compare(a.LastAt.Time) })
	sorted, _ = page(sorted, limit)
	result := make([]publish.Rejection, len(sorted))
	for i, record := range sorted {
		result[i] = *record
		result[i].SupersededAt = clone(record.SupersededAt)
	}
	return result
}
