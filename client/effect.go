package client

import (
	"context"
	"fmt"
	"iter"
	"net/http"
	"net/url"

	"github.com/pawlhq/pawl/publish"
)

// Effect gives the idempotency key to send a third party for one effect, e.g. "invoice-52", and records that the grant asked. The key is
// the same for every grant, so that a stalled worker and its successor together have one effect. If the answer's State is
// publish.EffectDone, somebody has had it already: there is nothing to send, and Result is what came of it. A fenced grant is refused
// with stale-token. Repeating the call is safe.
func (c *Client) Effect(ctx context.Context, grant publish.Grant, name publish.EffectName) (publish.Effect, error) {
	return c.effect(ctx, publish.EffectRequest{Grant: grant, Name: name, State: publish.EffectPending})
}

// EffectDone notes that the third party has carried an effect out, and what it answered: at most publish.MaxEffectResultBytes, e.g. its
// id of a charge. The first note stands; the answer tells which that was. A sealed generation may still note it, a fenced one may not:
// its successor will.
func (c *Client) EffectDone(ctx context.Context, grant publish.Grant, name publish.EffectName, result string) (publish.Effect, error) {
	return c.effect(ctx, publish.EffectRequest{Grant: grant, Name: name, State: publish.EffectDone, Result: result})
}

func (c *Client) effect(ctx context.Context, req publish.EffectRequest) (publish.Effect, error) {
	if _, err := publish.ParseEffectName(string(req.Name)); err != nil {
		return publish.Effect{}, err // A proxy could make another URL of such a name.
	}
	body := struct {
		State  publish.EffectState `json:"state"`
		Result string              `json:"result,omitempty"`
	}{req.State, req.Result}
	var effect publish.Effect
	err := c.do(ctx, call{
		what: "effect", method: http.MethodPost, lease: req.Grant.LeaseID, body: body, into: &effect, changes: true,
		url: c.keyURL(req.Grant.Key, generationPath(req.Grant.Token)+"/effects/"+escapeName(string(req.Name)), nil),
	})
	return effect, err
}

// Effects returns one page of a key's effects in order of their names, after a name ("" for the first page), with the tokens that asked.
// limit 0 leaves the size of the page to the server.
func (c *Client) Effects(ctx context.Context, key publish.Key, after publish.EffectName, limit int) (publish.EffectPage, error) {
	query := url.Values{}
	if after != "" {
		query.Set("after", string(after))
	}
	setLimit(query, limit)
	var page publish.EffectPage
	err := c.do(ctx, call{what: "effects", method: http.MethodGet, url: c.keyURL(key, "effects", query), into: &page})
	return page, err
}

// AllEffects yields all effects of a key in order of their names, and stops at the first error. It asks for a page at a time.
func (c *Client) AllEffects(ctx context.Context, key publish.Key) iter.Seq2[publish.Effect, error] {
	return func(yield func(publish.Effect, error) bool) {
		for after := publish.EffectName(""); ; {
			page, err := c.Effects(ctx, key, after, publish.MaxPageSize)
			if err == nil && page.Next != "" && page.Next <= after {
				err = fmt.Errorf("effects of %s: the server's pages don't go on after %q", key, after)
			}
			if err != nil {
				yield(publish.Effect{}, err)
				return
			}
			for _, effect := range page.Effects {
				if !yield(effect, nil) {
					return
				}
			}
			if after = page.Next; after == "" {
				return
			}
		}
	}
}
