package publish

import "context"

// RetireRequest asks to take a key's pointer away.
type RetireRequest struct {
	Key    Key
	Reason string // may be empty
	By     Operator
	// BreakLease ends a lease that somebody holds; its work is stale from then on. Without it, that is lease-held.
	BreakLease bool
	// Lease is as that of RollbackRequest.
	Lease Token
	// Current is the version that the caller wants to take away, the zero Version for none, nil for whatever is current.
	Current *Version
	// RequestID names this request; see RollbackRequest.
	RequestID LeaseID
}

// Retirement is how a key came to have no pointer any more. Publishing it again revives it, under a greater token.
type Retirement struct {
	Key    Key      `json:"key"`
	Token  Token    `json:"token"`
	Reason string   `json:"reason"`
	By     Operator `json:"by"`
	At     Time     `json:"at"`
	// Previous is what was current before, nil if nothing was ever published.
	Previous *Version `json:"previous"`
	// Replayed reports that the key was retired before: the request has changed nothing.
	Replayed bool `json:"replayed,omitempty"`
}

// Retire takes a key's pointer away; see OperatorStore.
func (s *Service) Retire(ctx context.Context, req RetireRequest) (Retirement, error) {
	if req.Reason != "" {
		if err := validateReason(req.Reason); err != nil {
			return Retirement{}, err
		}
	}
	if err := req.By.validate(); err != nil {
		return Retirement{}, err
	}
	if req.RequestID.IsZero() {
		req.RequestID = NewLeaseID()
	}
	retired, err := s.Pointers.Retire(ctx, req)
	if err != nil {
		return Retirement{}, s.refused(ctx, err)
	}
	s.unnumbered.raise()
	if !retired.Replayed {
		s.log().InfoContext(ctx, "retired", "key", retired.Key, "token", retired.Token, "by", string(retired.By))
	}
	return retired, nil
}
