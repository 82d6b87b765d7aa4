package publish

import (
	"context"
	"time"
)

// FeedPlace is a place in a feed: behind the row of that time, key and token. A rejection has also an operation and a path.
type FeedPlace struct {
	At  time.Time `json:"t"`
	Key Key       `json:"k,omitempty"`
	// ID stands for the Key and all that follows, where a search has stopped at a key whose name isn't the caller's to know: behind all rows of that time and
	// key. It means something to the store alone.
	ID        int64  `json:"i,omitempty"`
	Token     Token  `json:"n,omitempty"`
	Operation string `json:"o,omitempty"`
	Path      Path   `json:"p,omitempty"`
}

// valid tells whether a row can stand at a place that was read. A store looks the key up: one that is outside the reach would show by what follows it whether
// it exists.
func (p *FeedPlace) valid(reach Reach) bool {
	if p.ID != 0 {
		return p.ID > 0 && *p == FeedPlace{At: p.At, ID: p.ID} && !p.At.IsZero()
	}
	return nameFault(string(p.Key), false) == "" && reach.Has(p.Key) && (p.Path == "" || nameFault(string(p.Path), true) == "") &&
		textFault(p.Operation) == "" && p.Token > 0 && !p.At.IsZero()
}

// FeedQuery is a valid request for a page of a feed. Limit is set.
type FeedQuery struct {
	// Reach is as that of ListRequest.
	Reach  Reach
	Prefix string
	// Expired is for leases: those that ran out, and that nobody gave back or took over, are shown too.
	Expired bool
	From    *FeedPlace // nil for the first page
	Limit   int
	// Bound is how many rows may be looked at.
	Bound int
}

func feedQuery(reach Reach, prefix, after string, limit int) (query FeedQuery, err error) {
	query.Reach, query.Bound = reach, BrowseBound
	if query.Prefix, err = ParsePrefix(prefix); err != nil {
		return query, err
	}
	if query.Limit, err = pageLimit(limit); err != nil {
		return query, err
	}
	if after != "" {
		query.From = new(FeedPlace)
		if !readPlace(after, query.From) || !query.From.valid(reach) {
			return query, errAfter()
		}
	}
	return query, nil
}

func nextOf(end *FeedPlace) string {
	if end == nil {
		return ""
	}
	return writePlace(end)
}

// LoopWindow is how far apart the repeats of a stale request are, at most, to count as a retry loop, and how long ago the last one came.
const LoopWindow = 10 * time.Minute

// KeyRejection is a rejection with its key.
type KeyRejection struct {
	Key Key `json:"key"`
	Rejection
	// Looping reports that somebody goes on sending the same stale request and doesn't heed its answer: it came at least RetryLoopAt times, at most LoopWindow
	// apart on average, and the last time within LoopWindow.
	Looping bool `json:"looping"`
}

// Place is where the rejection stands in the feed.
func (r KeyRejection) Place() *FeedPlace {
	return &FeedPlace{At: r.LastAt.Time, Key: r.Key, Token: r.Token, Operation: r.Operation, Path: r.Path}
}

func (r *KeyRejection) noteLoop(now Time) {
	r.Looping = r.Repeat >= RetryLoopAt && now.Sub(r.LastAt.Time) <= LoopWindow &&
		r.LastAt.Sub(r.FirstAt.Time) <= time.Duration(r.Repeat-1)*LoopWindow
}

// RejectionsRequest asks for one page of rejections, the one that came last first.
type RejectionsRequest struct {
	// Reach is as that of ListRequest.
	Reach Reach
	// Prefix is a plain string prefix of keys; see ParsePrefix.
	Prefix string
	// After is where the page before ended: its Next. A stale request that comes again in between moves to the front.
	After string
	// Limit is the number of rows, from 1 to MaxPageSize; 0 means DefaultPageSize.
	Limit int
}

