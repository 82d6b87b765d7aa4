package publish

import "context"

// MaxGenerationsCounted is where Overview stops counting.
const MaxGenerationsCounted = 1000

// Overview is everything about one key that its page shows at once.
type Overview struct {
	Key Key `json:"key"`
	// Pointer is nil for a key of which nothing was published, and for a retired one.
	Pointer *Pointer `json:"pointer"`
	// Lease is that of the newest grant, also when it ran out; nil once it was given back or taken away.
	Lease   *Holding    `json:"lease"`
	Pinned  *Pin        `json:"pinned,omitempty"`
	Retired *Retirement `json:"retired,omitempty"`
	// Counter is the greatest token granted, Fence the greatest that the pointer has accepted; 0 is none.
	Counter Token `json:"counter,omitempty"`
	Fence   Token `json:"fence,omitempty"`
	// Generations counts the grants, up to MaxGenerationsCounted.
	Generations int64 `json:"generations"`
	// Rejections counts the stale requests that were refused, repeats included; LastRejection is the one that came last.
	Rejections    int64         `json:"rejections"`
	LastRejection *KeyRejection `json:"last_rejection,omitempty"`
	// Policy is the one in force for the key, nil when no prefix of it has one.
	Policy     *Policy `json:"policy,omitempty"`
	ServerTime Time    `json:"server_time"`
}

// Overview returns what there is to know about one key at a moment; see OverviewStore.
func (s *Service) Overview(ctx context.Context, key Key) (Overview, error) {
	overview, err := s.Pointers.Overview(ctx, key)
	if err == nil && overview.LastRejection != nil {
		overview.LastRejection.noteLoop(overview.ServerTime)
		sightOf(ctx).narrow(key, &overview.LastRejection.Actor)
	}
	return overview, s.refused(ctx, err)
}
