package publish

import (
	"context"
	"strings"
	"unicode/utf8"
)

// Limits of effects.
const (
	MaxEffectNameBytes   = 128
	MaxEffectResultBytes = 1024
	// MaxEffectTokens is how many of the tokens that asked for an effect are kept and shown, the greatest.
	MaxEffectTokens = 20
)

// EffectName names one thing that work on a key does to a third party, once and for ever: a charge, an order, a mail. It carries the
// business identity ("invoice-52"), never that of an attempt. Make one with ParseEffectName.
type EffectName string

// ParseEffectName checks that name is a legal name of an effect: 1 to 128 of the characters A-Z a-z 0-9 . _ ~ : @ + = , - since it
// becomes a part of a header of third parties, and not "." or "..". The error is an *Error of kind invalid-request.
func ParseEffectName(name string) (EffectName, error) {
	switch {
	case name == "":
		return "", invalid("name", "is empty; give the effect a name of 1 to %d characters", MaxEffectNameBytes)
	case len(name) > MaxEffectNameBytes:
		return "", invalid("name", "is longer than %d characters; shorten it, e.g. to a hash", MaxEffectNameBytes)
	case name == "." || name == "..":
		return "", invalid("name", "must not be %q, which is lost in URLs; give the effect another name", name)
	case strings.ContainsFunc(name, illegalInEffectName):
		return "", invalid("name", "has a character that isn't one of A-Z a-z 0-9 . _ ~ : @ + = , - and so may not pass through a third party's header; replace it")
	}
	return EffectName(name), nil
}

func illegalInEffectName(r rune) bool {
	alphanumeric := 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9'
	return !alphanumeric && !strings.ContainsRune("._~:@+=,-", r)
}

// EffectState is how far an effect is.
type EffectState string

// The states of an effect: somebody has asked for its idempotency key, and somebody has said that it is done. It never goes back.
const (
	EffectPending EffectState = "pending"
	EffectDone    EffectState = "done"
)

// EffectRequest asks for the idempotency key of an effect, or says that the effect is done.
type EffectRequest struct {
	Grant Grant
	Name  EffectName
	// State is EffectPending to ask, EffectDone to say that it is done.
	State EffectState
	// Result is what the third party answered, e.g. its id of a charge: at most MaxEffectResultBytes of UTF-8 without NUL, only with
	// EffectDone, "" for none.
	Result string
}

// Effect is one thing that work on a key does to a third party, with the idempotency key by which that one knows a repeat.
type Effect struct {
	Key  Key        `json:"key"`
	Name EffectName `json:"name"`
	// IdempotencyKey is Lease.EffectPrefix and then Name: the same for every token, for ever.
	IdempotencyKey string      `json:"idempotency_key"`
	State          EffectState `json:"state"`
	// FirstToken is the token that asked first, Token the greatest one that asked; AskedAt is when that one asked first.
	FirstToken Token `json:"first_token"`
	FirstAt    Time  `json:"first_at"`
	Token      Token `json:"token"`
	AskedAt    Time  `json:"asked_at"`
	// DoneToken is the token that said first that the effect is done, 0 while it is pending; Result is what it said of it.
	DoneToken Token  `json:"done_token,omitempty"`
	DoneAt    *Time  `json:"done_at,omitempty"`
	Result    string `json:"result,omitempty"`
	// SupersededBy is the newest token of the key when that is greater than the asking one, else 0; listings don't have it.
	SupersededBy Token `json:"superseded_by,omitempty"`
	// Tokens are the greatest MaxEffectTokens tokens that asked, greatest first; only listings have them.
	Tokens []EffectToken `json:"tokens,omitempty"`
}

// EffectToken is a token that asked for an effect.
type EffectToken struct {
	Token  Token  `json:"token"`
	Holder string `json:"holder"`
	// AskedAt is when it asked first, DoneAt when it said first that the effect is done, nil if it didn't.
	AskedAt Time  `json:"asked_at"`
	DoneAt  *Time `json:"done_at,omitempty"`
}

// EffectPage is one page of a key's effects, sorted by name.
type EffectPage struct {
	Effects []Effect `json:"effects"`
	// Next is the after of the next page, "" on the last one.
	Next EffectName `json:"next,omitempty"`
}

// EffectStore is the part of PointerStore that keeps effects.
type EffectStore interface {
	// Effect checks, in one transaction that has locked the key, that the grant exists and is the caller's (not-found, unknown-token,
	// lease-lost), the fence (stale-token, recorded as a rejection with the effect's name as its path), and generation-collected. A sealed
	// generation is no reason to refuse: its worker may publish before it charges, or note afterwards what it has done.
	//
	// Then it records that the token asked. The first EffectDone counts, with its result; from then on every answer has the state
	// EffectDone. The same request again changes nothing and has the same answer. The idempotency key depends on the store's installation,
	// the key and the name alone: not on tokens, restarts, restores from a backup or what becomes of the key.
	Effect(ctx context.Context, req EffectRequest) (Effect, error)
	// Effects lists the effects of a key after a name; not-found for a key that was never granted.
	Effects(ctx context.Context, key Key, after EffectName, limit int) (EffectPage, error)
}

// Effect gives the idempotency key of an effect and records who asked; see EffectStore.
func (s *Service) Effect(ctx context.Context, req EffectRequest) (Effect, error) {
	if err := req.validate(); err != nil {
		return Effect{}, err
	}
	effect, err := s.Pointers.Effect(ctx, req)
	return effect, s.refused(ctx, err)
}

func (r EffectRequest) validate() error {
	if _, err := ParseEffectName(string(r.Name)); err != nil {
		return err
	}
	switch {
	case r.State != EffectPending && r.State != EffectDone:
		return invalid("/state", `must be "pending" or "done"`)
	case r.Result != "" && r.State != EffectDone:
		return invalid("/result", `goes with "state": "done" alone; add that, or leave the result out`)
	case len(r.Result) > MaxEffectResultBytes:
		return invalid("/result", "is longer than %d bytes; keep the third party's id of it, not the whole answer", MaxEffectResultBytes)
	case !utf8.ValidString(r.Result):
		return invalid("/result", "is not valid UTF-8; encode it as UTF-8")
	case strings.ContainsRune(r.Result, 0):
		return invalid("/result", "has a NUL character; remove it")
	}
	return nil
}

// Effects returns one page of a key's effects.
func (s *Service) Effects(ctx context.Context, key Key, after EffectName, limit int) (EffectPage, error) {
	limit, err := pageLimit(limit)
	if err != nil {
		return EffectPage{}, err
	}
	page, err := s.Pointers.Effects(ctx, key, after, limit)
	return page, s.refused(ctx, err)
}
