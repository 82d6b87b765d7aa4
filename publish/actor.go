package publish

import (
	"context"
	"crypto/sha256"
	"fmt"
	"time"
)

// Actor says who really made a grant, a publish or a stale request. Nothing of it is what the request says of itself, as the Holder is. It is zero where servers
// ask for no credential, and for what was made before they kept it.
type Actor struct {
	// Credential is the name of the credential, or of the identity of another issuer: what the audit has in by. Who may read the key is shown it, but not who reads
	// it because it is public.
	Credential string `json:"credential,omitempty"`
	// From is the address of the client. Who has the verb admin on the key is shown it.
	From string `json:"from,omitempty"`
}

type callerKey struct{}

// WithCaller tells the calls under a context for whom they work: it stands with what they grant, publish and refuse, as an Actor, and it is shown of the actors
// of others what is his to know. The zero Caller is a public reader.
func WithCaller(ctx context.Context, caller Caller) context.Context {
	return context.WithValue(ctx, callerKey{}, caller)
}

// CallerOf returns what WithCaller has put into a context, or the zero Caller.
func CallerOf(ctx context.Context) Caller {
	caller, _ := ctx.Value(callerKey{}).(Caller) //nolint:errcheck // Nobody known is the zero Caller.
	return caller
}

// sight is what a caller is shown of actors.
type sight struct{ names, addresses Reach }

// sightOf is that of the caller of a context. Without one it is a program on the database itself, which sees everything.
func sightOf(ctx context.Context) sight {
	if ctx.Value(callerKey{}) == nil {
		return sight{Everything, Everything}
	}
	scopes := CallerOf(ctx).Scopes
	return sight{scopes.Reach(VerbRead), scopes.Reach(VerbAdmin)}
}

// narrow takes out of an actor, of a key, what isn't shown.
func (s sight) narrow(key Key, actor *Actor) {
	if !s.names.Has(key) {
		actor.Credential = ""
	}
	if !s.addresses.Has(key) {
		actor.From = ""
	}
}

func (s sight) narrowAll(key Key, rejections []Rejection) {
	for i := range rejections {
		s.narrow(key, &rejections[i].Actor)
	}
}

func (s sight) narrowGeneration(g *Generation) {
	s.narrow(g.Key, &g.Actor)
	for i := range g.Receipts {
		s.narrow(g.Key, &g.Receipts[i].Actor)
	}
	s.narrowAll(g.Key, g.Rejections)
	for i := range g.Refused {
		s.narrow(g.Key, &g.Refused[i].Actor)
	}
}

// narrowed is a receipt as the caller of a context is shown it.
func narrowed(ctx context.Context, receipt Receipt) Receipt {
	sightOf(ctx).narrow(receipt.Key, &receipt.Actor)
	return receipt
}

// GrantedTo tells who was granted what a lease id is shown for in place of a credential: a Caller that has no name and no scopes, and no id where nobody was asked.
// It is unauthorized for a lease id that is none of this very grant, and for one of a credential that was revoked. Postgres may have been asked up to 5 s ago, as by
// Authenticate.
func (s *Service) GrantedTo(ctx context.Context, grant Grant) (Caller, error) {
	id := grant.LeaseID.SHA256()
	// A key has no newline.
	hash := sha256.Sum256(fmt.Appendf(nil, "grant\n%s\n%d\n%x", grant.Key, grant.Token, id))
	return s.callers.ask(ctx, hash, s.now, func(ctx context.Context) (Caller, time.Duration, error) {
		opening, err := s.Pointers.Opens(ctx, grant)
		if err == nil && !opening.Granted {
			err = &Error{Code: ErrUnauthorized}
		}
		return Caller{Credential: opening.Caller}, callerKept, s.refused(ctx, err)
	})
}
