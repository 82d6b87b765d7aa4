package pointer

import (
	"context"

	"github.com/pawlhq/pawl/publish"
)

const overviewSQL = `SELECT pawl.overview($1, $2)`

// Overview returns one key with what is around it.
func (s *Store) Overview(ctx context.Context, key publish.Key) (publish.Overview, error) {
	var overview struct {
		publish.Overview
		Policy *policyRow `json:"policy"`
	}
	found, err := s.read(ctx, &overview, overviewSQL, string(key), publish.MaxGenerationsCounted)
	if err == nil && !found {
		err = &publish.Error{Code: publish.ErrNotFound, Key: key}
	}
	if err != nil {
		return publish.Overview{}, err
	}
	if overview.Policy != nil {
		overview.Overview.Policy = new(overview.Policy.policy())
	}
	return overview.Overview, nil
}
