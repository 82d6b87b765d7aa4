package publishtest

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/pawlhq/pawl/publish"
)

// effectRow is one effect of a key.
type effectRow struct {
	publish.Effect
	asked []publish.EffectToken // by token, at most publish.MaxEffectTokens
}

// effectPrefix is what the idempotency keys of a key begin with, in this store.
func (p *Pointers) effectPrefix(key publish.Key) string {
	sum := sha256.Sum256([]byte(p.installation + "\n" + string(key)))
	return fmt.Sprintf("pawl-%x-", sum[:16])
}

// Effect records that a grant asks for an effect; see publish.EffectStore.
func (p *Pointers) Effect(ctx context.Context, req publish.EffectRequest) (publish.Effect, error) {
	return transact(ctx, p, "Effect", req.Grant.Key, func(now time.Time) (publish.Effect, error) {
		r := request{req.Grant, publish.OperationEffect, publish.Path(req.Name)}
		k, g, err := p.checkGrant(now, r)
		if err != nil {
			return publish.Effect{}, err
		}
		if err := p.checkFence(now, r, k, g); err != nil && !errors.Is(err, publish.ErrGenerationSealed) {
			return publish.Effect{}, err
		}
		e := k.effects[req.Name]
		if e == nil {
			e = &effectRow{Effect: publish.Effect{
				Key: k.key, Name: req.Name, IdempotencyKey: p.effectPrefix(k.key) + string(req.Name), State: publish.EffectPending,
				FirstToken: g.token, FirstAt: at(now),
			}}
			if k.effects == nil {
				k.effects = map[publish.EffectName]*effectRow{}
			}
			k.effects[req.Name] = e
		}
		e.ask(g, now, req)
		answer := e.copy()
		answer.SupersededBy, answer.Tokens = k.supersededBy(g.token), nil
		return answer, nil
	})
}

// ask records what a grant has asked.
func (e *effectRow) ask(g *generation, now time.Time, req publish.EffectRequest) {
	if g.token > e.Token {
		e.Token, e.AskedAt = g.token, at(now)
	}
	i, found := slices.BinarySearchFunc(e.asked, g.token, func(a publish.EffectToken, token publish.Token) int { return int(a.Token - token) })
	if !found {
		e.asked = slices.Insert(e.asked, i, publish.EffectToken{Token: g.token, Holder: g.holder, AskedAt: at(now)})
	}
	if req.State == publish.EffectDone {
		if e.asked[i].DoneAt == nil {
			e.asked[i].DoneAt = new(at(now))
		}
		if e.State != publish.EffectDone {
			e.State, e.DoneToken, e.DoneAt, e.Result = publish.EffectDone, g.token, new(at(now)), req.Result
		}
	}
	e.asked = e.asked[max(0, len(e.asked)-publish.MaxEffectTokens):]
}

// copy is the effect as a listing shows it, the caller's own.
func (e *effectRow) copy() publish.Effect {
	effect := e.Effect
	effect.DoneAt = clone(e.DoneAt)
	for _, asked := range slices.Backward(e.asked) {
		asked.DoneAt = clone(asked.DoneAt)
		effect.Tokens = append(effect.Tokens, asked)
	}
	return effect
}

// Effects returns one page of a key's effects; see publish.EffectStore.
func (p *Pointers) Effects(ctx context.Context, key publish.Key, after publish.EffectName, limit int) (publish.EffectPage, error) {
	return transact(ctx, p, "Effects", key, func(time.Time) (publish.EffectPage, error) {
		k := p.keys[key]
		if k == nil {
			return publish.EffectPage{}, notFound(key)
		}
		names := slices.Sorted(maps.Keys(k.effects))
		names = slices.DeleteFunc(names, func(name publish.EffectName) bool { return name <= after })
		names, more := page(names, limitOr(limit))
		result := publish.EffectPage{Effects: []publish.Effect{}}
		for _, name := range names {
			result.Effects = append(result.Effects, k.effects[name].copy())
		}
		if more {
			result.Next = names[len(names)-1]
		}
		return result, nil
	})
}

// assertEffects checks that what is done stays done, under the same idempotency key and by the same token.
func (k *keyRow) assertEffects(must func(bool, string, ...any)) {
	for name, e := range k.effects {
		must(e.Token >= e.FirstToken && e.DoneToken <= e.Token, "effect %q was asked for by %d, then %d, and done by %d", name, e.FirstToken, e.Token, e.DoneToken)
		must(len(e.asked) <= publish.MaxEffectTokens, "effect %q keeps %d tokens", name, len(e.asked))
		before, seen := k.seen.effects[name]
		must(!seen || before.IdempotencyKey == e.IdempotencyKey && before.FirstToken == e.FirstToken, "the idempotency key of effect %q changed", name)
		must(!seen || before.State != publish.EffectDone || e.State == publish.EffectDone && before.DoneToken == e.DoneToken && before.Result == e.Result,
			"effect %q was done and isn't any more", name)
		k.seen.effects[name] = e.Effect
	}
	must(len(k.effects) == len(k.seen.effects), "an effect vanished")
}
