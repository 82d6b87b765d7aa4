package publish

import (
	"context"
	"time"
)

// Limits of a lease.
const (
	MinTTL         = 100 * time.Millisecond
	MaxTTL         = 24 * time.Hour
	MaxWait        = time.Hour
	MaxHolderBytes = 200
	MaxLabels      = 16
	MaxLabelBytes  = 200
)

// AcquireRequest asks for the lease of a key.
type AcquireRequest struct {
	Key Key
	// Holder says who asks, for people: a job, host or render node. 1 to 200 bytes.
	Holder string
	// TTL is how long the lease lasts unless it is renewed, from MinTTL to MaxTTL.
	TTL time.Duration
	// Wait is how long to wait for a lease that another holder has, at most MaxWait; 0 answers lease-held at once.
	Wait time.Duration
	// LeaseID names the grant. A client that draws it can repeat a request whose answer was lost. If it is
	// zero the Service draws one.
	LeaseID LeaseID
	// Labels are shown with the generation, e.g. a job number. At most 16 of 200 bytes each.
	Labels map[string]string
	// MaxLeases is how many leases the caller (see WithCaller) may hold open with it, where one is known; 0 is no limit. A server sets it: clients
	// leave it out.
	MaxLeases int64
}

// UnitLeases is the Unit of a Limit that counts leases.
const UnitLeases = "leases"

// Lease is a time-limited grant of a key to a holder, with its fencing token.
type Lease struct {
	Key   Key   `json:"key"`
	Token Token `json:"token"`
	// LeaseID is set only in the answer to the holder itself.
	LeaseID LeaseID `json:"lease_id,omitzero"`
	Holder  string  `json:"holder"`
	// Held reports whether the lease is running: neither released nor expired.
	Held      bool  `json:"held"`
	TTLMillis int64 `json:"ttl_ms"`
	// ExpiresAt and ServerTime are by the database's clock. A client doesn't compare them with its own clock: it
	// counts TTLMillis on its monotonic clock from the moment that it sent the request. ExpiresAt is nil once
	// the lease was released.
	ExpiresAt  *Time `json:"expires_at"`
	ServerTime Time  `json:"server_time"`
	// Superseded is the newest token of the key when that is not this grant's.
	Superseded *Token            `json:"superseded"`
	Current    *Version          `json:"current"`
	Labels     map[string]string `json:"labels,omitempty"`
	// TokensLeft is how many tokens the key has left once less than a tenth of them is, else 0: time to move to another key.
	TokensLeft int64 `json:"tokens_left,omitempty"`
	// Replayed reports that this grant had been made before: the request was a repeat with its own lease_id.
	Replayed bool `json:"replayed,omitempty"`
	// EffectPrefix and the name of an effect together are the effect's idempotency key: the same for every grant of the key, for
	// ever. A worker that puts them together by itself asks no fence and leaves no record; see Effect.
	EffectPrefix string `json:"effect_prefix,omitempty"`
}

// TTL is how long the lease lasts from the moment that its request was sent.
func (l Lease) TTL() time.Duration { return time.Duration(l.TTLMillis) * time.Millisecond }

// Grant is how a worker names what it was granted: every changing call carries all three. The token alone
// doesn't do, since after a lost failover two grants may share a number.
type Grant struct {
	Key     Key
	Token   Token
	LeaseID LeaseID
}

// LeaseStore is the part of PointerStore that grants keys. All times are read from the database's clock after
// the key's row is locked, so a grant that waited for the lock has its whole TTL. Each call is one transaction.
type LeaseStore interface {
	// Acquire grants the key with a token greater than every earlier one, or returns lease-held (with holder,
	// token, expiry) while another grant runs. Wait is not its business. The current grant's own LeaseID
	// returns that grant with a new whole TTL; the LeaseID of an earlier grant is lease-lost. A current grant whose generation was given up is
	// generation-collected, and its lease ends with that answer, so that the key can be acquired anew. The first grant
	// after the database was restored or promoted raises the epoch, so that tokens of a lost history stay
	// below. At the end of the counter it returns token-exhausted. A free key that would be one lease too many for the caller is quota-exceeded (with Limit,
	// Unit and Operation). All leases of a caller count that run, whichever server granted them; grants at the same moment may get past the limit, and
	// renewals always do. The generation keeps for ever who was granted it, which a repeat doesn't change. A lease that was granted to a credential which was
	// revoked since doesn't keep the key from who asks: it ends then.
	Acquire(ctx context.Context, req AcquireRequest) (Lease, error)
	// Renew extends the lease to ttl from now, also when it has expired but nobody was granted the key
	// since. ttl 0 keeps the lease's own. A superseded or released grant is lease-lost. The newest one whose generation was given up
	// is generation-collected, as by Acquire.
	Renew(ctx context.Context, key Key, id LeaseID, ttl time.Duration) (Lease, error)
	// Release ends the lease. Releasing a grant that was released or superseded changes nothing and is no error; an id
	// that never was a grant of this key is lease-lost. Counter and generation stay.
	Release(ctx context.Context, key Key, id LeaseID) error
	// Lease tells the key's newest grant, held or not, without its LeaseID; not-found if the key was never granted.
	Lease(ctx context.Context, key Key) (Lease, error)
	// Opens tells what the lease id of a grant is good for by itself. A grant that never was opens nothing, which is no error; nor does one of a credential that was
	// revoked. One of a credential that has expired goes on.
	Opens(ctx context.Context, grant Grant) (Opening, error)
}

