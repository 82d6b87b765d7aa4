package publish

import (
	"context"
	"strings"
	"time"
)

// BrowseSort is the order of the keys that Browse shows.
type BrowseSort string

// The orders of Browse. By name and by age there are pages whatever the prefix holds; the others need one that holds few keys (BrowsePage.Sortable).
// Keys that are equal in it follow each other in an order of the store's own, which stays the same from page to page.
const (
	SortName       BrowseSort = "name" // in byte order, the default
	SortNameDown   BrowseSort = "-name"
	SortAge        BrowseSort = "age" // the youngest publish first
	SortAgeDown    BrowseSort = "-age"
	SortSize       BrowseSort = "size" // the fewest bytes first
	SortSizeDown   BrowseSort = "-size"
	SortPublisher  BrowseSort = "publisher"  // in byte order
	SortRejections BrowseSort = "rejections" // the most first
)

// BrowseSorts lists all orders.
func BrowseSorts() []BrowseSort {
	return []BrowseSort{SortName, SortNameDown, SortAge, SortAgeDown, SortSize, SortSizeDown, SortPublisher, SortRejections}
}

// ByName and ByAge tell the orders that have pages whatever the prefix holds.
func (o BrowseSort) ByName() bool { return o == SortName || o == SortNameDown }

// ByAge reports whether keys are ordered by the time of their publish.
func (o BrowseSort) ByAge() bool { return o == SortAge || o == SortAgeDown }

// Down reports whether the greatest name, publisher, size or number, or the latest publish, comes first.
func (o BrowseSort) Down() bool {
	return o == SortNameDown || o == SortAge || o == SortSizeDown || o == SortRejections
}

// BrowseBound is how many keys one page of Browse looks at, at most, and how many a prefix may hold to be Sortable, of the keys in the Reach. The pages of
// Rejections and Leases look at as many rows.
const BrowseBound = 1000

// BrowseRequest asks for one page of the current pointers, for people. A key is shown when it passes all filters.
type BrowseRequest struct {
	// Reach is as that of ListRequest.
	Reach Reach
	// Prefix is a plain string prefix of keys; see ParsePrefix.
	Prefix string
	// Delimiter shows keys that go on after the next slash behind Prefix as one sub-prefix. It is for SortName without a filter.
	Delimiter bool
	// Text is a part of the key. Upper and lower case are the same, beyond ASCII as far as the database's locale knows letters.
	Text string
	// Type is the media type of the primary file, such as "image/png", or its first half.
	Type string
	// Leased shows only keys with a lease that runs, Rejected only those with rejections.
	Leased   bool
	Rejected bool
	// UpdatedSince shows only what was published then or later; zero is no filter.
	UpdatedSince time.Time
	// Sort is "" for SortName.
	Sort BrowseSort
	// After is where the page before ended: its Next.
	After string
	// Limit is the number of entries, from 1 to MaxPageSize; 0 means DefaultPageSize.
	Limit int
}

// Filtered reports whether the request has a filter beside its prefix.
func (r BrowseRequest) Filtered() bool {
	return r.Text != "" || r.Type != "" || r.Leased || r.Rejected || !r.UpdatedSince.IsZero()
}

// BrowseRow is one key that has a pointer.
type BrowseRow struct {
	Pointer
	// Lease is who holds the key, nil while nobody does.
	Lease *Holding `json:"lease"`
	// Rejections counts the stale requests that were refused, repeats included.
	Rejections int64 `json:"rejections"`
}

// BrowsePage is one page of pointers in the order that was asked for.
type BrowsePage struct {
	Rows     []BrowseRow `json:"rows"`
	Prefixes []string    `json:"prefixes"`
	// Next is the After of the next page, "" on the last one.
	Next string `json:"next,omitempty"`
	// Searched counts the keys that were looked at, at most BrowseBound. A page with a Next and fewer rows than its limit has stopped
	// there, perhaps without any row; the search goes on behind Next.
	Searched int `json:"searched"`
	// Sortable reports that the prefix holds no more than BrowseBound keys of the Reach, so that it has every order.
	Sortable bool `json:"sortable"`
}

// BrowseQuery is a valid BrowseRequest for a store: with its Limit, and From in place of After.
type BrowseQuery struct {
	BrowseRequest
	// From is where the page before ended, nil for the first page.
	From *BrowsePlace
	// Bound is how many keys may be looked at.
	Bound int
}

// BrowsePlace is a place between two keys in one order: behind the key of that name, or all keys of a sub-prefix, with the value that it had
// then. The key need not have a pointer any more.
type BrowsePlace struct {
	Sort BrowseSort `json:"s"`
	Name string     `json:"n,omitempty"`
	// ID stands for the Name, by age, where a search has stopped: that may be at a key whose name isn't the caller's to know. It means something to the store alone.
	ID int64      `json:"i,omitempty"`
	At *time.Time `json:"t,omitempty"` // by age
	// Number is the bytes or the rejections.
	Number    int64  `json:"v,omitempty"`
	Publisher string `json:"p,omitempty"`
}

