package publishtest_test

import (
	"testing"

	"github.com/pawlhq/pawl/publish"
	"github.com/pawlhq/pawl/publish/publishtest"
)

// TestProperty runs the state machine on the doubles: three replicas share one store, as they keep nothing of their own.
func TestProperty(t *testing.T) {
	t.Parallel()
	store := publishtest.NewPointers()
	publishtest.PropertyTest(t, func(*testing.T) []publish.PointerStore {
		return []publish.PointerStore{store, store, store}
	}, publishtest.NewBlobs(), store.Expire)
}
