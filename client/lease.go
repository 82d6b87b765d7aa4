package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/pawlhq/pawl/publish"
)

// maxAcquireWait is how long one request waits for a lease: proxies cut longer ones off. A longer wait is made of several requests
// with one lease_id.
const maxAcquireWait = 25 * time.Second

// abandonTimeout bounds the release of a grant whose answer nobody waits for any more.
const abandonTimeout = 2 * time.Second

// Lease is a grant as its holder has it. What Acquire, Renew and Run give can also upload and publish; see Upload, UploadFile and Publish. It may be
// copied, and used from many goroutines at once.
type Lease struct {
	publish.Lease
	// Sent is when the request was sent that the lease's time counts from, on this process's monotonic clock: the
	// server's own count began later, so the lease lasts at least until Sent plus its TTL. Remaining also counts the time that
	// the machine was suspended since, which that clock leaves out.
	Sent time.Time `json:"-"`

	sent   moment   // the same by the Client's clock; none in a Lease that was put together by hand
	client *Client  // likewise
	run    *running // nil outside of Run
}

// Grant is how the changing calls name the lease.
func (l Lease) Grant() publish.Grant {
	return publish.Grant{Key: l.Key, Token: l.Token, LeaseID: l.LeaseID}
}

// Remaining is how long the lease lasts still by the own clock; negative when it has run out. Time that the machine was suspended counts.
// In the work of Run it counts from the last renewal.
func (l Lease) Remaining() time.Duration {
	if l.run != nil {
		l = l.run.keeper.Lease()
	}
	return l.TTL() - l.age()
}

// age is how long ago the lease's time began.
func (l Lease) age() time.Duration {
	if l.sent.clock == nil {
		return time.Since(l.Sent)
	}
	return l.sent.age()
}

// sentBy begins the lease's time, with a request of c.
func (l *Lease) sentBy(c *Client) { l.Sent, l.sent, l.client = time.Now(), c.clock.now(), c }

// Acquire asks for the lease of a key, and waits for it up to req.Wait. It draws the lease_id unless req has one, so that a
// request whose answer was lost can be repeated. When it gives up without an answer it tries to release what it may have been granted.
func (c *Client) Acquire(ctx context.Context, req publish.AcquireRequest) (Lease, error) {
	own := req.LeaseID.IsZero()
	deadline := time.Now().Add(req.Wait)
	if own {
		req.LeaseID = publish.NewLeaseID()
	}
	for again := 0; ; {
		left := max(time.Until(deadline), 0)
		req.Wait = min(left, maxAcquireWait)
		lease, err := c.acquireOnce(ctx, req)
		switch {
		case err == nil:
			return c.settle(ctx, lease)
		case errors.Is(err, publish.ErrLeaseHeld) && left > req.Wait:
			continue // one request's wait is over, the caller's isn't
		case own && GrantIsOver(err) && again < 3:
			// The answer to an earlier attempt was lost for so long that its grant was superseded or given up: begin anew.
			again++
			req.LeaseID = publish.NewLeaseID()
			continue
		case own && (errors.Is(err, publish.ErrOutcomeUnknown) || ctx.Err() != nil):
			c.abandon(ctx, req.Key, req.LeaseID)
		}
		return Lease{}, err
	}
}

func (c *Client) acquireOnce(ctx context.Context, req publish.AcquireRequest) (Lease, error) {
	var lease Lease
	body := struct {
		Holder  string            `json:"holder"`
		TTL     string            `json:"ttl"`
		Wait    string            `json:"wait,omitempty"`
		Labels  map[string]string `json:"labels,omitempty"`
		LeaseID publish.LeaseID   `json:"lease_id"`
	}{Holder: req.Holder, TTL: req.TTL.String(), Labels: req.Labels, LeaseID: req.LeaseID}
	if req.Wait > 0 {
		body.Wait = req.Wait.String()
	}
	err := c.do(ctx, call{
		what: "acquire", method: http.MethodPost, url: c.keyURL(req.Key, "lease", nil), body: body,
		into: &lease.Lease, wait: req.Wait, changes: true, sent: func() { lease.sentBy(c) },
	})
	if err != nil {
		return Lease{}, err
	}
	lease.LeaseID = req.LeaseID
	return lease, nil
}

