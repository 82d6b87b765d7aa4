package web

import (
	"context"
	"errors"
	"strings"

	"github.com/pawlhq/pawl/publish"
)

// Verify finds out who shows a token that an issuer other than Pawl has signed. Its error is an *publish.Error: of kind unauthorized for one that isn't
// good, with a Detail that may be shown and holds nothing of it, forbidden for a good one that allows nothing. It is called for each request, and again while
// one lasts, from many goroutines at once.
type Verify func(ctx context.Context, token string) (publish.Caller, error)

// proof is what a request shows of who makes it. The zero proof is nothing.
type proof struct {
	// ask finds out who that is.
	ask func(context.Context) (publish.Caller, error)
	// token tells that it is a token of another issuer.
	token bool
}

// proofOf reads a credential, or a token where such are accepted. The error says what is wrong with its form, and holds nothing of it.
func (h *Handler) proofOf(text string) (proof, error) {
	// A JSON Web Token has three parts; a credential is one.
	if h.verify != nil && strings.Count(text, ".") == 2 {
		return proof{ask: func(ctx context.Context) (publish.Caller, error) { return h.verify(ctx, text) }, token: true}, nil
	}
	secret, err := publish.ParseSecret(text)
	if err != nil {
		return proof{}, err
	}
	return proof{ask: func(ctx context.Context) (publish.Caller, error) { return h.authenticate(ctx, secret) }}, nil
}

// fault is what may be said of a refused proof. All credentials that are no good are the same; why a token isn't is known to who has it made.
func (p proof) fault(err error) string {
	if refusal, isRefusal := errors.AsType[*publish.Error](err); isRefusal && p.token {
		return refusal.Detail
	}
	return ""
}

// watched reports whether the proof of a request is looked at again while it lasts. Tokens aren't revoked, they run out, after minutes with some issuers: that must
// not end a long upload, which a new token can't go on with. Reading ends, and goes on with a new one.
func (c *call) watched() bool {
	return c.opened || c.caller.Known() && (c.reads() || !c.proof.token)
}
