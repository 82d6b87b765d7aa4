package publish

import "context"

// Break is how a lease came to its end before its time.
type Break struct {
	Reason string   `json:"reason"`
	By     Operator `json:"by"`
	At     Time     `json:"at"`
}

// BreakLeaseRequest asks to end the lease of a grant without its holder.
type BreakLeaseRequest struct {
	Key Key
	// Token is the grant whose lease is to end. That of another grant is never broken in its place.
	Token  Token
	Reason string
	By     Operator
}

// BrokenLease is a grant whose lease is over.
type BrokenLease struct {
	Key    Key    `json:"key"`
	Token  Token  `json:"token"`
	Holder string `json:"holder"`
	// Broken says who ended the lease; nil when it was over by itself: given back, or run out and taken over.
	Broken *Break `json:"broken"`
	// Replayed reports that the lease was over before: the request has changed nothing.
	Replayed bool `json:"replayed,omitempty"`
}

// BreakLease ends a lease without its holder, so that others needn't wait for its end; see OperatorStore. Whoever waits in Acquire is
// granted the key within a moment, and the holder hears lease-lost at the next renewal. It fences nobody: until a newer grant has published (in
// mode granted: until there is one), what the holder publishes is accepted.
func (s *Service) BreakLease(ctx context.Context, req BreakLeaseRequest) (BrokenLease, error) {
	if err := validateReason(req.Reason); err != nil {
		return BrokenLease{}, err
	}
	if err := req.By.validate(); err != nil {
		return BrokenLease{}, err
	}
	broken, err := s.Pointers.BreakLease(ctx, req)
	s.unnumbered.raise()
	if err != nil {
		return BrokenLease{}, s.refused(ctx, err)
	}
	if !broken.Replayed {
		s.log().InfoContext(ctx, "lease_broken", "key", broken.Key, "token", broken.Token, "holder", broken.Holder, "by", string(req.By))
	}
	return broken, nil
}
