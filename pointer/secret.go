package pointer

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"github.com/pawlhq/pawl/publish"
)

const contentKeySQL = `SELECT secret FROM pawl.secrets WHERE name = 'content'`

// ContentKey is what the addresses of the content origin are signed with: at least 32 bytes, the same for all replicas. It never changes while servers run,
// so one look at the start is enough.
func (s *Store) ContentKey(ctx context.Context) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	var key []byte
	err := s.pool.QueryRow(ctx, contentKeySQL).Scan(&key)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return nil, publish.Unavailable("the key of the content origin (pawl.secrets has no row 'content'; put it back from a backup)", nil)
	case err != nil:
		return nil, translate(err, false)
	}
	return key, nil
}
