package pointer

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pawlhq/pawl/publish"
)

// found is one page of something.
type found[Row, Place any] struct {
	Rows []Row `json:"rows"`
	// More tells that other rows follow the last one.
	More bool `json:"more"`
	// End is where a search stopped at its bound.
	End *Place `json:"end"`
	// Now is the database's clock.
	Now      publish.Time `json:"now"`
	Searched int          `json:"searched"`
	Sortable bool         `json:"sortable"`
}

// end is where the page ends, nil on the last one.
func (f found[Row, Place]) end(place func(Row) *Place) *Place {
	if f.More {
		return place(f.Rows[len(f.Rows)-1])
	}
	return f.End
}

const browseSQL = `SELECT pawl.browse($1, $2, $3, $4, $5, $6, $7, $8, $9::jsonb, $10, $11)`

// Browse returns one page of keys with a pointer.
func (s *Store) Browse(ctx context.Context, query publish.BrowseQuery) (publish.BrowseFound, error) {
	if query.Delimiter {
		return s.browseTree(ctx, query)
	}
	var since *time.Time
	if !query.UpdatedSince.IsZero() {
		since = &query.UpdatedSince
	}
	from, err := jsonOf(query.From)
	if err != nil {
		return publish.BrowseFound{}, err
	}
	lower, upper := ranges(query.Reach, query.Prefix)
	var page found[publish.BrowseRow, publish.BrowsePlace]
	if _, err := s.read(ctx, &page, browseSQL, lower, upper, query.Text, query.Type, query.Leased, query.Rejected, since,
		string(query.Sort), from, query.Limit, query.Bound); err != nil {
		return publish.BrowseFound{}, err
	}
	return publish.BrowseFound{
		Rows: page.Rows, Prefixes: []string{}, End: page.end(query.Place), Searched: page.Searched, Sortable: page.Sortable,
	}, nil
}

const browseTreeSQL = `
WITH n AS MATERIALIZED (SELECT * FROM pawl.list_names($1, $2, $3, true, $4, $5))
SELECT jsonb_build_object('sortable', pawl.holds_few($1, $2, $6), 'names', coalesce((SELECT jsonb_agg(name ORDER BY name COLLATE "C") FROM n), '[]'),
	'rows', pawl.browse_rows(ARRAY(SELECT (SELECT id FROM pawl.keys WHERE name = n.name) FROM n
		WHERE NOT n.is_prefix ORDER BY n.name COLLATE "C"), clock_timestamp()))`

// browseTree returns one page of keys and sub-prefixes, in byte order.
func (s *Store) browseTree(ctx context.Context, query publish.BrowseQuery) (publish.BrowseFound, error) {
	after := ""
	if query.From != nil {
		after = query.From.Name
	}
	lower, upper := ranges(query.Reach, query.Prefix)
	var page struct {
		Sortable bool                `json:"sortable"`
		Names    []string            `json:"names"`
		Rows     []publish.BrowseRow `json:"rows"`
	}
	if _, err := s.read(ctx, &page, browseTreeSQL, lower, upper, query.Prefix, after, query.Limit+1, query.Bound); err != nil {
		return publish.BrowseFound{}, err
	}
	result := publish.BrowseFound{Rows: page.Rows, Prefixes: []string{}, Sortable: page.Sortable}
	if len(page.Names) > query.Limit {
		beyond := page.Names[query.Limit]
		page.Names = page.Names[:query.Limit]
		result.Rows = slices.DeleteFunc(result.Rows, func(row publish.BrowseRow) bool { return string(row.Key) == beyond })
		result.End = &publish.BrowsePlace{Sort: query.Sort, Name: page.Names[query.Limit-1]}
	}
	result.Searched = len(page.Names)
	for _, name := range page.Names {
		if strings.HasSuffix(name, "/") {
			result.Prefixes = append(result.Prefixes, name)
		}
	}
	return result, nil
}

// jsonOf writes a place as text, or gives nil for none.
func jsonOf[Place any](place *Place) (*string, error) {
	if place == nil {
		return nil, nil
	}
	raw, err := json.Marshal(place)
	if err != nil {
		return nil, fmt.Errorf("writing a place: %w", err)
	}
	text := string(raw)
	return &text, nil
}
