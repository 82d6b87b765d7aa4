package publish

import "context"

// Limits of pages.
const (
	DefaultPageSize = 100
	MaxPageSize     = 1000
)

// ListRequest asks for one page of pointers in byte order of their keys.
type ListRequest struct {
	// Reach is the keys that may be shown; the zero Reach shows none. A server sets it; clients leave it alone.
	Reach Reach
	// Prefix is a plain string prefix of keys; see ParsePrefix.
	Prefix string
	// Delimiter is "" or "/". With "/", keys that go on after the next slash behind Prefix show as one sub-prefix, as long as the Reach holds one of them.
	Delimiter string
	// After is where the page before ended: its Next.
	After string
	// Limit is the number of entries, from 1 to MaxPageSize; 0 means DefaultPageSize.
	Limit int
}

// ListPage is one page of pointers and sub-prefixes. An entry is one or the other.
type ListPage struct {
	Keys     []Pointer `json:"keys"`
	Prefixes []string  `json:"prefixes"`
	// Next is the After of the next page, "" on the last one.
	Next string `json:"next,omitempty"`
}

// State is what became of a generation.
type State string

// The states of a generation: it is open until its final publish seals it; retention condemns and then collects it.
const (
	StateOpen      State = "open"
	StateSealed    State = "sealed"
	StateCondemned State = "condemned"
	StateCollected State = "collected"
)

// Generation is what was written under one token of one key.
type Generation struct {
	Key   Key   `json:"key"`
	Token Token `json:"token"`
	State State `json:"state"`
	// Holder is what the worker calls itself; Actor is whose request its grant was.
	Holder string `json:"holder"`
	Actor
	Labels    map[string]string `json:"labels,omitempty"`
	GrantedAt Time              `json:"granted_at"`
	// ReleasedAt is set when the holder gave the lease back. LeaseEndedAt is set when it ran out and another
	// grant followed.
	ReleasedAt   *Time `json:"released_at,omitempty"`
	LeaseEndedAt *Time `json:"lease_ended_at,omitempty"`
	SealedAt     *Time `json:"sealed_at,omitempty"`
	Revision     int64 `json:"revision"`
	// Kind is KindRollback or KindRetire for a grant that no worker had, then with its Reason. Target is what a rollback has brought
	// back, or a retirement has taken away.
	Kind   string   `json:"kind,omitempty"`
	Reason string   `json:"reason,omitempty"`
	Target *Version `json:"target,omitempty"`
	// Broken says who broke the lease; ReleasedAt is set then, too.
	Broken *Break `json:"broken,omitempty"`
	// Current reports that the pointer names this generation.
	Current bool `json:"current"`
	// Uploads counts the uploads that no published revision names (yet), by state.
	Uploads UploadCounts `json:"uploads"`
	// Receipts and Rejections are the newest 100 of each, newest first.
	Receipts   []Receipt   `json:"receipts"`
	Rejections []Rejection `json:"rejections"`
	// Refused sums up the rejections where there are more than those 100, newest first; nil otherwise. It knows the newest MaxRefusedCounted.
	Refused []RefusedSum `json:"refused,omitempty"`
}

// MaxRefusedCounted bounds how many rejections of one generation are summed up.
const MaxRefusedCounted = 1_000

// RefusedSum tells rejections of one generation, which differ in their paths and times alone, as one: it is the newest of them, but its FirstAt is that of
// the earliest, and its Repeat counts the requests of all.
type RefusedSum struct {
	Rejection
	// Count is how many there are.
	Count int64 `json:"count"`
}

// UploadCounts counts uploads of one generation.
type UploadCounts struct {
	Pending int64 `json:"pending"`
	Failed  int64 `json:"failed"`
	// Unpublished uploads are complete and wait for the next publish.
	Unpublished int64 `json:"unpublished"`
}

// Rejection is the record of a stale request that was refused: an expected outcome, not an infrastructure error.
type Rejection struct {
	Token     Token  `json:"token"`
	Operation string `json:"operation"`
	Code      Code   `json:"code"`
	// Path is that of a file, or the name of an effect.
	Path Path `json:"path,omitempty"`
	// Holder is who came back late; empty when nothing is known of the token.
	Holder string `json:"holder"`
	// Actor is who sent it, the first time. Who shows a lease id alone isn't known.
	Actor
	AcceptedToken Token `json:"accepted_token,omitempty"`
	GrantedToken  Token `json:"granted_token,omitempty"`
	// SupersededBy is the holder whose grant fenced the request, since SupersededAt.
	SupersededBy string `json:"superseded_by"`
	SupersededAt *Time  `json:"superseded_at,omitempty"`
	FirstAt      Time   `json:"first_at"`
	LastAt       Time   `json:"last_at"`
	// Repeat counts how often this same request came.
	Repeat int `json:"repeat"`
	// OverrunMillis is how long after the end of its lease the request came last.
	OverrunMillis int64 `json:"overrun_ms"`
}

