package publishtest

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/pawlhq/pawl/publish"
)

// Browse returns one page of keys; see publish.OverviewStore. It looks at all keys in the order that was asked for, and stops at the bound.
func (p *Pointers) Browse(ctx context.Context, query publish.BrowseQuery) (publish.BrowseFound, error) {
	return transact(ctx, p, "Browse", "", func(now time.Time) (publish.BrowseFound, error) {
		var rows []publish.BrowseRow
		for key, k := range p.keys {
			if k.current != nil && query.Reach.Has(key) && strings.HasPrefix(string(key), query.Prefix) {
				rows = append(rows, publish.BrowseRow{Pointer: k.pointer(), Lease: k.running(now), Rejections: k.refusals})
			}
		}
		result := publish.BrowseFound{Rows: []publish.BrowseRow{}, Prefixes: []string{}, Sortable: len(rows) <= query.Bound}
		if !result.Sortable && !query.Sort.ByName() && !query.Sort.ByAge() {
			return result, nil
		}
		slices.SortFunc(rows, func(a, b publish.BrowseRow) int { return comparePlaces(query.Place(a), query.Place(b)) })
		if query.Delimiter {
			return p.browseTree(result, query, rows), nil
		}
		for _, row := range rows {
			if query.From != nil && comparePlaces(query.Place(row), query.From) <= 0 {
				continue
			}
			if len(result.Rows) == query.Limit || result.Searched == query.Bound {
				return result, nil
			}
			result.Searched++
			result.End = query.Place(row)
			if passes(query.BrowseRequest, row) {
				result.Rows = append(result.Rows, row)
			}
		}
		result.End = nil
		return result, nil
	})
}

// browseTree folds keys, which are sorted by name, to sub-prefixes.
func (p *Pointers) browseTree(result publish.BrowseFound, query publish.BrowseQuery, rows []publish.BrowseRow) publish.BrowseFound {
	after, last := publish.ListRequest{Prefix: query.Prefix, Delimiter: "/"}, ""
	if query.From != nil {
		after.After = query.From.Name
	}
	for _, row := range rows {
		name := fold(string(row.Key), query.Prefix, "/")
		if !behind(string(row.Key), after) || name == last {
			continue
		}
		if result.Searched == query.Limit {
			result.End = &publish.BrowsePlace{Sort: query.Sort, Name: last}
			break
		}
		if last = name; strings.HasSuffix(name, "/") {
			result.Prefixes = append(result.Prefixes, name)
		} else {
			result.Rows = append(result.Rows, row)
		}
		result.Searched++
	}
	return result
}

// comparePlaces orders by the sort, then by name.
func comparePlaces(a, b *publish.BrowsePlace) int {
	order := strings.Compare(a.Publisher, b.Publisher)
	if a.At != nil {
		order = a.At.Compare(*b.At)
	}
	order = cmp.Or(order, cmp.Compare(a.Number, b.Number), strings.Compare(a.Name, b.Name))
	if a.Sort.Down() {
		return -order
	}
	return order
}

func passes(req publish.BrowseRequest, row publish.BrowseRow) bool {
	contentType, _, _ := strings.Cut(strings.ToLower(row.ContentType), ";")
	return strings.Contains(strings.ToLower(string(row.Key)), strings.ToLower(req.Text)) &&
		(req.Type == "" || strings.HasPrefix(contentType+"/", req.Type+"/")) &&
		(!req.Leased || row.Lease != nil) && (!req.Rejected || row.Rejections > 0) && !row.PublishedAt.Before(req.UpdatedSince)
}

// holding tells the newest grant, nil when its lease was given back.
func (k *keyRow) holding(now time.Time) *publish.Holding {
	g := k.newest()
	if g.released != nil {
		return nil
	}
	return &publish.Holding{
		Key: k.key, Token: g.token, Holder: g.holder, Labels: cloneText(g.labels), GrantedAt: at(g.granted), ExpiresAt: at(g.expires),
		TTLMillis: g.ttl.Milliseconds(), Live: g.running(now),
	}
}

// running tells who holds the key now, or nil.
func (k *keyRow) running(now time.Time) *publish.Holding {
	if holding := k.holding(now); holding != nil && holding.Live {
		return holding
	}
	return nil
}

