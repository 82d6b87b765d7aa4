package publishtest

import (
	"testing"
	"time"

	"github.com/pawlhq/pawl/publish"
)

// PointerHarness is a PointerStore under test, with the hands that reach behind it. Each may be called while other
// subtests use the same store.
type PointerHarness struct {
	Store publish.PointerStore
	// Expire lets the running lease of a key end a moment ago, without waiting.
	Expire func(t *testing.T, key publish.Key)
	// Limit gives the store, or another one of the same content, with limits of what generations may hold.
	Limit func(t *testing.T, limits publish.GenerationLimits) publish.PointerStore
	// RaiseEpoch acts as a restore of the whole store from a backup.
	RaiseEpoch func(t *testing.T)
	// SetCounter moves a key's counter forward; its newest generation stays.
	SetCounter func(t *testing.T, key publish.Key, counter publish.Token)
	// Condemn gives a generation up, as the retention policy does.
	Condemn func(t *testing.T, key publish.Key, token publish.Token)
	// Antedate lets time pass for the generations of a key and all that was done under them, but for no lease.
	Antedate func(t *testing.T, key publish.Key, by time.Duration)
	// Age lets time pass for the uploads of a key, but for nothing else of it.
	Age func(t *testing.T, key publish.Key, by time.Duration)
	// AgeCredential lets time pass for one credential.
	AgeCredential func(t *testing.T, id publish.CredentialID, by time.Duration)
	// AgeSession lets time pass for one session.
	AgeSession func(t *testing.T, hash publish.Digest, by time.Duration)
}

// TestPointerStore holds a PointerStore to the contract of package publish. open makes an empty store and cleans it up by itself;
// it is called once for most subtests, which keep to keys of their own, and again for those that change the
// whole store.
func TestPointerStore(t *testing.T, open func(t *testing.T) PointerHarness) {
	shared := open(t)
	groups := []struct {
		name  string
		tests []pointerTest
	}{
		{"lease", leaseTests()},
		{"race", raceTests()},
		{"grant", grantTests()},
		{"fence", fenceTests()},
		{"opens", opensTests()},
		{"upload", uploadTests()},
		{"direct", directTests()},
		{"direct-limit", directLimitTests()},
		{"delete", deleteTests()},
		{"sweep", sweepTests()},
		{"collect", collectTests()},
		{"publish", publishTests()},
		{"expect", expectTests()},
		{"replay", replayTests()},
		{"effect", effectTests()},
		{"reuse", reuseTests()},
		{"rollback", rollbackTests()},
		{"pin", pinTests()},
		{"retire", retireTests()},
		{"break", breakTests()},
		{"policy", policyTests()},
		{"audit", auditTests()},
		{"actor", actorTests()},
		{"credential", credentialTests()},
		{"session", sessionTests()},
		{"limit", limitTests()},
		{"lease-limit", leaseLimitTests()},
		{"read", readTests()},
		{"revision", revisionTests()},
		{"resolve", resolveTests()},
		{"list", listTests()},
		{"history", historyTests()},
		{"browse", browseTests()},
		{"overview", overviewTests()},
		{"reach", reachTests()},
		{"epoch", epochTests()},
		{"event", eventTests()},
	}
	for _, group := range groups {
		t.Run(group.name, func(t *testing.T) {
			t.Parallel()
			for _, test := range group.tests {
				t.Run(test.name, func(t *testing.T) {
					t.Parallel()
					harness := shared
					if test.alone {
						harness = open(t)
					}
					test.run(&suite{T: t, PointerHarness: harness, prefix: "suite/" + group.name + "/" + test.name})
				})
			}
		})
	}
}

// pointerTest is one subtest of the suite.
type pointerTest struct {
	name string
	run  func(s *suite)
	// alone asks for a store of the test's own.
	alone bool
}
