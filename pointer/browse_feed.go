package pointer

import (
	"context"

	"github.com/pawlhq/pawl/publish"
)

const rejectionsSQL = `SELECT pawl.rejections_page($1, $2, $3::jsonb, $4, $5)`

// Rejections returns one page of rejections.
func (s *Store) Rejections(ctx context.Context, query publish.FeedQuery) (publish.RejectionsFound, error) {
	from, err := jsonOf(query.From)
	if err != nil {
		return publish.RejectionsFound{}, err
	}
	lower, upper := ranges(query.Reach, query.Prefix)
	var page found[publish.KeyRejection, publish.FeedPlace]
	if _, err := s.read(ctx, &page, rejectionsSQL, lower, upper, from, query.Limit, query.Bound); err != nil {
		return publish.RejectionsFound{}, err
	}
	return publish.RejectionsFound{Rejections: page.Rows, End: page.end(publish.KeyRejection.Place), Now: page.Now}, nil
}

const leasesSQL = `SELECT pawl.leases_page($1, $2, $3, $4::jsonb, $5, $6)`

// Leases returns one page of leases.
func (s *Store) Leases(ctx context.Context, query publish.FeedQuery) (publish.LeasesFound, error) {
	from, err := jsonOf(query.From)
	if err != nil {
		return publish.LeasesFound{}, err
	}
	lower, upper := ranges(query.Reach, query.Prefix)
	var page found[publish.Holding, publish.FeedPlace]
	if _, err := s.read(ctx, &page, leasesSQL, lower, upper, query.Expired, from, query.Limit, query.Bound); err != nil {
		return publish.LeasesFound{}, err
	}
	return publish.LeasesFound{Leases: page.Rows, End: page.end(publish.Holding.Place), Now: page.Now}, nil
}
