package pointer_test

import (
	"errors"
	"testing"

	"github.com/pawlhq/pawl/pointer"
	"github.com/pawlhq/pawl/publish"
)

// The calls of operators, breaking whatever lease there is.
const (
	rollbackCall    = `SELECT pawl.rollback($1, sha256(convert_to($2::text, 'UTF8')), 1, NULL, 'flicker', $2::text, true, false)`
	rollbackPinCall = `SELECT pawl.rollback($1, sha256(convert_to($2::text, 'UTF8')), 1, NULL, 'flicker', $2::text, true, true)`
	retireCall      = `SELECT pawl.retire($1, sha256(convert_to($2::text, 'UTF8')), 'cut', $2::text, true)`
	politeCall      = `SELECT pawl.retire($1, sha256(convert_to($2::text, 'UTF8')), 'cut', $2::text, false)`
	pinCall         = `SELECT pawl.pin($1, 'review', $2::text, NULL, NULL)`
	pinMatchCall    = `SELECT pawl.pin($1, 'review', $2::text, 1, 1)`
)

// operatorRace prepares a key whose version 1.1 is current, with B as the holder of token 2 and a complete file under it.
func operatorRace(t *testing.T, mode publish.FenceMode) (first, second *session, store *pointer.Store) {
	t.Helper()
	first, second, store = race(t)
	setMode(t, store, mode)
	wantCode(t, "publish by A", first.call(publishCall, raceKey, "A", 1), "")
	first.call(acquireCall, raceKey, "B")
	first.put("B", 2, "a")
	first.commit()
	first.begin()
	return first, second, store
}

// step is one call of such a schedule, with the refusal that it is to meet.
type step struct {
	sql  string
	args []any
	want publish.Code
}

// inOrder takes two steps on such a key, the second while the first one has the key's lock. B's lease may have run out before.
func inOrder(t *testing.T, mode publish.FenceMode, expired bool, a, b step) *pointer.Store {
	t.Helper()
	first, second, store := operatorRace(t, mode)
	if expired {
		first.exec(expireCall, raceKey)
		first.commit()
		first.begin()
	}
	wantCode(t, "first", first.call(a.sql, a.args...), a.want)
	wantCode(t, "second", second.behind(first, b.sql, b.args...), b.want)
	return store
}

func wantCurrent(t *testing.T, store *pointer.Store, want publish.Token) {
	t.Helper()
	p, err := store.Pointer(t.Context(), raceKey)
	if want == 0 {
		if !errors.Is(err, publish.ErrRetired) {
			t.Errorf("the pointer is %+v, %v; want it retired", p.Version(), err)
		}
	} else if err != nil || p.Token != want {
		t.Errorf("token %d is current (%v), want %d", p.Token, err, want)
	}
}

// Whoever locks the key first is first, and the other one is judged by what is so then: in both fence modes alike.
func TestOperatorsAgainstWorkers(t *testing.T) {
	t.Parallel()
	publishB := func(want publish.Code) step { return step{publishCall, []any{raceKey, "B", int64(2)}, want} }
	renewB := func(want publish.Code) step { return step{renewCall, []any{raceKey, "B"}, want} }
	by := func(sql string, want publish.Code) step { return step{sql, []any{raceKey, "ops"}, want} }
	acquireC := func(want publish.Code) step { return step{acquireCall, []any{raceKey, "C"}, want} }
	tests := []struct {
		name          string
		first, second step
		current       publish.Token // 0: retired
		// expired lets B's lease run out before.
		expired bool
	}{
		{"rollback, publish", by(rollbackCall, ""), publishB(publish.ErrStaleToken), 3, false},
		{"publish, rollback", publishB(""), by(rollbackCall, ""), 3, false},
		{"rollback, renew", by(rollbackCall, ""), renewB(publish.ErrLeaseLost), 3, false},
		{"renew, rollback", renewB(""), by(rollbackCall, ""), 3, false},
		{"rollback, acquire", by(rollbackCall, ""), acquireC(""), 3, true},
		{"acquire, rollback", acquireC(""), by(rollbackCall, ""), 4, true},
		{"rollback, pin", by(rollbackCall, ""), by(pinCall, ""), 3, false},
		{"pin, rollback", by(pinCall, ""), by(rollbackCall, publish.ErrPinned), 1, false},
		{"rollback, pin to what was", by(rollbackCall, ""), by(pinMatchCall, publish.ErrPreconditionFailed), 3, false},
		{"rollback and pin, publish", by(rollbackPinCall, ""), publishB(publish.ErrStaleToken), 3, false},
		{"pin, rollback and pin", by(pinCall, ""), by(rollbackPinCall, ""), 3, false},
		{"pin, publish", by(pinCall, ""), publishB(publish.ErrPinned), 1, false},
		{"publish, pin", publishB(""), by(pinCall, ""), 2, false},
		{"publish, pin to what was", publishB(""), by(pinMatchCall, publish.ErrPreconditionFailed), 2, false},
		{"retire, publish", by(retireCall, ""), publishB(publish.ErrStaleToken), 0, false},
		{"publish, retire", publishB(""), by(retireCall, ""), 0, false},
		{"retire, acquire", by(retireCall, ""), acquireC(""), 0, true},
		{"acquire, retire", acquireC(""), by(politeCall, publish.ErrLeaseHeld), 1, true},
		{"acquire, retire with force", acquireC(""), by(retireCall, ""), 0, true},
		{"retire, pin", by(retireCall, ""), by(pinCall, publish.ErrRetired), 0, false},
		{"pin, retire", by(pinCall, ""), by(retireCall, publish.ErrPinned), 1, false},
		{"retire, rollback", by(retireCall, ""), step{rollbackCall, []any{raceKey, "others"}, ""}, 4, false},
		{"rollback, retire", by(rollbackCall, ""), step{retireCall, []any{raceKey, "others"}, ""}, 0, false},
		{"retire, retire", by(retireCall, ""), step{retireCall, []any{raceKey, "others"}, ""}, 0, false},
	}
	for _, mode := range []publish.FenceMode{publish.FenceAccepted, publish.FenceGranted} {
		for _, test := range tests {
			t.Run(string(mode)+"/"+test.name, func(t *testing.T) {
				t.Parallel()
				store := inOrder(t, mode, test.expired, test.first, test.second)
				wantCurrent(t, store, test.current)
			})
		}
	}
}

