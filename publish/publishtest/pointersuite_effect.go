package publishtest

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/pawlhq/pawl/publish"
)

func effectTests() []pointerTest {
	return []pointerTest{
		{name: "one-key", run: testEffectKey},
		{name: "restored", run: testEffectRestored, alone: true},
		{name: "done", run: testEffectDone},
		{name: "repeated", run: testEffectRepeated},
		{name: "older-token", run: testEffectOlderToken},
		{name: "stale", run: testEffectStale},
		{name: "granted", run: testEffectGranted},
		{name: "sealed", run: testEffectSealed},
		{name: "list", run: testEffectList},
		{name: "tokens", run: testEffectTokens},
		{name: "race", run: raceEffects},
	}
}

// ask asks for the idempotency key of an effect.
func (s *suite) ask(grant publish.Grant, name publish.EffectName) publish.Effect {
	s.Helper()
	return s.effect(publish.EffectRequest{Grant: grant, Name: name, State: publish.EffectPending})
}

// done says that an effect is done.
func (s *suite) done(grant publish.Grant, name publish.EffectName, result string) publish.Effect {
	s.Helper()
	return s.effect(publish.EffectRequest{Grant: grant, Name: name, State: publish.EffectDone, Result: result})
}

func (s *suite) effect(req publish.EffectRequest) publish.Effect {
	s.Helper()
	effect, err := s.Store.Effect(s.Context(), req)
	if err != nil {
		s.Fatalf("effect %s under %d: %v", req.Name, req.Grant.Token, err)
	}
	return effect
}

// effects lists all effects of a key.
func (s *suite) effects(key publish.Key) []publish.Effect {
	s.Helper()
	page, err := s.Store.Effects(s.Context(), key, "", publish.MaxPageSize)
	if err != nil || page.Next != "" {
		s.Fatalf("effects of %s: %+v, %v", key, page, err)
	}
	return page.Effects
}

// testEffectKey: the idempotency key is that of (key, name), whatever the token, and is made of the prefix that the holder has.
func testEffectKey(s *suite) {
	form := regexp.MustCompile(`^pawl-[0-9a-f]{32}-$`)
	seen := map[string]string{}
	names := []publish.EffectName{"charge", "Charge", "a:b@c+d=e,f~g.h_i-1", "-", "...", publish.EffectName(strings.Repeat("x", publish.MaxEffectNameBytes))}
	for _, key := range []publish.Key{s.key("k"), s.key("k/l"), s.key("K"), s.key("é x")} {
		var prefix string
		for token := range 3 {
			lease, err := s.Store.Acquire(s.Context(), acquireRequest(key, "a"))
			s.ok(err)
			renewed, err := s.Store.Renew(s.Context(), key, lease.LeaseID, 0)
			s.ok(err)
			looked, err := s.Store.Lease(s.Context(), key)
			s.ok(err)
			if token == 0 {
				prefix = lease.EffectPrefix
			}
			s.same("prefixes", []string{lease.EffectPrefix, renewed.EffectPrefix, looked.EffectPrefix}, []string{prefix, prefix, prefix})
			grant := publish.Grant{Key: key, Token: lease.Token, LeaseID: lease.LeaseID}
			for _, name := range names {
				s.same("idempotency key", s.ask(grant, name).IdempotencyKey, prefix+string(name))
			}
			s.output(grant, "x")
			s.Expire(s.T, key)
		}
		if other, twice := seen[prefix]; twice || !form.MatchString(prefix) {
			s.Errorf("the prefix of %s is %q, that of %q too", key, prefix, other)
		}
		seen[prefix] = string(key)
	}
}

// testEffectRestored: not even a restore changes an idempotency key.
func testEffectRestored(s *suite) {
	a := s.acquire(s.key("k"), "a")
	before := s.ask(a, "charge")
	s.RaiseEpoch(s.T)
	b := s.takeOver(a.Key, "b")
	after := s.ask(b, "charge")
	s.same("idempotency key", after.IdempotencyKey, before.IdempotencyKey)
	s.same("tokens", [2]publish.Token{after.FirstToken, after.Token}, [2]publish.Token{a.Token, b.Token})
}