// Overview returns one key; see publish.OverviewStore.
func (p *Pointers) Overview(ctx context.Context, key publish.Key) (publish.Overview, error) {
	return transact(ctx, p, "Overview", key, func(now time.Time) (publish.Overview, error) {
		k := p.keys[key]
		if k == nil {
			return publish.Overview{}, notFound(key)
		}
		overview := publish.Overview{
			Key: key, Lease: k.holding(now), Pinned: clone(k.pin), Retired: k.retired(), Counter: k.counter, Fence: k.fence,
			Generations: int64(min(len(k.generations), publish.MaxGenerationsCounted)), Rejections: k.refusals, ServerTime: at(now),
		}
		if k.current != nil {
			overview.Pointer = new(k.pointer())
		}
		if rejections := p.keyRejections(k); len(rejections) > 0 {
			overview.LastRejection = &rejections[0]
		}
		if policy, found := p.policyOf(key); found {
			overview.Policy = &policy
		}
		return overview, nil
	})
}

// keyRejections lists the rejections of a key, the one that came last first.
func (p *Pointers) keyRejections(k *keyRow) []publish.KeyRejection {
	var all []publish.KeyRejection
	add := func(records []*publish.Rejection) {
		for _, record := range records {
			copied := *record
			copied.SupersededAt = clone(record.SupersededAt)
			all = append(all, publish.KeyRejection{Key: k.key, Rejection: copied})
		}
	}
	add(k.lost)
	for _, g := range k.generations {
		add(g.rejections)
	}
	slices.SortFunc(all, func(a, b publish.KeyRejection) int { return comparePlacesInFeed(b.Place(), a.Place()) })
	return all
}

func comparePlacesInFeed(a, b *publish.FeedPlace) int {
	return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.Key, b.Key), cmp.Compare(a.Token, b.Token),
		cmp.Compare(a.Operation, b.Operation), cmp.Compare(a.Path, b.Path))
}

// Rejections returns one page of rejections; see publish.OverviewStore.
func (p *Pointers) Rejections(ctx context.Context, query publish.FeedQuery) (publish.RejectionsFound, error) {
	return transact(ctx, p, "Rejections", "", func(now time.Time) (publish.RejectionsFound, error) {
		var all []publish.KeyRejection
		for _, k := range p.keys {
			all = append(all, p.keyRejections(k)...)
		}
		rows, end := feed(p, query, all, publish.KeyRejection.Place)
		return publish.RejectionsFound{Rejections: rows, End: end, Now: at(now)}, nil
	})
}

// Leases returns one page of leases; see publish.OverviewStore.
func (p *Pointers) Leases(ctx context.Context, query publish.FeedQuery) (publish.LeasesFound, error) {
	return transact(ctx, p, "Leases", "", func(now time.Time) (publish.LeasesFound, error) {
		var all []publish.Holding
		for _, k := range p.keys {
			if holding := k.holding(now); holding != nil && (holding.Live || query.Expired) {
				all = append(all, *holding)
			}
		}
		rows, end := feed(p, query, all, publish.Holding.Place)
		return publish.LeasesFound{Leases: rows, End: end, Now: at(now)}, nil
	})
}

// feed cuts one page out of all rows, the latest first. It stops at the bound as a walk over the rows of all prefixes does.
func feed[Row any](p *Pointers, query publish.FeedQuery, all []Row, place func(Row) *publish.FeedPlace) (rows []Row, end *publish.FeedPlace) {
	slices.SortFunc(all, func(a, b Row) int { return comparePlacesInFeed(place(b), place(a)) })
	from := query.From
	if from != nil && from.ID != 0 {
		from = &publish.FeedPlace{At: from.At, Key: p.keyOf(from.ID)}
	}
	rows = []Row{}
	looked := 0
	for _, row := range all {
		if from != nil && comparePlacesInFeed(place(row), from) >= 0 {
			continue
		}
		if len(rows) == query.Limit || looked == query.Bound {
			return rows, end
		}
		looked++
		if end = place(row); query.Reach.Has(end.Key) && strings.HasPrefix(string(end.Key), query.Prefix) {
			rows = append(rows, row)
		} else {
			end = &publish.FeedPlace{At: end.At, ID: p.keys[end.Key].id}
		}
	}
	return rows, nil
}

// keyOf gives the key of a number, "" for none.
func (p *Pointers) keyOf(id int64) publish.Key {
	for key, k := range p.keys {
		if k.id == id {
			return key
		}
	}
	return ""
}