// settle renews a grant that came late. The TTL of one that waited in the server counts from its grant, and
// how long ago that was can't be told by the own clock; a renewal puts both clocks together again. It isn't repeated: meanwhile the lease would
// run out.
func (c *Client) settle(ctx context.Context, lease Lease) (Lease, error) {
	if lease.age() < lease.TTL()/3 {
		return lease, nil
	}
	once, cancel := context.WithTimeout(ctx, renewalLimit(lease))
	defer cancel()
	renewed, err := c.renewOnce(once, lease)
	if GrantIsOver(err) {
		return Lease{}, err
	}
	if err != nil {
		return lease, nil // granted all the same; whoever keeps it renews at once
	}
	return renewed, nil
}

// renewalLimit is how long a renewal may take that leaves time for others: a third of the TTL.
func renewalLimit(lease Lease) time.Duration { return max(lease.TTL()/3, 250*time.Millisecond) }

// renewOnce sends one renewal, and repeats nothing.
func (c *Client) renewOnce(ctx context.Context, lease Lease) (Lease, error) {
	var renewed Lease
	call := c.renewal(lease.Key, lease.LeaseID, 0, &renewed)
	body, err := json.Marshal(call.body)
	if err != nil {
		return Lease{}, err
	}
	err = c.once(ctx, call, body)
	var answer *answerError
	switch {
	case errors.As(err, &answer) && !answer.foreign:
		return Lease{}, answer.refusal
	case err != nil:
		return Lease{}, fmt.Errorf("renew: %w", err)
	}
	renewed.LeaseID = lease.LeaseID
	return renewed, nil
}

// abandon releases a grant that may have been made for a caller who is gone. Failing that, it expires.
func (c *Client) abandon(ctx context.Context, key publish.Key, id publish.LeaseID) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), abandonTimeout)
	defer cancel()
	_ = c.once(ctx, c.release(key, id), nil) //nolint:errcheck // The TTL ends it otherwise.
}

// Renew extends a lease to ttl from now; 0 keeps the lease's own TTL. A lease that has expired can be renewed until
// another grant replaces it; then the error is lease-lost. When its generation was given up meanwhile, it is generation-collected.
func (c *Client) Renew(ctx context.Context, key publish.Key, id publish.LeaseID, ttl time.Duration) (Lease, error) {
	var lease Lease
	call := c.renewal(key, id, ttl, &lease)
	if err := c.do(ctx, call); err != nil {
		return Lease{}, err
	}
	lease.LeaseID = id
	return lease, nil
}

func (c *Client) renewal(key publish.Key, id publish.LeaseID, ttl time.Duration, into *Lease) call {
	var body struct {
		TTL string `json:"ttl,omitempty"`
	}
	if ttl != 0 {
		body.TTL = ttl.String()
	}
	return call{
		what: "renew", method: http.MethodPatch, url: c.keyURL(key, "lease", nil), lease: id, body: body,
		into: &into.Lease, changes: true, sent: func() { into.sentBy(c) },
	}
}

// Release gives a lease back. Releasing one that was released or superseded is no error.
func (c *Client) Release(ctx context.Context, key publish.Key, id publish.LeaseID) error {
	return c.do(ctx, c.release(key, id))
}

func (c *Client) release(key publish.Key, id publish.LeaseID) call {
	return call{what: "release", method: http.MethodDelete, url: c.keyURL(key, "lease", nil), lease: id, changes: true}
}

// Lease tells who holds a key, or held it last; not-found if it was never granted.
func (c *Client) Lease(ctx context.Context, key publish.Key) (publish.Lease, error) {
	var lease publish.Lease
	err := c.do(ctx, call{what: "lease", method: http.MethodGet, url: c.keyURL(key, "lease", nil), into: &lease})
	return lease, err
}