// testEffectDone: once done it stays done, with the first result, and whoever asks later is told.
func testEffectDone(s *suite) {
	a := s.acquire(s.key("k"), "a")
	asked := s.ask(a, "charge")
	s.same("asked", asked, publish.Effect{
		Key: a.Key, Name: "charge", IdempotencyKey: asked.IdempotencyKey, State: publish.EffectPending,
		FirstToken: a.Token, FirstAt: asked.FirstAt, Token: a.Token, AskedAt: asked.FirstAt,
	})
	b := s.takeOver(a.Key, "b")
	later := s.ask(b, "charge")
	want := asked
	want.Token, want.AskedAt = b.Token, later.AskedAt
	s.same("asked by the next", later, want)
	if later.AskedAt.Before(asked.AskedAt.Time) || asked.FirstAt.IsZero() {
		s.Errorf("asked at %s, then at %s", asked.AskedAt, later.AskedAt)
	}

	done := s.done(b, "charge", "ch_1 ✓\nsecond line")
	want.State, want.DoneToken, want.DoneAt, want.Result = publish.EffectDone, b.Token, done.DoneAt, "ch_1 ✓\nsecond line"
	s.same("done", done, want)
	if done.DoneAt == nil || done.DoneAt.Before(later.AskedAt.Time) {
		s.Errorf("done at %v", done.DoneAt)
	}
	s.same("done again, differently", s.done(b, "charge", "ch_2"), want)
	s.same("asked again", s.ask(b, "charge"), want)
	c := s.takeOver(a.Key, "c")
	told := s.ask(c, "charge")
	want.Token, want.AskedAt = c.Token, told.AskedAt
	s.same("asked after it was done", told, want)

	at := s.done(c, "never-asked", "")
	s.same("done at once", at, publish.Effect{
		Key: a.Key, Name: "never-asked", IdempotencyKey: at.IdempotencyKey, State: publish.EffectDone, FirstToken: c.Token,
		FirstAt: at.FirstAt, Token: c.Token, AskedAt: at.FirstAt, DoneToken: c.Token, DoneAt: &at.FirstAt,
	})
	s.same("another effect is its own", s.ask(c, "other").State, publish.EffectPending)
}

// testEffectRepeated: the same request again has the same answer and leaves the same record.
func testEffectRepeated(s *suite) {
	a := s.acquire(s.key("k"), "a")
	first := s.ask(a, "charge")
	listed := s.effects(a.Key)
	s.same("asked again", s.ask(a, "charge"), first)
	s.same("record", s.effects(a.Key), listed)
	done := s.done(a, "charge", "ch_1")
	listed = s.effects(a.Key)
	s.same("done again", s.done(a, "charge", "ch_1"), done)
	s.same("record", s.effects(a.Key), listed)
}

// testEffectOlderToken: in the default mode an older token may ask while nothing newer is published. The greatest token stays recorded.
func testEffectOlderToken(s *suite) {
	a := s.acquire(s.key("k"), "a")
	b := s.takeOver(a.Key, "b")
	asked := s.ask(b, "charge")
	s.same("superseded by", asked.SupersededBy, publish.Token(0))
	late := s.ask(a, "charge")
	s.same("superseded by", late.SupersededBy, b.Token)
	late.SupersededBy = 0
	s.same("the older one's answer", late, asked)
	done := s.done(a, "charge", "ch_1")
	s.same("tokens", [3]publish.Token{done.FirstToken, done.Token, done.DoneToken}, [3]publish.Token{b.Token, b.Token, a.Token})
}

// testEffectStale: a fenced token gets no key and changes no record; who came late is recorded as for a file.
func testEffectStale(s *suite) {
	a := s.acquire(s.key("k"), "a")
	s.ask(a, "charge")
	b := s.takeOver(a.Key, "b")
	s.ask(b, "charge")
	s.output(b, "b")
	listed := s.effects(a.Key)
	for i, req := range []publish.EffectRequest{
		{Name: "charge", State: publish.EffectPending}, {Name: "charge", State: publish.EffectDone, Result: "x"}, {Name: "mail", State: publish.EffectPending},
	} {
		req.Grant = a
		_, err := s.Store.Effect(s.Context(), req)
		s.refused(err, publish.Error{
			Code: publish.ErrStaleToken, Key: a.Key, Operation: publish.OperationEffect, Path: publish.Path(req.Name), Token: a.Token,
			AcceptedToken: b.Token, GrantedToken: b.Token, Holder: "b", Worker: "a", Repeat: []int{1, 2, 1}[i], Next: "acquire",
		})
	}
	s.same("effects", s.effects(a.Key), listed)
	found := map[publish.Path]int{}
	for _, rejection := range s.generation(a).Rejections {
		s.same("operation", rejection.Operation, publish.OperationEffect)
		found[rejection.Path] = rejection.Repeat
	}
	s.same("rejections", found, map[publish.Path]int{"charge": 2, "mail": 1})
}

// testEffectGranted: in the mode granted a newer grant fences at once.
func testEffectGranted(s *suite) {
	s.setFenceMode(s.prefix, publish.FenceGranted)
	a := s.acquire(s.key("k"), "a")
	key := s.ask(a, "charge").IdempotencyKey
	s.Expire(s.T, a.Key)
	s.ask(a, "charge") // Expiry alone fences nothing.
	b := s.acquire(a.Key, "b")
	_, err := s.Store.Effect(s.Context(), publish.EffectRequest{Grant: a, Name: "charge", State: publish.EffectPending})
	s.refused(err, publish.Error{Code: publish.ErrStaleToken, Token: a.Token, GrantedToken: b.Token, Holder: "b", Worker: "a"})
	s.same("idempotency key", s.ask(b, "charge").IdempotencyKey, key)
}