// Opening is what a lease id opens, for who has nothing else to show.
type Opening struct {
	// Granted reports that the lease id is that of this very grant: of this token of this key.
	Granted bool `json:"granted"`
	// Open reports that its generation also takes files still: it is neither sealed nor given up, and no newer grant has fenced it.
	Open bool `json:"open"`
	// Caller is who was granted it, "" where nobody was asked.
	Caller CredentialID `json:"caller"`
}

// validate checks the request's fields and names the first wrong one.
func (r AcquireRequest) validate() error {
	switch {
	case r.Holder == "":
		return invalid("/holder", "is missing; say who works on the key, e.g. a host name or job number")
	case len(r.Holder) > MaxHolderBytes:
		return invalid("/holder", "is longer than %d bytes; shorten it", MaxHolderBytes)
	case textFault(r.Holder) != "":
		return invalid("/holder", "%s", textFault(r.Holder))
	case r.Wait < 0 || r.Wait > MaxWait:
		return invalid("/wait", "must be from 0s to %s", MaxWait)
	case len(r.Labels) > MaxLabels:
		return invalid("/labels", "has more than %d entries; remove some", MaxLabels)
	}
	for name, value := range r.Labels {
		if name == "" || len(name) > MaxLabelBytes || len(value) > MaxLabelBytes || textFault(name) != "" || textFault(value) != "" {
			return invalid("/labels", "names and values are printable UTF-8 of at most %d bytes, names not empty", MaxLabelBytes)
		}
	}
	return validateTTL(r.TTL)
}

func validateTTL(ttl time.Duration) error {
	if ttl < MinTTL || ttl > MaxTTL {
		return invalid("/ttl", `must be from %s to %s, e.g. "30s"`, MinTTL, MaxTTL)
	}
	return nil
}

// waitPoll is how often a waiting Acquire looks again while the lease it waits for runs on. A released lease is
// noticed within it; an expiring one at its expiry.
const waitPoll = 250 * time.Millisecond

// Acquire grants a key. While another holder has it, Acquire waits up to req.Wait and then returns lease-held. A
// waiter whose context ends is out of the queue; the TTL of a waiter counts from its grant.
func (s *Service) Acquire(ctx context.Context, req AcquireRequest) (Lease, error) {
	if err := req.validate(); err != nil {
		return Lease{}, err
	}
	if req.LeaseID.IsZero() {
		req.LeaseID = NewLeaseID()
	}
	deadline := time.Now().Add(req.Wait)
	for {
		lease, err := s.Pointers.Acquire(ctx, req)
		if err == nil {
			if lease.warnOfTokens(); lease.TokensLeft > 0 {
				s.log().WarnContext(ctx, "tokens_running_out", "key", lease.Key, "token", lease.Token, "left", lease.TokensLeft)
			}
			s.observe().Granted(lease)
			return lease, nil
		}
		held := refusalOf(err, ErrLeaseHeld)
		left := time.Until(deadline)
		if held == nil || left <= 0 {
			return Lease{}, s.refused(ctx, err)
		}
		pause := min(waitPoll, left, time.Duration(held.RetryAfterMillis+1)*time.Millisecond)
		select {
		case <-ctx.Done():
			return Lease{}, ctx.Err()
		case <-time.After(pause):
		}
	}
}

// tokensWarnAt is the token from which on a key's grants say how many are left: 90 % of all.
const tokensWarnAt = MaxToken / 10 * 9

func (l *Lease) warnOfTokens() {
	if l.Token >= tokensWarnAt {
		l.TokensLeft = int64(MaxToken - l.Token)
	}
}

// Renew extends a lease; see LeaseStore. ttl 0 keeps the lease's own.
func (s *Service) Renew(ctx context.Context, key Key, id LeaseID, ttl time.Duration) (Lease, error) {
	if ttl != 0 {
		if err := validateTTL(ttl); err != nil {
			return Lease{}, err
		}
	}
	lease, err := s.Pointers.Renew(ctx, key, id, ttl)
	return lease, s.refused(ctx, err)
}

// Release ends a lease; see LeaseStore.
func (s *Service) Release(ctx context.Context, key Key, id LeaseID) error {
	return s.refused(ctx, s.Pointers.Release(ctx, key, id))
}

// Lease tells who holds a key.
func (s *Service) Lease(ctx context.Context, key Key) (Lease, error) {
	lease, err := s.Pointers.Lease(ctx, key)
	return lease, s.refused(ctx, err)
}

// Opens tells what a lease id is good for by itself; see LeaseStore.
func (s *Service) Opens(ctx context.Context, grant Grant) (Opening, error) {
	opening, err := s.Pointers.Opens(ctx, grant)
	return opening, s.refused(ctx, err)
}
