package web

import (
	"context"
	"errors"
	"strings"

	"github.com/pawlhq/pawl/publish"
)

// need is what a caller must be allowed before a route serves it. The zero need is none at all: no route can be made with it.
type need struct {
	verb publish.Verb
	of   subject
	// lease tells that the lease id of the URL's own generation will do.
	lease bool
}

// subject is what a route's verb must be allowed on.
type subject uint8

const (
	unsaid subject = iota
	// ofNothing: the route serves everybody.
	ofNothing
	// ofKey is the key in the route's URL.
	ofKey
	// ofAny is some keys, whichever. What the route shows is narrowed to them by call.reach, and what it changes by call.require.
	ofAny
	// ofAnyKnown is ofAny for who has shown a credential: being allowed to read what is public isn't enough.
	ofAnyKnown
)

// open needs nothing: it is for probes, and for what everybody gets with the program.
func open() need { return need{of: ofNothing} }

// needs is a verb on the key in the URL.
func needs(verb publish.Verb) need { return need{verb: verb, of: ofKey} }

// anywhere is a verb on any keys, for routes about none or many.
func anywhere(verb publish.Verb) need { return need{verb: verb, of: ofAny} }

// credential is anywhere, for callers that have shown a credential.
func credential(verb publish.Verb) need { return need{verb: verb, of: ofAnyKnown} }

// orLease is for the files of a generation: its lease id, sent in place of a credential, will do as well.
func (n need) orLease() need {
	n.lease = true
	return n
}

// admit refuses a caller who may not use a route. It asks no store about the key: whoever may not read a key learns nothing of it, not even by the time
// that an answer takes. The one question to a store is whether a lease id is that of its grant.
func (h *Handler) admit(c *call, n need) error {
	switch n.of {
	case ofNothing:
		return nil
	case ofKey:
		if n.lease && c.byLease {
			if opens, err := h.leaseOpens(c); opens || err != nil {
				return err
			}
		}
		if err := c.require(n.verb, c.key); err != nil {
			return err
		}
		if n.lease && !c.byLease && c.asked && c.reads() && !c.caller.Known() {
			// A public key. In Pawl-Lease a lease id opens what isn't published yet of it, and that ends as it does by Authorization.
			_, err := h.leaseOpens(c)
			return err
		}
		return nil
	case ofAny, ofAnyKnown:
		return c.requireAny(n)
	}
	panic("web: a route that doesn't say what it needs")
}

// require refuses a caller who may not do something to a key. Handlers ask it where the key isn't in the URL, or where the request makes it more than the
// route needs.
func (c *call) require(verb publish.Verb, key publish.Key) error {
	switch {
	case c.allowed(verb).Has(key):
		return nil
	case !c.caller.Known():
		return c.unauthorized("")
	case c.reach().Has(key):
		return c.forbidden(publish.Scope{Verb: verb, Prefix: string(key)})
	}
	return c.hidden(key)
}

// requireUnder refuses a caller who may not do something to all keys under a prefix, by the rule of publish.Scope.
func (c *call) requireUnder(verb publish.Verb, prefix string) error {
	switch {
	case c.allowed(verb).HasPrefix(prefix):
		return nil
	case !c.caller.Known():
		return c.unauthorized("")
	}
	return c.forbidden(publish.Scope{Verb: verb, Prefix: prefix})
}

func (c *call) requireAny(n need) error {
	switch {
	case !c.asked || c.caller.Known() && !c.allowed(n.verb).Empty():
		return nil
	case c.caller.Known():
		refusal := c.forbidden(publish.Scope{Verb: n.verb})
		refusal.Detail = c.caller.Name + " may not do this: it takes the verb " + n.verb.String() + ", on all keys or on some"
		return refusal
	case n.of == ofAny && !c.allowed(n.verb).Empty():
		return nil
	}
	return c.unauthorized("")
}

// allowed is the keys to which the caller may do something.
func (c *call) allowed(verb publish.Verb) publish.Reach {
	reach := c.caller.Scopes.Reach(verb)
	if verb <= publish.VerbRead {
		reach = reach.Or(c.public)
	}
	return reach
}

// hidden is the answer about a key that the caller may not read: what the same route answers about a key that never existed.
func (c *call) hidden(key publish.Key) error {
	if !c.reads() {
		return publish.NoKey(key)
	}
	switch route := c.Path(); {
	case c.token != 0:
		return publish.NoGeneration(key, c.token)
	case route == keyPattern, strings.HasPrefix(route, keyPattern+"/-/current"):
		return publish.NoPointer(key)
	}
	return publish.NoKey(key)
}

// forbidden names the scope that the caller lacks.
func (c *call) forbidden(scope publish.Scope) *publish.Error {
	return &publish.Error{
		Code: publish.ErrForbidden, Scope: scope.String(),
		Detail: c.caller.Name + " may not do this: it takes the scope " + scope.String() + ", or one that includes it",
	}
}

// recordRefusal puts into the audit that somebody who is known asked for what he may not have. The refusal holds whatever comes of that, also when he has left.
func (h *Handler) recordRefusal(c *call, r route, refusal error) {
	denied, isRefusal := errors.AsType[*publish.Error](refusal)
	if !isRefusal || !c.caller.Known() {
		return
	}
	ctx := context.WithoutCancel(c.Request().Context())
	err := h.service.RecordRefusal(ctx, publish.RefusedAction{
		By: publish.Operator(c.caller.Name), Action: r.action(), Subject: string(c.key), Code: denied.Code,
	})
	if err != nil {
		h.log.WarnContext(ctx, "refusal_not_audited", "by", c.caller.Name, "action", r.action(), "error", err)
	}
}

// action is what a request to a route is called in the audit when it is refused: its method and what its pattern says of a key, or the pattern.
func (r route) action() string {
	for _, of := range []string{keysRoot + "/{key}/-/", keyPages + "/{key}/-/"} {
		if tail, found := strings.CutPrefix(r.pattern, of); found {
			return r.method + " " + tail
		}
	}
	return r.method + " " + r.pattern
}