// testEffectSealed: a worker may publish first, give its lease back, and do what it has to do after that.
func testEffectSealed(s *suite) {
	a := s.acquire(s.key("k"), "a")
	s.upload(a, "f", "a")
	s.publish(publish.PublishRequest{Grant: a, Final: true, Release: true})
	s.same("state", s.ask(a, "charge").State, publish.EffectPending)
	s.same("state", s.done(a, "charge", "ch_1").State, publish.EffectDone)
	b := s.acquire(a.Key, "b")
	s.ask(a, "mail") // Nobody has published since.
	s.output(b, "b")
	_, err := s.Store.Effect(s.Context(), publish.EffectRequest{Grant: a, Name: "mail", State: publish.EffectPending})
	s.refused(err, publish.Error{Code: publish.ErrStaleToken, AcceptedToken: b.Token})
}

// testEffectList: the effects of a key are listed by name in byte order, page by page.
func testEffectList(s *suite) {
	a := s.acquire(s.key("k"), "a")
	s.same("none yet", s.effects(a.Key), []publish.Effect{})
	names := []publish.EffectName{"+", "-", "A", "a", "a+", "a-", "a=", "aa", "b", "~"}
	for i := range names {
		s.ask(a, names[(i*3)%len(names)])
	}
	s.ask(s.acquire(s.key("k/other"), "a"), "not-here")
	for limit := 1; limit <= len(names)+1; limit++ {
		var got []publish.EffectName
		for after := publish.EffectName(""); ; {
			page, err := s.Store.Effects(s.Context(), a.Key, after, limit)
			s.ok(err)
			for _, effect := range page.Effects {
				got = append(got, effect.Name)
			}
			if len(page.Effects) > limit {
				s.Fatalf("a page of %d effects with the limit %d", len(page.Effects), limit)
			}
			if after = page.Next; after == "" {
				break
			}
			s.same("next", after, got[len(got)-1])
		}
		s.same(fmt.Sprint("names by ", limit), got, names)
	}
	_, err := s.Store.Effects(s.Context(), s.key("unknown"), "", 10)
	s.refused(err, publish.Error{Code: publish.ErrNotFound, Key: s.key("unknown")})
}

// testEffectTokens: a listing shows which tokens asked and which said done, the greatest 20, with their holders.
func testEffectTokens(s *suite) {
	const n = publish.MaxEffectTokens + 3
	grants := s.grants(s.key("k"), n)
	for i, grant := range grants[1:] {
		if i%2 == 0 {
			s.ask(grant, "charge")
		} else {
			s.done(grant, "charge", fmt.Sprint(grant.Token))
		}
	}
	s.ask(grants[n], "mail")
	listed := s.effects(grants[1].Key)
	if len(listed) != 2 {
		s.Fatalf("%d effects", len(listed))
	}
	charge := listed[0]
	s.same("tokens", [3]publish.Token{charge.FirstToken, charge.DoneToken, charge.Token}, [3]publish.Token{1, 2, n})
	s.same("result", charge.Result, "2")
	s.same("number of tokens", len(charge.Tokens), publish.MaxEffectTokens)
	for i, asked := range charge.Tokens {
		token := publish.Token(n - i)
		s.same("token", asked.Token, token)
		s.same("holder", asked.Holder, "worker "+string(rune('0'+token)))
		s.same("said done", asked.DoneAt != nil, token%2 == 0)
		if asked.AskedAt.IsZero() || asked.DoneAt != nil && asked.DoneAt.Before(asked.AskedAt.Time) {
			s.Errorf("token %d asked at %s, done at %v", token, asked.AskedAt, asked.DoneAt)
		}
	}
	s.same("tokens of the other", len(listed[1].Tokens), 1)
}

// raceEffects: many ask for one effect and say that it is done at the same time; one is first, and all are told the same.
func raceEffects(s *suite) {
	for round := range raceRounds {
		grants := s.grants(s.key(fmt.Sprint(round)), 4)
		results := make([]publish.Effect, len(grants))
		for _, err := range together(len(grants)-1, func(i int) (err error) {
			req := publish.EffectRequest{Grant: grants[i+1], Name: "charge", State: publish.EffectDone, Result: fmt.Sprint(i + 1)}
			results[i], err = s.Store.Effect(s.Context(), req)
			return err
		}) {
			s.ok(err)
		}
		first := results[0]
		for _, got := range results[:len(grants)-1] {
			s.same("the first that was done", [4]any{got.DoneToken, got.Result, got.IdempotencyKey, got.FirstToken},
				[4]any{first.DoneToken, fmt.Sprint(first.DoneToken), first.IdempotencyKey, first.FirstToken})
		}
		s.same("tokens that asked", len(s.effects(grants[1].Key)[0].Tokens), len(grants)-1)
	}
}