// RejectionsPage is one page of rejections.
type RejectionsPage struct {
	Rejections []KeyRejection `json:"rejections"`
	// Next is the After of the next page, "" on the last one. A page may hold fewer rows than its limit, and none, before the last one.
	Next string `json:"next,omitempty"`
	// ServerTime is the database's clock.
	ServerTime Time `json:"server_time"`
}

// RejectionsFound is what a store has found; End is where the page ends, nil on the last one. The Service sets Looping.
type RejectionsFound struct {
	Rejections []KeyRejection
	End        *FeedPlace
	Now        Time
}

// Rejections returns one page of rejections.
func (s *Service) Rejections(ctx context.Context, req RejectionsRequest) (RejectionsPage, error) {
	query, err := feedQuery(req.Reach, req.Prefix, req.After, req.Limit)
	if err != nil {
		return RejectionsPage{}, err
	}
	found, err := s.Pointers.Rejections(ctx, query)
	if err != nil {
		return RejectionsPage{}, s.refused(ctx, err)
	}
	sight := sightOf(ctx)
	for i := range found.Rejections {
		found.Rejections[i].noteLoop(found.Now)
		sight.narrow(found.Rejections[i].Key, &found.Rejections[i].Actor)
	}
	return RejectionsPage{Rejections: found.Rejections, Next: nextOf(found.End), ServerTime: found.Now}, nil
}

// Holding tells who holds a key. The lease's id isn't in it: that is known to the holder alone.
type Holding struct {
	Key       Key               `json:"key"`
	Token     Token             `json:"token"`
	Holder    string            `json:"holder"`
	Labels    map[string]string `json:"labels,omitempty"`
	GrantedAt Time              `json:"granted_at"`
	ExpiresAt Time              `json:"expires_at"`
	TTLMillis int64             `json:"ttl_ms"`
	// Live reports that the lease runs. Else it ran out, and nobody gave it back or took it over: its holder may be gone.
	Live bool `json:"live"`
}

// TTL is how long the lease lasts from its grant, or from when it was last renewed.
func (h Holding) TTL() time.Duration { return time.Duration(h.TTLMillis) * time.Millisecond }

// Place is where the lease stands in the feed.
func (h Holding) Place() *FeedPlace {
	return &FeedPlace{At: h.GrantedAt.Time, Key: h.Key, Token: h.Token}
}

// LeasesRequest asks for one page of leases, the newest grant first.
type LeasesRequest struct {
	// Reach is as that of ListRequest.
	Reach Reach
	// Prefix is a plain string prefix of keys; see ParsePrefix.
	Prefix string
	// Expired shows also leases that ran out, and that nobody gave back or took over.
	Expired bool
	// After is where the page before ended: its Next.
	After string
	// Limit is the number of rows, from 1 to MaxPageSize; 0 means DefaultPageSize.
	Limit int
}

// LeasesPage is one page of leases.
type LeasesPage struct {
	Leases []Holding `json:"leases"`
	// Next is the After of the next page, "" on the last one. A page may hold fewer rows than its limit, and none, before the last one.
	Next string `json:"next,omitempty"`
	// ServerTime is the database's clock, by which leases run.
	ServerTime Time `json:"server_time"`
}

// LeasesFound is what a store has found; End is where the page ends, nil on the last one.
type LeasesFound struct {
	Leases []Holding
	End    *FeedPlace
	Now    Time
}

// Leases returns one page of leases.
func (s *Service) Leases(ctx context.Context, req LeasesRequest) (LeasesPage, error) {
	query, err := feedQuery(req.Reach, req.Prefix, req.After, req.Limit)
	if err != nil {
		return LeasesPage{}, err
	}
	query.Expired = req.Expired
	found, err := s.Pointers.Leases(ctx, query)
	if err != nil {
		return LeasesPage{}, s.refused(ctx, err)
	}
	return LeasesPage{Leases: found.Leases, Next: nextOf(found.End), ServerTime: found.Now}, nil
}