// A rollback against the condemnation of its target: it never makes a condemned generation current.
func TestRollbackAgainstCondemn(t *testing.T) {
	t.Parallel()
	ops, collector, store := operatorRace(t, publish.FenceAccepted)
	wantCode(t, "publish by B", ops.call(publishCall, raceKey, "B", 2), "")
	ops.commit()
	ops.begin()
	collector.call(`SELECT to_jsonb(k) FROM pawl.keys k WHERE name = $1 FOR NO KEY UPDATE`, raceKey)
	collector.exec(`UPDATE pawl.generations SET state = 'condemned' WHERE token = 1`)
	wantCode(t, "rollback", ops.behind(collector, rollbackCall, raceKey, "ops"), publish.ErrGenerationCollected)
	wantCurrent(t, store, 2)
}

// The same lost rollback sent by two connections at once is one rollback.
func TestRollbackAgainstItsRepeat(t *testing.T) {
	t.Parallel()
	first, second, store := operatorRace(t, publish.FenceAccepted)
	one := first.call(rollbackCall, raceKey, "ops")
	two := second.behind(first, rollbackCall, raceKey, "ops")
	if one.Receipt == nil || two.Receipt == nil || one.Receipt.Token != 3 || two.Receipt.Token != 3 || !two.Receipt.Replayed {
		t.Errorf("got %+v, then %+v; want token 3, then its replay", one, two)
	}
	wantCurrent(t, store, 3)
}

// Two requests under one id that meet: the second is refused, and has changed nothing.
func TestRollbackAgainstAnotherUnderItsID(t *testing.T) {
	t.Parallel()
	const rollback = `SELECT pawl.unless_reused(pawl.rollback($1, sha256('id'), $2, NULL, $3, 'ops', true, $4), $1, sha256('id'), 'rollback', $2, NULL, $3, $4)`
	const retire = `SELECT pawl.unless_reused(pawl.retire($1, sha256('id'), $2, 'ops', true), $1, sha256('id'), 'retire', NULL, NULL, $2, NULL)`
	for name, second := range map[string]struct {
		sql  string
		args []any
		want publish.Code
	}{
		"the same":       {rollback, []any{raceKey, 1, "flicker", true}, ""},
		"another reason": {rollback, []any{raceKey, 1, "other", true}, publish.ErrInvalidRequest},
		"without a pin":  {rollback, []any{raceKey, 1, "flicker", false}, publish.ErrInvalidRequest},
		"a retirement":   {retire, []any{raceKey, "flicker"}, publish.ErrInvalidRequest},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			first, other, store := operatorRace(t, publish.FenceAccepted)
			wantCode(t, "first", first.call(rollback, raceKey, 1, "flicker", true), "")
			wantCode(t, "second", other.behind(first, second.sql, second.args...), second.want)
			wantCurrent(t, store, 3)
			if p, err := store.Pointer(t.Context(), raceKey); err != nil || p.Pinned == nil || p.Pinned.Reason != "flicker" {
				t.Errorf("the pin is %+v, %v", p.Pinned, err)
			}
		})
	}
}