// HistoryPage is one page of a key's generations, newest first.
type HistoryPage struct {
	Key         Key          `json:"key"`
	Generations []Generation `json:"generations"`
	// Lost holds rejections of tokens of which nothing is known, from a lost history: the newest 100, which are all that are kept, since such tokens
	// can be made up. They show on the first page.
	Lost []Rejection `json:"lost,omitempty"`
	// Pinned and Retired tell the key's state: a pinned pointer doesn't move, a retired key has none.
	Pinned  *Pin        `json:"pinned,omitempty"`
	Retired *Retirement `json:"retired,omitempty"`
	// Next is the Before of the next page, 0 on the last one. A page may hold fewer generations than its limit before the last one; see HistoryReceipts.
	Next Token `json:"next,omitempty"`
}

// HistoryReceipts is how many receipts fill a page of a key's history: one that has them may hold no further generation.
const HistoryReceipts = 200

// FilePage is one page of a generation's files, sorted by path.
type FilePage struct {
	Files []File `json:"files"`
	// Next is the after of the next page, "" on the last one.
	Next Path `json:"next,omitempty"`
}

// BrowseStore is the part of PointerStore that lists. Every page seeks by an index; none scans what went before.
type BrowseStore interface {
	List(ctx context.Context, req ListRequest) (ListPage, error)
	// History returns generations with tokens below before (0: from the newest), or not-found for a key that was never granted.
	History(ctx context.Context, key Key, before Token, limit int) (HistoryPage, error)
	Generation(ctx context.Context, key Key, token Token) (Generation, error)
	// Files lists the files of a generation's last published revision, after a path.
	Files(ctx context.Context, key Key, token Token, after Path, limit int) (FilePage, error)
	// FilesAt lists the files of one published revision, after a path; its errors are those of FileAt.
	FilesAt(ctx context.Context, key Key, version Version, after Path, limit int) (FilePage, error)
}

func pageLimit(limit int) (int, error) {
	if limit == 0 {
		return DefaultPageSize, nil
	}
	if limit < 1 || limit > MaxPageSize {
		return 0, invalid("limit", "must be from 1 to %d", MaxPageSize)
	}
	return limit, nil
}

// List returns one page of pointers.
func (s *Service) List(ctx context.Context, req ListRequest) (ListPage, error) {
	if req.Delimiter != "" && req.Delimiter != "/" {
		return ListPage{}, invalid("delimiter", `must be "/" or absent`)
	}
	if _, err := ParsePrefix(req.Prefix); err != nil {
		return ListPage{}, err
	}
	if _, err := ParsePrefix(req.After); err != nil {
		return ListPage{}, invalid("after", "must be the next of the page before")
	}
	limit, err := pageLimit(req.Limit)
	if err != nil {
		return ListPage{}, err
	}
	req.Limit = limit
	page, err := s.Pointers.List(ctx, req)
	return page, s.refused(ctx, err)
}

// History returns one page of a key's generations, newest first.
func (s *Service) History(ctx context.Context, key Key, before Token, limit int) (HistoryPage, error) {
	limit, err := pageLimit(limit)
	if err != nil {
		return HistoryPage{}, err
	}
	page, err := s.Pointers.History(ctx, key, before, limit)
	sight := sightOf(ctx)
	for i := range page.Generations {
		sight.narrowGeneration(&page.Generations[i])
	}
	sight.narrowAll(key, page.Lost)
	return page, s.refused(ctx, err)
}

// Generation returns one generation with its receipts and rejections.
func (s *Service) Generation(ctx context.Context, key Key, token Token) (Generation, error) {
	generation, err := s.Pointers.Generation(ctx, key, token)
	sightOf(ctx).narrowGeneration(&generation)
	return generation, s.refused(ctx, err)
}

// Files returns one page of a generation's published files.
func (s *Service) Files(ctx context.Context, key Key, token Token, after Path, limit int) (FilePage, error) {
	limit, err := pageLimit(limit)
	if err != nil {
		return FilePage{}, err
	}
	page, err := s.Pointers.Files(ctx, key, token, after, limit)
	return page, s.refused(ctx, err)
}

// FilesAt returns one page of the files of a published revision.
func (s *Service) FilesAt(ctx context.Context, key Key, version Version, after Path, limit int) (FilePage, error) {
	limit, err := pageLimit(limit)
	if err != nil {
		return FilePage{}, err
	}
	page, err := s.Pointers.FilesAt(ctx, key, version, after, limit)
	return page, s.refused(ctx, err)
}
