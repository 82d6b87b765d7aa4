package publish

import (
	"context"
	"sync"
	"time"
)

// How long it is remembered who has shown a credential, and that one opens nothing.
const (
	callerKept    = 5 * time.Second
	strangerKept  = time.Second
	maxRemembered = 10_000 // of either
)

// Authenticate tells who has shown a credential, which may be up to 5 s ago that Postgres was asked. One that isn't known, was revoked or has expired is
// unauthorized, in the same words. The Scopes are shared: don't change them.
func (s *Service) Authenticate(ctx context.Context, secret Secret) (Caller, error) {
	if secret.IsZero() {
		return Caller{}, s.refused(ctx, &Error{Code: ErrUnauthorized})
	}
	hash := Digest(secret.Hash())
	return s.callers.ask(ctx, hash, s.now, func(ctx context.Context) (Caller, time.Duration, error) {
		found, err := s.Pointers.FindCredential(ctx, hash)
		if err != nil {
			return Caller{}, 0, s.refused(ctx, err)
		}
		kept := callerKept
		if found.Left >= 0 {
			kept = min(kept, found.Left)
		}
		caller := Caller{Name: found.Name, Credential: found.ID, Scopes: found.Scopes}
		if found.ExpiresAt != nil {
			caller.Expires = *found.ExpiresAt
		}
		if found.Unnoted {
			s.noteUse(ctx, found.ID)
		}
		return caller, kept, nil
	})
}

// noteUse notes a use of a credential in Postgres, while the request goes on.
func (s *Service) noteUse(ctx context.Context, id CredentialID) {
	s.callers.note(ctx, id, func(ctx context.Context) {
		// The next look does it then.
		if err := s.Pointers.UseCredential(ctx, id); err != nil && ctx.Err() == nil {
			s.log().WarnContext(ctx, "credential_use_not_noted", "credential", string(id), "error", err)
		}
	})
}

func (s *Service) now() time.Time {
	if s.Clock == nil {
		return time.Now()
	}
	return s.Clock()
}

// callers remembers who has shown which credential, or which session. Those that open something and those that don't are kept apart, so that guesses
// drive nobody out. The zero value is ready.
type callers struct {
	mu        sync.Mutex
	known     map[Digest]remembered
	strangers map[Digest]remembered
	asked     map[Digest]*question
	// forgets counts the calls of forget: what was asked before one of them is neither remembered nor waited for.
	forgets int

	noting map[CredentialID]bool
	closed bool
	base   context.Context // of the notes
	end    func()
	group  sync.WaitGroup
}

// remembered is an answer of Postgres that holds for a while.
type remembered struct {
	caller Caller
	err    error
	until  time.Time
}

// question is one that Postgres is being asked. What it leads to may be read when done is closed.
type question struct {
	done    chan struct{}
	forgets int
	caller  Caller
	err     error
	// abandoned says that who has asked went away first: others ask anew.
	abandoned bool
}

// find asks Postgres for a caller, and tells how long the answer may be remembered.
type find func(context.Context) (_ Caller, kept time.Duration, _ error)

// ask returns what is remembered of a hash, or what find says, which is asked once at a time.
func (c *callers) ask(ctx context.Context, hash Digest, now func() time.Time, find find) (Caller, error) {
	for {
		remembered, asked, mine := c.of(hash, now())
		switch {
		case asked == nil:
			return remembered.caller, remembered.err
		case mine:
			c.look(ctx, hash, asked, now(), find)
			return asked.caller, asked.err
		}
		select {
		case <-asked.done:
			if !asked.abandoned {
				return asked.caller, asked.err
			}
		case <-ctx.Done():
			return Caller{}, ctx.Err()
		}
	}
}

// look asks, for all who wait for asked. It is remembered from before Postgres was asked on: never longer than it is good.
func (c *callers) look(ctx context.Context, hash Digest, asked *question, start time.Time, find find) {
	asked.abandoned = true // unless it comes to its end
	var until time.Time
	defer func() { c.answer(hash, asked, until) }()
	caller, kept, err := find(ctx)
	switch {
	case err == nil:
		asked.caller, until = caller, start.Add(kept)
	case refusalOf(err, ErrUnauthorized) != nil:
		until = start.Add(strangerKept)
	}
	asked.err = err
	asked.abandoned = err != nil && ctx.Err() != nil
}

// of returns what is remembered of a hash, or the question that is being asked; mine says that the caller has to ask it.
func (c *callers) of(hash Digest, now time.Time) (_ remembered, _ *question, mine bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, of := range []map[Digest]remembered{c.known, c.strangers} {
		if entry, found := of[hash]; found && now.Before(entry.until) {
			return entry, nil, false
		}
	}
	if q := c.asked[hash]; q != nil && q.forgets == c.forgets {
		return remembered{}, q, false
	}
	if c.asked == nil {
		c.known, c.strangers = map[Digest]remembered{}, map[Digest]remembered{}
		c.asked, c.noting = map[Digest]*question{}, map[CredentialID]bool{}
	}
	q := &question{done: make(chan struct{}), forgets: c.forgets}
	c.asked[hash] = q
	return remembered{}, q, true
}

// answer ends a question, and remembers what it led to until then.
func (c *callers) answer(hash Digest, q *question, until time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	close(q.done)
	if c.asked[hash] == q {
		delete(c.asked, hash)
	}
	if until.IsZero() || q.forgets != c.forgets {
		return
	}
	delete(c.known, hash)
	delete(c.strangers, hash)
	into := c.known
	if q.err != nil {
		into = c.strangers
	}
	for other := range into {
		if len(into) < maxRemembered {
			break
		}
		delete(into, other) // Whichever comes first: it costs one more question.
	}
	into[hash] = remembered{q.caller, q.err, until}
}

// forget forgets a credential, also one that Postgres is being asked about.
func (c *callers) forget(id CredentialID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.forgets++
	for hash, entry := range c.known {
		if entry.caller.Credential == id {
			delete(c.known, hash)
		}
	}
}

// forgetHash forgets what is known of one hash, also what Postgres is being asked about.
func (c *callers) forgetHash(hash Digest) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.forgets++
	delete(c.known, hash)
}

// note runs do beside the request that it came with, one at a time for a credential.
func (c *callers) note(ctx context.Context, id CredentialID, do func(context.Context)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed || c.noting[id] {
		return
	}
	if c.end == nil {
		c.base, c.end = context.WithCancel(context.Background())
	}
	c.noting[id] = true
	// The values of the request go along, not its end.
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(c.base, cancel)
	c.group.Go(func() {
		defer cancel()
		defer stop()
		do(ctx)
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.noting, id)
	})
}

// close ends the notes that are being made, and waits for them.
func (c *callers) close() {
	c.mu.Lock()
	c.closed = true
	if c.end != nil {
		c.end()
	}
	c.mu.Unlock()
	c.group.Wait()
}
