package pointer

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/pawlhq/pawl/publish"
)

// synchronousFor is how long a look at the settings counts. Who attaches a standby, or changes a setting, is noticed that late at most.
const synchronousFor = 5 * time.Second

// synchronousGuard refuses grants on a database that may lose commits. Nothing of it is in force unless it is required.
type synchronousGuard struct {
	required bool

	mu      sync.Mutex
	checked time.Time // when the settings were last seen to be in order
}

// checkSynchronous fails as unavailable, with the reason and the cure, when commits may be lost and that was forbidden.
func (s *Store) checkSynchronous(ctx context.Context) error {
	if !s.synchronous.required {
		return nil
	}
	s.synchronous.mu.Lock()
	fresh := time.Since(s.synchronous.checked) < synchronousFor
	s.synchronous.mu.Unlock()
	if fresh {
		return nil
	}
	d, err := s.Diagnose(ctx)
	if err != nil {
		return err
	}
	if risk := d.MayLoseCommits(); risk != nil {
		return publish.Unavailable("Postgres ("+risk.Error()+")", errors.New("synchronous commits are required"))
	}
	s.synchronous.mu.Lock()
	s.synchronous.checked = time.Now()
	s.synchronous.mu.Unlock()
	return nil
}
