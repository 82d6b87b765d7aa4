package publish

import "context"

// Pin is why a key's pointer is kept where it is.
type Pin struct {
	Reason string   `json:"reason"`
	By     Operator `json:"by"`
	At     Time     `json:"at"`
}

// PinRequest asks to keep a key's pointer where it is.
type PinRequest struct {
	Key    Key
	Reason string
	By     Operator
	// Current is the version that the caller wants to keep, nil for whatever is current.
	Current *Version
	// PinnedAt tells which pin the caller has seen, by its time in milliseconds: zero if none, nil to replace whatever pin there is.
	PinnedAt *Time
}

// UnpinRequest asks to let a key's pointer move again.
type UnpinRequest struct {
	Key Key
	By  Operator
	// PinnedAt is when the pin was set that is to be taken away, in milliseconds; nil for whatever pin there is.
	PinnedAt *Time
}

// PinnedKey is a pin with what it keeps.
type PinnedKey struct {
	Pin
	Key     Key     `json:"key"`
	Current Version `json:"current"`
}

// Pin keeps a key's pointer where it is; see OperatorStore. Whoever works on the key keeps the lease.
func (s *Service) Pin(ctx context.Context, req PinRequest) (PinnedKey, error) {
	if err := validateReason(req.Reason); err != nil {
		return PinnedKey{}, err
	}
	if err := req.By.validate(); err != nil {
		return PinnedKey{}, err
	}
	pinned, err := s.Pointers.Pin(ctx, req)
	s.unnumbered.raise()
	return pinned, s.refused(ctx, err)
}

// Unpin lets a key's pointer move again. A key that isn't pinned is left as it is.
func (s *Service) Unpin(ctx context.Context, req UnpinRequest) error {
	if err := req.By.validate(); err != nil {
		return err
	}
	err := s.Pointers.Unpin(ctx, req)
	s.unnumbered.raise()
	return s.refused(ctx, err)
}
