package pointer_test

import (
	"testing"

	"github.com/pawlhq/pawl/publish"
)

// breakCall ends the lease of the grant whose token it names.
const breakCall = `SELECT pawl.break_lease($1, $3::bigint, 'node is gone', $2::text)`

// Breaking a lease against all that its holder and others do with it at that moment. No schedule breaks the lease of another grant, fences
// anybody, or keeps a released lease.
func TestBreakLeaseAgainstWorkers(t *testing.T) {
	t.Parallel()
	breakB := func(want publish.Code) step { return step{breakCall, []any{raceKey, "ops", int64(2)}, want} }
	renewB := func(want publish.Code) step { return step{renewCall, []any{raceKey, "B"}, want} }
	releaseB := step{releaseCall, []any{raceKey, "B"}, ""}
	publishB := step{publishCall, []any{raceKey, "B", int64(2)}, ""}
	acquireC := func(want publish.Code) step { return step{acquireCall, []any{raceKey, "C"}, want} }
	tests := []struct {
		name          string
		first, second step
		counter       publish.Token // the newest grant afterwards
		held          bool
		current       publish.Token
		expired       bool // B's lease has run out before
	}{
		{"break, acquire", breakB(""), acquireC(""), 3, true, 1, false},
		{"acquire, break", acquireC(publish.ErrLeaseHeld), breakB(""), 2, false, 1, false},
		{"acquire after expiry, break", acquireC(""), breakB(publish.ErrPreconditionFailed), 3, true, 1, true},
		{"break after expiry, acquire", breakB(""), acquireC(""), 3, true, 1, true},
		{"break, renew", breakB(""), renewB(publish.ErrLeaseLost), 2, false, 1, false},
		{"renew, break", renewB(""), breakB(""), 2, false, 1, false},
		{"renew after expiry, break", renewB(""), breakB(""), 2, false, 1, true},
		{"break, publish", breakB(""), publishB, 2, false, 2, false},
		{"publish, break", publishB, breakB(""), 2, false, 2, false},
		{"break, release", breakB(""), releaseB, 2, false, 1, false},
		{"release, break", releaseB, breakB(""), 2, false, 1, false},
		{"break, break", breakB(""), breakB(""), 2, false, 1, false},
		{"break, rollback", breakB(""), step{rollbackCall, []any{raceKey, "ops"}, ""}, 3, false, 3, false},
		{"rollback, break", step{rollbackCall, []any{raceKey, "ops"}, ""}, breakB(""), 3, false, 3, false},
		{"break, pin", breakB(""), step{pinCall, []any{raceKey, "ops"}, ""}, 2, false, 1, false},
	}
	for _, mode := range []publish.FenceMode{publish.FenceAccepted, publish.FenceGranted} {
		for _, test := range tests {
			t.Run(string(mode)+"/"+test.name, func(t *testing.T) {
				t.Parallel()
				store := inOrder(t, mode, test.expired, test.first, test.second)
				lease, err := store.Lease(t.Context(), raceKey)
				if err != nil || lease.Token != test.counter || lease.Held != test.held {
					t.Errorf("the newest grant is %d, held %v, %v; want %d, %v", lease.Token, lease.Held, err, test.counter, test.held)
				}
				wantCurrent(t, store, test.current)
			})
		}
	}
}