// valid tells whether a page can end at a place that was read. In the orders that are not by name a store looks the key up: one that is outside the reach
// would show by what follows it whether it exists.
func (p *BrowsePlace) valid(reach Reach) bool {
	_, err := ParsePrefix(p.Name)
	named := p.Name != "" && p.ID == 0 && (p.Sort.ByName() || reach.Has(Key(p.Name)))
	numbered := p.Name == "" && p.ID > 0 && p.Sort.ByAge()
	return err == nil && (named || numbered) && textFault(p.Publisher) == "" && p.Sort.ByAge() == (p.At != nil)
}

// BrowseFound is what a store has found: End is where the page ends, nil on the last one; the rest is as in BrowsePage.
type BrowseFound struct {
	Rows     []BrowseRow
	Prefixes []string
	End      *BrowsePlace
	Searched int
	Sortable bool
}

// Place is where a row stands in the query's order.
func (q BrowseQuery) Place(row BrowseRow) *BrowsePlace {
	place := BrowsePlace{Sort: q.Sort, Name: string(row.Key)}
	switch q.Sort {
	case SortAge, SortAgeDown:
		place.At = &row.PublishedAt.Time
	case SortSize, SortSizeDown:
		place.Number = row.Bytes
	case SortRejections:
		place.Number = row.Rejections
	case SortPublisher:
		place.Publisher = row.Publisher
	}
	return &place
}

// OverviewStore is the part of PointerStore that shows people what there is. It takes no lock, and no page costs more than its bound, whatever the store
// holds.
type OverviewStore interface {
	// Browse returns one page of keys with a pointer. A page may hold fewer rows than its limit, and none, before the last one. For a Sort that needs
	// few keys the store returns no rows and Sortable false where there are more than Bound.
	Browse(ctx context.Context, query BrowseQuery) (BrowseFound, error)
	// Overview returns one key at one moment. A key of which the store knows nothing is not-found.
	Overview(ctx context.Context, key Key) (Overview, error)
	// Rejections returns one page of rejections, the one that came last first, and Leases one of leases, the newest grant first.
	Rejections(ctx context.Context, query FeedQuery) (RejectionsFound, error)
	Leases(ctx context.Context, query FeedQuery) (LeasesFound, error)
}

// Browse returns one page of keys, for people.
func (s *Service) Browse(ctx context.Context, req BrowseRequest) (BrowsePage, error) {
	query, err := req.query()
	if err != nil {
		return BrowsePage{}, err
	}
	found, err := s.Pointers.Browse(ctx, query)
	if err != nil {
		return BrowsePage{}, s.refused(ctx, err)
	}
	if !found.Sortable && !query.Sort.ByName() && !query.Sort.ByAge() {
		return BrowsePage{}, invalid("sort", "%q needs a prefix that holds at most %d keys; narrow the prefix, or sort by name or age", query.Sort, BrowseBound)
	}
	page := BrowsePage{Rows: found.Rows, Prefixes: found.Prefixes, Searched: found.Searched, Sortable: found.Sortable}
	if found.End != nil {
		page.Next = writePlace(found.End)
	}
	return page, nil
}

// query checks the request and names the first field that is wrong.
func (r BrowseRequest) query() (BrowseQuery, error) {
	var err error
	if _, err = ParsePrefix(r.Prefix); err != nil {
		return BrowseQuery{}, err
	}
	if r.Limit, err = pageLimit(r.Limit); err != nil {
		return BrowseQuery{}, err
	}
	if r.Sort == "" {
		r.Sort = SortName
	}
	if !r.Sort.valid() {
		return BrowseQuery{}, invalid("sort", "must be one of %q", BrowseSorts())
	}
	if r.Delimiter && (r.Filtered() || r.Sort != SortName) {
		return BrowseQuery{}, invalid("delimiter", "is for keys by name, without a filter")
	}
	if len(r.Text) > MaxNameBytes || textFault(r.Text) != "" {
		return BrowseQuery{}, invalid("text", "must be printable UTF-8 of at most %d bytes", MaxNameBytes)
	}
	if len(r.Type) > MaxNameBytes || textFault(r.Type) != "" || strings.Count(r.Type, "/") > 1 || strings.ContainsAny(r.Type, " ;,") {
		return BrowseQuery{}, invalid("type", `must be a media type such as "image/png", or its first half`)
	}
	r.Type = strings.ToLower(strings.TrimSuffix(r.Type, "/"))
	query := BrowseQuery{BrowseRequest: r, Bound: BrowseBound}
	if r.After != "" {
		query.From = new(BrowsePlace)
		if !readPlace(r.After, query.From) || !query.From.valid(r.Reach) {
			return BrowseQuery{}, errAfter()
		}
		if query.From.Sort != r.Sort {
			return BrowseQuery{}, invalid("after", "belongs to a page that is sorted by %q; leave it out to begin anew", query.From.Sort)
		}
	}
	return query, nil
}

func (o BrowseSort) valid() bool {
	for _, sort := range BrowseSorts() {
		if o == sort {
			return true
		}
	}
	return false
}
