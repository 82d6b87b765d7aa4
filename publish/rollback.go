package publish

import "context"

// MaxReasonBytes bounds the reason of a rollback, a pin, a retirement or a broken lease.
const MaxReasonBytes = 500

// Operator is who does something to a key without being its worker, e.g. "mia@ws-12": shown in history and audit. 1 to
// MaxHolderBytes.
type Operator string

// RollbackRequest asks to publish an earlier version's files again.
type RollbackRequest struct {
	Key Key
	// To is the version to bring back. Revision 0 is the last one that its generation has published. It may be the current one: then
	// only whoever works on the key is fenced.
	To     Version
	Reason string
	By     Operator
	// BreakLease ends a lease that somebody holds; its work is stale from then on. Without it, that is lease-held.
	BreakLease bool
	// Lease is the grant whose lease BreakLease may end, 0 for whatever grant has one: the caller didn't see that of another, which is lease-held.
	Lease Token
	// Pin also pins the key to what was brought back, for the same reason. A pin that is there moves along.
	Pin bool
	// Current is the version that the caller takes for the current one, the zero Version for none, nil for whatever is.
	Current *Version
	// PinnedAt is as that of PinRequest.
	PinnedAt *Time
	// RequestID names this request, so that one whose answer was lost can be repeated without a second rollback. Another request needs
	// another one. If it is zero the Service draws one.
	RequestID LeaseID
}

// The kinds of generations that no worker was granted.
const (
	KindRollback = "rollback"
	KindRetire   = "retire"
)

// OperatorStore is the part of PointerStore that changes pointers for people. Each call is one transaction that has locked the key before
// it decides, and leaves a row in the audit when it has changed something.
type OperatorStore interface {
	// Rollback grants the key a new token, by the rules of Acquire but without a lease, and publishes the files of an earlier version under
	// it: final, by reference, with that version's manifest, primary file, metadata and source revision. It checks: that the
	// key exists (not-found); whether RequestID has made this rollback before (then it returns that receipt, Replayed) or was used for
	// another request (invalid-request; BreakLease and By make it no other one); Current and PinnedAt (precondition-failed); that the version isn't given up (generation-collected) and was published (not-found, with
	// Operation "rollback"); the pin (pinned, unless Pin); the lease (lease-held, unless BreakLease); token-exhausted.
	// older-source isn't asked.
	Rollback(ctx context.Context, req RollbackRequest) (Receipt, error)
	// Retire grants the key a new token likewise and takes its pointer away: the key reads as retired until it is published again. Its
	// counter, history and files stay. A key that is retired and was granted to nobody since answers with that retirement,
	// Replayed, as does a repeated RequestID; that of another request is refused as by Rollback. With Current, another
	// version that is current, or none, is precondition-failed. A pinned key is refused.
	Retire(ctx context.Context, req RetireRequest) (Retirement, error)
	// Pin keeps the pointer where it is: publishes and retirements are refused as pinned, and rollbacks that don't pin. It takes no
	// token. A key without a pointer is not-found or retired; with Current, a pointer that has moved is
	// precondition-failed, and so is with PinnedAt the pin of another time, unless it has this very reason and operator. The same reason
	// again changes nothing, another one replaces the pin.
	Pin(ctx context.Context, req PinRequest) (PinnedKey, error)
	// Unpin takes the pin away. A key that has none is left as it is; one that never was is not-found. With PinnedAt, the pin of another time
	// is precondition-failed.
	Unpin(ctx context.Context, req UnpinRequest) error
	// BreakLease ends the lease of the grant with that token, also one that has run out and that nobody has taken over. The grant stays what it is in all
	// else; its renewals are lease-lost and say who broke the lease. A lease that is over already is left as it is (Replayed), but
	// precondition-failed while another grant's lease runs, unless it was broken before. A token of which there is no grant is unknown-token
	// above the counter, else not-found.
	BreakLease(ctx context.Context, req BreakLeaseRequest) (BrokenLease, error)
}

// Rollback publishes an earlier version's files again; see OperatorStore.
func (s *Service) Rollback(ctx context.Context, req RollbackRequest) (Receipt, error) {
	if err := validateReason(req.Reason); err != nil {
		return Receipt{}, err
	}
	if err := req.By.validate(); err != nil {
		return Receipt{}, err
	}
	if req.RequestID.IsZero() {
		req.RequestID = NewLeaseID()
	}
	receipt, err := s.Pointers.Rollback(ctx, req)
	if err != nil {
		return Receipt{}, s.refused(ctx, err)
	}
	s.unnumbered.raise()
	if !receipt.Replayed {
		s.log().InfoContext(ctx, "rolled_back", "key", receipt.Key, "token", receipt.Token, "to", req.To.String(), "by", string(req.By), "pin", req.Pin)
	}
	s.observe().Published(receipt)
	s.mark(ctx, receipt)
	return narrowed(ctx, receipt), nil
}

func validateReason(reason string) error {
	switch {
	case reason == "":
		return invalid("/reason", "is missing; say why, for those who look at the key later")
	case len(reason) > MaxReasonBytes:
		return invalid("/reason", "is longer than %d bytes; shorten it", MaxReasonBytes)
	case textFault(reason) != "":
		return invalid("/reason", "%s", textFault(reason))
	}
	return nil
}

// HeaderBy names the operator of a request; it is "unknown" where the header is absent.
const HeaderBy = "Pawl-By"

func (o Operator) validate() error {
	switch {
	case o == "" || len(o) > MaxHolderBytes:
		return invalid(HeaderBy, "must have 1 to %d bytes", MaxHolderBytes)
	case textFault(string(o)) != "":
		return invalid(HeaderBy, "%s", textFault(string(o)))
	}
	return nil
}
